// Package hiding keeps values of runs out of the texts of errors, which people see who may not see the values.
package hiding

import (
	"errors"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/workflow"
)

// HideValues returns the text of an error up to what may quote values of a run, and that by its code and its place alone: a failure, what
// does not fit a schema, what came of an expression, a decision, a panic. Behind a
// wrapper that has put it in other words, all of the text may quote them.
func HideValues(text string, err error) string {
	cut := func(part, plain string) { // all of a text in which the part is not found may quote them
		before, _, found := strings.Cut(text, part)
		if text = plain; found {
			text = before + plain
		}
	}
	if f := (*workflow.Failure)(nil); errors.As(err, &f) {
		cut(f.Error(), HideMessages(f).Error())
	}
	if e := (*workflow.InputError)(nil); errors.As(err, &e) {
		cut(e.Error(), (&workflow.InputError{Path: e.Path, Message: "a value does not fit", Schema: e.Schema}).Error())
	}
	if e := (*workflow.SchemaError)(nil); errors.As(err, &e) {
		cut(e.Error(), (&workflow.SchemaError{Path: e.Path, Message: "a value does not fit"}).Error())
	}
	if e := (*expr.Error)(nil); errors.As(err, &e) {
		cut(e.Error(), e.Code)
	}
	if e := (*pawl.ImportError)(nil); errors.As(err, &e) {
		cut(e.Error(), (&pawl.ImportError{Run: e.Run, Record: e.Record}).Error())
	}
	if errors.Is(err, pawl.ErrCorrupt) && !errors.As(err, new(*pawl.CorruptError)) { // which says what is damaged, and where
		cut(pawl.ErrCorrupt.Error(), pawl.ErrCorrupt.Error())
	}
	if errors.Is(err, pawl.ErrSuspended) {
		cut(pawl.ErrSuspended.Error(), pawl.ErrSuspended.Error())
	}
	return text
}

// HideMessages returns a failure without its message, and those of its causes; nil of none.
func HideMessages(f *workflow.Failure) *workflow.Failure {
	if f == nil {
		return nil
	}
	out := *f
	out.Message, out.Cause = "", HideMessages(f.Cause)
	return &out
}

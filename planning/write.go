package planning

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/schema"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// writeOutput evaluates all of a node's output mapping, and then writes it.
//
// No expression of the mapping sees what another one writes, so that their order does not
// matter. Where there is something to write the planner is a fork, so that a failure after
// the first write leaves nothing.
func (p *planner) writeOutput(mapping []compiled.Mapping, v vars) *workflow.Failure {
	values := make([]any, len(mapping))
	for i, m := range mapping {
		x, f := v.evalProgram(m.Program)
		if f != nil {
			return f
		}
		values[i] = x
	}
	for i, m := range mapping {
		if f := p.checkWritable(v.scope, m.Path, values[i]); f != nil {
			return f
		}
		if m.Path.Append {
			p.decide(decision.AppendData{Scope: v.scope, Path: m.Path.Segments, Value: values[i]})
			continue
		}
		p.decide(decision.SetData{Scope: v.scope, Path: m.Path.Segments, Value: values[i]})
	}
	// A plan that has been given up has written nothing of that.
	if f := p.overBudget(); f != nil {
		return f
	}
	return p.checkWritten(v.scope, mapping)
}

// checkWritable reports why a value cannot be written to a path as scope sc sees it. Missing
// parents are made, so that only what is there can be in the way. Below {"a": 1}, state.a.b
// cannot be written; state.a.b of an empty state can.
func (p *planner) checkWritable(sc workflow.Scope, path value.Path, x any) *workflow.Failure {
	for i := 1; i < len(path.Segments); i++ {
		v, ok := p.s.Data(sc, path.Segments[:i]...)
		if !ok {
			break
		}
		if !isObject(v) {
			return writeFailure(path, "%s is not an object", strings.Join(path.Segments[:i], "."))
		}
	}
	if path.Append {
		if v, ok := p.s.Data(sc, path.Segments...); ok && !isList(v) {
			return writeFailure(path, "it is not a list")
		}
	}
	if len(path.Segments) == 1 && !path.Append && !isObject(x) {
		return writeFailure(path, "a section must be an object")
	}
	return nil
}

// writeFailure returns the failure of a write that the data in their place do not allow.
func writeFailure(path value.Path, format string, args ...any) *workflow.Failure {
	return &workflow.Failure{
		Code: workflow.CodeExpression, Permanent: true,
		Message: fmt.Sprintf("cannot write %s: %s", path, fmt.Sprintf(format, args...)),
	}
}

// isObject reports whether a value is an object, as it was written or as a view over several
// layers of data.
func isObject(v any) bool {
	switch v.(type) {
	case map[string]any, value.Object:
		return true
	}
	return false
}

// isList reports the same of a list.
func isList(v any) bool {
	switch v.(type) {
	case []any, value.List:
		return true
	}
	return false
}

// checkWritten checks what was written against the state's schema: each top-level property as
// a whole, or the element that was appended to it. All is written first, because a property
// may be valid only with everything that the mapping writes in it.
func (p *planner) checkWritten(sc workflow.Scope, mapping []compiled.Mapping) *workflow.Failure {
	for _, m := range mapping {
		if f := p.checkPath(sc, m.Path); f != nil {
			return f
		}
	}
	return nil
}

// checkPath checks the value to which a mapping has written: all of the state, the last element of a list, or
// the top-level property that holds the path. Only the state has a schema that is checked at each write.
//
// An element that is appended to a list of the top level is checked alone: checking the whole
// list at each append would make a list that grows cost time in proportion to its square.
// Rules for the list as a whole are checked when the run completes.
func (p *planner) checkPath(sc workflow.Scope, path value.Path) *workflow.Failure {
	if path.Segments[0] != state.SectionState || p.s.Graph.StateSchema == nil {
		return nil
	}
	if len(path.Segments) == 1 {
		whole, _ := p.s.Data(sc, state.SectionState)
		return p.schemaFailure("state", p.s.Graph.StateSchema, value.Materialize(whole))
	}
	name := path.Segments[1]
	if path.Append && len(path.Segments) == 2 {
		list, _ := p.s.Data(sc, path.Segments...)
		last := lastOf(list)
		return p.schemaFailure(path.String(), p.s.Graph.Element(name), value.Materialize(last))
	}
	of := p.s.Graph.Property(name)
	if of == nil {
		return nil
	}
	v, _ := p.s.Data(sc, state.SectionState, name)
	return p.schemaFailure(path.String(), of, value.Materialize(v))
}

// lastOf returns the last element of a list that has one, nil of anything else.
func lastOf(list any) any {
	switch l := list.(type) {
	case []any:
		if len(l) > 0 {
			return l[len(l)-1]
		}
	case value.List:
		if n := l.Len(); n > 0 {
			return l.At(n - 1)
		}
	}
	return nil
}

// checkSchema checks a value and charges the plan for that. The failure is a
// *workflow.SchemaError, or a *workflow.LimitError if the plan has too little left for the check.
//
// Schemas have a bound of their own for each message, since a schema may cost far more than
// the value that is checked against it is large.
func (p *planner) checkSchema(of *schema.Schema, v any) error { return checkError(p.spendCheck(of, v)) }

// spendCheck checks a value against a schema, and counts what that costs.
func (p *planner) spendCheck(of *schema.Schema, v any) error {
	cost, err := of.CheckWithin(limits.MaxSchemaCost-p.budget.checks, v)
	p.budget.pacer.Spend(cost)
	p.budget.checks += cost
	return err
}

// checkError returns an error of a check in the types of package workflow.
func checkError(err error) error {
	switch e := err.(type) { //nolint:errorlint // it is never wrapped
	case *schema.Error:
		return &workflow.SchemaError{Path: e.Path, Message: e.Message}
	case *schema.LimitError:
		return &workflow.LimitError{Limit: e.Limit, Max: e.Max}
	}
	return err
}

// schemaFailure returns why a value does not fit its schema, nil if it does. A plan
// that cannot pay for the check is given up.
func (p *planner) schemaFailure(what string, of *schema.Schema, v any) *workflow.Failure {
	err := p.checkSchema(of, v)
	var limit *workflow.LimitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &limit):
		p.exceedLimit(limit.Limit, limits.MaxSchemaCost, "units for what one message checks against schemas, in the end "+what)
		return p.budget.limit
	}
	return &workflow.Failure{Code: workflow.CodeSchema, Permanent: true, Message: what + ": " + err.Error()}
}

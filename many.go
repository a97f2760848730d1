package pawl

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/workflow"
)

// A ManyReport says what a call on many runs has come to, run by run: each is changed whole, or
// not at all.
type ManyReport struct {
	Changed int          `json:"changed"`         // runs that the call has changed
	Left    int          `json:"left"`            // runs that it left as they were: they had ended meanwhile, or there was nothing to change
	Refused int          `json:"refused"`         // runs that refused it
	Errors  []RunRefusal `json:"errors,omitzero"` // why, of the first MaxRefusals
}

// A RunRefusal says why one run of many refused a call.
type RunRefusal struct {
	Run workflow.RunID `json:"run"`
	Err error          `json:"-"`
	Why string         `json:"error"` // Err as a text
}

// MaxRefusals bounds the errors that a ManyReport has.
const MaxRefusals = 1000

// CancelAll cancels every run that fits the filter, one after the other, each as Cancel does, and
// reports how many. Runs that have ended are not among them, also for Limit, and neither are those that begin
// after it has passed. A run that is damaged is reported, and the others are cancelled. An error ends the call, which
// may be repeated: ErrClosed, ErrNoSpace, ErrUnknown, a *WhereError (of the filter), that of ctx. The report is of what
// was done until then.
func (e *Engine) CancelAll(ctx context.Context, f RunFilter, reason string) (ManyReport, error) {
	return e.eachRun(ctx, f, func(id workflow.RunID) (bool, error) {
		return true, e.Cancel(ctx, id, reason)
	})
}

// patchTries is how often PatchAll patches a run that others patch at the same time.
const patchTries = 5

// PatchAll patches every run that fits the filter and has not ended, one after the other, each as Patch does,
// whole or not at all. patch gets the definition that the run has, which is its own copy, and returns the
// operations, none to leave the run as it is; it is asked again if somebody else patches the run meanwhile. Runs
// that refuse their operations are reported, and the others are patched. An error ends the call, as of CancelAll; the report
// is of what was done until then.
func (e *Engine) PatchAll(ctx context.Context, f RunFilter, patch func(*workflow.Definition) []any) (ManyReport, error) {
	if patch == nil {
		return ManyReport{}, fmt.Errorf("%w: PatchAll needs a function that says what to patch", ErrInvalid)
	}
	return e.eachRun(ctx, f, func(id workflow.RunID) (changed bool, err error) {
		for range patchTries {
			d, revision, err := e.Definition(ctx, id)
			if err != nil {
				return false, err
			}
			ops := patch(d)
			if len(ops) == 0 {
				return false, nil
			}
			if _, err = e.Patch(ctx, id, Patch{Base: revision, Ops: ops}); !errors.Is(err, ErrConflict) {
				return true, err
			}
		}
		return false, ErrConflict
	})
}

// eachRun acts on the runs that fit a filter and have not ended.
func (e *Engine) eachRun(ctx context.Context, f RunFilter, act func(workflow.RunID) (changed bool, err error)) (out ManyReport, err error) {
	if err := e.checkUsable(ctx); err != nil {
		return out, err
	}
	if _, err := e.actOf(ctx); err != nil {
		return out, err
	}
	if f.Status = unendedOf(f.Status); len(f.Status) == 0 {
		return out, CheckWhere(f.Where)
	}
	if f.Limit == 0 && f.After == "" {
		f.Newest = false // parents before their children, which would end them in another way
	}
	for r, err := range e.Runs(ctx, f) {
		if err != nil {
			return out, err
		}
		changed, err := act(r.Run)
		switch {
		case err == nil && changed:
			out.Changed++
		case err == nil, errors.Is(err, ErrEnded), errors.Is(err, ErrRunNotFound):
			out.Left++
		case isRefusal(err):
			if out.Refused++; len(out.Errors) < MaxRefusals {
				out.Errors = append(out.Errors, RunRefusal{r.Run, err, err.Error()})
			}
		default:
			return out, fmt.Errorf("run %q: %w", string(r.Run), err)
		}
	}
	return out, nil
}

// unendedOf returns the statuses of a filter, of which none are all, that runs have which have not ended.
func unendedOf(wanted []workflow.RunStatus) (out []workflow.RunStatus) {
	for s := workflow.RunCreated; !s.Final(); s++ {
		if len(wanted) == 0 || slices.Contains(wanted, s) {
			out = append(out, s)
		}
	}
	return out
}

// isRefusal reports whether an error concerns only the run that the call was about.
func isRefusal(err error) bool {
	for _, of := range []error{ErrCorrupt, ErrVersion, ErrSuspended, ErrConflict, ErrNotPublished, ErrInvalid} {
		if errors.Is(err, of) {
			return true
		}
	}
	return errors.As(err, new(*workflow.PatchError)) || errors.As(err, new(*workflow.DefinitionError)) || errors.As(err, new(*workflow.LimitError))
}

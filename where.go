package pawl

import (
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/internal/filter"
	"github.com/pawl-run/pawl/store"
)

// A WhereError says why a condition on runs, as in RunFilter.Where, cannot be compiled, or
// evaluated for a run. It comes with ErrInvalid.
type WhereError = store.WhereError

// An EffortError ends a list that has come to the Effort of its filter, such as RunFilter.Effort: there may be more, and a
// list with the same filter whose After is the Run of the error, and its AfterToken the Token, goes on there.
type EffortError = store.EffortError

// CheckWhere returns the error with which a list or a watch with this condition would begin, a
// *WhereError and ErrInvalid; nil for one that compiles. "" is no condition.
//
// A condition is an expression in CEL that is true or false of a run, such as
//
//	status == "failed" && labels.customer == "7" && started > timestamp("2026-11-01T00:00:00Z")
//
// Its variables are run, workflow, status, tenant, parent, forkedFrom and code (of the failure), which are
// texts, "" without; version and seq; labels, a map of texts, in which labels.x is "" if the run
// has no label x; started and ended, which is null until the run has ended. An index finds run, workflow,
// status, tenant, parent and labels that == or in compares with constant texts, and that && joins with the
// rest. For all else the engine looks at each run. A condition has at most 4 KiB, and may cost some 1 ms
// for a run.
func CheckWhere(where string) error {
	if where == "" {
		return nil
	}
	_, err := filter.Parse(where)
	return invalidWhere(err)
}

// invalidWhere adds ErrInvalid to a *WhereError.
func invalidWhere(err error) error {
	if errors.As(err, new(*WhereError)) {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return err
}

// fitsWhere reports whether a change is of a run for which a condition holds.
func (c *RunChange) fitsWhere(w *filter.Where) (bool, error) {
	if w == nil || c.Lost {
		return true, nil
	}
	fits, err := w.Fits(&filter.Run{
		ID: c.Run, Workflow: c.Workflow, Version: c.Version, Status: c.Status, Labels: c.Labels, StartedAt: c.StartedAt, EndedAt: c.EndedAt,
		Parent: c.Parent, ForkedFrom: c.ForkedFrom.Run, Tenant: c.Tenant, Seq: c.Seq, Code: c.Code,
	})
	return fits, invalidWhere(err)
}

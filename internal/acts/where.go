package acts

import (
	"fmt"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/filter"
	"github.com/pawl-run/pawl/workflow"
)

// CheckWhere returns the error with which a list or a watch with this condition would begin, a
// *pawl.WhereError and pawl.ErrInvalid; nil for one that compiles. "" is no condition.
func CheckWhere(where string) error {
	if where == "" {
		return nil
	}
	if _, err := filter.Parse(where); err != nil {
		return fmt.Errorf("%w: %w", pawl.ErrInvalid, err)
	}
	return nil
}

// ConditionFields returns the names of the fields of a run that a condition may use.
func ConditionFields() []string { return filter.Variables() }

// IncidentFilter selects, of the runs that fit a filter, those that go on and have an incident: the join of a node
// can no longer be met (workflow.CodeJoinUnmet). Runs looks at no others then.
//
// A Where that is no condition stays as it is, so that Runs says what is wrong with it: put into parentheses, texts such as
// "true) || (true" would become one.
func IncidentFilter(f pawl.RunFilter) pawl.RunFilter {
	const unmet = `code == "` + workflow.CodeJoinUnmet + `"`
	f.Status = []workflow.RunStatus{workflow.RunRunning, workflow.RunPaused}
	switch {
	case CheckWhere(f.Where) != nil:
	case f.Where == "":
		f.Where = unmet
	default:
		f.Where = "(" + f.Where + "\n) && " + unmet
	}
	return f
}

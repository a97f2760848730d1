package planning

import (
	"slices"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/workflow"
)

// matchTiers returns the transitions to follow: all matches of the first tier that
// has any. f, if not nil, is the failure that the node's error transitions may
// catch. Later tiers are not evaluated.
//
// Tiers are sorted by priority. With a condition in tier 0 that holds, an unconditional
// transition of tier 1 is the else branch, and is not looked at. An error of a condition
// fails the node and is never taken for false: whoever wrote a wrong condition would
// otherwise see a run go the wrong way.
func (p *planner) matchTiers(tiers [][]*compiled.Transition, v vars, f *workflow.Failure) ([]*compiled.Transition, *workflow.Failure) {
	for _, tier := range tiers {
		var matched []*compiled.Transition
		for _, t := range tier {
			ok, failure := p.transitionMatches(t, v, f)
			if failure != nil {
				return nil, failure
			}
			if ok {
				matched = append(matched, t)
			}
		}
		if len(matched) > 0 {
			return matched, nil
		}
	}
	return nil, nil
}

// transitionMatches reports whether a transition is to be followed. A transition that has
// looped often enough is skipped before its condition is evaluated. That way the next tier is
// the exit of a loop, and a condition that no longer makes sense after so many rounds cannot
// fail. A loop of maxIterations 3 is taken 3 times, so that its body runs 4 times.
func (p *planner) transitionMatches(t *compiled.Transition, v vars, f *workflow.Failure) (bool, *workflow.Failure) {
	if t.Loop != nil && v.token.Counts[t.ID] >= t.Loop.MaxIterations {
		p.addNote(v.token.ID, t.ID, "skipped: looped %d of %d times", v.token.Counts[t.ID], t.Loop.MaxIterations)
		return false, nil
	}
	if f != nil && len(t.Errors) > 0 && !slices.Contains(t.Errors, f.Code) {
		p.addNote(v.token.ID, t.ID, "skipped: does not catch %s", f.Code)
		return false, nil
	}
	if t.Condition == nil {
		return true, nil
	}
	if f := p.overBudget(); f != nil {
		return false, f
	}
	spent := p.budget.spent
	ok, err := t.Condition.EvalBool(v)
	if err != nil {
		return false, evalFailure(t.Condition, err)
	}
	p.addCondition(t, v, ok, p.budget.spent-spent)
	return ok, nil
}

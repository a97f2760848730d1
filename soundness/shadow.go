package soundness

import (
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/workflow"
)

// checkShadowed looks for tiers behind one that always matches: with a transition that has
// neither a condition, or one that is true whatever happens, nor a bound of loops, nor codes.
// A tier whose conditions all stand in earlier tiers is shadowed as well.
//
// Transitions of a node are tried tier by tier, by priority, and the first tier in which one
// matches is the last that is looked at. Transitions behind a tier that always matches are
// therefore dead text. This check needs no run: it compares conditions as texts, and evaluates
// those that read nothing. Conditions that are true for other reasons are found by checkTaken,
// from what the search has seen.
func (c *checker) checkShadowed() {
	for i := range c.graph.Definition.Nodes {
		n := c.graph.Node(c.graph.Definition.Nodes[i].ID)
		c.checkTiers(n, n.Success)
		c.checkTiers(n, n.Failure)
	}
}

// checkTiers looks at the tiers of one outcome, first to last, and keeps two things on the way:
// a transition that always matches, behind which all is dead, and the texts of conditions that
// were false if the run comes further than their tier.
func (c *checker) checkTiers(n *compiled.Node, tiers [][]*compiled.Transition) {
	var always *compiled.Transition
	tried := map[string]*compiled.Transition{} // conditions that were false, if a later tier is tried
	for k, tier := range tiers {
		by := always
		if by == nil {
			by = shadowOf(tier, tried)
		}
		// An OnAlways transition is in the tiers of both outcomes. It may be dead for
		// completions and alive for failures, and is no finding then.
		if by != nil && !takesBoth(tier) {
			c.addFinding(Finding{
				Code: ShadowedTier, Node: n.ID, Transition: tier[0].ID,
				Message: fmt.Sprintf("it is never taken: the tier before it, of priority %d, always matches with %q; give it a lower priority or that one a condition", by.Priority, string(by.ID)),
			})
		}
		// A shadowed tier is never asked, so that its own conditions prove nothing about later
		// ones.
		if by != nil {
			continue
		}
		for _, t := range tier {
			// A transition with a bound of loops stops matching once it was taken often enough,
			// and one with codes matches some failures only: neither shadows anything, even
			// with a condition that is always true.
			if t.Loop != nil || len(t.Errors) > 0 {
				continue
			}
			// The last tier may always match: nothing is behind it.
			if isAlways(t.Condition) && k < len(tiers)-1 {
				always = t
			}
			tried[t.Transition.Condition] = t
		}
	}
}

// shadowOf returns the transition of an earlier tier that keeps each of a tier from matching:
// each has a condition that was tried before.
//
// For a tier of x > 1 and x < 0 behind one tier with x > 1 and another with x < 0 that is the
// transition whose condition is equal to the last of the two; which one does not matter, since
// it only gives the message a name. One condition that is new is enough for the tier to be
// alive.
func shadowOf(tier []*compiled.Transition, tried map[string]*compiled.Transition) (by *compiled.Transition) {
	for _, t := range tier {
		if by = tried[t.Transition.Condition]; by == nil {
			return nil
		}
	}
	return by
}

// isAlways reports whether a condition is true whatever happens.
//
// An absent condition is true. A condition that reads no variable has the same value in each
// run, and is evaluated here, without variables. A condition that reads any is taken to
// depend on it, though x || true does not.
func isAlways(p *expr.Program) bool {
	if p == nil {
		return true
	}
	if len(p.References()) > 0 {
		return false
	}
	ok, err := p.EvalBool(expr.Map{})
	return err == nil && ok
}

// takesBoth reports whether a tier has a transition for completions and failures alike: what is
// shadowed for one may be taken for the other.
func takesBoth(tier []*compiled.Transition) bool {
	return slices.ContainsFunc(tier, func(t *compiled.Transition) bool { return t.Outcome == workflow.OnAlways })
}

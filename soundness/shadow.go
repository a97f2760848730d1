package soundness

import (
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/workflow"
)

// checkShadowed looks for tiers behind one that always matches: with a transition that has
// neither a condition, or one that is true whatever happens, nor a bound of loops, nor codes.
// A tier whose conditions all stand in earlier tiers is shadowed as well.
func (c *checker) checkShadowed() {
	for i := range c.graph.Definition.Nodes {
		n := c.graph.Node(c.graph.Definition.Nodes[i].ID)
		c.checkTiers(n, n.Success)
		c.checkTiers(n, n.Failure)
	}
}

func (c *checker) checkTiers(n *workflow.GraphNode, tiers [][]*workflow.GraphTransition) {
	var always *workflow.GraphTransition
	tried := map[string]*workflow.GraphTransition{} // conditions that were false, if a later tier is tried
	for k, tier := range tiers {
		by := always
		if by == nil {
			by = shadowOf(tier, tried)
		}
		if by != nil && !takesBoth(tier) {
			c.addFinding(Finding{
				Code: ShadowedTier, Node: n.ID, Transition: tier[0].ID,
				Message: fmt.Sprintf("it is never taken: the tier before it, of priority %d, always matches with %q; give it a lower priority or that one a condition", by.Priority, string(by.ID)),
			})
		}
		if by != nil {
			continue
		}
		for _, t := range tier {
			if t.Loop != nil || len(t.Errors) > 0 {
				continue
			}
			if isAlways(t.Condition) && k < len(tiers)-1 {
				always = t
			}
			tried[t.Transition.Condition] = t
		}
	}
}

// shadowOf returns the transition of an earlier tier because of which none of a tier can match:
// each has a condition that was tried before.
func shadowOf(tier []*workflow.GraphTransition, tried map[string]*workflow.GraphTransition) (by *workflow.GraphTransition) {
	for _, t := range tier {
		if by = tried[t.Transition.Condition]; by == nil {
			return nil
		}
	}
	return by
}

// isAlways reports whether a condition is true whatever happens.
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
func takesBoth(tier []*workflow.GraphTransition) bool {
	return slices.ContainsFunc(tier, func(t *workflow.GraphTransition) bool { return t.Outcome == workflow.OnAlways })
}

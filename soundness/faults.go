package soundness

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// checkExplored makes findings of what was found.
//
// Some findings are runs that were seen: a deadlock, tokens left over. They hold whatever else
// was not looked at. Others say that something was never seen, and prove nothing unless all was
// looked at; hence the bounds decide which checks are made. The joins are checked before
// deadlocks, because a join that can never be met explains the deadlocks at it.
func (c *checker) checkExplored(x *explorer) {
	complete := len(c.bounds) == 0
	if complete {
		c.checkJoins(x)
		c.checkEnds(x)
	}
	c.checkDeadlocks(x)
	c.checkLeftover(x)
	if complete {
		c.checkTaken(x)
	}
}

// checkJoins looks for joins at which tokens wait and which no run fires.
//
// Both kinds of join are looked at: those of tokens, at nodes, and those of groups, which
// transitions meet.
func (c *checker) checkJoins(x *explorer) {
	for i := range c.graph.Definition.Nodes {
		n := c.graph.Node(c.graph.Definition.Nodes[i].ID)
		if at, ok := x.waited[joinName("", n.ID)]; ok && !x.fired[joinName("", n.ID)] {
			c.addFinding(Finding{
				Code: UnmeetableJoin, Node: n.ID, Scenario: x.scenarioTo(x.endFrom(at), UnmeetableJoin, string(n.ID)),
				Message: fmt.Sprintf("its join can never be met: no run brings a thread on each of %s", incomingNames(n)),
			})
		}
	}
	for i := range c.graph.Definition.Transitions {
		t := c.graph.Transition(c.graph.Definition.Transitions[i].ID)
		// The transitions that meet at a group share its specification. The first of them
		// stands for all, so that the group is told of once.
		if t.Joins == nil || t.Joins.Joins[0] != t {
			continue
		}
		name := joinName(t.Joins.Name, "")
		// It is -1 if branches arrived but no state of the group was kept: then there is no run
		// to show.
		if at, ok := x.waited[name]; ok && at >= 0 && !x.fired[name] {
			c.addFinding(Finding{
				Code: UnmeetableJoin, Node: t.To, Transition: t.ID, Scenario: x.scenarioTo(x.endFrom(at), UnmeetableJoin, string(t.To)),
				Message: fmt.Sprintf("the join of group %q can never be met: in no run do as many branches arrive as %v asks for", t.Joins.Name, t.Joins.Sync.Strategy),
			})
		}
	}
}

// incomingNames returns the transitions that lead to a node, for a message.
func incomingNames(n *compiled.Node) string {
	names := make([]string, len(n.Incoming))
	for i, t := range n.Incoming {
		names[i] = string(t.ID)
	}
	return strings.Join(names, ", ")
}

// endFrom returns the nearest state from one on in which the run has ended, or that one.
//
// A finding is easier to understand if its scenario goes on to the end of the run. It looks
// breadth first, and only along the edges by which states were found first: only then is the
// path that pathTo makes from the start one that leads through here. endFrom skips runs that the bound of
// the search has ended.
func (x *explorer) endFrom(at int) int {
	seen := map[int]bool{at: true}
	for work := []int{at}; len(work) > 0; work = work[1:] {
		if s := x.states[work[0]].state; s.Status.Final() && !x.isCut(s) {
			return work[0]
		}
		for _, next := range x.states[work[0]].leads {
			if !seen[next] && x.states[next].from == work[0] { // a run to it leads through here
				seen[next] = true
				work = append(work, next)
			}
		}
	}
	return at
}

// checkDeadlocks looks for runs that have failed because only joins were left.
//
// A run whose tokens all wait at joins fails with the code deadlock, by the planner: the search
// need only look for that failure. A node with an unmeetable join has its finding already.
func (c *checker) checkDeadlocks(x *explorer) {
	for i, f := range x.states {
		if c.isStopped() {
			return
		}
		if f.state.Failure == nil || f.state.Failure.Code != workflow.CodeDeadlock {
			continue
		}
		for _, node := range stuckNodes(f.state) {
			if slices.ContainsFunc(c.findings, func(g Finding) bool { return g.Code == UnmeetableJoin && g.Node == node }) {
				continue // which says more
			}
			c.addFinding(Finding{
				Code: Deadlock, Node: node, Scenario: x.scenarioTo(i, Deadlock, string(node)),
				Message: "a run can come to where it waits here, by " + stuckVia(f.state, node) + ", and no thread is left that could come by the other transitions",
			})
		}
	}
}

// stuckNodes returns the nodes at whose joins tokens waited when the run ended.
//
// The tokens were cancelled as the run failed, and are found by that: a token at a join has the
// transition by which it came, in Via. A node may have held several; it is named once.
func stuckNodes(s *state.State) (out []workflow.NodeID) {
	for id := workflow.TokenID(1); id < s.NextToken; id++ {
		t := s.Token(id)
		if t.Status == workflow.Cancelled && t.Via != "" && s.Graph.Node(t.Node).Join != workflow.JoinNone && !slices.Contains(out, t.Node) {
			out = append(out, t.Node)
		}
	}
	return out
}

// stuckVia returns the transitions on which tokens came to a join and waited in vain. The
// others are those that the message says nobody can come by.
func stuckVia(s *state.State, node workflow.NodeID) string {
	var names []string
	for id := workflow.TokenID(1); id < s.NextToken; id++ {
		if t := s.Token(id); t.Status == workflow.Cancelled && t.Node == node && t.Via != "" && !slices.Contains(names, string(t.Via)) {
			names = append(names, string(t.Via))
		}
	}
	return strings.Join(names, ", ")
}

// checkLeftover looks for ends that cut off tokens which wait at joins.
//
// A completed run is no failure, so that this is easily missed in tests: an end node ends the
// run while another branch has not arrived, and its work is lost. Both the node's own join and
// the groups that meet at it are looked up; one finding for the node is enough.
func (c *checker) checkLeftover(x *explorer) {
	for i := range c.graph.Definition.Nodes {
		n := c.graph.Node(c.graph.Definition.Nodes[i].ID)
		names := []string{joinName("", n.ID)}
		for _, t := range n.Incoming {
			if t.Joins != nil {
				names = append(names, joinName(t.Joins.Name, ""))
			}
		}
		for _, name := range names {
			if at, ok := x.leftover[name]; ok {
				c.addFinding(Finding{
					Code: LeftoverTokens, Node: n.ID, Scenario: x.scenarioTo(at, LeftoverTokens, string(n.ID)),
					Message: "an end is reached while threads wait at the join here: they are cut off",
				})
				break
			}
		}
	}
}

// checkEnds looks for states from which no end can be reached, though something can happen.
//
// It goes backwards from the ends: whatever leads to an end is good, and what leads to that,
// until nothing is added. The states that are left can go on for ever and never end. A stuck
// state counts as an end, since it waits for what the search does not play, and may well end by
// that.
func (c *checker) checkEnds(x *explorer) {
	ends := make([]bool, len(x.states))
	from := make([][]int, len(x.states))
	var work []int
	for i, f := range x.states {
		for _, next := range f.leads {
			from[next] = append(from[next], i)
		}
		if f.stuck || f.state.Status.Final() {
			ends[i] = true
			work = append(work, i)
		}
	}
	for len(work) > 0 {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		for _, before := range from[at] {
			if !ends[before] {
				ends[before] = true
				work = append(work, before)
			}
		}
	}
	// The states are in the order of their distance from the start: the first that is left
	// gives the shortest scenario, and one finding is enough, as the others are nearly always
	// on the same cycle.
	for i, f := range x.states {
		if !ends[i] {
			node := c.graph.Definition.Start
			if live := f.state.LiveTokens(); len(live) > 0 {
				node = f.state.Token(live[0]).Node
			}
			c.addFinding(Finding{
				Code: EndlessLoop, Node: node, Scenario: x.loopFrom(i, string(node)),
				Message: "from here on a run goes round for ever: whatever the tasks answer, it comes to no end",
			})
			return
		}
	}
}

// checkTaken looks for tiers that no value makes match, where everything that decides is the
// result: an earlier tier is true for all of them.
//
// The node must have completed in some run, or else nothing was decided there, and its results
// must all have been tried, or else another may make the tier match. The first tier is not
// looked at: it is tried first, and if it never matches that is what addUntrue tells.
func (c *checker) checkTaken(x *explorer) {
	for i := range c.graph.Definition.Nodes {
		n := c.graph.Node(c.graph.Definition.Nodes[i].ID)
		if !x.ended[n.ID] || len(n.Success) < 2 || c.values.varied["result of "+string(n.ID)] || !decidedByResult(n) {
			continue
		}
		for _, tier := range n.Success[1:] {
			if !slices.ContainsFunc(tier, func(t *compiled.Transition) bool { return x.taken[t.ID] }) {
				c.addFinding(Finding{
					Code: ShadowedTier, Node: n.ID, Transition: tier[0].ID,
					Message: "it is never taken: for every result an earlier tier matches, or no condition of this one is true",
				})
			}
		}
	}
}

// decidedByResult reports whether the conditions of a node compare fields of its result with
// literals and do nothing else, so that the values that were tried stand for all.
func decidedByResult(n *compiled.Node) bool {
	for _, t := range n.Outgoing {
		if t.Loop != nil || t.Condition != nil && !comparisons.MatchString(t.Condition.Source()) {
			return false
		}
		if t.Condition == nil {
			continue
		}
		for _, ref := range t.Condition.References() {
			if ref[0] != "result" {
				return false
			}
		}
	}
	return true
}

// checkCycles takes over the cycles that no condition can leave, if no run was found that goes round for ever. They have the code of the
// warning of Definition.Check, unless a run shows that it never waits on the cycle, and fails: then nothing is left to be proved.
func (c *checker) checkCycles(x *explorer) {
	if slices.ContainsFunc(c.findings, func(f Finding) bool { return f.Code == EndlessLoop }) {
		return
	}
	for _, p := range c.graph.Warnings {
		if p.Code != problem.EndlessCycle {
			continue
		}
		if f := x.cut[p.Node]; f != nil {
			c.addFinding(Finding{
				Code: EndlessLoop, Node: p.Node, Scenario: x.scenarioOf(append(x.pathTo(f.from), f), EndlessLoop, string(p.Node)),
				Message: p.Message + "; no node on it waits, so that a run which comes here fails at a limit",
			})
			continue
		}
		c.addFinding(Finding{Code: problem.EndlessCycle, Node: p.Node, Transition: p.Transition, Message: p.Message})
	}
}

package workflow

import (
	"reflect"
	"slices"

	"github.com/pawl-run/pawl/internal/problem"
)

// A siblings is a sibling group with the indices of the transitions that spawn its branches, and of those that join
// them. Either list may be empty, not both.
type siblings struct {
	name            string
	spawners, joins []int
}

// checkGroups checks each sibling group. A join without a fan-out is an error, since it can never fire. A fan-out
// without a join is allowed, as an anonymous group is, and probably a slip.
func (c *checker) checkGroups() {
	c.checkSettings()
	var joined []*siblings
	for _, s := range c.collectSiblings() {
		switch {
		case len(s.joins) == 0:
			without := "siblingGroup"
			if slices.ContainsFunc(s.spawners, func(i int) bool { return c.def.Transitions[i].Open }) {
				without = "siblingGroup and open" // only a group with a name can be open
			}
			c.reportWarning(c.atTransition(s.spawners[0]), "siblingGroup", problem.UnjoinableGroup, "nobody joins the group %q; without %s its branches are on their own", s.name, without)
		case len(s.spawners) == 0:
			for _, i := range s.joins {
				c.reportProblem(c.atTransition(i), "synchronization.siblingGroup", problem.UnknownGroup, "nobody spawns the group %q", s.name)
			}
		default:
			joined = append(joined, s)
		}
		// Also a group that cannot be used is looked at, so that all of its problems are told at once.
		c.checkAgreement(s)
		c.checkQuorum(s)
	}
	c.checkJoinable(joined)
	c.checkUncounted(joined)
	c.checkRegions(joined)
}

// checkRegions finds cancels that name a node that fans out and nodes of its branches, and not the node that the join
// of the group leads to. A branch that has arrived stands there: it stays, and the join fires with it, though the
// region around it was cancelled. Where stragglers run on, a region without the join may mean those, and a node that the
// join itself leads to comes when it has fired.
func (c *checker) checkRegions(groups []*siblings) {
	cancels := map[NodeID][]int{} // the nodes that name another in their cancels
	for i := range c.def.Nodes {
		for _, id := range c.def.Nodes[i].Cancels {
			cancels[id] = append(cancels[id], i)
		}
	}
	if len(cancels) == 0 {
		return
	}
	for _, s := range groups {
		if r := c.def.Transitions[s.joins[0]].Synchronization.Remaining; r != "" && r != RemainingCancel {
			continue
		}
		joins := map[NodeID]bool{} // from which the join is taken
		for _, i := range s.joins {
			joins[c.def.Transitions[i].From] = true
		}
		to, told := c.def.Transitions[s.joins[0]].To, map[int]bool{}
		for _, i := range s.spawners {
			t := &c.def.Transitions[i]
			for _, n := range cancels[t.From] {
				named := c.def.Nodes[n].Cancels
				inBranch := slices.ContainsFunc(named, func(id NodeID) bool { return id == t.To || joins[id] })
				if inBranch && !told[n] && c.def.Nodes[n].ID != to && !slices.Contains(named, to) {
					told[n] = true
					c.reportWarning(c.atNode(n), "cancels", problem.HalfRegion, "the branches of %q that have arrived wait at %q, to which their join leads: they stay, and the join fires with them, unless %q is named as well",
						s.name, string(to), string(to))
				}
			}
		}
	}
}

// checkUncounted finds loop bounds that never count: on a transition that spawns a group, where the way back leads
// through the group's join. The token that goes on from the join has the counts of the token that fanned out.
// Example: split fans out with loop 3, and the transition behind its join leads back to split. A branch has count 1,
// the continuation has that of the token at split, 0, and each round begins at 0: the loop has no end.
func (c *checker) checkUncounted(groups []*siblings) {
	var all *components
	for _, s := range groups {
		// A synchronizing transition that loops itself counts each time it fires.
		if slices.ContainsFunc(s.joins, func(i int) bool { return c.def.Transitions[i].Loop != nil }) {
			continue
		}
		// All joins of the group lead there.
		to := c.def.Transitions[s.joins[0]].To
		for _, i := range s.spawners {
			t := &c.def.Transitions[i]
			if t.Loop == nil || !c.graph.hasNode(t.From) || !c.graph.hasNode(to) {
				continue
			}
			if all == nil {
				// They are found once, and only if some fan-out loops.
				found := c.graph.stronglyConnected(func(edge) bool { return true })
				all = &found
			}
			// There is a way from the join back to the fan-out.
			if all.of[c.graph.index[t.From]] == all.of[c.graph.index[to]] {
				c.reportWarning(c.atTransition(i), "loop", problem.EndlessCycle, "this bound does not count across the join of %q: put the loop on the synchronizing transition, or on the way back", s.name)
			}
		}
	}
}

// collectSiblings returns the groups in the order in which they are first named. Problems of groups come in this
// order, which is that of the definition.
func (c *checker) collectSiblings() []*siblings {
	var all []*siblings
	byName := map[string]*siblings{}
	get := func(name string) *siblings {
		s := byName[name]
		if s == nil {
			s = &siblings{name: name}
			byName[name] = s
			all = append(all, s)
		}
		return s
	}
	for i := range c.def.Transitions {
		t := &c.def.Transitions[i]
		if t.SiblingGroup != "" {
			s := get(t.SiblingGroup)
			s.spawners = append(s.spawners, i)
		}
		// The lack of a name is reported with the transition.
		if t.Synchronization != nil && t.Synchronization.SiblingGroup != "" {
			s := get(t.Synchronization.SiblingGroup)
			s.joins = append(s.joins, i)
		}
	}
	return all
}

// checkAgreement compares the joins of a group with the first of them. A group has one rule: which of its joins a
// branch takes must make no difference to when it fires and to where it goes on.
func (c *checker) checkAgreement(s *siblings) {
	if len(s.joins) < 2 {
		return
	}
	// The first is right by definition, and each of the others is compared with it.
	first := agreedFields(&c.def.Transitions[s.joins[0]])
	for _, i := range s.joins[1:] {
		other := agreedFields(&c.def.Transitions[i])
		for _, field := range differingFields(first, other) {
			c.reportProblem(c.atTransition(i), field, problem.DisagreeingJoins, "it differs from the join %q of the same group %q",
				string(c.def.Transitions[s.joins[0]].ID), s.name)
		}
	}
}

// agreedFields returns those fields of a transition in which the joins of a group must agree, by their paths. It goes
// by the format, so that a field that is added to it must agree unless it is named here. Fields with their default
// are left out of both.
func agreedFields(t *Transition) map[string]any {
	fields := writeFields(transitionFormat(t))
	for _, free := range []string{"id", "from", "condition", "priority", "loop", "synchronization"} {
		delete(fields, free)
	}
	y := *t.Synchronization
	// Each join may bring a source of its own.
	if y.Merge != nil {
		y.Merge = &Merge{Target: y.Merge.Target, Strategy: y.Merge.Strategy, As: y.Merge.As}
	}
	for name, v := range writeFields(synchronizationFormat(&y)) {
		fields["synchronization."+name] = v
	}
	return fields
}

// differingFields returns the names of the fields that are not the same in both: those of a first, each group sorted.
func differingFields(a, b map[string]any) []string {
	var out []string
	for _, field := range sortedKeys(a) {
		if !reflect.DeepEqual(a[field], b[field]) {
			out = append(out, field)
		}
	}
	for _, field := range sortedKeys(b) {
		if _, ok := a[field]; !ok {
			out = append(out, field)
		}
	}
	return out
}

// checkQuorum finds a node whose fan-out never makes enough branches: all of its spawning transitions are counted
// that one routing can follow. Example: mOfN 3, and two transitions with spawnCount 1 each in one tier: the join
// would end in a shortfall each time. A foreach makes as many as its list has, and an open group may get more: of
// these nothing is known.
func (c *checker) checkQuorum(s *siblings) {
	if len(s.joins) == 0 {
		return
	}
	// With all it is 0, which every fan-out makes.
	quorum := c.def.Transitions[s.joins[0]].Synchronization.Strategy.Quorum()
	type routing struct {
		failure bool
		tier    int
	}
	// One routing follows one tier, of those tried with success or of those tried with a failure, and at most all of
	// it.
	tiers := map[NodeID]map[routing]int{}
	var nodes []NodeID
	for _, i := range s.spawners {
		t := &c.def.Transitions[i]
		if t.Foreach != nil || t.Open {
			return
		}
		if tiers[t.From] == nil {
			tiers[t.From] = map[routing]int{}
			nodes = append(nodes, t.From)
		}
		// A transition with always belongs to both routings.
		if t.Outcome != OnError {
			tiers[t.From][routing{false, t.Priority}] += max(t.SpawnCount, 1)
		}
		if t.Outcome == OnError || t.Outcome == OnAlways {
			tiers[t.From][routing{true, t.Priority}] += max(t.SpawnCount, 1)
		}
	}
	for _, id := range nodes {
		// The best that the node can do is looked at: a run that takes another tier has a shortfall, which its rule
		// decides.
		most := 0
		for _, n := range tiers[id] {
			most = max(most, n)
		}
		if most < quorum {
			c.reportProblem(c.atTransition(s.joins[0]), "synchronization.strategy", problem.Quorum,
				"it waits for %d branches of the group %q, but node %q makes at most %d", quorum, s.name, string(id), most)
			return
		}
	}
}

// checkJoinable finds groups that have no branch which can reach a join. Groups are looked at 64 at a time, as bits
// that flow against the edges. Each node needs to know of each group whether the group's join can be reached from it.
// Components are taken in an order in which those that an edge leads to are finished, and one pass does for 64
// groups.
func (c *checker) checkJoinable(groups []*siblings) {
	if len(groups) == 0 {
		return
	}
	all := c.graph.stronglyConnected(func(edge) bool { return true })
	// Sorted by component, since edges lead to lower numbers or stay within one.
	order := make([]int, len(c.graph.nodes)) // nodes, by component: successors first
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return all.of[a] - all.of[b] })
	reach := make([]uint64, all.count)
	// One bit for each group of the block, in one word for each component.
	for block := range slices.Chunk(groups, 64) {
		clear(reach)
		for bit, s := range block {
			for _, i := range s.joins {
				if n, ok := c.graph.index[c.def.Transitions[i].From]; ok {
					// The join is taken from this node.
					reach[all.of[n]] |= 1 << bit
				}
			}
		}
		// The word of a successor is complete by now, or the successor is in the same component, which has the same
		// word.
		for _, n := range order {
			for _, e := range c.graph.out[n] {
				reach[all.of[n]] |= reach[all.of[e.to]]
			}
		}
		for bit, s := range block {
			c.checkJoins(s, func(n int) bool { return reach[all.of[n]]&(1<<bit) != 0 })
		}
	}
}

// checkJoins warns if no spawner of the group leads to a node that reaches a join.
func (c *checker) checkJoins(s *siblings, reaches func(node int) bool) {
	for _, i := range s.spawners {
		// One branch that may arrive is enough; an end that does not exist is reported elsewhere.
		if n, ok := c.graph.index[c.def.Transitions[i].To]; !ok || reaches(n) {
			return
		}
	}
	c.reportWarning(c.atTransition(s.spawners[0]), "siblingGroup", problem.UnjoinableGroup, "no path leads from the branches of the group %q to its join", s.name)
}

package compiled

import (
	"slices"

	"github.com/pawl-run/pawl/workflow"
)

// findReach finds, for each transition into a node with join: synchronize, the nodes from which it can be reached
// without passing that node. A join that synchronizes fires when no other token can come. To find that out at each
// step by a walk through the graph would be too slow: here each incoming transition gets a set of nodes, and a step
// tests one bit per token. Beyond the node itself the walk does not go, since a token that passes it has been at the
// join.
func (b *builder) findReach() {
	g := b.graph
	for _, n := range g.Nodes {
		g.joinsAll = g.joinsAll || n.Join == workflow.JoinAll && g.Definition.Mode != workflow.ModeDAG
	}
	if len(g.Synchronize) == 0 {
		return
	}
	// It has the edges of needs too, which only a dag has, and a dag has no such join.
	incoming := g.incomingNodes()
	for _, n := range g.Synchronize {
		n.Reach = make([]NodeSet, len(n.Incoming))
		for i, t := range n.Incoming {
			// It is no loop, but the same kind of set.
			body := loopBody{set: make([]uint64, (len(g.Nodes)+63)/64)}
			for work := []int{g.Nodes[t.From].Index}; len(work) > 0; {
				at := work[len(work)-1]
				work = work[:len(work)-1]
				if body.addNode(at) && at != n.Index {
					work = append(work, incoming[at]...)
				}
			}
			n.Reach[i] = body.set
		}
	}
}

// maxNestable is how many groups that may be fanned out again within themselves
// ReachWithin tells apart. It assumes that further groups may be fanned out again.
const maxNestable = 4

// A NodeSet has a bit for each node of a definition, by [Node.Index]. The bit of node i is bit i%64 of word
// i/64. A set may be shorter than the definition, as nil is.
type NodeSet []uint64

// Has reports whether a node is in the set. An empty set has none.
func (s NodeSet) Has(n *Node) bool {
	return n.Index/64 < len(s) && s[n.Index/64]&(1<<(n.Index%64)) != 0
}

// addNode puts a node into the set and reports whether it was not there.
func (s NodeSet) addNode(n *Node) bool {
	if s.Has(n) {
		return false
	}
	s[n.Index/64] |= 1 << (n.Index % 64)
	return true
}

// ReachWithin returns the nodes from which a token can still come to take incoming transition i of n, a node with
// join: synchronize, in one branch, without passing n. enclosing are the names of the groups that the branch is
// nested in: a token that takes a synchronizing transition of one of them has left the branch, unless it has fanned
// out a group of that name within it before. Example: in a branch of group g, a node joins transitions a and b, and
// behind the join of g the graph leads back to a. A token of this branch that has arrived at the join of g is no
// longer in the branch, and cannot come to a that way.
func (g *Graph) ReachWithin(n *Node, i int, enclosing []string) NodeSet {
	// A node with another join has no sets, and nothing comes to it in this sense.
	if i < 0 || i >= len(n.Reach) {
		return nil
	}
	var nestable []string
	kept := make([]string, 0, len(enclosing))
	for _, name := range enclosing {
		if g.Groups[name] != nil && g.mayNest(g.Groups[name]) {
			// It is left out of enclosing: its joins then count as ways within the branch, and the node waits rather
			// longer than too short.
			if len(nestable) == maxNestable {
				continue
			}
			nestable = append(nestable, name)
		}
		kept = append(kept, name)
	}
	return g.reachInBranch(n, i, kept, nestable)
}

// reachInBranch walks backwards from a transition, as findReach does, and does not follow transitions that leave the
// branch. nestable are those of enclosing whose joins may also stand for a fan-out within the branch.
func (g *Graph) reachInBranch(n *Node, i int, enclosing, nestable []string) NodeSet {
	// Outside any group no transition leaves the branch: the set is known.
	if len(enclosing) == 0 {
		return n.Reach[i]
	}
	leaves := func(t *Transition) bool { return t.Joins != nil && slices.Contains(enclosing, t.Joins.Name) }
	out := make(NodeSet, (len(g.Definition.Nodes)+63)/64)
	var work []*Node
	// The walk does not go on from n: a token that passes it has been at the join.
	add := func(id workflow.NodeID) {
		if x := g.Node(id); out.addNode(x) && x != n {
			work = append(work, x)
		}
	}
	if !leaves(n.Incoming[i]) {
		add(n.Incoming[i].From)
	}
	for _, name := range nestable { // once it is fanned out, its joins lead back into the branch
		other := func(s string) bool { return s == name }
		// A token inside that inner fan-out may take the joins of this name, so for it the group encloses nothing:
		// the sets are found without the group, and the nodes that fan out into them belong to the branch.
		within := g.reachInBranch(n, i, slices.DeleteFunc(slices.Clone(enclosing), other), slices.DeleteFunc(slices.Clone(nestable), other))
		for _, t := range g.Groups[name].Spawners {
			if t.To != n.ID && within.Has(g.Node(t.To)) && !leaves(t) {
				add(t.From)
			}
		}
	}
	for len(work) > 0 {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		for _, t := range at.Incoming {
			if !leaves(t) {
				add(t.From)
			}
		}
	}
	return out
}

// mayNest reports whether a group may be fanned out within one of its own branches. It walks forwards from the
// branches, past everything but the group's own join: beyond that a token is outside the group.
func (g *Graph) mayNest(spec *GroupSpec) bool {
	seen := make(NodeSet, (len(g.Definition.Nodes)+63)/64)
	var work []*Node
	for _, t := range spec.Spawners {
		if x := g.Node(t.To); seen.addNode(x) {
			work = append(work, x)
		}
	}
	for len(work) > 0 {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		for _, t := range at.Outgoing {
			// It is reached from one of its own branches.
			if t.Spawns == spec {
				return true
			}
			if x := g.Node(t.To); t.Joins != spec && seen.addNode(x) {
				work = append(work, x)
			}
		}
	}
	return false
}

// JoinsAll reports whether tokens wait at some node for all its incoming transitions. It is false for a dag.
func (g *Graph) JoinsAll() bool { return g.joinsAll }

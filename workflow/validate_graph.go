package workflow

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/problem"
)

// An adjacency is the graph of a definition by the indices of its nodes. Edges that lead from or to a node that does
// not exist are left out. The checks of the whole graph need nodes as small integers, and must bear a definition with
// dangling ids. The edges of needs count like transitions.
type adjacency struct {
	nodes []Node
	index map[NodeID]int        // of the first node with an id
	out   [][]edge              // by node, in definition order
	in    []int                 // number of edges, by node
	loops map[TransitionID]bool // transitions with a loop
}

// An edge leads to a node. An edge for needs has no transition.
type edge struct {
	to         int
	transition *Transition
}

// newAdjacency returns the graph of a definition in time in proportion to its size.
func newAdjacency(d *Definition) *adjacency {
	g := &adjacency{
		nodes: d.Nodes, index: make(map[NodeID]int, len(d.Nodes)),
		out: make([][]edge, len(d.Nodes)), in: make([]int, len(d.Nodes)), loops: map[TransitionID]bool{},
	}
	for i := range d.Nodes {
		// A node without an id cannot be led to.
		if _, ok := g.index[d.Nodes[i].ID]; !ok && d.Nodes[i].ID != "" {
			g.index[d.Nodes[i].ID] = i
		}
	}
	for i := range d.Transitions {
		t := &d.Transitions[i]
		g.addEdge(t.From, t.To, t)
		// count knows only these.
		if t.Loop != nil {
			g.loops[t.ID] = true
		}
	}
	for i := range d.Nodes {
		for _, from := range d.Nodes[i].Needs {
			g.addEdge(from, d.Nodes[i].ID, nil)
		}
	}
	return g
}

// addEdge adds an edge, unless one of its ends does not exist: that is reported with the transition.
func (g *adjacency) addEdge(from, to NodeID, t *Transition) {
	f, ok := g.index[from]
	n, found := g.index[to]
	if ok && found {
		g.out[f] = append(g.out[f], edge{n, t})
		g.in[n]++
	}
}

// hasNode reports whether there is a node with an id.
func (g *adjacency) hasNode(id NodeID) bool {
	_, ok := g.index[id]
	return ok
}

// nodeOf returns the node with the given id, or nil.
func (g *adjacency) nodeOf(id NodeID) *Node {
	if i, ok := g.index[id]; ok {
		return &g.nodes[i]
	}
	return nil
}

// countIncoming returns how many edges lead to a node. The dag's needs are among them, as a join of m of n counts
// them.
func (g *adjacency) countIncoming(id NodeID) int {
	if i, ok := g.index[id]; ok {
		return g.in[i]
	}
	return 0
}

// findReached reports of each node whether a path leads to it from one of the first nodes.
func (g *adjacency) findReached(first []int) (seen []bool) {
	seen = make([]bool, len(g.nodes))
	// A search in depth with a list of its own.
	for work := slices.Clone(first); len(work) > 0; {
		n := work[len(work)-1]
		work = work[:len(work)-1]
		if seen[n] {
			continue
		}
		seen[n] = true
		for _, e := range g.out[n] {
			if !seen[e.to] {
				work = append(work, e.to)
			}
		}
	}
	return seen
}

// checkReachable finds nodes to which no path leads from the start. It is a warning: a patch may lead there later. In
// a dag every node without predecessors starts, so that each is reached unless there is a cycle.
func (c *checker) checkReachable() {
	g := c.graph
	start, ok := g.index[c.def.Start]
	if !ok || c.def.Mode == ModeDAG {
		return
	}
	seen := g.findReached([]int{start})
	for i := range g.nodes {
		// If several nodes have one id, edges lead to the first only, and the others have a problem already.
		if first, ok := g.index[g.nodes[i].ID]; ok && first == i && !seen[i] {
			c.reportWarning(c.atNode(i), "", problem.Unreachable, "no path leads here from the start %q", string(c.def.Start))
		}
	}
}

// checkCycles finds cycles: any in dag mode, in graph mode those without a bounded loop or an exit. In graph mode a
// loop that is bounded is no cycle to worry about, and one without a bound may be meant, as an approval that is asked
// until it is given: only what can never end is told, and as a warning.
func (c *checker) checkCycles() {
	// In graph mode the walk does not follow bounded loops, so that a cycle which only they close does not count.
	dag := c.def.Mode == ModeDAG
	follow := func(e edge) bool { return dag || e.transition != nil && e.transition.Loop == nil }
	components := c.graph.stronglyConnected(follow)
	// A cycle lies within one strongly connected component: one cycle of each is told, the shortest through its first
	// node.
	for _, nodes := range components.membersOf() {
		cycle := c.graph.findCycle(nodes, components, follow)
		// The component is a single node without an edge to itself.
		if cycle == nil {
			continue
		}
		site := c.atNode(cycle[0])
		switch {
		case dag:
			c.reportProblem(site, "", problem.Cycle, "a cycle: %s", c.graph.pathOf(cycle))
		// One node with a way out is enough, since all others of the component lead to it.
		case !slices.ContainsFunc(nodes, func(n int) bool { return c.graph.mayLeave(n, components) }):
			c.reportWarning(site, "", problem.EndlessCycle, "a cycle without a bounded loop or an exit: %s", c.graph.pathOf(cycle))
		}
	}
}

// pathOf writes a cycle, shortened if it is long. Example: a -> b -> c -> a.
func (g *adjacency) pathOf(cycle []int) string {
	const most = 10
	names := make([]string, 0, most+2)
	for _, n := range cycle[:min(most, len(cycle))] {
		names = append(names, string(g.nodes[n].ID))
	}
	if len(cycle) > most {
		names = append(names, "...")
	}
	return strings.Join(append(names, string(g.nodes[cycle[0]].ID)), " -> ")
}

// mayLeave reports whether a token at node n may go on outside the component of n only, or end: because it fails, or
// because of conditions. It goes by the tiers as routing does, without values: a transition with a condition may or
// may not be taken.
func (g *adjacency) mayLeave(n int, components components) bool {
	stays := func(e edge) bool { return components.of[e.to] == components.of[n] }
	var success []edge
	for _, e := range g.out[n] {
		t := e.transition
		// needs are only followed in a dag, where each cycle is wrong.
		if t == nil {
			continue
		}
		// Any node may fail.
		if (t.Outcome == OnError || t.Outcome == OnAlways) && !stays(e) {
			return true
		}
		if t.Outcome != OnError {
			success = append(success, e)
		}
	}
	slices.SortStableFunc(success, func(a, b edge) int { return cmp.Compare(a.transition.Priority, b.transition.Priority) })
	// One turn looks at one tier, the lowest that is left.
	for len(success) > 0 {
		// How many edges have the lowest priority that is left.
		tier := 1
		for tier < len(success) && success[tier].transition.Priority == success[0].transition.Priority {
			tier++
		}
		certain, inside, outside := summarizeTier(success[:tier], stays)
		// Conditions may choose the way out alone. If a transition that stays is always taken too, a token stays in
		// any case.
		if outside && !inside {
			return true
		}
		// No later tier is looked at if something in this one is always taken.
		if certain {
			return false
		}
		success = success[tier:]
	}
	return true
}

// summarizeTier says of the edges of one tier whether one is certainly taken, whether one that stays is, and whether
// one leaves. A loop may be at its bound and a list may be empty, so that neither is certain.
func summarizeTier(tier []edge, stays func(edge) bool) (certain, inside, outside bool) {
	for _, e := range tier {
		t := e.transition
		unconditional := t.Condition == "" && t.Loop == nil && t.Foreach == nil
		certain = certain || unconditional
		inside = inside || unconditional && stays(e)
		outside = outside || !stays(e)
	}
	return certain, inside, outside
}

// maxLoops bounds the memory that the natural loops of a definition take, in words of 64 bits. That is 16 MiB, such
// as 13,000 loops in a definition of 10,000 nodes.
const maxLoops = 2 << 20

// checkLoops checks that the natural loops of all transitions with a loop fit. They are found when the graph is
// built, which must not run out of memory for a definition that was found valid.
func (c *checker) checkLoops() {
	words := (len(c.def.Nodes) + 63) / 64
	total := 0
	for i := range c.def.Transitions {
		if c.def.Transitions[i].Loop == nil {
			continue
		}
		if total += words; total > maxLoops {
			c.reportProblem(c.atTransition(i), "loop", problem.TooLarge, "the loops up to here are too many for a definition of %d nodes: at most %d", len(c.def.Nodes), maxLoops/words)
			return
		}
	}
}

// maxReach bounds the memory that reach takes, in words of 64 bits.
const maxReach = 8 << 20

// checkReach checks that the reachability of all synchronizing joins fits. There is a set for each incoming
// transition: many such joins in a large definition would take memory in proportion to its square.
func (c *checker) checkReach() {
	words := (len(c.def.Nodes) + 63) / 64
	total := 0
	for i := range c.def.Nodes {
		n := &c.def.Nodes[i]
		if n.Join != JoinSynchronize {
			continue
		}
		if total += c.graph.countIncoming(n.ID) * words; total > maxReach {
			c.reportProblem(c.atNode(i), "join", problem.TooLarge, "the joins: synchronize up to here have too many incoming transitions for a definition of %d nodes", len(c.def.Nodes))
			return
		}
	}
}

package layout

// breakCycles turns the back edges of a depth-first search around, and sets self loops
// apart. The search begins at nodes to which nothing leads, and follows edges in their
// order, so that what is written first leads down.
//
// All later steps need a graph without cycles, which only leads down: they take the direction of an edge from tailOf and headOf, and
// never from From and To. Afterwards reversed, loops, out and in are set, and none of them changes any more.
//
// In a -> b -> c -> a with a written first, c -> a is turned around: it is drawn from a down to c, with the arrow at a. Which edges
// are turned around is not the least number possible, which would be hard to find; it is what people read as the way back.
func (t *tangle) breakCycles() {
	n := len(t.graph.Nodes)
	leaving, entered := make([][]int, n), make([]bool, n)
	t.loops = make([][]int, n)
	for e, edge := range t.graph.Edges {
		if edge.From == edge.To {
			t.loops[edge.From] = append(t.loops[edge.From], e)
			continue
		}
		// A self loop is drawn beside its node: it must not make the node one that something leads to.
		leaving[edge.From] = append(leaving[edge.From], e)
		entered[edge.To] = true
	}
	// 0 is a node that was not visited, active one that the search is below, and done one that it has left. Only an edge to an active
	// node closes a cycle.
	const (
		active = 1
		done   = 2
	)
	state := make([]int8, n)
	var visit func(v int)
	visit = func(v int) {
		state[v] = active
		for _, e := range leaving[v] {
			switch w := t.graph.Edges[e].To; state[w] {
			case active:
				t.reversed[e] = true
			case 0:
				visit(w)
			}
		}
		state[v] = done
	}
	// Nodes to which nothing leads come first. The rest are cycles to which nothing leads: their first node begins.
	for _, first := range []bool{true, false} {
		for v := range n {
			if state[v] == 0 && entered[v] != first {
				visit(v)
			}
		}
	}
	t.indexEdges()
}

// indexEdges notes which edges leave and enter each node, as they are taken.
//
// It follows the turned edges, so it comes after the search. The order of the edges of a node is that of Graph.Edges, on which the
// drawing depends: it is the same for the same graph.
func (t *tangle) indexEdges() {
	n := len(t.graph.Nodes)
	t.out, t.in = make([][]int, n), make([][]int, n)
	for e, edge := range t.graph.Edges {
		if edge.From != edge.To {
			t.out[t.tailOf(e)] = append(t.out[t.tailOf(e)], e)
			t.in[t.headOf(e)] = append(t.in[t.headOf(e)], e)
		}
	}
}

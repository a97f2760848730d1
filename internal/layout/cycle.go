package layout

// breakCycles turns the back edges of a depth-first search around, and sets self loops
// apart. The search begins at nodes to which nothing leads, and follows edges in their
// order, so that what is written first leads down.
func (t *tangle) breakCycles() {
	n := len(t.graph.Nodes)
	leaving, entered := make([][]int, n), make([]bool, n)
	t.loops = make([][]int, n)
	for e, edge := range t.graph.Edges {
		if edge.From == edge.To {
			t.loops[edge.From] = append(t.loops[edge.From], e)
			continue
		}
		leaving[edge.From] = append(leaving[edge.From], e)
		entered[edge.To] = true
	}
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

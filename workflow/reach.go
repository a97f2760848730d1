package workflow

// maxReach bounds the memory that reach takes, in words of 64 bits.
const maxReach = 8 << 20

// reach finds, for each transition into a node with join: synchronize, the nodes
// from which it can be reached without passing that node.
func (b *builder) reach() {
	g := b.graph
	if len(g.Synchronize) == 0 {
		return
	}
	a := newAdjacency(g.Definition)
	incoming := a.incomingNodes()
	for _, n := range g.Synchronize {
		n.Reach = make([][]uint64, len(n.Incoming))
		for i, t := range n.Incoming {
			body := loopBody{set: make([]uint64, (len(a.nodes)+63)/64)}
			for work := []int{a.index[t.From]}; len(work) > 0; {
				at := work[len(work)-1]
				work = work[:len(work)-1]
				if body.add(at) && at != n.Index {
					work = append(work, incoming[at]...)
				}
			}
			n.Reach[i] = body.set
		}
	}
}

// Reaches reports whether a token at node from can still come to take incoming
// transition i of n, a node with join: synchronize, without passing n. It is false
// for other nodes.
func (n *GraphNode) Reaches(i int, from *GraphNode) bool {
	if i < 0 || i >= len(n.Reach) {
		return false
	}
	return n.Reach[i][from.Index/64]&(1<<(from.Index%64)) != 0
}

// synchronizable checks that the reachability of all synchronizing joins fits.
func (c *checker) synchronizable() {
	words := (len(c.def.Nodes) + 63) / 64
	total := 0
	for i := range c.def.Nodes {
		n := &c.def.Nodes[i]
		if n.Join != JoinSynchronize {
			continue
		}
		if total += c.graph.incoming(n.ID) * words; total > maxReach {
			c.report(c.atNode(i), "join", ProblemTooLarge, "the joins: synchronize up to here have too many incoming transitions for a definition of %d nodes", len(c.def.Nodes))
			return
		}
	}
}

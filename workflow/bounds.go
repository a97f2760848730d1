package workflow

import (
	"cmp"
	"math"
)

// Bounds say how large a definition may be. The zero value of a field is the
// default: [MaxNodes], [MaxTransitions] and [MaxDefinitionBytes]. The methods do
// what the functions of the same names do, which have the default bounds.
type Bounds struct {
	Nodes       int
	Transitions int // with those that needs is short for
	Bytes       int // of the definition as text
}

// Boundless are the bounds of definitions that were found valid before.
func Boundless() Bounds {
	return Bounds{Nodes: math.MaxInt, Transitions: math.MaxInt, Bytes: math.MaxInt}
}

func (b Bounds) withDefaults() Bounds {
	return Bounds{
		Nodes: cmp.Or(b.Nodes, MaxNodes), Transitions: cmp.Or(b.Transitions, MaxTransitions),
		Bytes: cmp.Or(b.Bytes, MaxDefinitionBytes),
	}
}

// Compile validates d within the bounds and returns its graph; see [Compile].
func (b Bounds) Compile(d *Definition) (*Graph, error) { return b.compileGraph(d) }

// tooLarge finds that there is more of d than its bounds allow.
func (c *checker) tooLarge(s site) {
	d := c.def
	if n, most := len(d.Nodes), c.bounded.Nodes; n > most {
		c.reportProblem(s, "nodes", ProblemTooLarge, "%d nodes are more than %d", n, most)
	}
	n := len(d.Transitions)
	for i := range d.Nodes {
		n += len(d.Nodes[i].Needs)
	}
	if most := c.bounded.Transitions; n > most {
		c.reportProblem(s, "transitions", ProblemTooLarge, "%d transitions are more than %d", n, most)
	}
}

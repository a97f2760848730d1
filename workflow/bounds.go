package workflow

import (
	"cmp"
	"math"

	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/problem"
)

// Bounds say how large a definition may be. The zero value of a field is the
// default. The methods are like the functions of the same names, which use
// the default bounds.
//
// The cost of reading and checking a definition grows with its size: up to about 200 times its bytes of memory
// while YAML is read, half as much for JSON; up to 6 ms of a processor for each KiB of expressions, and 40 times
// their size in memory while the definition is cached; 0.1 ms and 1 KiB for each subschema of a JSON Schema.
// A host that takes definitions from people it does not trust should set lower bounds, and parse their texts with
// these methods.
type Bounds struct {
	Nodes       int // 10,000 by default
	Transitions int // including those that needs stands for: 50,000
	Bytes       int // size of the definition as text: 4 MiB
	Expressions int // bytes of source of all expressions, each distinct one once: 1 MiB
	Subschemas  int // in all JSON Schemas together: 50,000

	elements
}

// boundless are the bounds of definitions that were found valid before. A run that began under wider bounds must
// still be read when they are lowered. compiled.Boundless has the same.
func boundless() Bounds {
	return Bounds{Nodes: math.MaxInt, Transitions: math.MaxInt, Bytes: math.MaxInt, Expressions: math.MaxInt, Subschemas: math.MaxInt}
}

// isBoundless reports whether the bounds are those of definitions that were found valid before, by rules that may have been
// more lenient.
func (b Bounds) isBoundless() bool { return b == boundless() }

// withDefaults returns the bounds with the default in each field that is 0.
func (b Bounds) withDefaults() Bounds {
	return Bounds{
		Nodes: cmp.Or(b.Nodes, limits.MaxNodes), Transitions: cmp.Or(b.Transitions, limits.MaxTransitions),
		Bytes: cmp.Or(b.Bytes, limits.MaxDefinitionBytes), Expressions: cmp.Or(b.Expressions, limits.MaxExpressionBytes),
		Subschemas: cmp.Or(b.Subschemas, limits.MaxAllSubschemas),
	}
}

// tooLarge finds that there is more of d than its bounds allow. The bytes are checked elsewhere: of a text as it is
// read, of a Go value when it is written as JSON.
func (c *checker) tooLarge(s site) {
	d := c.def
	if n, most := len(d.Nodes), c.bounded.Nodes; n > most {
		c.reportProblem(s, "nodes", problem.TooLarge, "%d nodes are more than %d", n, most)
	}
	n := len(d.Transitions)
	for i := range d.Nodes {
		n += len(d.Nodes[i].Needs)
	}
	if most := c.bounded.Transitions; n > most {
		c.reportProblem(s, "transitions", problem.TooLarge, "%d transitions are more than %d", n, most)
	}
}

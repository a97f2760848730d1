package workflow

import (
	"slices"

	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/limits"
)

// variables are those that an expression may use. Which of them are bound depends on the place of the expression.
// That an expression names one of them is checked when it is compiled; that it is bound at the place of the
// expression is the checker's business.
var variables = []string{
	"input", "state", "output", "result", "error", "nodes", "item", "index",
	"branch", "run", "active", "count", "now", "payload",
}

// A compiler compiles the expressions of one definition, each source once. Definitions repeat their expressions, such
// as result, and to compile one takes milliseconds. A checker and the builder after it share one compiler. It is not
// for several goroutines.
type compiler struct {
	expressions *expr.Compiler
	variables   []string
	programs    map[string]compiled
}

// compiled is what became of one source. An error is kept like a program: a wrong expression that stands in a hundred
// places is compiled once.
type compiled struct {
	program *expr.Program
	err     error
}

// newCompiler returns a compiler that knows the variables and the limits of d. Names of foreach elements that cannot
// be variables are left out. The elements of all foreach are variables of every expression: whether a token is within
// one is known in a run only.
func newCompiler(d *Definition) *compiler {
	own := d.Limits.withDefaults(DefaultLimits())
	// Several foreach may give their elements the same name.
	names := map[string]bool{}
	for i := range d.Transitions {
		if f := d.Transitions[i].Foreach; f != nil && variableProblem(f.As) == "" {
			names[f.As] = true
		}
	}
	return &compiler{
		expressions: expr.NewCompiler(expr.Limits{Cost: own.CELCost, Source: limits.MaxExpression, Depth: own.JSONDepth}),
		variables:   append(slices.Clone(variables), sortedKeys(names)...),
		programs:    map[string]compiled{},
	}
}

// compileSource compiles source. The error is an *expr.Error.
func (c *compiler) compileSource(source string) (*expr.Program, error) {
	done, ok := c.programs[source]
	if !ok {
		done.program, done.err = c.expressions.Compile(source, c.variables)
		c.programs[source] = done
	}
	return done.program, done.err
}

// allPrograms returns the programs of all sources that were compiled, by source.
func (c *compiler) allPrograms() programs {
	out := make(programs, len(c.programs))
	for source, done := range c.programs {
		out[source] = done.program
	}
	return out
}

package workflow

import "github.com/pawl-run/pawl/internal/expr"

// A Graph is a valid definition, as [Compile] returns it. Pass it in [Run] to start runs without checking the
// definition again. It is immutable, and goroutines of many runs may read it at once.
type Graph struct {
	Definition *Definition
	JSON       string    // the definition, canonical
	Hash       string    // its SHA-256, in hexadecimal
	Limits     Limits    // with the engine's defaults filled in
	Warnings   []Problem // warnings of the definition, with places in the compiled text

	programs
}

// programs are the compiled expressions of a definition, by source, which package internal/compiled asks for.
type programs map[string]*expr.Program

// Program returns the program of an expression; ok is false for a text that is no expression of the definition. Only packages of this module
// have a pass.
func (p programs) Program(_ expr.Pass, source string) (program *expr.Program, ok bool) {
	program, ok = p[source]
	return program, ok
}

// Compile validates d and returns its graph, which holds a copy of d with its
// defaults filled in. The error is a *DefinitionError. The data that d refers to must not be modified afterwards.
func Compile(d *Definition) (*Graph, error) { return Bounds{}.Compile(d) }

// Compile validates d within the bounds and returns its graph; see [Compile]. A definition is completed, checked and only then compiled.
func (b Bounds) Compile(d *Definition) (*Graph, error) {
	// The graph keeps the completed copy. The parts that it shares with d must not change any more.
	d = d.completed()
	c := newChecker(d)
	c.bounded = b.withDefaults()
	problems := c.checkAll() // warnings alone, if it is valid
	if err := d.errorOf(problems); err != nil {
		return nil, err
	}
	return &Graph{Definition: d, JSON: c.json, Hash: c.hash, Limits: c.limits, Warnings: problems, programs: c.compiler.allPrograms()}, nil
}

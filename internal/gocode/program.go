package gocode

import (
	"reflect"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/workflow"
)

func isSame(a, b any) bool { return reflect.DeepEqual(a, b) }

// typeOfProgram returns the type of an expression's value at a node: that of its result, if that is known whatever the variables
// are, or what a schema says of the part that it names.
func (w *packageWriter) typeOfProgram(p *expr.Program, n *compiled.Node) goType {
	if p == nil {
		return anything
	}
	switch p.Type() {
	case "string":
		return goType{text: "string"}
	case "boolean":
		return goType{text: "bool"}
	case "integer":
		return goType{text: "int64"}
	case "number":
		return goType{text: "float64"}
	}
	refs := p.References()
	if len(refs) != 1 || strings.Join(refs[0], ".") != strings.TrimSpace(p.Source()) {
		return anything
	}
	return w.typeOfChain(refs[0], n)
}

// typeOfChain returns the type of a part of a run's data.
func (w *packageWriter) typeOfChain(chain []string, n *compiled.Node) goType {
	d := w.graph.Definition
	switch {
	case chain[0] == "input":
		return w.typeBelow("Input", "#", chain[1:])
	case chain[0] == "state" && d.State.Schema != nil:
		w.useRoot("State", d.State.Schema)
		return w.typeBelow("State", "#", chain[1:])
	case chain[0] == "run" && len(chain) == 2 && (chain[1] == "id" || chain[1] == "workflow"):
		return goType{text: "string"}
	case chain[0] == "nodes" && len(chain) > 2 && chain[2] == "output":
		return w.typeOfResult(w.graph.Nodes[workflow.NodeID(chain[1])], chain[3:])
	case chain[0] == "result" && n != nil:
		return w.typeOfEntry(n, chain[1:])
	case n != nil && len(n.Incoming) == 1 && n.Incoming[0].Foreach != nil:
		return w.typeOfElement(chain, n.Incoming[0])
	}
	return anything
}

// typeOfEntry returns the type of a part of the result with which a node begins: that of the nodes before it, if they have one schema, with
// null where the node is the start or behind a failure. A node with a join, and each of a dag, begins without one.
func (w *packageWriter) typeOfEntry(n *compiled.Node, steps []string) goType {
	d := w.graph.Definition
	if len(n.Incoming) == 0 || n.Join != workflow.JoinNone || d.Mode == workflow.ModeDAG {
		return anything
	}
	before, hasNull := w.graph.Nodes[n.Incoming[0].From], n.ID == d.Start
	for _, t := range n.Incoming {
		if t.Synchronization != nil || !isSame(w.graph.Nodes[t.From].OutputSchema, before.OutputSchema) {
			return anything
		}
		hasNull = hasNull || t.Outcome == workflow.OnError || t.Outcome == workflow.OnAlways
	}
	t := w.typeOfResult(before, steps)
	if hasNull && len(steps) == 0 {
		return t.orNil()
	}
	return t
}

// typeOfResult returns the type of a part of a node's result.
func (w *packageWriter) typeOfResult(n *compiled.Node, steps []string) goType {
	if n == nil || n.OutputSchema == nil {
		return anything
	}
	return w.typeBelow(w.useResult(n), "#", steps)
}

// typeOfElement returns the type of a part of the element that a branch is for.
func (w *packageWriter) typeOfElement(chain []string, t *compiled.Transition) goType {
	refs := t.Collection.References()
	isElement := chain[0] == "item" || chain[0] == t.Foreach.As
	if !isElement || len(refs) != 1 || strings.Join(refs[0], ".") != strings.TrimSpace(t.Foreach.Collection) {
		return anything
	}
	steps := slices.Concat(refs[0][1:], []string{elementStep}, chain[1:])
	switch refs[0][0] {
	case "input":
		return w.typeBelow("Input", "#", steps)
	case "state":
		w.useRoot("State", w.graph.Definition.State.Schema)
		return w.typeBelow("State", "#", steps)
	case "result":
		return w.typeOfResult(w.graph.Nodes[t.From], steps)
	}
	return anything
}

// elementStep goes into the elements of a list; no field is called so.
const elementStep = "\x00"

// useRoot makes a schema known whose root has no type.
func (w *packageWriter) useRoot(name string, schema any) {
	w.roots[name] = schema
	w.names[name] = true
}

// typeBelow goes along steps from a place of a schema, through what refers to another place, and returns the type there.
func (w *packageWriter) typeBelow(root, pointer string, steps []string) goType {
	for range maxSteps {
		schema, _ := lookUp(w.roots[root], pointer)
		m, ok := schema.(map[string]any)
		if !ok {
			return anything
		}
		if len(steps) == 0 {
			return w.typeAt(root, pointer)
		}
		if w.countParts(root, m, steps[0], map[string]bool{}) > 1 {
			return anything
		}
		if ref, ok := m["$ref"].(string); ok && strings.HasPrefix(ref, "#") && partAt(m, steps[0]) == nil {
			pointer = ref
			continue
		}
		if steps[0] == elementStep {
			pointer += "/items"
		} else {
			pointer += "/properties/" + escapePointer(steps[0])
		}
		steps = steps[1:]
	}
	return anything
}

// partAt returns what a schema itself says of a step, or nil.
func partAt(m map[string]any, step string) any {
	if step == elementStep {
		return m["items"]
	}
	return partOf(m, "properties")[step]
}

// countParts returns how many parts of a schema describe a step, each place that they refer to once.
func (w *typeWriter) countParts(root string, schema any, step string, seen map[string]bool) int {
	m, _ := schema.(map[string]any)
	n := 0
	if partAt(m, step) != nil {
		n++
	}
	if ref, ok := m["$ref"].(string); ok && !seen[ref] {
		seen[ref] = true
		target, _ := lookUp(w.roots[root], ref)
		n += w.countParts(root, target, step, seen)
	}
	for _, keyword := range severals {
		list, _ := m[keyword].([]any)
		for _, part := range list {
			n += w.countParts(root, part, step, seen)
		}
	}
	return n
}

// maxSteps bounds how far a part of a schema may be from its root.
const maxSteps = 1000

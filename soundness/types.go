package soundness

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// checkTypes evaluates the expressions that read only data described by schemas, with values
// that the schemas allow. An expression that fails with all of them does not fit its schemas.
//
// Only expressions are checked all of whose references a schema describes, and whatever a run
// does to state is taken to fit the schema of state. The input mappings of a node read the
// result of the node before, which is known only if a single transition leads here and joins
// nothing.
func (c *checker) checkTypes() {
	g := c.graph
	for i := range g.Definition.Nodes {
		if c.isStopped() {
			return
		}
		n := g.Node(g.Definition.Nodes[i].ID)
		for _, m := range n.Output {
			c.checkType(n, "", "output "+m.Name, m.Program, n.Node.OutputSchema, false)
		}
		for _, t := range n.Outgoing {
			c.checkType(n, t.ID, "condition", t.Condition, n.Node.OutputSchema, true)
			c.checkType(n, t.ID, "foreach.collection", t.Collection, n.Node.OutputSchema, false)
		}
		var before any // of what is left when the node is entered
		if len(n.Incoming) == 1 && n.Incoming[0].Joins == nil {
			before = g.Node(n.Incoming[0].From).Node.OutputSchema
		}
		for _, m := range n.Input {
			c.checkType(n, "", "input "+m.Name, m.Program, before, false)
		}
		c.checkType(n, "", "the choice of "+string(n.Kind), n.Choice, before, false)
	}
	for _, m := range g.Output {
		c.checkType(&compiled.Node{Node: &workflow.Node{}}, "", "output.mapping "+m.Name, m.Program, nil, false)
	}
}

// checkType evaluates one expression, whose result has a schema.
//
// It is careful not to accuse: one sample with which the expression works, or fails for another
// reason than its types, such as a limit, acquits it.
func (c *checker) checkType(n *compiled.Node, t workflow.TransitionID, field string, p *expr.Program, result any, condition bool) {
	if p == nil {
		return
	}
	d := c.graph.Definition
	schemas := map[string]any{"input": d.Input.Schema, state.SectionState: d.State.Schema, "result": result}
	vars := []expr.Map{{}}
	for _, ref := range p.References() {
		schema := schemas[ref[0]]
		if schema == nil || isOpenAt(schema, ref[1:]) {
			return // nothing says what it is
		}
		if _, done := vars[0][ref[0]]; done {
			continue
		}
		vars = withSamples(vars, ref[0], schema)
	}
	var last *expr.Error
	for _, v := range vars {
		if c.isStopped() {
			return // a sample that was not tried might acquit it
		}
		var err error
		if condition {
			_, err = p.EvalBool(v)
		} else {
			_, err = p.Eval(v)
		}
		if err == nil || !errors.As(err, &last) || last.Code != expr.CodeExpression {
			return
		}
	}
	if last == nil || len(p.References()) == 0 {
		return
	}
	c.addFinding(Finding{
		Code: ExpressionType, Node: n.ID, Transition: t, source: p.Source(),
		Message: fmt.Sprintf("%s: %s does not fit the schemas: %s", field, p.Source(), firstLine(last.Error())),
	})
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// withSamples returns the variables with every sample of a schema for one more of them.
func withSamples(vars []expr.Map, name string, schema any) []expr.Map {
	const most = 64
	var out []expr.Map
	for _, v := range vars {
		for _, x := range samplesOf(schema) {
			if len(out) == most {
				return out
			}
			next := expr.Map{name: x}
			for k, y := range v {
				next[k] = y
			}
			out = append(out, next)
		}
	}
	return out
}

// samplesOf returns values that a schema allows: one with the first value of each field, one
// with the last.
func samplesOf(schema any) []any {
	first := sampleOf(schema)
	second := lastSampleOf(schema)
	if first == nil && second == nil {
		return []any{nil}
	}
	return distinct([]any{first, second})
}

// lastSampleOf is sampleOf with the last value of each pool.
func lastSampleOf(schema any) any {
	m, ok := schema.(map[string]any)
	if !ok {
		return nil
	}
	if properties, ok := m["properties"].(map[string]any); ok {
		out := map[string]any{}
		for name, p := range properties {
			if x := lastSampleOf(p); x != nil {
				out[name] = x
			}
		}
		return out
	}
	if pool := schemaPool(schema); len(pool) > 0 {
		return pool[len(pool)-1]
	}
	return nil
}

// forbids reports whether a schema says that a field is never there: a value that has it is refused.
func forbids(schema any, path []string) bool {
	for _, key := range path {
		m, ok := schema.(map[string]any)
		if !ok {
			return false
		}
		properties, has := m["properties"].(map[string]any)
		next, listed := properties[key]
		if !listed {
			return m["type"] != nil && m["type"] != "object" || has && m["additionalProperties"] == false
		}
		schema = next
	}
	return false
}

// isOpenAt reports whether a schema does not say what a field is: it has no type there, or it
// allows fields that it does not list.
func isOpenAt(schema any, path []string) bool {
	for _, key := range path {
		m, ok := schema.(map[string]any)
		if !ok {
			return true
		}
		properties, has := m["properties"].(map[string]any)
		next, listed := properties[key]
		switch {
		case listed:
			schema = next
		case m["type"] != nil && m["type"] != "object":
			return false // a field of what has none
		case has && m["additionalProperties"] == false:
			return false // a field that there never is
		default:
			return true
		}
	}
	m, ok := schema.(map[string]any)
	if !ok {
		return true
	}
	_, isText := m["type"].(string)
	return !isText && m["enum"] == nil && m["const"] == nil || len(schemaPool(schema)) == 0
}

package soundness

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// checkTypes evaluates the expressions that read only data described by schemas, with a value of
// each type that the schemas allow. An expression that fails with all of them because of their
// types does not fit its schemas.
//
// Only expressions are checked all of whose references a schema describes, and whatever a run
// does to state is taken to fit the schema of state. The input mappings of a node read the
// result of the node before, which is known only if a single transition leads here, after a
// success, and joins nothing, no run begins here, and there is no dag, where that result is null.
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
			var after any // a failure has no result
			if isAfterSuccess(t) {
				after = n.Node.OutputSchema
			}
			c.checkType(n, t.ID, "condition", t.Condition, after, true)
			c.checkType(n, t.ID, "foreach.collection", t.Collection, after, false)
		}
		var before any // of what is left when the node is entered
		if len(n.Incoming) == 1 && n.Incoming[0].Joins == nil && isAfterSuccess(n.Incoming[0]) && n.ID != g.Definition.Start && g.Definition.Mode != workflow.ModeDAG {
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

func isAfterSuccess(t *compiled.Transition) bool {
	return t.Outcome != workflow.OnError && t.Outcome != workflow.OnAlways
}

// checkType evaluates one expression, whose result has a schema.
//
// It is careful not to accuse: one sample with which the expression works, or fails for another
// reason than its types, acquits it. Such reasons are a limit, a text that is no number, or an index.
func (c *checker) checkType(n *compiled.Node, t workflow.TransitionID, field string, p *expr.Program, result any, condition bool) {
	// An expression may ask whether a field is there: no sample is without one.
	if p == nil || len(p.References()) == 0 || optional.MatchString(p.Source()) {
		return
	}
	d := c.graph.Definition
	schemas := map[string]any{"input": d.Input.Schema, state.SectionState: d.State.Schema, "result": result}
	y := &typing{check: c, compiler: expr.NewCompiler(expr.Limits{}), schemas: schemas, refs: p.References()}
	for _, ref := range y.refs {
		if schema := schemas[ref[0]]; schema == nil || isOpenAt(schema, ref[1:]) {
			return // nothing says what it is
		}
	}
	y.samples = y.drawSamples()
	last := y.failureOf(p, condition)
	if last == nil || !y.alwaysFails(p.Source(), condition) {
		return
	}
	line, _, _ := strings.Cut(last.Error(), "\n")
	c.addFinding(Finding{
		Code: ExpressionType, Node: n.ID, Transition: t, source: p.Source(),
		Message: fmt.Sprintf("%s: %s does not fit the schemas: %s", field, p.Source(), line),
	})
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
			return !allowsObject(m) || has && m["additionalProperties"] == false && m["patternProperties"] == nil
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
		case !allowsObject(m):
			return false // a field of what has none
		case has && m["additionalProperties"] == false && m["patternProperties"] == nil:
			return false // a field that there never is
		default:
			return true
		}
	}
	m, ok := schema.(map[string]any)
	if !ok {
		return true
	}
	return m["type"] == nil && m["enum"] == nil && m["const"] == nil
}

// allowsObject reports whether a schema lets an object through, as far as its type says.
func allowsObject(m map[string]any) bool {
	list, several := m["type"].([]any)
	return m["type"] == nil || m["type"] == "object" || several && slices.Contains(list, any("object"))
}

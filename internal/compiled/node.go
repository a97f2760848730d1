package compiled

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/schema"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// compileProgram returns the program of source, nil if it is empty. Package workflow has compiled it as it was checked.
func (b *builder) compileProgram(source string) *expr.Program {
	if source == "" {
		return nil
	}
	p, ok := b.graph.Program(expr.Pass{}, source)
	if !ok {
		b.keepError(fmt.Errorf("the expression %.100q was not checked", source))
		return nil
	}
	// This is the only way by which an expression comes into a graph, so that no reference is missed.
	b.refs = append(b.refs, p.References()...)
	return p
}

// compileSchema compiles a schema that is checked as a whole; nil gives nil.
func (b *builder) compileSchema(doc any) *schema.Schema {
	s, err := schema.Compile(doc)
	if err != nil {
		b.keepError(err)
	}
	return s
}

// compileSchemas compiles what the definition says of input, output and state.
func (b *builder) compileSchemas() {
	g, d := b.graph, b.graph.Definition
	g.InputSchema = b.compileSchema(d.Input.Schema)
	g.OutputSchema = b.compileSchema(d.Output.Schema)
	// An empty mapping gives an empty output; without one, the output section is the output.
	if d.Output.Mapping != nil {
		g.Output = b.compileMappings(d.Output.Mapping, false)
	}
	b.compileStateSchema(d.State.Schema)
}

// compileStateSchema compiles the schema of state, and its parts for single writes. The parts are compiled from one
// source, so that a $ref in one of them finds what the others define.
func (b *builder) compileStateSchema(doc any) {
	g := b.graph
	source, err := schema.NewSource(doc)
	if err != nil {
		b.keepError(err)
		return
	}
	// Without keys it is the whole.
	part := func(keys ...string) *schema.Schema {
		s, err := source.At(keys...)
		if err != nil {
			b.keepError(err)
		}
		return s
	}
	g.StateSchema = part()
	g.properties, g.elements = map[string]*schema.Schema{}, map[string]*schema.Schema{}
	root, _ := doc.(map[string]any)
	properties, _ := root["properties"].(map[string]any)
	// A property without a schema of its own is free until the state is checked as a whole.
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		g.properties[name] = part("properties", name)
		if m, ok := properties[name].(map[string]any); ok && m["items"] != nil {
			g.elements[name] = part("properties", name, "items")
		}
	}
}

// compileMappings compiles fields or targets in the order of their names. Targets are paths into state or output;
// fields are names, into which no path leads.
func (b *builder) compileMappings(m map[string]string, targets bool) []Mapping {
	out := make([]Mapping, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		next := Mapping{Name: name, Program: b.compileProgram(m[name])}
		if targets {
			path, err := value.ParsePath(name)
			if err != nil {
				b.keepError(err)
			}
			next.Path = path
		}
		out = append(out, next)
	}
	return out
}

// addNodes makes the graph's nodes, with what concerns one node alone: its programs, its schema and its policies with
// their defaults.
func (b *builder) addNodes() {
	d := b.graph.Definition
	for i := range d.Nodes {
		n := &d.Nodes[i]
		gn := &Node{Node: n, Index: i, Kind: n.Kind(), Choice: b.compileProgram(choiceSource(n)), Input: b.compileMappings(n.Input, false), Output: b.compileMappings(n.Output, true)}
		// A result is checked against it before it is mapped.
		gn.Schema = b.compileSchema(n.OutputSchema)
		if gn.Approval = approvalWithDefaults(n.Approval); gn.Approval != nil {
			gn.Message = b.compileProgram(n.Approval.MessageExpr)
		}
		if n.End != nil {
			gn.Code, gn.Message = b.compileProgram(n.End.CodeExpr), b.compileProgram(n.End.MessageExpr)
		}
		if n.Wait != nil {
			gn.Waits = b.compileWaits(n.Wait)
			gn.Until = gn.Waits[0].Until
		}
		// Both look for the tokens of one branch, which may be what is outside any group.
		b.graph.TracksRoot = b.graph.TracksRoot || len(n.Cancels) > 0 || n.Join == workflow.JoinSynchronize
		// Nodes are added in definition order, so that this list is in it too: of joins that wait for each other the
		// first fires.
		if n.Join == workflow.JoinSynchronize {
			b.graph.Synchronize = append(b.graph.Synchronize, gn)
		}
		gn.AsksResult = asksResult(gn)
		// The zero Retry of a node without a policy makes one attempt.
		if r := n.Retry; r != nil {
			gn.Retry = timeout.Retry{MaxAttempts: max(r.MaxAttempts, 1), InitialInterval: r.InitialInterval, BackoffCoefficient: r.BackoffCoefficient, MaxInterval: r.MaxInterval, Jitter: r.Jitter}
			// An operator may retry a parked task with its input evaluated anew. The result of the node before is
			// gone by then, unless it is kept.
			gn.KeepsResult = gn.AsksResult && r.Exhausted == workflow.ExhaustedPark && (len(n.Input) > 0 || gn.Choice != nil)
		}
		b.graph.Nodes[n.ID] = gn
	}
}

// compileWaits returns what a wait node waits for: the things in its list any, or the one that it names itself.
func (b *builder) compileWaits(w *workflow.WaitSpec) []Wait {
	specs := w.Any
	if specs == nil {
		// One thing is a list of one.
		specs = []workflow.WaitSpec{*w}
	}
	out := make([]Wait, len(specs))
	for i := range specs {
		out[i] = Wait{&specs[i], b.compileProgram(specs[i].Until), b.compileProgram(specs[i].Match)}
	}
	return out
}

// findSignals lists the signals that a run takes. A signal of another name is refused, since nobody would ever take
// it, unless its sender says that a patch will add a node.
func (b *builder) findSignals() {
	names := slices.Clone(b.graph.Definition.Signals)
	for _, n := range b.graph.Nodes {
		// The order of the map makes no difference: the names are sorted.
		names = append(names, n.Events()...)
	}
	slices.Sort(names)
	b.graph.Signals = slices.Compact(names)
}

// choiceSource returns the expression that chooses a task type or a subworkflow; "" if none
// does.
func choiceSource(n *workflow.Node) string {
	if n.Subworkflow != nil {
		return n.Subworkflow.NameExpr
	}
	return n.TaskExpr
}

// asksResult reports whether entering a node takes the result of the node left. A branch that may begin later, and a
// node that waits, keep the result only if so.
func asksResult(n *Node) bool {
	asks := func(p *expr.Program) bool {
		return p != nil && slices.ContainsFunc(p.References(), func(ref []string) bool { return ref[0] == "result" })
	}
	// match is evaluated whenever a signal comes, long after the node before has ended.
	for _, w := range n.Waits {
		if asks(w.Until) || asks(w.Match) {
			return true
		}
	}
	return asks(n.Message) || asks(n.Code) || asks(n.Choice) || slices.ContainsFunc(n.Input, func(m Mapping) bool { return asks(m.Program) })
}

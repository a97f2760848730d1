package build

import (
	"maps"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/workflow"
)

// A Builder collects one definition, call by call. The zero Builder has no name, which Definition
// refuses; the methods of a nil Builder do nothing. It must not be used by several goroutines.
type Builder struct {
	definition workflow.Definition
	made       place                     // of the call of New
	places     map[part]map[string]place // by field: of the call that said it
	indices    map[workflow.NodeID]int   // of nodes
	types      map[int]handlerTypes      // of the handlers of nodes, by index
	wrong      []workflow.Problem        // with the calls themselves, which no check of the definition finds
	unreadable []workflow.Problem        // expressions, which the check of the definition finds again
	compiler   *expr.Compiler            // made by the first expression
	read       map[string]string         // expressions: why one cannot be read
}

// New returns a builder for a definition of that name, with version 1.
func New(name string) *Builder {
	return &Builder{definition: workflow.Definition{Name: name}, made: callerPlace()}
}

// Version sets the version, which is positive.
func (b *Builder) Version(n int) *Builder {
	return b.setField("version", func(d *workflow.Definition) { d.Version = n })
}

// DAG makes the definition a dag, whose nodes run at most once, in the order of what they need. With failFast, a failure that nothing
// catches fails the run at once.
func (b *Builder) DAG(failFast bool) *Builder {
	return b.setField("mode", func(d *workflow.Definition) {
		d.Mode = workflow.ModeDAG
		if !failFast {
			d.FailFast = new(false)
		}
	})
}

// StartAt says at which node a run starts, in place of the first one.
func (b *Builder) StartAt(id workflow.NodeID) *Builder {
	return b.setField("start", func(d *workflow.Definition) { d.Start = id })
}

// Input sets the JSON Schema of the input, as a value or from [SchemaOf].
func (b *Builder) Input(schema any) *Builder {
	return b.setField("input", func(d *workflow.Definition) { d.Input.Schema = b.schemaValue(part{}, "input.schema", schema) })
}

// State sets the JSON Schema of the state, nil for none, and its first value.
func (b *Builder) State(schema any, initial map[string]any) *Builder {
	return b.setField("state", func(d *workflow.Definition) {
		d.State.Schema, d.State.Initial = b.schemaValue(part{}, "state.schema", schema), initial
	})
}

// Output adds a field of the run's result, and the expression of its value. Without a field the result is what nodes have written to output.
func (b *Builder) Output(field, expression string) *Builder {
	return b.setField("output.mapping."+field, func(d *workflow.Definition) {
		d.Output.Mapping = withKey(d.Output.Mapping, field, expression)
		b.checkSource(part{}, "output.mapping."+field, expression)
	})
}

// NoOutput makes the result an empty object, whatever nodes have written to output.
func (b *Builder) NoOutput() *Builder {
	return b.setField("output.mapping", func(d *workflow.Definition) { d.Output.Mapping = map[string]string{} })
}

// OutputSchema sets the JSON Schema of the run's result, as a value or from [SchemaOf].
func (b *Builder) OutputSchema(schema any) *Builder {
	return b.setField("output.schema", func(d *workflow.Definition) { d.Output.Schema = b.schemaValue(part{}, "output.schema", schema) })
}

// Timeout bounds the whole run.
func (b *Builder) Timeout(after time.Duration) *Builder {
	return b.setField("timeout", func(d *workflow.Definition) { d.Timeout = after })
}

// Limits lowers the limits of the engine for runs of the definition.
func (b *Builder) Limits(l workflow.Limits) *Builder {
	return b.setField("limits", func(d *workflow.Definition) { d.Limits = l })
}

// Signals adds names of signals that a run keeps, beside those that its nodes wait for.
func (b *Builder) Signals(names ...string) *Builder {
	return b.setField("signals", func(d *workflow.Definition) { d.Signals = slices.Concat(d.Signals, names) })
}

// Group says how the branches of a group meet, for all transitions that join it: see [Transition.Joins]. The name of the group in how may be left out.
func (b *Builder) Group(name string, how workflow.Synchronization) *Builder {
	return b.setField("groups."+name, func(d *workflow.Definition) {
		d.Groups = withKey(d.Groups, name, how)
		if how.Merge != nil {
			b.checkSource(part{}, "groups."+name+".merge.source", how.Merge.Source)
		}
	})
}

// Node returns a node that was made before, to add to it.
func (b *Builder) Node(id workflow.NodeID) Node {
	if b == nil {
		return Node{}
	}
	i, ok := b.indices[id]
	if !ok {
		b.reportWrong(workflow.Problem{Code: problem.Dangling, Node: id, Message: "it is not made yet"})
		return Node{b, -1}
	}
	return Node{b, i}
}

// Task makes a node that the task type of the same name performs; see [Node.Type].
func (b *Builder) Task(id workflow.NodeID) Node {
	return b.Add(workflow.Node{ID: id, Task: string(id)})
}

// Child makes a node that runs the published definition of that name as a child; version 0 is the latest.
func (b *Builder) Child(id workflow.NodeID, name string, version int) Node {
	return b.Add(workflow.Node{ID: id, Subworkflow: &workflow.SubworkflowSpec{Name: name, Version: version}})
}

// Approval makes a node that asks people.
func (b *Builder) Approval(id workflow.NodeID, how workflow.ApprovalSpec) Node {
	return b.Add(workflow.Node{ID: id, Approval: &how})
}

// Wait makes a node that waits for a timer or a signal; for the first of several, if there are several.
func (b *Builder) Wait(id workflow.NodeID, first ...workflow.WaitSpec) Node {
	wait := &workflow.WaitSpec{Any: slices.Clone(first)}
	if len(first) == 1 {
		wait = new(first[0])
	}
	return b.Add(workflow.Node{ID: id, Wait: wait})
}

// Gateway makes a node that only routes.
func (b *Builder) Gateway(id workflow.NodeID) Node { return b.Add(workflow.Node{ID: id}) }

// End makes a node that completes the run at once.
func (b *Builder) End(id workflow.NodeID) Node {
	return b.Add(workflow.Node{ID: id, End: &workflow.EndSpec{}})
}

// Fail makes a node that fails the run at once, with a code and a text.
func (b *Builder) Fail(id workflow.NodeID, code, message string) Node {
	if b != nil && code == "" { // a node without a code completes the run
		b.reportWrong(workflow.Problem{Code: problem.Missing, Node: id, Field: "end.fail", Message: "give the code with which the run fails"})
	}
	return b.Add(workflow.Node{ID: id, End: &workflow.EndSpec{Fail: code, Message: message}})
}

// Add makes a node of any kind, such as a task that an expression chooses.
func (b *Builder) Add(n workflow.Node) Node {
	if b == nil {
		return Node{}
	}
	if first, taken := b.indices[n.ID]; taken {
		b.reportWrong(workflow.Problem{Code: problem.DuplicateID, Node: n.ID, Message: "the node is made already, at " + b.places[partOfNode(first)][""].String()})
		return Node{b, -1}
	}
	i := len(b.definition.Nodes)
	b.definition.Nodes = append(b.definition.Nodes, n)
	b.indices = withKey(b.indices, n.ID, i)
	b.notePlace(partOfNode(i), "")
	for _, e := range expressionsOf(&n) {
		b.checkSource(partOfNode(i), e.field, e.source)
	}
	return Node{b, i}
}

// setField lets a call say something of the definition itself.
func (b *Builder) setField(field string, set func(d *workflow.Definition)) *Builder {
	if b == nil {
		return nil
	}
	if field == "signals" || b.notePlace(part{}, field) {
		set(&b.definition)
	}
	return b
}

// withKey returns a copy of a map with one more key: the maps of a definition that was returned stay as they are.
func withKey[K comparable, V any](m map[K]V, key K, v V) map[K]V {
	out := maps.Clone(m)
	if out == nil {
		out = map[K]V{}
	}
	out[key] = v
	return out
}

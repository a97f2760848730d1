package build

import (
	"slices"
	"time"

	"github.com/pawl-run/pawl/workflow"
)

// A Node is a node of a builder's definition. Its methods say more of it, and return it; the methods that make a
// transition return that, which has the methods of its node as well. To say a thing twice is a problem. The methods of the zero Node do nothing.
type Node struct {
	b *Builder
	i int // its place in the definition; -1 is in none
}

// Type sets the task type that performs the node, if that is not its id.
func (n Node) Type(task string) Node {
	return n.setField("task", func(w *workflow.Node) { w.Task = task })
}

// Input adds a field of the input of the task, child or approval, and the expression of its value.
func (n Node) Input(field, expression string) Node {
	return n.setExpression("input."+field, expression, func(w *workflow.Node) { w.Input = withKey(w.Input, field, expression) })
}

// Output writes the value of an expression to a target below state or output when the node completes, such as
// "state.total" and "result.total".
func (n Node) Output(target, expression string) Node {
	return n.setExpression("output."+target, expression, func(w *workflow.Node) { w.Output = withKey(w.Output, target, expression) })
}

// OutputSchema sets the JSON Schema of the node's result, as a value or from [SchemaOf].
func (n Node) OutputSchema(schema any) Node {
	return n.setField("outputSchema", func(w *workflow.Node) {
		w.OutputSchema = n.b.schemaValue(partOfNode(n.i), "outputSchema", schema)
	})
}

// Retry sets the policy by which failed attempts are repeated.
func (n Node) Retry(policy workflow.RetrySpec) Node {
	return n.setField("retry", func(w *workflow.Node) { w.Retry = &policy })
}

// Timeout bounds an attempt of a task or child, or how long an approval or a signal is waited for.
func (n Node) Timeout(after time.Duration) Node {
	return n.setField("timeout", func(w *workflow.Node) { w.Timeout = after })
}

// Heartbeat bounds the time between heartbeats of a running task.
func (n Node) Heartbeat(silence time.Duration) Node {
	return n.setField("heartbeat", func(w *workflow.Node) { w.Heartbeat = silence })
}

// Priority orders ready tasks, 0 first.
func (n Node) Priority(p int) Node {
	return n.setField("priority", func(w *workflow.Node) { w.Priority = p })
}

// Lock names a lock that is held while a token is at the node.
func (n Node) Lock(name string) Node {
	return n.setField("lock", func(w *workflow.Node) { w.Lock = name })
}

// Join says how the node waits for its incoming transitions. The branches of a group meet on a transition: see [Transition.Joins].
func (n Node) Join(how workflow.Join) Node {
	return n.setField("join", func(w *workflow.Node) { w.Join = how })
}

// Cancels ends the live tokens at these nodes when the node completes.
func (n Node) Cancels(ids ...workflow.NodeID) Node {
	return n.setField("cancels", func(w *workflow.Node) { w.Cancels = slices.Clone(ids) })
}

// Unmatched says what happens when no transition matches.
func (n Node) Unmatched(what workflow.Unmatched) Node {
	return n.setField("unmatched", func(w *workflow.Node) { w.Unmatched = what })
}

// Needs lets the node of a dag run after these nodes.
func (n Node) Needs(ids ...workflow.NodeID) Node {
	return n.setField("needs", func(w *workflow.Node) { w.Needs = slices.Clone(ids) })
}

// Budget sets aside what an attempt may report under a name of [workflow.Limits].Meta, such as cost.
func (n Node) Budget(name string, most float64) Node {
	return n.setField("budget."+name, func(w *workflow.Node) { w.Budget = withKey(w.Budget, name, most) })
}

// To makes a transition to a node, which is followed when this one completes.
func (n Node) To(id workflow.NodeID) Transition { return n.addTransition(workflow.Transition{To: id}) }

// Else makes a transition that is followed when no transition matches of those that the node has so far.
func (n Node) Else(id workflow.NodeID) Transition {
	t := workflow.Transition{To: id}
	if n.isMade() {
		for i := range n.b.definition.Transitions {
			if other := &n.b.definition.Transitions[i]; other.From == n.b.definition.Nodes[n.i].ID && other.Outcome != workflow.OnError {
				t.Priority = max(t.Priority, other.Priority+1)
			}
		}
	}
	return n.addTransition(t)
}

// Catch makes a transition that is followed when the node has failed with one of the codes; with any, if there are none.
func (n Node) Catch(id workflow.NodeID, codes ...string) Transition {
	return n.addTransition(workflow.Transition{To: id, Outcome: workflow.OnError, Errors: slices.Clone(codes)})
}

// Always makes a transition that is followed when the node has completed, and when it has failed with one of the codes; with any, if there are none.
func (n Node) Always(id workflow.NodeID, codes ...string) Transition {
	return n.addTransition(workflow.Transition{To: id, Outcome: workflow.OnAlways, Errors: slices.Clone(codes)})
}

func (n Node) isMade() bool { return n.b != nil && n.i >= 0 && n.i < len(n.b.definition.Nodes) }

// setField lets a call say something of the node.
func (n Node) setField(field string, set func(w *workflow.Node)) Node {
	if n.isMade() && n.b.notePlace(partOfNode(n.i), field) {
		set(&n.b.definition.Nodes[n.i])
	}
	return n
}

func (n Node) setExpression(field, source string, set func(w *workflow.Node)) Node {
	n.setField(field, func(w *workflow.Node) {
		set(w)
		n.b.checkSource(partOfNode(n.i), field, source)
	})
	return n
}

// addTransition makes a transition that leaves the node.
func (n Node) addTransition(t workflow.Transition) Transition {
	if !n.isMade() {
		return Transition{n, -1}
	}
	t.From = n.b.definition.Nodes[n.i].ID
	n.b.definition.Transitions = append(n.b.definition.Transitions, t)
	made := Transition{n, len(n.b.definition.Transitions) - 1}
	n.b.notePlace(partOfTransition(made.t), "")
	return made
}

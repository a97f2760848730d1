// Package compiled has definitions as planners read them: with their expressions and schemas compiled and their edges indexed.
//
// The package is pure: no clock, no I/O, no randomness.
package compiled

import (
	"math"
	"slices"

	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/schema"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// A Graph is a definition that was found valid, with its expressions and schemas compiled and its edges indexed. It
// is immutable and shared by all runs of the definition. A planner reads nothing else of a definition: what can be
// found out without a run is found out here, once, so that a step of a run needs a look into a map and no search.
// Goroutines of many runs read it at once. UsesActive, joinsAll and TracksRoot say what has to be counted in the
// states of its runs: what nothing asks for is not. A write to state is checked against the part of the schema for
// the property, or the list, that it touches; the whole is checked at completion.
type Graph struct {
	*workflow.Graph
	FailFast             bool // dag: the default filled in
	Nodes                map[workflow.NodeID]*Node
	Transitions          map[workflow.TransitionID]*Transition
	Groups               map[string]*GroupSpec   // by sibling group
	Signals              []string                // the names of the signals that nodes wait for or the definition declares, sorted
	Loops                []workflow.TransitionID // transitions with a loop, in definition order
	UsesActive, joinsAll bool                    // some expression asks for active; at some node tokens wait for all its incoming transitions
	TracksRoot           bool                    // what is outside any group is looked up
	Synchronize          []*Node                 // the nodes with join: synchronize, in definition order
	Output               []Mapping               // of the run; nil returns the output section

	InputSchema  *schema.Schema
	StateSchema  *schema.Schema
	OutputSchema *schema.Schema
	properties   map[string]*schema.Schema // of StateSchema, by top-level property
	elements     map[string]*schema.Schema // of the items of those that are lists
}

// A Mapping assigns the value of an expression to a field or a target path. All mappings of a node are evaluated
// before any of them is written, so that their order by name is of no meaning to a run, and only makes it repeatable.
type Mapping struct {
	Name    string        // the field, or the target as it is written
	Path    value.Path    // of a target
	Program *expr.Program // nil: the whole value is taken as it is
}

// A Node is a node with what leaves it. Success has the transitions with outcome success or always, Failure
// those with error or always; an always is in both. The first tier in which any matches is followed, all of it, and
// later tiers are not looked at. Until is that of the first of Waits.
type Node struct {
	*workflow.Node
	Kind        workflow.Kind
	Input       []Mapping // sorted by name
	Output      []Mapping // sorted by name
	Until       *expr.Program
	Waits       []Wait                 // what a wait node waits for: one, or any of several
	Incoming    []*Transition          // in definition order
	Outgoing    []*Transition          // in definition order
	Index       int                    // its place in the definition
	Reach       []NodeSet              // join: synchronize: by incoming transition, a bit for each node from which it can be reached
	Schema      *schema.Schema         // of its result
	Retry       timeout.Retry          // its attempts and delays, with the defaults filled in
	Approval    *workflow.ApprovalSpec // with the defaults filled in; nil for other kinds
	Success     [][]*Transition        // tiers tried when it completes
	Failure     [][]*Transition        // tiers tried when it fails
	Choice      *expr.Program          // which of its task types or subworkflows it is, if an expression chooses
	Message     *expr.Program          // what the people of an approval are asked, or what is said of a failure at an end, if it is an expression
	Code        *expr.Program          // of the failure at an end, if it is an expression
	AsksResult  bool                   // what is evaluated as it is entered asks for result
	KeepsResult bool                   // its input or choice asks for result, and may be evaluated anew when its task was parked
	KeepsEnd    bool                   // some expression asks for nodes.ID
	KeepsOutput bool                   // and for its output
}

// A Wait is one thing that a wait node waits for. Until and Match are the compiled forms of those of the
// WaitSpec.
type Wait struct {
	*workflow.WaitSpec
	Until *expr.Program
	Match *expr.Program // nil is true
}

// Events returns the names of the events that a wait node waits for, each once. A list with any may name an event
// twice, with two conditions; a token stands in line for it once.
func (n *Node) Events() []string {
	var out []string
	for _, w := range n.Waits {
		if w.Event != "" && !slices.Contains(out, w.Event) {
			out = append(out, w.Event)
		}
	}
	return out
}

// A Transition is a transition with what it means. A fan-out has no Joins, and a fan-in does not fan out. A
// transition with Spawns but neither count nor foreach makes one branch of the group.
type Transition struct {
	*workflow.Transition
	Condition  *expr.Program // nil is true
	Collection *expr.Program // of a foreach
	Source     *expr.Program // of a merge; nil is the result
	Spawns     *GroupSpec    // the group that its branches form; nil without siblingGroup
	Joins      *GroupSpec    // the group that it synchronizes

	// With one loop there is nothing that could be nested, and body stays empty.
	body loopBody // its natural loop, if there is more than one loop
}

// Fans reports whether t makes branches.
func (t *Transition) Fans() bool {
	return t.SpawnCount > 0 || t.Foreach != nil || t.SiblingGroup != ""
}

// A GroupSpec is a sibling group of the definition: who makes its branches and where they meet. A run has one
// state.Group for each time that some node fans it out, and all of them follow this one spec. Groups without a name
// have none.
type GroupSpec struct {
	Name     string
	Spawners []*Transition
	// The joins lead to one node and agree in all but condition, priority, loop and source: the first may stand for
	// all.
	Joins    []*Transition             // agreeing synchronizing transitions; may be empty
	Sync     *workflow.Synchronization // of the first of Joins, with the defaults filled in; nil without
	To       workflow.NodeID           // where Joins lead
	Target   value.Path                // of the merge; without segments if the value is written nowhere
	MergedIn string                    // the input field of To that is the whole merged value; "" without one
	Errors   value.Path                // of the tolerated failures, if Sync.Errors is set
}

// Boundless returns the bounds of definitions that were found valid before. A run that began under wider bounds must
// still be read when they are lowered.
func Boundless() workflow.Bounds {
	return workflow.Bounds{Nodes: math.MaxInt, Transitions: math.MaxInt, Bytes: math.MaxInt, Expressions: math.MaxInt, Subschemas: math.MaxInt}
}

// Compile validates d within bounds and returns its graph. The error is a *workflow.DefinitionError.
func Compile(b workflow.Bounds, d *workflow.Definition) (*Graph, error) {
	g, err := b.Compile(d)
	if err != nil {
		return nil, err
	}
	return Of(g)
}

// Of returns what planners read of a definition that was found valid. The parts that it shares with g are not modified. It fails only if the
// checks of package workflow have overlooked something.
func Of(of *workflow.Graph) (*Graph, error) {
	d := of.Definition
	g := &Graph{
		Graph:       of,
		FailFast:    d.FailFast == nil || *d.FailFast,
		Nodes:       make(map[workflow.NodeID]*Node, len(d.Nodes)),
		Transitions: make(map[workflow.TransitionID]*Transition, len(d.Transitions)),
		Groups:      map[string]*GroupSpec{},
	}
	if err := (&builder{graph: g}).buildGraph(); err != nil {
		return nil, err
	}
	return g, nil
}

// buildGraph fills the graph. Nodes come first, then all edges, those of needs behind the others, so that what
// follows sees every node with all that enters and leaves it. References come last: all expressions have been
// compiled by then.
func (b *builder) buildGraph() error {
	b.compileSchemas()
	b.addNodes()
	b.addTransitions()
	b.addNeeds()
	b.addGroups()
	b.groupByTier()
	b.findSignals()
	b.findLoops()
	b.findReach()
	b.noteReferences()
	return b.err
}

// Node returns the node with the given id, or nil. An id comes from a token or from a caller, and a patch may have
// taken the node away.
func (g *Graph) Node(id workflow.NodeID) *Node { return g.Nodes[id] }

// Transition returns the transition with the given id, or nil.
func (g *Graph) Transition(id workflow.TransitionID) *Transition { return g.Transitions[id] }

// Property returns the schema of a top-level property of state, or nil. A write below state.a is checked against the
// schema of a.
func (g *Graph) Property(name string) *schema.Schema { return g.properties[name] }

// Element returns the schema of the elements of a top-level list of state, or nil. An element that is appended is
// checked alone: to check the list each time would cost the square of its length.
func (g *Graph) Element(name string) *schema.Schema { return g.elements[name] }

// A builder makes a graph of a valid definition. err is the first error, for which the graph is thrown away; refs
// collects what the expressions refer to, for noteReferences.
type builder struct {
	graph *Graph
	refs  [][]string // of every expression
	err   error
}

// keepError notes an error, unless there is one already.
func (b *builder) keepError(err error) {
	if b.err == nil {
		b.err = err
	}
}

// noteReferences notes what the expressions of the definition ask for. The data of a run has the end of a node, and
// its output, only if something may ask for it: a reference to nodes as a whole asks for all ends, nodes.a or
// nodes.a.output for the output of a, and nodes.a.status for the end alone.
func (b *builder) noteReferences() {
	g := b.graph
	for _, ref := range b.refs {
		switch {
		case ref[0] == "active":
			g.UsesActive = true
		case ref[0] == "nodes" && len(ref) == 1:
			for _, n := range g.Nodes {
				n.KeepsEnd, n.KeepsOutput = true, true
			}
		case ref[0] == "nodes":
			n := g.Nodes[workflow.NodeID(ref[1])]
			if n == nil {
				continue
			}
			n.KeepsEnd = true
			n.KeepsOutput = n.KeepsOutput || len(ref) == 2 || ref[2] == "output"
		}
	}
}

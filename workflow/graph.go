package workflow

import (
	"maps"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/timeout"
)

// A Graph is a definition that was found valid, with its expressions and
// schemas compiled and its edges indexed. It is immutable and shared by all
// runs of the definition.
type Graph struct {
	Definition           *Definition
	JSON                 string // the definition, canonical
	Hash                 string // its SHA-256, in hexadecimal
	Limits               Limits // with the engine's defaults filled in
	FailFast             bool   // dag: the default filled in
	Nodes                map[NodeID]*GraphNode
	Transitions          map[TransitionID]*GraphTransition
	Groups               map[string]*GroupSpec // by sibling group
	Signals              []string              // the names of the signals that nodes wait for or the definition declares, sorted
	Loops                []TransitionID        // transitions with a loop, in definition order
	UsesActive, joinsAll bool                  // some expression asks for active; at some node tokens wait for all its incoming transitions
	TracksRoot           bool                  // what is outside any group is looked up
	Synchronize          []*GraphNode          // the nodes with join: synchronize, in definition order
	Output               []Mapping             // of the run; nil returns the output section

	InputSchema  *Schema
	StateSchema  *Schema
	OutputSchema *Schema
	properties   map[string]*Schema // of StateSchema, by top-level property
	elements     map[string]*Schema // of the items of those that are lists
}

// A Mapping assigns the value of an expression to a field or a target path.
type Mapping struct {
	Name    string        // the field, or the target as it is written
	Path    value.Path    // of a target
	Program *expr.Program // nil: the whole value is taken as it is
}

// A GraphNode is a node with what leaves it.
type GraphNode struct {
	*Node
	Kind        Kind
	Input       []Mapping // sorted by name
	Output      []Mapping // sorted by name
	Until       *expr.Program
	Waits       []GraphWait          // what a wait node waits for: one, or any of several
	Incoming    []*GraphTransition   // in definition order
	Outgoing    []*GraphTransition   // in definition order
	Index       int                  // its place in the definition
	Reach       []NodeSet            // join: synchronize: by incoming transition, a bit for each node from which it can be reached
	Schema      *Schema              // of its result
	Retry       timeout.Retry        // its attempts and delays, with the defaults filled in
	Approval    *ApprovalSpec        // with the defaults filled in; nil if it is none
	Success     [][]*GraphTransition // tiers tried when it completes
	Failure     [][]*GraphTransition // tiers tried when it fails
	Choice      *expr.Program        // which of its task types or subworkflows it is, if an expression chooses
	Message     *expr.Program        // what the people of an approval are asked, if it is an expression
	AsksResult  bool                 // what is evaluated as it is entered asks for result
	KeepsResult bool                 // its input or choice asks for result, and may be evaluated anew when its task was parked
	KeepsEnd    bool                 // some expression asks for nodes.ID
	KeepsOutput bool                 // and for its output
}

// A GraphWait is one thing that a wait node waits for.
type GraphWait struct {
	*WaitSpec
	Until *expr.Program
	Match *expr.Program // nil is true
}

// Events returns the names of the events that a wait node waits for, each once.
func (n *GraphNode) Events() []string {
	var out []string
	for _, w := range n.Waits {
		if w.Event != "" && !slices.Contains(out, w.Event) {
			out = append(out, w.Event)
		}
	}
	return out
}

// A GraphTransition is a transition with what it means.
type GraphTransition struct {
	*Transition
	Condition  *expr.Program // nil is true
	Collection *expr.Program // of a foreach
	Source     *expr.Program // of a merge; nil is the result
	Spawns     *GroupSpec    // the group that its branches form; nil without siblingGroup
	Joins      *GroupSpec    // the group that it synchronizes

	body loopBody // its natural loop, if there is more than one loop
}

// Fans reports whether t makes branches.
func (t *GraphTransition) Fans() bool {
	return t.SpawnCount > 0 || t.Foreach != nil || t.SiblingGroup != ""
}

// A GroupSpec is a sibling group of the definition: who makes its branches and
// where they meet.
type GroupSpec struct {
	Name     string
	Spawners []*GraphTransition
	Joins    []*GraphTransition // agreeing synchronizing transitions; may be empty
	Sync     *Synchronization   // of the first of Joins, with the defaults filled in; nil without
	To       NodeID             // where Joins lead
	Target   value.Path         // of the merge, if Sync.Merge has a target
	MergedIn string             // the input field of To that is the whole merged value; "" if there is none
	Errors   value.Path         // of the tolerated failures, if Sync.Errors is set
}

// Compile validates d and returns its graph, which holds a copy of d with its
// defaults filled in. The error is a *DefinitionError. What d refers to must
// not be modified afterwards.
func Compile(d *Definition) (*Graph, error) { return Bounds{}.Compile(d) }

func (b Bounds) compileGraph(d *Definition) (*Graph, error) {
	d = d.completed()
	c := newChecker(d)
	c.bounded = b.withDefaults()
	if err := d.errorOf(c.checkAll()); err != nil {
		return nil, err
	}
	g := &Graph{
		Definition: d, JSON: c.json, Hash: c.hash, Limits: c.limits, FailFast: d.FailFast == nil || *d.FailFast,
		Nodes:       make(map[NodeID]*GraphNode, len(d.Nodes)),
		Transitions: make(map[TransitionID]*GraphTransition, len(d.Transitions)),
		Groups:      map[string]*GroupSpec{},
	}
	if err := (&builder{graph: g, compiler: c.compiler}).buildGraph(); err != nil {
		return nil, err
	}
	return g, nil
}

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

// Node returns the node with the given id, or nil.
func (g *Graph) Node(id NodeID) *GraphNode { return g.Nodes[id] }

// Transition returns the transition with the given id, or nil.
func (g *Graph) Transition(id TransitionID) *GraphTransition { return g.Transitions[id] }

// Property returns the schema of a top-level property of state, or nil.
func (g *Graph) Property(name string) *Schema { return g.properties[name] }

// Element returns the schema of the elements of a top-level list of state, or
// nil.
func (g *Graph) Element(name string) *Schema { return g.elements[name] }

// A builder makes a graph of a valid definition.
type builder struct {
	graph    *Graph
	compiler *compiler
	refs     [][]string // of every expression
	err      error
}

func (b *builder) keepError(err error) {
	if b.err == nil {
		b.err = err
	}
}

// compileProgram compiles source, nil if it is empty.
func (b *builder) compileProgram(source string) *expr.Program {
	if source == "" {
		return nil
	}
	p, err := b.compiler.compileSource(source)
	if err != nil {
		b.keepError(err)
		return nil
	}
	b.refs = append(b.refs, p.References()...)
	return p
}

func (b *builder) compileSchema(doc any) *Schema {
	s, err := CompileSchema(doc)
	if err != nil {
		b.keepError(err)
	}
	return s
}

func (b *builder) compileSchemas() {
	g, d := b.graph, b.graph.Definition
	g.InputSchema = b.compileSchema(d.Input.Schema)
	g.OutputSchema = b.compileSchema(d.Output.Schema)
	if d.Output.Mapping != nil {
		g.Output = b.compileMappings(d.Output.Mapping, false)
	}
	b.compileStateSchema(d.State.Schema)
}

// compileStateSchema compiles the schema of state, and its parts for single writes.
func (b *builder) compileStateSchema(doc any) {
	g := b.graph
	source, err := newSchemaSource(doc)
	if err != nil {
		b.keepError(err)
		return
	}
	part := func(keys ...string) *Schema {
		s, err := source.schemaAt(keys...)
		if err != nil {
			b.keepError(err)
		}
		return s
	}
	g.StateSchema = part()
	g.properties, g.elements = map[string]*Schema{}, map[string]*Schema{}
	root, _ := doc.(map[string]any)
	properties, _ := root["properties"].(map[string]any)
	for _, name := range sortedKeys(properties) {
		g.properties[name] = part("properties", name)
		if m, ok := properties[name].(map[string]any); ok && m["items"] != nil {
			g.elements[name] = part("properties", name, "items")
		}
	}
}

// compileMappings compiles fields or targets in the order of their names.
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

func (b *builder) addNodes() {
	d := b.graph.Definition
	for i := range d.Nodes {
		n := &d.Nodes[i]
		gn := &GraphNode{Node: n, Index: i, Kind: n.Kind(), Choice: b.compileProgram(n.choiceSource()), Input: b.compileMappings(n.Input, false), Output: b.compileMappings(n.Output, true)}
		gn.Schema = b.compileSchema(n.OutputSchema)
		if gn.Approval = n.Approval.withDefaults(); gn.Approval != nil {
			gn.Message = b.compileProgram(n.Approval.MessageExpr)
		}
		if n.Wait != nil {
			gn.Waits = b.compileWaits(n.Wait)
			gn.Until = gn.Waits[0].Until
		}
		b.graph.TracksRoot = b.graph.TracksRoot || len(n.Cancels) > 0 || n.Join == JoinSynchronize
		if n.Join == JoinSynchronize {
			b.graph.Synchronize = append(b.graph.Synchronize, gn)
		}
		gn.AsksResult = asksResult(gn)
		if r := n.Retry; r != nil {
			gn.Retry = timeout.Retry{MaxAttempts: max(r.MaxAttempts, 1), InitialInterval: r.InitialInterval, BackoffCoefficient: r.BackoffCoefficient, MaxInterval: r.MaxInterval, Jitter: r.Jitter}
			gn.KeepsResult = gn.AsksResult && r.Exhausted == ExhaustedPark && (len(n.Input) > 0 || gn.Choice != nil)
		}
		b.graph.Nodes[n.ID] = gn
	}
}

func (b *builder) compileWaits(w *WaitSpec) []GraphWait {
	specs := w.Any
	if specs == nil {
		specs = []WaitSpec{*w}
	}
	out := make([]GraphWait, len(specs))
	for i := range specs {
		out[i] = GraphWait{&specs[i], b.compileProgram(specs[i].Until), b.compileProgram(specs[i].Match)}
	}
	return out
}

// findSignals lists the signals that a run takes.
func (b *builder) findSignals() {
	names := slices.Clone(b.graph.Definition.Signals)
	for _, n := range b.graph.Nodes {
		names = append(names, n.Events()...)
	}
	slices.Sort(names)
	b.graph.Signals = slices.Compact(names)
}

// asksResult reports whether entering a node takes the result of the node left.
func asksResult(n *GraphNode) bool {
	asks := func(p *expr.Program) bool {
		return p != nil && slices.ContainsFunc(p.References(), func(ref []string) bool { return ref[0] == "result" })
	}
	for _, w := range n.Waits {
		if asks(w.Until) || asks(w.Match) {
			return true
		}
	}
	return asks(n.Message) || asks(n.Choice) || slices.ContainsFunc(n.Input, func(m Mapping) bool { return asks(m.Program) })
}

func (b *builder) addGroups() {
	g := b.graph
	for i := range g.Definition.Transitions {
		t := g.Transitions[g.Definition.Transitions[i].ID]
		if t.SiblingGroup != "" {
			t.Spawns = b.groupSpec(t.SiblingGroup)
			t.Spawns.Spawners = append(t.Spawns.Spawners, t)
		}
		if t.Synchronization == nil {
			continue
		}
		t.Joins = b.groupSpec(t.Synchronization.SiblingGroup)
		t.Joins.Joins = append(t.Joins.Joins, t)
		if t.Joins.Sync != nil {
			continue
		}
		t.Joins.Sync, t.Joins.To = t.Synchronization.withDefaults(), t.To
		if e := t.Synchronization.Errors; e != "" {
			path, err := value.ParsePath(e)
			if err != nil {
				b.keepError(err)
			}
			t.Joins.Errors = path
		}
		if m := t.Synchronization.Merge; m != nil {
			path, err := value.ParsePath(m.Target)
			if err != nil {
				b.keepError(err)
			}
			t.Joins.Target = path
			t.Joins.MergedIn = b.graph.Nodes[t.To].mergedField(m.Target)
		}
	}
}

// mergedField returns the field of a node's input that is the whole value which the
// join of a group has merged into target; "" if none is, or something else may be
// written there before the input is evaluated.
func (n *GraphNode) mergedField(target string) string {
	if n.Kind != KindTask && n.Kind != KindSubworkflow || n.Join != JoinNone || n.Lock != "" {
		return ""
	}
	for _, field := range sortedKeys(n.Node.Input) {
		if source := strings.TrimSpace(n.Node.Input[field]); source == "result" || source == target {
			return field
		}
	}
	return ""
}

func (b *builder) groupSpec(name string) *GroupSpec {
	s := b.graph.Groups[name]
	if s == nil {
		s = &GroupSpec{Name: name}
		b.graph.Groups[name] = s
	}
	return s
}

// noteReferences notes what the expressions of the definition ask for.
func (b *builder) noteReferences() {
	g := b.graph
	for _, ref := range b.refs {
		switch {
		case ref[0] == "active":
			g.UsesActive = true
		case ref[0] == SectionNodes && len(ref) == 1:
			for _, n := range g.Nodes {
				n.KeepsEnd, n.KeepsOutput = true, true
			}
		case ref[0] == SectionNodes:
			n := g.Nodes[NodeID(ref[1])]
			if n == nil {
				continue
			}
			n.KeepsEnd = true
			n.KeepsOutput = n.KeepsOutput || len(ref) == 2 || ref[2] == "output"
		}
	}
}

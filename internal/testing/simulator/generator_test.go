package simulator

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/merge"
	"github.com/pawl-run/pawl/workflow"
)

// A generator builds one definition out of blocks, each with one way in and one
// way out: sequences, choices, splits, loops and fan-outs, inside each other.
type generator struct {
	r        *rand.Rand
	def      *workflow.Definition
	children []string // names of definitions that it may use
	most     int      // nodes; beyond it every block is a leaf
}

// events are the names of the signals that nodes wait for.
var events = []string{"paid", "shipped", "again"}

// upTo draws from 1 to n.
func (g *generator) upTo(n int) int { return 1 + g.r.IntN(n) }

// one is true one time in n.
func (g *generator) one(n int) bool { return g.r.IntN(n) == 0 }

func of[T any](r *rand.Rand, xs ...T) T { return xs[r.IntN(len(xs))] }

// valueOf draws a value of an enumeration, or none, which is its default.
func valueOf[T any](r *rand.Rand, values []T) T {
	var none T
	return of(r, append(values, none)...)
}

// drawFamily draws the definitions of one root run: the last is its own, those
// before it are of its children and their children.
func drawFamily(r *rand.Rand, name string) []*compiled.Graph {
	var out []*compiled.Graph
	var names []string
	for depth := r.IntN(3); depth >= 0; depth-- {
		most := 18
		if depth > 0 {
			most = 6
		}
		graph := drawGraph(r, fmt.Sprintf("%s-%d", name, depth), names, most)
		out, names = append(out, graph), append(names, graph.Definition.Name)
	}
	return out
}

// drawGraph draws a definition that is valid, whatever else it is.
func drawGraph(r *rand.Rand, name string, children []string, most int) *compiled.Graph {
	for {
		g := &generator{r: r, children: children, most: most}
		g.def = &workflow.Definition{Name: name, Limits: workflow.Limits{Tokens: 400, LiveTokens: 120, Descendants: 25}}
		if g.one(5) {
			g.dag()
		} else {
			g.net()
		}
		g.sections()
		if g.one(10) {
			g.def.Timeout = time.Duration(g.upTo(60)) * time.Second
		}
		sound, err := compiled.Compile(workflow.Bounds{}, g.def)
		if err != nil {
			continue
		}
		if g.one(3) {
			if wild := g.wild(sound); wild != nil {
				return wild
			}
		}
		return sound
	}
}

// sections draws what a definition says of the whole run.
func (g *generator) sections() {
	if g.one(4) {
		g.def.Input.Schema = map[string]any{"type": "object"}
		g.def.State.Schema = map[string]any{"properties": map[string]any{"y": map[string]any{"type": "object"}}}
		g.def.Signals = []string{"other"}
	}
	if g.one(4) {
		g.def.State.Initial = map[string]any{"x": 1}
		g.def.Limits.Loop, g.def.Limits.Foreach, g.def.Limits.Snoozes, g.def.Limits.SubworkflowDepth = 2, 2, 2, 1
	}
	if g.one(4) {
		g.def.Output.Mapping = map[string]string{"x": of(g.r, "state.?x.orValue(0)", "state.x")}
		g.def.Output.Schema = map[string]any{"type": "object"}
	}
	if g.one(4) {
		g.budgets()
	}
}

// budgets draws what attempts set aside of a limit: two of them at a time, or more that need nothing.
func (g *generator) budgets() {
	g.def.Limits.Meta = map[string]float64{"cost": 2}
	for i := range g.def.Nodes {
		if n := &g.def.Nodes[i]; n.Kind() == workflow.KindTask || n.Kind() == workflow.KindSubworkflow {
			n.Budget = of(g.r, map[string]float64{"cost": 1}, map[string]float64{"cost": 0}, nil)
		}
	}
}

func (g *generator) net() {
	g.def.Mode = of(g.r, workflow.ModeGraph, "")
	g.def.Start, _ = g.block(2 + g.upTo(3))
}

func (g *generator) node(n workflow.Node) workflow.NodeID {
	n.ID = workflow.NodeID(fmt.Sprintf("n%d", len(g.def.Nodes)))
	g.def.Nodes = append(g.def.Nodes, n)
	return n.ID
}

func (g *generator) edge(from, to workflow.NodeID, t workflow.Transition) {
	t.ID = workflow.TransitionID(fmt.Sprintf("e%d", len(g.def.Transitions)))
	t.From, t.To = from, to
	g.def.Transitions = append(g.def.Transitions, t)
}

// block draws a block and returns its entry and its exit.
func (g *generator) block(depth int) (in, out workflow.NodeID) {
	if depth <= 0 || len(g.def.Nodes) > g.most {
		n := g.leaf()
		return n, n
	}
	switch g.r.IntN(12) {
	case 0, 1, 2:
		return g.fan(depth - 1)
	case 3, 4, 5:
		in, mid := g.block(depth - 1)
		next, out := g.block(depth - 1)
		g.edge(mid, next, workflow.Transition{})
		return in, out
	case 6:
		return g.loop(depth - 1)
	case 7:
		return g.caught(depth - 1)
	case 8:
		return g.choice(depth - 1)
	case 9, 10:
		return g.gateway(depth - 1)
	default:
		return g.split(depth - 1)
	}
}

// leaf draws a single node of any kind.
func (g *generator) leaf() workflow.NodeID {
	n := workflow.Node{Output: g.output()}
	switch g.r.IntN(14) {
	case 0:
		n.Output = nil
	case 1:
		n.Wait = &workflow.WaitSpec{For: time.Duration(g.upTo(4)) * time.Second}
	case 2:
		n.Wait = g.waitEvent()
		g.timed(&n)
	case 3:
		n.Wait = &workflow.WaitSpec{Any: []workflow.WaitSpec{*g.waitEvent(), {For: time.Duration(g.upTo(9)) * time.Second}}}
	case 4:
		n.Wait = &workflow.WaitSpec{Until: "run.startedAt + duration('3s')"}
	case 5, 6:
		n.Approval = &workflow.ApprovalSpec{Message: "go on?", Quorum: g.upTo(2), RejectQuorum: g.upTo(2)}
		if g.one(3) {
			n.Approval.Message, n.Approval.MessageExpr = "", of(g.r, "'go on with ' + run.id + '?'", "state.x")
		}
		n.Approval.OnTimeout = valueOf(g.r, workflow.Values[workflow.ApprovalTimeout]())
		g.timed(&n)
	case 7, 8:
		if len(g.children) > 0 {
			n.Subworkflow = &workflow.SubworkflowSpec{Name: of(g.r, g.children...), Version: g.r.IntN(2)}
			if len(g.def.Nodes)%2 == 1 { // an expression chooses
				first, last := g.children[0], g.children[len(g.children)-1]
				n.Subworkflow = &workflow.SubworkflowSpec{NameExpr: fmt.Sprintf("active.n0 == 0 ? %q : %q", first, last), Names: g.children}
			}
			g.timed(&n)
			break
		}
		fallthrough
	default:
		g.task(&n)
	}
	if n.Kind() != workflow.KindGateway && g.one(8) {
		n.Lock = of(g.r, "desk", "door")
	}
	return g.node(n)
}

func (g *generator) timed(n *workflow.Node) {
	if g.one(3) {
		n.Timeout = time.Duration(g.upTo(8)) * time.Second
	}
}

func (g *generator) task(n *workflow.Node) {
	n.Task = "work"
	if len(g.def.Nodes)%4 == 3 { // an expression chooses
		n.Task, n.TaskExpr, n.Tasks = "", "has(state.x) ? 'work' : 'wo' + 'rk'", []string{"work"}
	}
	n.Priority, n.Unmatched = g.r.IntN(3), valueOf(g.r, workflow.Values[workflow.Unmatched]())
	if g.one(10) {
		n.OutputSchema = map[string]any{"type": "integer"}
	}
	switch g.r.IntN(5) {
	case 0:
		n.Timeout = time.Duration(g.upTo(3)) * time.Second
	case 1:
		n.Heartbeat = 2 * time.Second
	}
	if g.one(3) {
		n.Retry = &workflow.RetrySpec{MaxAttempts: g.upTo(3), Jitter: 0.5, NonRetryable: []string{"gone"}}
		if g.one(3) {
			n.Retry.InitialInterval, n.Retry.BackoffCoefficient, n.Retry.MaxInterval = 500*time.Millisecond, 1.5, time.Second
		}
		n.Retry.Exhausted = valueOf(g.r, workflow.Values[workflow.Exhausted]())
	}
	if g.one(3) {
		n.Input = map[string]string{"state": "state", "before": "has(nodes.n0)", "active": "active.n0"}
	}
}

func (g *generator) waitEvent() *workflow.WaitSpec {
	return &workflow.WaitSpec{Event: of(g.r, events...), Match: of(g.r, "", "payload.n >= 0", "payload.missing == 1")}
}

func (g *generator) output() map[string]string {
	switch g.r.IntN(7) {
	case 0:
		return map[string]string{"state.x": "result", "state.y.z": "result"}
	case 1:
		return map[string]string{"state.log[]": "result"}
	case 2:
		return map[string]string{"output.k": "result", "state.y": "{'w': result}"}
	}
	return nil
}

// choice takes one of two ways.
func (g *generator) choice(depth int) (in, out workflow.NodeID) {
	in, out = g.node(workflow.Node{Task: "work"}), g.node(workflow.Node{})
	for i, condition := range []string{"result == 1", ""} {
		from, to := g.block(depth)
		g.edge(in, from, workflow.Transition{Priority: i, Condition: condition})
		g.edge(to, out, workflow.Transition{})
	}
	return in, out
}

// split goes two ways; one of them leads nowhere, or to an end.
func (g *generator) split(depth int) (in, out workflow.NodeID) {
	in = g.leaf()
	from, out := g.block(depth)
	g.edge(in, from, workflow.Transition{})
	from, to := g.block(depth)
	g.edge(in, from, workflow.Transition{Condition: "has(state.x)"})
	if g.one(3) {
		end := g.node(workflow.Node{End: g.end()})
		g.edge(to, end, workflow.Transition{})
	}
	return in, out
}

// end draws an end: a completion, or a failure whose code and message are texts or expressions.
func (g *generator) end() *workflow.EndSpec {
	switch g.r.IntN(4) {
	case 0:
		return &workflow.EndSpec{Fail: "refused", Message: of(g.r, "", "no")}
	case 1:
		return &workflow.EndSpec{CodeExpr: of(g.r, "'refused'", "state.x"), MessageExpr: of(g.r, "", "'x: ' + string(state.x)")}
	}
	return &workflow.EndSpec{}
}

// gateway goes several ways at once and meets again at a node's join. One of the
// ways may cancel what is on the others.
func (g *generator) gateway(depth int) (in, out workflow.NodeID) {
	in = g.leaf()
	out = g.node(workflow.Node{Join: of(g.r, workflow.JoinAll, workflow.JoinSynchronize)})
	var first workflow.NodeID
	for i := range 1 + g.upTo(2) {
		from, to := g.block(depth)
		t := workflow.Transition{}
		if i > 0 && g.one(2) {
			t.Condition = of(g.r, "result == 1", "has(state.x)")
		}
		g.edge(in, from, t)
		g.edge(to, out, workflow.Transition{})
		if i == 0 {
			first = from
		} else if g.one(4) {
			g.at(to).Cancels = []workflow.NodeID{first}
		}
	}
	return in, out
}

func (g *generator) at(id workflow.NodeID) *workflow.Node {
	for i := range g.def.Nodes {
		if g.def.Nodes[i].ID == id {
			return &g.def.Nodes[i]
		}
	}
	panic("simulator: no node " + string(id))
}

// loop repeats a block.
func (g *generator) loop(depth int) (in, out workflow.NodeID) {
	in, last := g.block(depth)
	out = g.node(workflow.Node{})
	g.edge(last, in, workflow.Transition{Loop: &workflow.Loop{MaxIterations: g.upTo(2)}})
	g.edge(last, out, workflow.Transition{Priority: 1})
	return in, out
}

// caught handles the failure of a task.
func (g *generator) caught(depth int) (in, out workflow.NodeID) {
	in, out = g.node(workflow.Node{Task: "work"}), g.node(workflow.Node{})
	from, to := g.block(depth)
	t := workflow.Transition{Outcome: workflow.OnError}
	if g.one(2) {
		t.Errors = []string{"busy", "timeout", "panic"}
	}
	g.edge(in, from, t)
	g.edge(to, out, workflow.Transition{})
	g.edge(in, out, workflow.Transition{Outcome: of(g.r, workflow.OnSuccess, "")})
	return in, out
}

// fan makes branches and joins them.
func (g *generator) fan(depth int) (in, out workflow.NodeID) {
	in, out = g.leaf(), g.node(workflow.Node{})
	group := "g" + string(in)
	sync := g.sync(group)
	if m := sync.Merge; m != nil && m.Target == "" { // the node behind the join alone sees the value
		n := &g.def.Nodes[len(g.def.Nodes)-1]
		n.Task, n.Input = "work", map[string]string{"got": "result"}
	}
	spawn := workflow.Transition{SiblingGroup: group, Open: g.one(5)}
	if g.one(3) {
		spawn.MaxConcurrency = g.upTo(2)
	}
	said := g.one(4) // once, in the groups
	if said {
		settings := *sync
		settings.SiblingGroup = ""
		if g.def.Groups == nil {
			g.def.Groups = map[string]workflow.Synchronization{}
		}
		g.def.Groups[group] = settings
	}
	ways := 1
	switch g.r.IntN(3) {
	case 0:
		ways = 1 + g.upTo(2)
	case 1:
		spawn.SpawnCount = g.upTo(4)
	case 2:
		spawn.Foreach = &workflow.Foreach{Collection: of(g.r, "[]", "[1]", "[1, 2, 3]", "input.?items.orValue([5, 6])"), As: "each"}
	}
	for range ways {
		from, to := g.block(depth)
		g.edge(in, from, spawn)
		s := *sync
		if said && g.one(2) {
			s = workflow.Synchronization{SiblingGroup: group}
		}
		if s.Merge != nil && g.one(3) {
			m := *s.Merge
			m.Source = of(g.r, "{'v': branch.index}", "[branch.index]", "result", "state.?x.orValue(1)", "result.missing")
			s.Merge = &m
		}
		t := workflow.Transition{Synchronization: &s}
		if g.one(6) {
			t.Condition = "has(state.x)"
		}
		g.edge(to, out, t)
	}
	if g.one(3) {
		n := g.node(workflow.Node{})
		g.edge(in, n, workflow.Transition{Outcome: workflow.OnError})
		g.edge(n, out, workflow.Transition{})
	}
	return in, out
}

// sync draws how a group is joined.
func (g *generator) sync(group string) *workflow.Synchronization {
	s := &workflow.Synchronization{SiblingGroup: group}
	s.Strategy = of(g.r, append(workflow.Values[workflow.Strategy](), workflow.All, workflow.MOfN(1), workflow.MOfN(2))...)
	s.Remaining = valueOf(g.r, workflow.Values[workflow.Remaining]())
	s.OnShortfall = valueOf(g.r, workflow.Values[workflow.Shortfall]())
	if g.one(3) {
		s.Timeout = time.Duration(g.upTo(6)) * time.Second
		s.OnTimeout = valueOf(g.r, workflow.Values[workflow.JoinTimeout]())
	}
	switch g.r.IntN(4) {
	case 0:
		s.Tolerate, s.Errors = workflow.TolerateFailures(g.upTo(2)), of(g.r, "", "state.failed")
	case 1:
		s.Tolerate = workflow.TolerateRatio(0.5)
	}
	if !g.one(4) {
		s.Merge = &workflow.Merge{
			Target:   of(g.r, "state.m", "state.all[]", "output.m", "state.x", ""),
			Strategy: string(of(g.r, merge.All()...)),
			As:       of(g.r, workflow.MergeAsValue, ""),
		}
	}
	return s
}

// dag draws nodes in layers, each with edges from those before it.
func (g *generator) dag() {
	g.def.Mode = workflow.ModeDAG
	if g.one(2) {
		no := false
		g.def.FailFast = &no
	}
	for range g.upTo(min(10, g.most)) {
		to := g.leaf()
		n := g.at(to)
		n.Join = of(g.r, workflow.JoinNone, workflow.JoinAll, workflow.JoinAny, workflow.JoinMOfN(1))
		if len(g.def.Nodes) == 1 {
			n.Join = workflow.JoinNone
			continue
		}
		if g.one(4) {
			g.at(to).Needs = []workflow.NodeID{of(g.r, g.def.Nodes[:len(g.def.Nodes)-1]...).ID}
		}
		from := g.r.Perm(len(g.def.Nodes) - 1)
		for _, i := range from[:min(len(from), g.r.IntN(4))] {
			t := workflow.Transition{Outcome: of(g.r, "", "", "", workflow.OnError, workflow.OnAlways)}
			if g.one(4) {
				t.Condition = of(g.r, "true", "false", "has(nodes.n0)")
			}
			g.edge(g.def.Nodes[i].ID, to, t)
		}
	}
}

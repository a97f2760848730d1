package planning_test

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/merge"
	"github.com/pawl-run/pawl/workflow"
)

// A net builds sound definitions out of blocks, each with one way in and one
// way out: sequences, choices, splits, loops and fan-outs, inside each other.
type net struct {
	t   *rapid.T
	def workflow.Definition
}

// maxNodes bounds a net; beyond it every block is a leaf.
const maxNodes = 24

func drawNet(t *rapid.T) *compiled.Graph {
	b := &net{t: t, def: workflow.Definition{Name: "net", Limits: workflow.Limits{Tokens: 1500}}}
	b.def.Start, _ = b.block(3 + b.upTo("depth", 3))
	if b.one("run timeout", 12) {
		b.def.Timeout = 20 * time.Second
	}
	g, err := compiled.Compile(workflow.Bounds{}, &b.def)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return g
}

// one is true one time in n.
func (b *net) one(label string, n int) bool { return b.upTo(label, n) == n }

// upTo draws from 1 to n <= 16, about evenly; rapid's own ranges lean to their
// ends.
func (b *net) upTo(label string, n int) int {
	x := 0
	for range 4 {
		if x <<= 1; rapid.Bool().Draw(b.t, label) {
			x++
		}
	}
	return 1 + x*n/16
}

// of draws one of xs.
func of[T any](b *net, label string, xs ...T) T { return xs[b.upTo(label, len(xs))-1] }

func (b *net) node(n workflow.Node) workflow.NodeID {
	n.ID = workflow.NodeID(fmt.Sprintf("n%d", len(b.def.Nodes)))
	b.def.Nodes = append(b.def.Nodes, n)
	return n.ID
}

func (b *net) edge(from, to workflow.NodeID, t workflow.Transition) {
	t.ID = workflow.TransitionID(fmt.Sprintf("e%d", len(b.def.Transitions)))
	t.From, t.To = from, to
	b.def.Transitions = append(b.def.Transitions, t)
}

// block draws a block and returns its entry and its exit.
func (b *net) block(depth int) (in, out workflow.NodeID) {
	if depth == 0 || len(b.def.Nodes) > maxNodes {
		n := b.leaf()
		return n, n
	}
	switch b.upTo("block", 8) {
	case 1, 2:
		return b.fan(depth - 1)
	case 3:
		in, mid := b.block(depth - 1)
		next, out := b.block(depth - 1)
		b.edge(mid, next, workflow.Transition{})
		return in, out
	case 4:
		return b.loop(depth - 1)
	case 5:
		return b.caught(depth - 1)
	case 6:
		return b.choice(depth - 1)
	case 7:
		return b.split(depth - 1)
	default:
		n := b.leaf()
		return n, n
	}
}

func (b *net) leaf() workflow.NodeID {
	n := workflow.Node{}
	switch b.upTo("leaf", 8) {
	case 8:
		return b.node(n)
	case 7:
		n.Wait = &workflow.WaitSpec{For: time.Duration(b.upTo("for", 3)) * time.Second}
		return b.node(n)
	case 3:
		n.Timeout = 2 * time.Second
	case 4:
		n.Retry = &workflow.RetrySpec{MaxAttempts: 2, Jitter: 0.5}
		if b.one("park", 3) {
			n.Retry.Exhausted = workflow.ExhaustedPark
		}
	case 5:
		n.Heartbeat = time.Second
		n.Retry = &workflow.RetrySpec{MaxAttempts: 2}
	}
	n.Task = "work"
	n.Output = b.output()
	if b.one("input", 3) {
		n.Input = map[string]string{"state": "state", "active": "active.n0", "before": "has(nodes.n0)"}
	}
	return b.node(n)
}

func (b *net) output() map[string]string {
	switch b.upTo("output", 6) {
	case 1:
		return map[string]string{"state.x": "result", "state.y.z": "result"}
	case 2:
		return map[string]string{"state.log[]": "result"}
	case 3:
		return map[string]string{"output.k": "result", "state.y": "{'w': result}"}
	}
	return nil
}

// choice takes one of two ways.
func (b *net) choice(depth int) (in, out workflow.NodeID) {
	in, out = b.node(workflow.Node{Task: "work"}), b.node(workflow.Node{})
	for i, condition := range []string{"result == 1", ""} {
		from, to := b.block(depth)
		b.edge(in, from, workflow.Transition{Priority: i, Condition: condition})
		b.edge(to, out, workflow.Transition{})
	}
	return in, out
}

// split goes two ways; one of them leads nowhere.
func (b *net) split(depth int) (in, out workflow.NodeID) {
	in = b.leaf()
	from, out := b.block(depth)
	b.edge(in, from, workflow.Transition{})
	from, _ = b.block(depth)
	b.edge(in, from, workflow.Transition{Condition: "has(state.x)"})
	return in, out
}

// loop repeats a block.
func (b *net) loop(depth int) (in, out workflow.NodeID) {
	in, last := b.block(depth)
	out = b.node(workflow.Node{})
	b.edge(last, in, workflow.Transition{Loop: &workflow.Loop{MaxIterations: b.upTo("loop", 2)}})
	b.edge(last, out, workflow.Transition{Priority: 1})
	return in, out
}

// caught handles the failure of a task.
func (b *net) caught(depth int) (in, out workflow.NodeID) {
	in, out = b.node(workflow.Node{Task: "work"}), b.node(workflow.Node{})
	from, to := b.block(depth)
	t := workflow.Transition{Outcome: workflow.OnError}
	if b.one("code", 2) {
		t.Errors = []string{"busy", "timeout"}
	}
	b.edge(in, from, t)
	b.edge(to, out, workflow.Transition{})
	b.edge(in, out, workflow.Transition{})
	return in, out
}

// fan makes branches and joins them.
func (b *net) fan(depth int) (in, out workflow.NodeID) {
	in, out = b.leaf(), b.node(workflow.Node{})
	group := string(in)
	sync := b.sync(group)
	if m := sync.Merge; m != nil && m.Target == "" { // the node behind the join alone sees the value
		n := &b.def.Nodes[len(b.def.Nodes)-1]
		n.Task, n.Input = "work", map[string]string{"got": "result"}
	}
	spawn := workflow.Transition{SiblingGroup: group}
	if b.one("bounded", 3) {
		spawn.MaxConcurrency = b.upTo("max", 2)
	}
	ways := 1
	switch b.upTo("spawn", 3) {
	case 1:
		ways = 1 + b.upTo("ways", 2)
	case 2:
		spawn.SpawnCount = b.upTo("count", 3)
	case 3:
		spawn.Foreach = &workflow.Foreach{Collection: of(b, "list", "[]", "[1]", "[1, 2, 3]"), As: "each"}
	}
	for range ways {
		from, to := b.block(depth)
		b.edge(in, from, spawn)
		s := *sync
		if s.Merge != nil && b.one("source", 3) {
			m := *s.Merge
			m.Source = of(b, "source", "{'v': branch.index}", "[branch.index]", "result", "state.?x.orValue(1)", "result.missing")
			s.Merge = &m
		}
		t := workflow.Transition{Synchronization: &s}
		if b.one("arrives", 5) {
			t.Condition = "has(state.x)"
		}
		b.edge(to, out, t)
	}
	if b.one("caught", 3) {
		n := b.node(workflow.Node{})
		b.edge(in, n, workflow.Transition{Outcome: workflow.OnError})
		b.edge(n, out, workflow.Transition{})
	}
	return in, out
}

// sync draws how a group is joined.
func (b *net) sync(group string) *workflow.Synchronization {
	s := &workflow.Synchronization{SiblingGroup: group}
	s.Strategy = of(b, "strategy", append(workflow.Values[workflow.Strategy](), workflow.All, workflow.MOfN(1))...)
	s.Remaining = of(b, "remaining", workflow.Values[workflow.Remaining]()...)
	s.OnShortfall = of(b, "shortfall", workflow.Values[workflow.Shortfall]()...)
	if b.one("timeout", 3) {
		s.Timeout = 2 * time.Second
		s.OnTimeout = of(b, "on timeout", workflow.Values[workflow.JoinTimeout]()...)
	}
	switch b.upTo("tolerate", 4) {
	case 1:
		s.Tolerate = workflow.TolerateFailures(b.upTo("failures", 2))
	case 2:
		s.Tolerate = workflow.TolerateRatio(0.5)
	}
	if !b.one("unmerged", 4) {
		s.Merge = &workflow.Merge{
			Target:   of(b, "target", "state.m", "state.all[]", "output.m", "state.x", ""),
			Strategy: string(of(b, "merge", merge.All()...)),
		}
		if m := s.Merge; (m.Strategy == string(merge.Append) || m.Strategy == string(merge.Collect)) && b.one("blob", 4) {
			m.As = workflow.MergeAsBlob
		}
	}
	return s
}

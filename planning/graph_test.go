package planning_test

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/testing/reference"
)

// A sketch draws definitions of the reference: any graph in which every cycle
// passes a task and is bounded, with groups that may or may not be joined.
type sketch struct {
	net
	def reference.Definition
}

func drawGraph(t *rapid.T) *reference.Definition {
	b := &sketch{net: net{t: t}}
	n := 2 + b.upTo("nodes", 8)
	for i := range n {
		b.def.Nodes = append(b.def.Nodes, b.draw(i))
	}
	for i := 1; i < n; i++ { // a way to every node
		b.step(b.upTo("from", i)-1, i)
	}
	for range b.upTo("edges", n) - 1 {
		to := 1 + b.upTo("to", n-1)
		if from := b.upTo("from", to) - 1; to < n {
			b.step(from, to)
		}
	}
	for _, name := range []string{"g", "h"} {
		if n > 3 && !b.one("no group", 3) {
			b.group(name)
		}
	}
	for range b.upTo("loops", 4) - 1 {
		b.back()
	}
	b.ends()
	b.prune()
	return &b.def
}

func (b *sketch) draw(i int) reference.Node {
	n := reference.Node{Task: !b.one("gateway", 5)}
	if i > 0 {
		n.Join = of(&b.net, "join", reference.NoJoin, reference.NoJoin, reference.NoJoin, reference.All, reference.Synchronize, reference.Synchronize)
	}
	n.FailUnmatched = n.Task && b.one("unmatched", 10)
	if n.Task && b.one("cancels", 10) {
		n.Cancels = []int{b.upTo("cancelled", len(b.def.Nodes)+1) - 1}
	}
	return n
}

// step adds an edge that leads on.
func (b *sketch) step(from, to int) {
	e := reference.Edge{From: from, To: to, Tier: of(&b.net, "tier", 0, 0, 0, 1)}
	if b.def.Nodes[from].Task {
		e.AtLeast = of(&b.net, "at least", 0, 0, 0, 1, 2, 3)
		b.outcome(&e)
	}
	if e.Outcome == reference.Success && b.one("anonymous", 12) {
		e.Fan, e.Count, e.Most = true, b.upTo("count", 3), b.upTo("most", 3)-1
	}
	b.def.Edges = append(b.def.Edges, e)
}

func (b *sketch) outcome(e *reference.Edge) {
	switch b.upTo("outcome", 8) {
	case 1:
		e.Outcome, e.AtLeast = reference.Error, 0
		e.Code = of(&b.net, "code", "", "e1", "join_shortfall", "expression_error", "unmatched")
	case 2:
		e.Outcome, e.AtLeast = reference.Always, 0
	}
}

// back adds an edge that leads back, or from a node to itself.
func (b *sketch) back() {
	from := b.upTo("source", len(b.def.Nodes)) - 1
	if !b.def.Nodes[from].Task {
		return
	}
	e := reference.Edge{From: from, To: b.upTo("target", from+1) - 1, Loop: b.upTo("loop", 2), AtLeast: of(&b.net, "at least", 0, 1, 2)}
	b.outcome(&e)
	b.def.Edges = append(b.def.Edges, e)
}

// group fans out at some nodes, and joins at one behind them.
func (b *sketch) group(name string) {
	n := len(b.def.Nodes)
	to := 1 + b.upTo("join at", n-2)
	s := reference.Sync{Group: name, Tolerate: of(&b.net, "tolerate", -1, -1, 0, 1, 2), Proceed: b.one("proceed", 3)}
	s.Quorum = of(&b.net, "quorum", 0, 0, 1, 1, 2)
	s.Remaining = of(&b.net, "remaining", reference.Cancel, reference.Ignore, reference.Block)
	for range b.upTo("spawners", 2) {
		from := b.upTo("fan out", to) - 1
		for range b.upTo("ways", 3) {
			e := reference.Edge{From: from, To: b.between(from, to), Fan: true, Group: name}
			e.Count = of(&b.net, "branches", 1, 1, 2, 2, 3, 0)
			e.Most = of(&b.net, "most", 0, 0, 0, 1, 2)
			e.Open = b.one("open", 12)
			if b.def.Nodes[from].Task && b.one("conditional", 4) {
				e.AtLeast = 2
			}
			b.def.Edges = append(b.def.Edges, e)
		}
	}
	for range b.upTo("joins", 4) {
		e := reference.Edge{From: b.upTo("arrive", to) - 1, To: to, Sync: &s, Tier: of(&b.net, "tier", 0, 0, 1)}
		if b.def.Nodes[e.From].Task {
			e.AtLeast = of(&b.net, "at least", 0, 0, 0, 1)
			if b.one("loops", 12) {
				e.Loop = 1
			}
		}
		b.def.Edges = append(b.def.Edges, e)
	}
}

// between draws a node behind from, before to if there is one.
func (b *sketch) between(from, to int) int {
	if to-from < 2 {
		return to
	}
	return from + b.upTo("branch", to-from-1)
}

// ends lets the run end at some of the nodes that nothing leaves.
func (b *sketch) ends() {
	for i := range b.def.Nodes {
		leads := slices.ContainsFunc(b.def.Edges, func(e reference.Edge) bool { return e.From == i })
		if n := &b.def.Nodes[i]; !leads && b.one("end", 6) {
			*n = reference.Node{End: true, Join: n.Join}
		}
	}
}

// leaves reports whether some join leaves its stragglers to one of these.
func leaves(def *reference.Definition, to ...reference.Remaining) bool {
	return slices.ContainsFunc(def.Edges, func(e reference.Edge) bool { return e.Sync != nil && slices.Contains(to, e.Sync.Remaining) })
}

// prune takes out what no definition may have: a quorum that a node's fan-out
// never makes.
func (b *sketch) prune() {
	for i := range b.def.Edges {
		s := b.def.Edges[i].Sync
		if s == nil {
			continue
		}
		tiers := map[[2]int]int{}
		most := map[int]int{}
		bounded := true
		for _, e := range b.def.Edges {
			if e.Fan && e.Group == s.Group {
				bounded = bounded && e.Count > 0 && !e.Open
				tiers[[2]int{e.From, e.Tier}] += e.Count
				most[e.From] = max(most[e.From], tiers[[2]int{e.From, e.Tier}])
			}
		}
		for _, n := range most {
			if bounded && n < s.Quorum {
				s.Quorum = n
			}
		}
	}
}

package planning_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// Every interleaving of completions, failures and alarms ends the run; what
// player.check checks holds after every message; and the journal replays.
func TestEveryInterleavingEnds(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		p := newPlayer(t, drawNet(t))
		p.failures = rapid.SampledFrom([]int{0, 1, 10}).Draw(t, "failures")
		if _, err := p.send(state.Start{Input: map[string]any{"n": int64(1)}}); err != nil {
			t.Fatalf("%v", err)
		}
		var sent []state.Message
		for step := 0; !p.state.Status.Final(); step++ {
			if step > 20_000 {
				t.Fatalf("the run does not end")
			}
			m := p.draw(t)
			if _, err := p.send(m); err != nil {
				t.Fatalf("%#v: %v", m, err)
			}
			if sent = append(sent, m); rapid.IntRange(0, 5).Draw(t, "again") == 0 {
				p.repeat(rapid.SampledFrom(sent).Draw(t, "repeated"))
			}
		}
		for _, m := range sent {
			p.repeat(m)
		}
		if n := p.state.LiveCount(); n != 0 {
			t.Fatalf("the run is %v and %d tokens live", p.state.Status, n)
		}
		p.replay()
		p.numbered()
	})
}

// draw draws what happens next.
func (p *player) draw(t *rapid.T) state.Message {
	var moves []state.Message
	for _, id := range p.state.LiveTokens() {
		switch tok := p.state.Token(id); tok.Status {
		case workflow.Dispatched:
			moves = append(moves, state.TaskCompleted{Token: id, Attempt: tok.Attempt, Epoch: tok.Epoch})
		case workflow.WaitingForOperator:
			moves = append(moves, state.Skip{Token: id, Output: "skipped"}, state.Retry{Token: id})
		}
	}
	if at := p.state.Alarm(); !at.IsZero() && (len(moves) == 0 || rapid.IntRange(0, 7).Draw(t, "time") == 0) {
		late := time.Duration(rapid.IntRange(0, 3).Draw(t, "late")) * time.Second
		if p.now.Before(at.Add(late)) {
			p.now = at.Add(late)
		}
		return state.AlarmFired{At: at.UnixMilli()}
	}
	if len(moves) == 0 {
		t.Fatalf("nothing can happen any more")
	}
	p.now = p.now.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "ms")) * time.Millisecond)
	m := rapid.SampledFrom(moves).Draw(t, "next")
	c, ok := m.(state.TaskCompleted)
	switch {
	case !ok:
		return m
	case p.failures > rapid.IntRange(0, 39).Draw(t, "fails"):
		code := rapid.SampledFrom([]string{"busy", "", "gone"}).Draw(t, "code")
		return state.TaskFailed{Token: c.Token, Attempt: c.Attempt, Epoch: c.Epoch, Failure: workflow.Failure{Code: code, Permanent: code == "gone"}}
	}
	c.Output = rapid.SampledFrom([]any{int64(1), int64(2), "text", []any{int64(3)}, map[string]any{"v": int64(4)}}).Draw(t, "output")
	return c
}

// repeat sends a message again: nothing changes.
func (p *player) repeat(m state.Message) {
	p.t.Helper()
	switch m.(type) {
	case state.Skip, state.Retry:
		return // an operator may ask for it again
	case state.AlarmFired:
		return // time may have come for something else
	default:
	}
	plan, err := p.plan(m)
	if len(plan.Decisions) > 0 {
		p.t.Fatalf("%#v again changes:\n%s", m, text(plan))
	}
	if err != nil && !errors.Is(err, state.ErrStale) {
		p.t.Fatalf("%#v again: %v", m, err)
	}
}

// numbered checks that events are numbered without gaps, and that the branches
// of every group are 0 to n-1.
func (p *player) numbered() {
	p.t.Helper()
	for i, e := range p.events {
		if e.Seq != int64(i+1) {
			p.t.Fatalf("event %d is the %d-th", e.Seq, i+1)
		}
	}
	if p.state.Facts.Events != int64(len(p.events)) {
		p.t.Fatalf("%d events, counted %d", len(p.events), p.state.Facts.Events)
	}
	for id := workflow.GroupID(1); id < p.state.NextGroup; id++ {
		g := p.state.Group(id)
		for i := range g.Total {
			first := p.state.Token(g.First + workflow.TokenID(i))
			if tr, _ := g.SpawnOf(i); first.Parent != g.Origin || tr == "" {
				p.t.Fatalf("%v is not branch %d of %+v", first.ID, i, g)
			}
		}
	}
}

// The branches of one group complete in every possible order.
func TestEveryOrderOfSixBranches(t *testing.T) {
	for n := 1; n <= harness.Figure(4, 6, 6); n++ {
		for _, strategy := range []string{"all", "any", "{mOfN: 2}", "{mOfN: 4}"} {
			for _, remaining := range []string{"cancel", "ignore"} {
				if (strategy == "{mOfN: 2}" && n < 2) || (strategy == "{mOfN: 4}" && n < 4) {
					continue
				}
				t.Run(fmt.Sprintf("%d/%s/%s", n, strategy, remaining), func(t *testing.T) {
					g := compile(t, fmt.Sprintf(`
name: orders
start: s
nodes:
  - {id: s}
  - {id: a, task: work}
  - {id: next, task: work, output: {output.merged: state.merged}}
transitions:
  - {from: s, to: a, siblingGroup: g, spawnCount: %d}
  - {from: a, to: next, synchronization: {siblingGroup: g, strategy: %s, remaining: %s, merge: {target: state.merged, strategy: collect}}}
`, n, strategy, remaining))
					everyOrder(n, func(order []int) { playOrder(t, g, order, strategy, remaining) })
				})
			}
		}
	}
}

// everyOrder calls f with every permutation of 0..n-1 (Heap's algorithm).
func everyOrder(n int, f func([]int)) {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	var permute func(k int)
	permute = func(k int) {
		if k <= 1 {
			f(order)
			return
		}
		for i := range k {
			permute(k - 1)
			if k%2 == 0 {
				order[i], order[k-1] = order[k-1], order[i]
			} else {
				order[0], order[k-1] = order[k-1], order[0]
			}
		}
	}
	permute(n)
}

func playOrder(t *testing.T, g *compiled.Graph, order []int, strategy, remaining string) {
	p := newPlayer(t, g)
	p.quick = len(order) > 4
	if _, err := p.send(state.Start{}); err != nil {
		t.Fatal(err)
	}
	quorum := map[string]int{"all": len(order), "any": 1, "{mOfN: 2}": 2, "{mOfN: 4}": 4}[strategy]
	for i, branch := range order {
		err := p.complete(workflow.TokenID(2+branch), int64(branch))
		if late := i >= quorum && remaining == "cancel"; late != errors.Is(err, state.ErrStale) || err != nil && !late {
			t.Fatalf("%v: branch %d: %v", order, branch, err)
		}
	}
	next := workflow.TokenID(2 + len(order))
	if p.state.NextToken != next+1 || p.state.Token(next).Node != "next" {
		t.Fatalf("%v: not one continuation", order)
	}
	if err := p.complete(next, nil); err != nil {
		t.Fatal(err)
	}
	arrived := slices.Sorted(slices.Values(order[:quorum]))
	if got, want := fmt.Sprint(p.state.Output["merged"]), fmt.Sprint(arrived); p.state.Status != workflow.RunCompleted || got != want {
		t.Fatalf("%v: %v, merged %v, want %v", order, p.state.Status, got, want)
	}
}

// A cycle of nodes that take no time is stopped by the bound of a plan: the run
// fails, and nothing of the plan happens.
func TestPlanIsBounded(t *testing.T) {
	harness.RequireLevel(t, harness.Gate, "TestEndlessPlans meets the same bound")
	p := newPlayer(t, compile(t, `
name: endless
start: a
nodes: [{id: a}, {id: b}]
transitions: [{from: a, to: b}, {from: b, to: a}]
`))
	plan, err := p.send(state.Start{})
	if err != nil || len(plan.Decisions) != 2 {
		t.Fatalf("%v: %s", err, text(plan))
	}
	fails, ok := plan.Decisions[1].(decision.FailRun)
	if !ok || fails.Failure.Code != workflow.CodeLimit || p.state.NextToken != 1 {
		t.Fatalf("%s", text(plan))
	}
}

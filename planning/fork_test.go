package planning_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// A fork of a run as of any of its records, made later, to which the same comes as to the
// run, as much later, ends as the run does. Its journal replays.
func TestForkAtEveryRecordEndsTheSame(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		p := newPlayer(t, untimed(t, drawNet(t)))
		p.failures = rapid.SampledFrom([]int{0, 1, 10}).Draw(t, "failures")
		told := []told{{state.Start{Input: map[string]any{"n": int64(1)}}, p.now}}
		for {
			if _, err := p.send(told[len(told)-1].message); err != nil {
				t.Fatalf("%v", err)
			}
			if p.state.Status.Final() {
				break
			}
			if len(told) > 20_000 {
				t.Fatalf("the run does not end")
			}
			told = append(told, toldNow(p, p.draw(t)))
		}
		later := time.Duration(rapid.IntRange(0, 100_000).Draw(t, "later")) * time.Millisecond
		for at := 1; at < len(told); at += 1 + len(told)/harness.Figure(4, 8, 64) {
			f := forkAt(t, p.graph, told, at, later)
			if got, want := endOf(f), endOf(p); got != want {
				t.Fatalf("forked as of record %d of %d, %v later:\n%s\nthe run:\n%s", at, len(told), later, got, want)
			}
			f.replay()
			f.numbered()
		}
	})
}

// A told message came at an instant.
type told struct {
	message state.Message
	at      time.Time
}

func toldNow(p *player, m state.Message) told { return told{m, p.now} }

// untimed takes out settings that depend on how long an attempt runs, which in a fork has
// all its time again, and on the id of the run, from which jitter is made.
func untimed(t *rapid.T, g *compiled.Graph) *compiled.Graph {
	d := *g.Definition
	d.Nodes = slices.Clone(d.Nodes)
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if n.Task != "" {
			n.Timeout, n.Heartbeat = 0, 0
		}
		if n.Retry != nil {
			r := *n.Retry
			r.Jitter = 0
			n.Retry = &r
		}
	}
	out, err := compiled.Compile(workflow.Bounds{}, &d)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return out
}

// forkAt plays the messages up to a record, makes a fork, and plays the others so much later.
func forkAt(t *rapid.T, g *compiled.Graph, all []told, at int, later time.Duration) *player {
	p := newPlayer(t, g)
	for i, x := range all {
		m := x.message
		switch {
		case i == 0:
			start, _ := m.(state.Start)
			start.As = "r"
			m = start
		case i >= at:
			x.at = x.at.Add(later)
			if alarm, ok := m.(state.AlarmFired); ok {
				m = state.AlarmFired{At: alarm.At + later.Milliseconds()}
			}
		}
		p.now = x.at
		if _, err := p.send(m); err != nil {
			t.Fatalf("forked as of record %d, message %d: %#v: %v", at, i+1, m, err)
		}
		if i != at-1 {
			continue
		}
		p.now = x.at.Add(later)
		fork := state.RunForked{Run: "f", From: workflow.ForkPoint{Run: "r", Record: int64(at)}, AsOf: x.at.UnixMilli()}
		if _, err := p.send(fork); err != nil {
			t.Fatalf("fork as of record %d: %v", at, err)
		}
	}
	return p
}

// endOf says how a run has ended, without the instants.
func endOf(p *player) string {
	out := fmt.Sprintf("%v %v %v\n", p.state.Status, p.state.Output, p.state.Failure)
	for id := workflow.TokenID(1); id < p.state.NextToken; id++ {
		t := p.state.Token(id)
		out += fmt.Sprintf("%v %s %v %d %v\n", id, t.Node, t.Status, t.Attempt, t.Failure)
	}
	return out
}

package tracing

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/spantest"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// A player plays messages to a run, as an actor would, and tells a tracer of what came of them.
type player struct {
	tracer *Tracer
	state  *state.State
	now    time.Time
	seq    int64
	looks  int // at waits, for what the last message may have ended
}

func newPlayer(t require.TestingT, text string) *player {
	d, err := workflow.ParseYAML([]byte(text))
	require.NoError(t, err)
	g, err := compiled.Compile(workflow.Bounds{}, d)
	require.NoError(t, err)
	p := &player{tracer: New(Options{Provider: &spantest.Provider{}, Now: time.Now}), state: state.NewState("r", g), now: time.Unix(1e9, 0).UTC()}
	p.tracer.Watch(Sources{EndAttempt: func(workflow.RunID, workflow.TokenID, End) {}})
	return p
}

func (p *player) send(m state.Message) error {
	plan, err := planning.Step(p.state, m, p.now)
	if err != nil || len(plan.Decisions) == 0 {
		return err
	}
	p.seq++
	records := []decision.Record{{Seq: p.seq, At: p.now, Planner: planning.Version, Message: m, Decisions: plan.Decisions}}
	var told []decision.Told
	for _, d := range plan.Decisions {
		told = decision.ApplyTo(told, p.state, d, &records[0])
	}
	p.looks = 0
	if b := p.tracer.books["r"]; b != nil {
		b.visitEnds(p.state, records, func(place, time.Time) { p.looks++ })
	}
	p.tracer.Committed(p.state, records, told)
	return nil
}

// The end of an inner join, or of a branch that fails, looks at the waits that are in it, however many the run has.
func TestTheCostOfAnEndIsFlatInWaits(t *testing.T) {
	for _, branches := range []int{1000, 16_000} {
		p := newPlayer(t, fmt.Sprintf(`
name: w
start: split
nodes: [{id: split}, {id: inner}, {id: go, wait: {event: go}}, {id: met}, {id: idle, wait: {event: idle}}, {id: rest, wait: {event: rest}}, {id: sum}]
transitions:
  - {from: split, to: inner, siblingGroup: o, spawnCount: %d}
  - {from: inner, to: go, siblingGroup: i, spawnCount: 3}
  - {from: go, to: met, synchronization: {siblingGroup: i, strategy: any}}
  - {from: met, to: rest}
  - {from: met, to: idle}
  - {from: rest, to: sum, condition: result.good, synchronization: {siblingGroup: o, tolerate: {failures: 9}}}
`, branches))
		waits := func() int { return len(p.tracer.books["r"].stays) }
		require.NoError(t, p.send(state.Start{}))
		all := 1 + branches + 3*branches
		require.Equal(t, all, waits())
		require.NoError(t, p.send(state.Signal{Name: "go"}))
		require.Equal(t, all-4+2, waits(), "two that rest in place of a join and its tokens")
		require.Equal(t, 3, p.looks, "the one that came is known until the commit")
		require.NoError(t, p.send(state.Signal{Name: "rest"}))
		require.Equal(t, all-4, waits())
		require.Equal(t, 2, p.looks)
	}
}

// The waits that are known are those that last, whatever a run does.
func TestKnownWaitsAreThoseThatLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		remaining := rapid.SampledFrom([]string{"cancel", "ignore", "block"})
		p := newPlayer(t, fmt.Sprintf(`
name: w
start: split
nodes:
  - {id: split}
  - {id: inner}
  - {id: beside, wait: {event: beside}, cancels: [go]}
  - {id: go, wait: {event: go}, timeout: 1h}
  - {id: next, wait: {event: next}, timeout: 2h}
  - {id: alone, wait: {event: alone}}
  - {id: pair}
  - {id: left, wait: {event: left}}
  - {id: right, wait: {event: right}}
  - {id: both, join: all}
  - {id: rest, wait: {event: rest}, timeout: 5h}
  - {id: sum, wait: {event: sum}}
transitions:
  - {from: split, to: inner, siblingGroup: o, spawnCount: 3}
  - {from: split, to: beside}
  - {from: inner, to: go, siblingGroup: i, spawnCount: 2}
  - {from: inner, to: pair}
  - {from: inner, to: alone, outcome: error}
  - {from: inner, to: alone, siblingGroup: u, spawnCount: 2}
  - {from: go, to: next}
  - {from: next, to: rest, condition: result.good, synchronization: {siblingGroup: i, strategy: any, remaining: %s, tolerate: {failures: %d}}}
  - {from: pair, to: left}
  - {from: pair, to: right}
  - {from: left, to: both}
  - {from: right, to: both}
  - {from: both, to: rest}
  - {from: rest, to: sum, condition: result.good, synchronization: {siblingGroup: o, strategy: any, remaining: %s, tolerate: {failures: 2}}}
`, remaining.Draw(t, "inner"), rapid.IntRange(0, 1).Draw(t, "tolerated"), remaining.Draw(t, "outer")))
		require.NoError(t, p.send(state.Start{}))
		node := rapid.SampledFrom([]string{"beside", "alone", "go", "next", "left", "right", "both", "rest", "sum"})
		for range rapid.IntRange(1, 30).Draw(t, "messages") {
			switch rapid.IntRange(0, 9).Draw(t, "message") {
			case 0:
				_ = p.send(state.CancelNodes{Nodes: []workflow.NodeID{workflow.NodeID(node.Draw(t, "node"))}}) // if a token is there
			case 1, 2:
				if at := p.state.Alarm(); !at.IsZero() {
					p.now = at
					require.NoError(t, p.send(state.AlarmFired{At: at.UnixMilli()}))
				}
			default:
				_ = p.send(state.Signal{Name: node.Draw(t, "event"), Early: true, Payload: map[string]any{"good": rapid.SampledFrom([]any{true, true, "no"}).Draw(t, "good")}}) // unless the run has ended
			}
			p.checkKnown(t)
		}
		if !p.state.Status.Final() {
			require.NoError(t, p.send(state.Cancel{}))
			p.checkKnown(t)
		}
	})
}

// checkKnown compares the waits that are known with those that a load of the run finds.
func (p *player) checkKnown(t require.TestingT) {
	fresh := New(p.tracer.o)
	fresh.Loaded(p.state)
	require.Equal(t, fresh.stays, p.tracer.stays)
	want, got := fresh.books["r"], p.tracer.books["r"]
	if want == nil {
		require.Nil(t, got)
		return
	}
	require.NotNil(t, got)
	for at := range want.stays {
		require.Contains(t, got.stays, at)
	}
	require.Equal(t, len(want.inside), len(got.inside))
	require.Equal(t, want.filled, got.filled)
	for sc, x := range want.inside {
		require.True(t, x.tokens.Equal(got.inside[sc].tokens) && x.groups.Equal(got.inside[sc].groups))
	}
}

// Where no more waits may be kept, a run that waits leaves nothing; nor does one that is forgotten.
func TestWaitsBeyondTheBoundLeaveNothing(t *testing.T) {
	const waits = "{name: w, start: a, nodes: [{id: a, wait: {event: go}}]}"
	full := newPlayer(t, waits)
	full.tracer.addStays(maxStays)
	require.NoError(t, full.send(state.Start{}))
	require.Empty(t, full.tracer.books)
	require.Equal(t, maxStays, full.tracer.stays)

	p := newPlayer(t, waits)
	require.NoError(t, p.send(state.Start{}))
	require.Equal(t, 1, p.tracer.stays)
	p.tracer.Forget("r")
	require.Zero(t, p.tracer.stays)
	require.Empty(t, p.tracer.books)
}

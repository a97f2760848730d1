package simulator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// A fork of a drawn run, made by the engine as of each of its records after the run has ended, to
// which the same comes as to the run, as much later, ends as the run does. All journals replay.
func TestForksAtEveryRecordEndTheSame(t *testing.T) {
	first, n, err := seedRange(*seeds)
	require.NoError(t, err, "-sim.seed")
	if *seeds == "" {
		n = harness.Figure(6, 75, 10_000)
	}
	if *seeds == "" && harness.CurrentLevel() == harness.Gate { // others each day, of those of a release
		var firsts []uint64
		for seed := 0; seed+n <= 10_000; seed += n {
			firsts = append(firsts, uint64(seed))
		}
		first = harness.SampleOfDay(t, len(firsts), firsts)[0]
	}
	forks, fired, statuses := 0, 0, map[workflow.RunStatus]int{}
	for seed := first; seed < first+uint64(n); seed++ {
		synctest.Test(t, func(t *testing.T) {
			o := newOriginal(t, seed)
			o.play()
			for at := 1; at < len(o.records); at++ {
				o.forkAt(at)
			}
			forks += len(o.records) - 1
			fired += o.fired
			statuses[o.state.Status]++
			require.NoError(t, o.engine.Close(t.Context()))
			_, err := replays.Check(o.dir)
			require.NoError(t, err, "%v", o)
		})
	}
	t.Logf("%d runs: %v; %d forks, %d alarms", n, statuses, forks, fired)
	require.Positive(t, forks)
}

// An original is a run that is forked. Its tasks are left pending by the executor, and end as
// the test says, so that the same can come to a fork.
type original struct {
	t       *testing.T
	dir     string
	seed    uint64
	r       *rand.Rand
	engine  *pawl.Engine
	graph   *compiled.Graph
	input   map[string]any
	state   *state.State
	records []decision.Record
	fired   int // alarms
	serial  int // of moves
}

func newOriginal(t *testing.T, seed uint64) *original {
	o := &original{t: t, dir: harness.Workspace(t), seed: seed, r: play{seed: seed}.draw("original")}
	o.graph = drawUntimed(o.r)
	o.input = of(o.r, nil, map[string]any{"items": []any{int64(1), int64(2)}})
	var err error
	o.engine, err = pawl.Open(t.Context(), o.dir, pawl.Options{
		Durability: pawl.ProcessCrash, Logger: slog.New(slog.DiscardHandler),
		Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }},
	})
	require.NoError(t, err)
	o.state = state.NewState("r", o.graph)
	return o
}

// drawUntimed draws a definition without child runs, whose ends are not the test's to repeat, and without
// settings that depend on how long an attempt runs, which in a fork has all its time again, on the instant at
// which a run began, or on its id, from which jitter is made.
func drawUntimed(r *rand.Rand) *compiled.Graph {
	for {
		d := copied(drawGraph(r, "original", nil, 14).Definition)
		for i := range d.Nodes {
			n := &d.Nodes[i]
			if n.Kind() == workflow.KindTask {
				n.Timeout, n.Heartbeat = 0, 0
			}
			if n.Retry != nil {
				n.Retry.Jitter = 0
			}
			if n.Wait != nil && n.Wait.Until != "" {
				n.Wait = &workflow.WaitSpec{For: 3 * time.Second}
			}
		}
		if g, err := compiled.Compile(workflow.Bounds{}, d); err == nil {
			return g
		}
	}
}

// String shows what is needed to look into a failure.
func (o *original) String() string {
	var b strings.Builder
	raw, _ := o.graph.Definition.MarshalJSON()
	fmt.Fprintf(&b, "-sim.seed=%d\n%s\n", o.seed, raw)
	for i := range o.records {
		r := &o.records[i]
		fmt.Fprintf(&b, "%d %s %s: %v\n", r.Seq, r.At.Format(time.RFC3339Nano), messageText(r.Message), r.Decisions)
	}
	return b.String()
}

// elapse lets time pass, and everything come to rest.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// mostMoves bounds what happens to an original; after that it is cancelled.
const mostMoves = 120

// play plays the original to its end.
func (o *original) play() {
	require.NoError(o.t, o.engine.Start(o.t.Context(), workflow.Run{ID: "r", Definition: o.graph.Definition}, o.input))
	for o.follow(); !o.state.Status.Final(); o.follow() {
		o.serial++
		require.Less(o.t, o.serial, 2*mostMoves, "it does not end: %v", o)
		m := o.draw()
		if m == nil {
			elapse(max(time.Until(o.state.Alarm()), 0))
			continue
		}
		elapse(time.Duration(o.r.IntN(300)) * time.Millisecond)
		if err := o.tell("r", m); err != nil { // time may have ended what it was for
			require.False(o.t, errors.Is(err, pawl.ErrInvalid), "%s: %v", messageText(m), err)
		}
	}
}

// follow reads the records that are new.
func (o *original) follow() {
	synctest.Wait()
	for r, err := range acts.Records(o.engine.Journal(o.t.Context(), "r", pawl.EventsOptions{})) {
		require.NoError(o.t, err)
		if r.Seq <= int64(len(o.records)) {
			continue
		}
		o.records = append(o.records, r)
		for _, d := range r.Decisions {
			decision.Apply(o.state, d, &r)
		}
		if _, ok := r.Message.(state.AlarmFired); ok {
			o.fired++
		}
	}
}

// draw draws what happens next; nil is the next alarm.
func (o *original) draw() state.Message {
	var moves []state.Message
	for _, id := range o.state.LiveTokens() {
		moves = append(moves, o.movesOf(o.state.Token(id))...)
	}
	for id := workflow.GroupID(1); id < o.state.NextGroup; id++ {
		if g := o.state.Group(id); g.Open && !g.Closed && g.Phase == workflow.Gathering {
			moves = append(moves, state.CloseGroup{Group: g.Name, Origin: g.Origin}, state.AddBranch{Group: g.Name, Origin: g.Origin, Item: int64(o.serial)})
		}
	}
	alarm := !o.state.Alarm().IsZero()
	switch {
	case o.serial > mostMoves, len(moves) == 0 && !alarm:
		return state.Cancel{Reason: "enough"}
	case alarm && (len(moves) == 0 || o.r.IntN(6) == 0):
		return nil
	case o.r.IntN(12) == 0:
		return state.Signal{Name: of(o.r, events...), Payload: map[string]any{"n": int64(o.serial)}, Early: true}
	}
	return of(o.r, moves...)
}

// movesOf returns what can be done about a token.
func (o *original) movesOf(t *state.Token) []state.Message {
	switch t.Status {
	case workflow.Dispatched:
		if o.r.IntN(8) == 0 {
			code := of(o.r, "busy", "gone")
			return []state.Message{state.TaskFailed{Token: t.ID, Failure: workflow.Failure{Code: code, Message: "drawn", Permanent: code == "gone"}}}
		}
		output := of[any](o.r, int64(1), int64(2), "text", []any{int64(3)}, map[string]any{"v": int64(4)})
		return []state.Message{state.TaskCompleted{Token: t.ID, Output: output}}
	case workflow.WaitingForOperator:
		return []state.Message{state.Skip{Token: t.ID, Output: "skipped"}, state.Retry{Token: t.ID}}
	case workflow.WaitingForApproval:
		return []state.Message{state.Ballot{Token: t.ID, By: of(o.r, "ann", "bob", "cid"), Approved: o.r.IntN(3) > 0}}
	case workflow.WaitingForEvent:
		name := of(o.r, o.graph.Node(t.Node).Events()...)
		return []state.Message{state.Signal{Name: name, Transient: true, Payload: map[string]any{"n": int64(o.serial), "missing": int64(1)}}}
	default:
		return nil
	}
}

// tell lets a message come to a run by the call of the engine that makes it.
func (o *original) tell(run workflow.RunID, m state.Message) error {
	ctx, e := o.t.Context(), o.engine
	switch m := m.(type) {
	case state.TaskCompleted:
		return e.Complete(ctx, o.key(run, m.Token), m.Output)
	case state.TaskFailed:
		return e.Fail(ctx, o.key(run, m.Token), pawl.TaskError{Code: m.Failure.Code, Message: "drawn", Retryable: !m.Failure.Permanent})
	case state.Skip:
		return e.Skip(ctx, pawl.Target{Run: run, Token: m.Token}, m.Output)
	case state.Retry:
		return e.Retry(ctx, pawl.Target{Run: run, Token: m.Token}, pawl.RetryOptions{})
	case state.Ballot:
		return e.Vote(ctx, pawl.Target{Run: run, Token: m.Token}, workflow.Ballot{Token: m.Token, By: m.By, Approved: m.Approved})
	case state.Signal:
		return e.Signal(ctx, run, workflow.Signal{Name: m.Name, Payload: m.Payload, Transient: m.Transient, Early: m.Early})
	case state.AddBranch:
		return e.AddBranch(ctx, pawl.GroupTarget{Run: run, Group: m.Group, Origin: m.Origin}, m.Item)
	case state.CloseGroup:
		return e.CloseGroup(ctx, pawl.GroupTarget{Run: run, Group: m.Group, Origin: m.Origin})
	case state.Cancel:
		return e.Cancel(ctx, run, m.Reason)
	default:
		return fmt.Errorf("nobody has told the original %T", m)
	}
}

// key returns the key of the attempt that a token of a run has out.
func (o *original) key(run workflow.RunID, token workflow.TokenID) pawl.Key {
	s, err := o.engine.Inspect(o.t.Context(), run)
	require.NoError(o.t, err)
	i := slices.IndexFunc(s.Tokens, func(t pawl.Token) bool { return t.ID == token })
	require.NotEqual(o.t, -1, i, "%s has no token %d: %v", run, token, o)
	return s.Tokens[i].Key
}

// forkAt forks the original as of a record, and lets the rest come to the fork.
func (o *original) forkAt(at int) {
	id := workflow.RunID(fmt.Sprint("f", at))
	elapse(time.Duration(o.r.IntN(100_000)) * time.Millisecond)
	made := timeout.Instant(time.Now())
	require.NoError(o.t, o.engine.Fork(o.t.Context(), "r", id, pawl.ForkOptions{At: int64(at)}), "as of record %d: %v", at, o)
	later := made.Sub(o.records[at-1].At)
	synctest.Wait()
	for _, r := range o.records[at:] {
		elapse(time.Until(r.At.Add(later)))
		if _, ok := r.Message.(state.AlarmFired); !ok {
			require.NoError(o.t, o.tell(id, r.Message), "forked as of record %d, the message of record %d: %v", at, r.Seq, o)
		}
	}
	synctest.Wait()
	got, want := o.end(id, made, later), o.end("r", made, later)
	require.Equal(o.t, want, got, "forked as of record %d: %v", at, o)
}

var stamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`)

// end says how a run has ended. Instants after a fork was made are told as so much earlier.
func (o *original) end(run workflow.RunID, made time.Time, later time.Duration) string {
	s, err := o.engine.Inspect(o.t.Context(), run)
	require.NoError(o.t, err)
	text := fmt.Sprintf("%v %v %v\n%v\n", s.Status, s.Output, s.Failure, s.State)
	for _, t := range s.Tokens {
		text += fmt.Sprintf("%v %s %v %d %v\n", t.ID, t.Node, t.Status, t.Attempt, t.Failure)
	}
	return stamp.ReplaceAllStringFunc(text, func(at string) string {
		t, err := time.Parse(time.RFC3339Nano, at)
		if err != nil || t.Before(made) {
			return at
		}
		return t.Add(-later).Format("2006-01-02T15:04:05.000Z")
	})
}

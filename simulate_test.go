package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

const shop = `
name: shop
start: check
nodes:
  - {id: check, task: check, input: {amount: input.amount}, output: {state.score: result.score}, retry: {maxAttempts: 3, initialInterval: 1m}}
  - {id: approve, approval: {quorum: 2}, timeout: 1h}
  - {id: ship, task: ship}
  - {id: late}
transitions:
  - {from: check, to: ship, condition: "result.score > 0.8"}
  - {from: check, to: approve, priority: 1}
  - {from: approve, to: ship}
  - {from: approve, to: late, outcome: error}
output: {mapping: {score: state.score}}
`

// waiting starts run r, whose task check stays out.
func waiting(t *testing.T) (*pawl.Engine, pawl.Key) {
	t.Helper()
	keys := make(chan pawl.Key, 1)
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{
		"check": func(_ context.Context, task pawl.Task) (any, error) {
			keys <- task.Key
			return nil, pawl.ErrPending
		},
		"ship": func(context.Context, pawl.Task) (any, error) { panic("nothing is dispatched by a simulation") },
	}})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, shop)}, map[string]any{"amount": 7}))
	return e, <-keys
}

// A sequence of calls is decided in memory, with reasons; the run stays as it is.
func TestSimulate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, key := waiting(t)
		synctest.Wait() // the handler has returned
		before, err := e.Inspect(t.Context(), "r")
		require.NoError(t, err)

		sim, err := e.Simulate(t.Context(), pawl.OfRun{Run: "r"})
		require.NoError(t, err)
		ctx := pawl.As(t.Context(), "ann")
		require.NoError(t, sim.Do(ctx, pawl.Complete{Key: key, Output: map[string]any{"score": 0.71}}))
		notes := sim.Steps()[0].Notes
		require.Equal(t, []history.Note{{
			Token: 1, Transition: "check->ship", Expression: "result.score > 0.8",
			Reads: []history.Reading{{Path: "result.score", Value: "0.71"}}, Cost: notes[0].Cost,
		}}, notes)
		require.Positive(t, notes[0].Cost)

		approve := pawl.Vote{Target: pawl.Target{Node: "approve"}, Approved: true}
		require.NoError(t, sim.Do(ctx, approve))
		require.ErrorIs(t, sim.Do(ctx, approve), pawl.ErrAlreadyVoted)
		approve.By = "bob"
		require.NoError(t, sim.Do(t.Context(), approve))
		require.Len(t, sim.Steps(), 3)
		require.Equal(t, workflow.NodeID("ship"), sim.Snapshot().Tokens[2].Node)
		require.NoError(t, sim.Play(t.Context(), pawl.Handlers{"ship": func(ctx context.Context, task pawl.Task) (any, error) {
			require.ErrorIs(t, task.Heartbeat(context.Background(), 1), pawl.ErrInvalid)
			_, err := task.Once(context.Background(), "", nil)
			require.ErrorIs(t, err, pawl.ErrInvalid)
			require.ErrorIs(t, e.Start(ctx, workflow.Run{ID: "other", Definition: define(t, shop)}, nil), pawl.ErrInvalid)
			return nil, nil
		}}))
		end := sim.Snapshot()
		require.Equal(t, workflow.RunCompleted, end.Status)
		require.Equal(t, map[string]any{"score": 0.71}, end.Output)
		require.Equal(t, before.Seq+4, end.Seq)
		last := sim.Steps()[3]
		require.Equal(t, workflow.EventWorkflowCompleted, last.Events[len(last.Events)-1].Type)

		after, err := e.Inspect(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, before, after)
	})
}

// Time passes in a simulation by itself: retries and timeouts come at their instants.
func TestSimulatedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, key := waiting(t)
		synctest.Wait() // the handler has returned
		sim, err := e.Simulate(t.Context(), pawl.OfRun{Run: "r"})
		require.NoError(t, err)
		began := sim.Now()
		require.NoError(t, sim.Do(t.Context(), pawl.Fail{Key: key, Cause: errors.New("busy")}))
		calls := 0
		again := pawl.Handlers{"check": func(_ context.Context, task pawl.Task) (any, error) {
			calls++
			require.Equal(t, 2, task.Attempt)
			return map[string]any{"score": 0}, nil
		}}
		require.NoError(t, sim.Play(t.Context(), again))
		require.Zero(t, calls)
		require.NoError(t, sim.Do(t.Context(), pawl.Elapse{Elapse: 2 * time.Minute}))
		require.NoError(t, sim.Play(t.Context(), again))
		require.Equal(t, 1, calls)
		require.NoError(t, sim.Do(t.Context(), pawl.Elapse{Elapse: time.Hour}))
		require.Equal(t, began.Add(time.Hour+2*time.Minute), sim.Now())
		end := sim.Snapshot()
		require.Equal(t, workflow.RunCompleted, end.Status)
		require.Equal(t, workflow.NodeID("late"), end.Tokens[len(end.Tokens)-1].Node)
		require.ErrorIs(t, sim.Do(t.Context(), pawl.Elapse{Elapse: -1}), pawl.ErrInvalid)
		require.ErrorIs(t, sim.Do(t.Context(), pawl.Signal{Name: "x", Early: true}), pawl.ErrEnded)
	})
}

// A simulation of a patch answers as the run would, and a task whose handler panics or
// waits in it does as in the run.
func TestSimulatedPatch(t *testing.T) {
	e, key := waiting(t)
	sim, err := e.Simulate(t.Context(), pawl.OfRun{Run: "r"})
	require.NoError(t, err)
	ctx := t.Context()
	ops := []any{map[string]any{"op": "replace", "path": "/transitions/check->ship/condition", "value": "false"}}
	require.NoError(t, sim.Do(ctx, pawl.Patch{Base: 1, Ops: ops}))
	require.ErrorIs(t, sim.Do(ctx, pawl.Patch{Base: 1, Ops: ops}), pawl.ErrConflict)
	require.Equal(t, 2, sim.Snapshot().Revision)
	require.NoError(t, sim.Do(ctx, pawl.Complete{Key: key, Output: map[string]any{"score": 1}}))
	require.Equal(t, workflow.NodeID("approve"), sim.Snapshot().Tokens[1].Node)
	require.NoError(t, sim.Do(ctx, pawl.Cancel{Reason: "tried enough"}))
	require.Equal(t, workflow.RunCancelled, sim.Snapshot().Status)

	sim, err = e.Simulate(t.Context(), pawl.OfRun{Run: "r"})
	require.NoError(t, err)
	require.NoError(t, sim.Play(t.Context(), pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }}))
	require.Empty(t, sim.Steps())
	require.NoError(t, sim.Play(t.Context(), pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { panic("no") }}))
	require.Equal(t, workflow.CodePanic, sim.Snapshot().Failure.Code)
}

// The engine explains a live run as it stands.
func TestWhy(t *testing.T) {
	e, key := waiting(t)
	require.NoError(t, e.Complete(t.Context(), key, map[string]any{"score": 0.5}))
	x, err := e.Why(t.Context(), "r")
	require.NoError(t, err)
	require.Len(t, x.Waits, 1)
	require.Equal(t, "people: 0 of 2 approvals", x.Waits[0].For)
	require.Equal(t, []history.Reading{{Path: "result.score", Value: "0.5"}}, x.Waits[0].Came.Notes[0].Reads)
	_, err = e.Why(t.Context(), "nobody")
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = e.Why(ctx, "r")
	require.ErrorIs(t, err, context.Canceled)
}

// A task that a simulation performs cannot have the engine do anything, and a simulation takes acts that are none, or are about
// another run, as little as the engine does.
func TestRefusedInASimulation(t *testing.T) {
	e, key := waiting(t)
	_, err := e.Simulate(t.Context(), pawl.OfRun{Run: "nobody"})
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
	sim, err := e.Simulate(t.Context(), pawl.OfRun{Run: "r"})
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "s", Definition: define(t, shop)}, map[string]any{"amount": 7}))
	ofAnother, err := e.Inspect(t.Context(), "s")
	require.NoError(t, err)
	require.NotEmpty(t, ofAnother.Tokens[0].Key)
	for _, act := range []pawl.Act{nil, (*pawl.Cancel)(nil), &pawl.Cancel{}, pawl.Complete{Key: ofAnother.Tokens[0].Key}, pawl.Elapse{Elapse: -1}} {
		require.ErrorIs(t, sim.Do(t.Context(), act), pawl.ErrInvalid, "%T", act)
	}
	require.ErrorIs(t, e.Do(t.Context(), "r", pawl.Elapse{Elapse: time.Second}), pawl.ErrInvalid)
	require.ErrorIs(t, e.Do(t.Context(), "s", pawl.Complete{Key: key}), pawl.ErrInvalid, "it is of another run")
	var ctx context.Context
	require.NoError(t, sim.Play(t.Context(), pawl.Handlers{"*": func(of context.Context, _ pawl.Task) (any, error) {
		ctx = of
		return nil, pawl.ErrPending
	}}))
	run := workflow.Run{ID: "s", Definition: define(t, shop)}
	for name, call := range map[string]func() error{
		"Start":   func() error { return e.Start(ctx, run, nil) },
		"Run":     func() error { _, err := e.Run(ctx, run, nil); return err },
		"Wait":    func() error { _, err := e.Wait(ctx, "r"); return err },
		"Why":     func() error { _, err := e.Why(ctx, "r"); return err },
		"Inspect": func() error { _, err := e.Inspect(ctx, "r"); return err },
		"Purge":   func() error { return e.Purge(ctx, "r") },
		"Fork":    func() error { return e.Fork(ctx, "r", "f", pawl.ForkOptions{}) },
		"DoAll": func() error {
			_, err := e.DoAll(ctx, pawl.Selection{DeadLetters: &pawl.DeadLetterFilter{}}, pawl.Retry{})
			return err
		},
		"Pause":      func() error { return e.Pause(ctx, "r") },
		"Do":         func() error { return sim.Do(ctx, pawl.Pause{}) },
		"Close":      func() error { return e.Close(ctx) },
		"EndChild":   func() error { return sim.EndChild(pawl.Target{Run: "r", Node: "check"}, workflow.Outcome{}) },
		"before":     func() error { _, err := e.PurgeEnded(ctx, pawl.Retention{Before: time.Now()}); return err },
		"ended":      func() error { _, err := e.PurgeEnded(ctx, pawl.Retention{Keep: 1}); return err },
		"Simulation": func() error { _, err := e.Simulate(ctx, pawl.OfRun{Run: "r"}); return err },
	} {
		require.ErrorIs(t, call(), pawl.ErrInvalid, name)
	}
	require.ErrorIs(t, sim.EndChild(pawl.Target{Run: "r", Node: "check"}, workflow.Outcome{Status: workflow.RunCompleted}), pawl.ErrNotLive)
	require.Empty(t, sim.Steps())
}

// The end of a child run is told, since no child is started.
func TestSimulatedChild(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }}})
	child := define(t, "name: inner\nstart: a\nnodes: [{id: a, task: x}]\n")
	_, err := e.Publish(t.Context(), child)
	require.NoError(t, err)
	d := define(t, "name: outer\nstart: sub\nnodes: [{id: sub, subworkflow: {name: inner}, output: {state.n: result.n}}]\noutput: {mapping: {n: state.n}}\n")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil))
	sim, err := e.Simulate(t.Context(), pawl.OfRun{Run: "r"})
	require.NoError(t, err)
	require.NoError(t, sim.EndChild(pawl.Target{Run: "r", Node: "sub"}, workflow.Outcome{Status: workflow.RunCompleted, Output: map[string]any{"n": int64(3)}}))
	require.Equal(t, map[string]any{"n": int64(3)}, sim.Snapshot().Output)
}

func ExampleEngine_Simulate() {
	dir, err := os.MkdirTemp("", "pawl")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	e, err := pawl.Open(ctx, dir, pawl.Options{Executor: pawl.Handlers{}})
	if err != nil {
		panic(err)
	}
	defer e.Close(ctx)
	order, err := workflow.ParseYAML([]byte(`
name: order
start: approve
nodes:
  - {id: approve, approval: {message: "Send it?"}}
  - {id: ship, task: ship, input: {amount: input.amount}}
  - {id: insure, task: insure}
transitions:
  - {from: approve, to: ship, condition: "input.amount < 5000"}
  - {from: approve, to: insure, priority: 1}
`))
	if err != nil {
		panic(err)
	}
	if err := e.Start(ctx, workflow.Run{ID: "order-42", Definition: order}, map[string]any{"amount": 4800}); err != nil {
		panic(err)
	}

	sim, err := e.Simulate(ctx, pawl.OfRun{Run: "order-42"})
	if err != nil {
		panic(err)
	}
	err = sim.Do(ctx, pawl.Vote{Target: pawl.Target{Node: "approve"}, By: "ann", Approved: true})
	if err != nil {
		panic(err)
	}
	for _, step := range sim.Steps() {
		for _, d := range step.Record.Decisions {
			fmt.Println(d)
		}
		for _, note := range step.Notes {
			fmt.Println("  why", note)
		}
	}
	// Output:
	// add-vote t1 by=ann approved
	// decide-approval t1 approved cause=votes
	// complete-token t1
	// create-token t2 node=ship
	// dispatch-task t2 task=ship attempt=1 input={"amount":4800}
	//   why t1 approve->ship [tier 0]: input.amount < 5000 is true with input.amount = 4800
}

// A copy of the past is the run as it was then, and goes on from there.
func TestSimulateAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, key := waiting(t)
		synctest.Wait() // the handler has returned
		require.NoError(t, e.Complete(t.Context(), key, map[string]any{"score": 0.71}))
		require.NoError(t, e.Vote(t.Context(), pawl.Target{Run: "r", Node: "approve"}, workflow.Ballot{By: "bob", Approved: true}))
		_, err := e.Patch(t.Context(), "r", pawl.Patch{Base: 1, Ops: []any{map[string]any{"op": "remove", "path": "/nodes/ship/task"}}})
		require.NoError(t, err)
		now, err := e.Inspect(t.Context(), "r")
		require.NoError(t, err)

		rec, err := e.Recording(t.Context(), "r")
		require.NoError(t, err)
		stepper, err := replay.NewStepper(rec.(*replay.Recording))
		require.NoError(t, err)
		for seq := int64(1); seq <= now.Seq; seq++ {
			sim, err := e.Simulate(t.Context(), pawl.OfRun{Run: "r", At: seq})
			require.NoError(t, err)
			f, err := stepper.At(seq)
			require.NoError(t, err)
			o := sim.Overview()
			require.Equal(t, []any{f.Status, f.Seq, len(f.Tokens)}, []any{o.Status, o.Seq, o.Live})
			require.True(t, f.At.Equal(sim.Now()))
		}
		sim, err := e.Simulate(t.Context(), pawl.OfRun{Run: "r", At: now.Seq})
		require.NoError(t, err)
		require.Equal(t, now, sim.Snapshot())
		d, revision, err := sim.Definition()
		require.NoError(t, err)
		require.Equal(t, 2, revision)
		require.Empty(t, d.Nodes[2].Task)

		sim, err = e.Simulate(t.Context(), pawl.OfRun{Run: "r", At: 1})
		require.NoError(t, err)
		d, revision, err = sim.Definition()
		require.NoError(t, err)
		require.Equal(t, 1, revision)
		require.Equal(t, "ship", d.Nodes[2].Task)
		require.NoError(t, sim.Do(t.Context(), pawl.Complete{Key: key, Output: map[string]any{"score": 0.99}}))
		require.Equal(t, workflow.NodeID("ship"), sim.Overview().Nodes[1].Node)

		for _, none := range []int64{-1, now.Seq + 1} {
			_, err = e.Simulate(t.Context(), pawl.OfRun{Run: "r", At: none})
			require.ErrorIs(t, err, pawl.ErrInvalid)
		}
		_, err = e.Simulate(t.Context(), pawl.OfRun{Run: "none", At: 1})
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
		require.NoError(t, e.Close(t.Context()))
	})
}

// A copy of a fork as of a record before that which made it is of the run that was forked.
func TestSimulateAtBeforeAFork(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, chain)}, nil))
	require.NoError(t, e.Fork(t.Context(), "a", "b", pawl.ForkOptions{}))
	for _, record := range []int64{1, 2} {
		sim, err := e.Simulate(t.Context(), pawl.OfRun{Run: "b", At: record})
		require.NoError(t, err)
		s := sim.Snapshot()
		require.Equal(t, sourceAt(record), s.Run)
		require.Equal(t, record > 1, s.ForkedFrom.Run == "a")
		require.NoError(t, sim.Do(t.Context(), pawl.Skip{Target: pawl.Target{Node: "a"}}))
		require.NoError(t, sim.Do(t.Context(), pawl.Complete{Key: sim.Snapshot().Tokens[1].Key, Output: 7}))
		require.Equal(t, map[string]any{"b": int64(7)}, sim.Snapshot().Output)
	}
}

// sourceAt is whose the records of fork b are in TestSimulateAtBeforeAFork.
func sourceAt(record int64) workflow.RunID {
	if record == 1 {
		return "a"
	}
	return "b"
}

// decided are the records of a journal, or of a simulation, as they are told apart: by what
// was decided, and the events.
func decided(t *testing.T, steps []pawl.SimulatedStep) (out []string) {
	t.Helper()
	for _, s := range steps {
		for _, d := range s.Record.Decisions {
			out = append(out, d.String())
		}
	}
	return out
}

func journalFrom(t *testing.T, e *pawl.Engine, id workflow.RunID, from int64) (out []pawl.SimulatedStep) {
	t.Helper()
	for r, err := range e.Journal(t.Context(), id, pawl.EventsOptions{}) {
		require.NoError(t, err)
		if r.Seq >= from {
			out = append(out, pawl.SimulatedStep{Record: r})
		}
	}
	return out
}

// A simulated Start decides what Start decides, and leaves nothing behind.
func TestSimulateStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }}})
		run := workflow.Run{ID: "r", Tenant: "ann", Labels: map[string]string{"k": "v"}, Definition: define(t, `
name: two
start: split
nodes: [{id: split}, {id: work, task: work, input: {n: n}}, {id: join, wait: {for: 1h}}]
transitions: [{from: split, to: work, foreach: {collection: input.of, as: n}, siblingGroup: g}, {from: work, to: join, synchronization: {siblingGroup: g}}]
`)}
		input := map[string]any{"of": []int{1, 2}}
		sim, err := e.Simulate(t.Context(), pawl.OfStart{Run: run, Input: input})
		require.NoError(t, err)
		_, err = e.Summary(t.Context(), "r")
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
		would, brief := sim.Snapshot(), sim.Summary()
		require.Equal(t, []any{"two", "ann", run.Labels, int64(1)}, []any{would.Workflow, would.Tenant, would.Labels, would.Seq})
		require.Len(t, sim.Steps(), 1)

		require.NoError(t, e.Start(t.Context(), run, input))
		synctest.Wait() // the handlers have returned
		require.Equal(t, decided(t, journalFrom(t, e, "r", 1)), decided(t, sim.Steps()))
		told, err := e.Summary(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, told, brief)
		is, err := e.Inspect(t.Context(), "r")
		require.NoError(t, err)
		for i := range is.Tokens { // keys are of the life of the engine, and of this run
			require.Equal(t, is.Tokens[i], would.Tokens[i])
		}

		// It goes on as any copy does.
		require.NoError(t, sim.Play(t.Context(), pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) { return task.Input.(map[string]any)["n"], nil }}))
		require.Equal(t, workflow.RunRunning, sim.Snapshot().Status)

		// The same run is there: nothing would be decided. Another one is refused.
		sim, err = e.Simulate(t.Context(), pawl.OfStart{Run: run, Input: input})
		require.NoError(t, err)
		require.Empty(t, sim.Steps())
		_, err = e.Simulate(t.Context(), pawl.OfStart{Run: run, Input: map[string]any{"of": []int{1}}})
		require.ErrorIs(t, err, pawl.ErrRunExists)
		run.ID = "a/b"
		_, err = e.Simulate(t.Context(), pawl.OfStart{Run: run, Input: input})
		require.ErrorIs(t, err, pawl.ErrInvalid)
		_, err = e.Simulate(t.Context(), pawl.OfStart{Run: workflow.Run{ID: "x", Workflow: "none"}})
		require.ErrorIs(t, err, pawl.ErrNotPublished)
	})
}

// A simulated Fork or Rerun decides what Fork or Rerun decides.
func TestSimulateFork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, key := waiting(t)
		require.NoError(t, e.Complete(t.Context(), key, map[string]any{"score": 0.71}))
		last, err := e.Summary(t.Context(), "r")
		require.NoError(t, err)
		for at := int64(1); at <= last.Seq; at++ {
			to, o := workflow.RunID("f"+string(rune('0'+at))), pawl.ForkOptions{At: at, InFlight: workflow.InFlightPark}
			sim, err := e.Simulate(t.Context(), pawl.OfFork{From: pawl.Target{Run: "r"}, To: to, Options: o})
			require.NoError(t, err)
			_, err = e.Summary(t.Context(), to)
			require.ErrorIs(t, err, pawl.ErrRunNotFound)
			require.NoError(t, e.Fork(t.Context(), "r", to, o))
			require.Equal(t, decided(t, journalFrom(t, e, to, at+1)), decided(t, sim.Steps()))
			synctest.Wait() // the handlers have returned
			is, err := e.Inspect(t.Context(), to)
			require.NoError(t, err)
			would := sim.Snapshot()
			require.Equal(t, []any{is.Status, is.ForkedFrom, is.Tokens, is.Seq}, []any{would.Status, would.ForkedFrom, would.Tokens, would.Seq})
			sim, err = e.Simulate(t.Context(), pawl.OfFork{From: pawl.Target{Run: "r"}, To: to, Options: o})
			require.NoError(t, err)
			require.Empty(t, sim.Steps(), "it is there")
		}
		sim, err := e.Simulate(t.Context(), pawl.OfFork{From: pawl.Target{Run: "r", Node: "check"}, To: "again"})
		require.NoError(t, err)
		require.NoError(t, e.Rerun(t.Context(), pawl.Target{Run: "r", Node: "check"}, "again", pawl.ForkOptions{}))
		require.Equal(t, decided(t, journalFrom(t, e, "again", sim.Steps()[0].Record.Seq)), decided(t, sim.Steps()))

		for _, wrong := range []pawl.Origin{nil, &pawl.OfRun{Run: "r"}, pawl.OfFork{From: pawl.Target{Run: "r"}}, pawl.OfFork{From: pawl.Target{Run: "r"}, Import: replay.New("x", nil, nil), To: "x"}} {
			_, err = e.Simulate(t.Context(), wrong)
			require.ErrorIs(t, err, pawl.ErrInvalid)
		}
		_, err = e.Simulate(t.Context(), pawl.OfFork{From: pawl.Target{Run: "r"}, To: "x", Options: pawl.ForkOptions{At: 99}})
		forked := (*pawl.ForkError)(nil)
		require.ErrorAs(t, err, &forked)
		_, err = e.Simulate(t.Context(), pawl.OfFork{From: pawl.Target{Run: "none"}, To: "x"})
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
		_, err = e.Simulate(t.Context(), pawl.OfFork{From: pawl.Target{Run: "r"}, To: "r"})
		require.ErrorIs(t, err, pawl.ErrRunExists)
	})
}

// A fork is tried as of one instant, as it is made, whatever the clock does meanwhile.
func TestSimulateForkAtOneInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := &testhook.Hook{}
		e := openWith(t, hook, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }}})
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, oneTask)}, map[string]any{"n": 1}))
		synctest.Wait() // its handler has returned
		var looks atomic.Int64
		hook.OnNow(func() time.Time { return time.Now().Add(time.Duration(looks.Add(1)) * time.Millisecond) })
		sim, err := e.Simulate(t.Context(), pawl.OfFork{From: pawl.Target{Run: "r"}, To: "f"})
		require.NoError(t, err)
		require.Contains(t, decided(t, sim.Steps()), "fork-run run=f from=r record=1")
	})
}

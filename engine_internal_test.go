package pawl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/roster"
	"github.com/pawl-run/pawl/internal/running"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// Two actors of one run, which the registry does not let be: whichever commits
// behind the other's back has nothing committed, answers that the outcome is
// unknown and loads the run again. No message is lost or counts twice.
func TestTwoActorsOfARun(t *testing.T) {
	const rounds, senders = 30, 3
	e, err := Open(t.Context(), t.TempDir(), Options{Durability: ProcessCrash, IdleAfter: time.Hour})
	require.NoError(t, err)
	nap := workflow.Node{ID: "nap", Wait: &workflow.WaitSpec{Event: "never"}}
	run := workflow.Run{ID: "a", Definition: &workflow.Definition{Name: "nap", Start: "nap", Nodes: []workflow.Node{nap}}}
	require.NoError(t, e.Start(t.Context(), run, nil))
	two := []*actor.Actor{e.runs.StartActor("a", nil), e.runs.StartActor("a", nil)}
	refused := 0
	var mu sync.Mutex
	for n := range rounds {
		var group sync.WaitGroup
		for k := range 2 * senders {
			group.Go(func() {
				s := state.Signal{Name: "other", Early: true, ID: fmt.Sprint(n, " ", k)}
				for {
					err := two[k%2].Ask(context.Background(), s)
					if !errors.Is(err, ErrUnknown) {
						assert.NoError(t, err)
						return
					}
					mu.Lock()
					refused++
					mu.Unlock()
				}
			})
		}
		group.Wait()
	}
	seen := map[string]int{}
	for r, err := range e.Journal(t.Context(), "a", EventsOptions{}) {
		require.NoError(t, err)
		if s, ok := r.Message.(state.Signal); ok {
			seen[s.ID]++
		}
	}
	require.Len(t, seen, rounds*2*senders)
	for id, n := range seen {
		require.Equal(t, 1, n, id)
	}
	require.Positive(t, refused, "no commit was behind another")
	require.NoError(t, e.Close(context.Background()))
	t.Logf("%d messages to two actors of a run, %d commits refused, violations: 0", rounds*2*senders, refused)
}

// A run that cannot be loaded when it is due, for a reason that may pass, is
// woken later, less and less often.
func TestRunsAreWokenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := Open(t.Context(), t.TempDir(), Options{IdleAfter: time.Second})
		require.NoError(t, err)
		nap := workflow.Node{ID: "nap", Wait: &workflow.WaitSpec{For: time.Hour}}
		run := workflow.Run{ID: "a", Definition: &workflow.Definition{Name: "nap", Start: "nap", Nodes: []workflow.Node{nap}}}
		require.NoError(t, e.Start(t.Context(), run, nil))
		up, tries := e.runs.Activate, 0
		e.runs.Activate = func(id workflow.RunID) error {
			if tries++; tries <= 5 {
				return errors.New("too many open files")
			}
			return up(id)
		}
		out, err := e.Wait(t.Context(), "a")
		require.NoError(t, err)
		require.NoError(t, out.Err())
		require.Equal(t, 6, tries)
		require.Equal(t, time.Hour+3100*time.Millisecond, out.EndedAt.Sub(out.StartedAt))
		require.NoError(t, e.Close(context.Background()))
	})
}

// A run may be purged between the look at what is due and its turn to be woken: nobody is told of it.
func TestAPurgedRunIsNotWoken(t *testing.T) {
	var log bytes.Buffer
	e, err := Open(t.Context(), t.TempDir(), Options{Durability: ProcessCrash, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	nap := workflow.Node{ID: "nap", Wait: &workflow.WaitSpec{Event: "never"}}
	run := workflow.Run{ID: "a", Definition: &workflow.Definition{Name: "nap", Start: "nap", Nodes: []workflow.Node{nap}}}
	require.NoError(t, e.Start(t.Context(), run, nil))
	require.NoError(t, e.Cancel(t.Context(), "a", ""))
	require.NoError(t, e.Purge(t.Context(), "a"))
	e.runs.Wake("a")
	require.NoError(t, e.Close(t.Context()))
	require.NotContains(t, log.String(), "cannot go on")
}

// That a run could not be woken says nothing of the run that has its id after a
// purge.
func TestARunWithTheIDOfADamagedOneIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := Open(t.Context(), t.TempDir(), Options{IdleAfter: time.Second})
		require.NoError(t, err)
		up, tries := e.runs.Activate, 0
		e.runs.Activate = func(id workflow.RunID) error {
			if tries++; tries == 1 {
				return ErrCorrupt
			}
			return up(id)
		}
		nap := workflow.Node{ID: "nap", Wait: &workflow.WaitSpec{For: time.Hour}}
		run := workflow.Run{ID: "a", Definition: &workflow.Definition{Name: "nap", Start: "nap", Nodes: []workflow.Node{nap}}}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		require.NoError(t, e.Start(ctx, run, nil))
		<-time.After(90 * time.Minute)
		require.Equal(t, 1, tries, "it is left as it is")
		require.NoError(t, e.Cancel(ctx, "a", ""))
		require.NoError(t, e.Purge(ctx, "a"))
		out, err := e.Run(ctx, run, nil)
		require.NoError(t, err)
		require.NoError(t, out.Err())
		require.NoError(t, e.Close(context.Background()))
	})
}

// Where the clock never jumps, an engine looks at it when something is due and hardly
// ever in between.
func TestNapsAreAsLongAsTheHookAllows(t *testing.T) {
	for nap, atMost := range map[time.Duration]int{0: 1_000_000, 100 * 24 * time.Hour: 100} {
		synctest.Test(t, func(t *testing.T) {
			hook, looks := &testhook.Hook{}, atomic.Int64{}
			hook.SetMaxNap(nap)
			hook.OnNow(func() time.Time { looks.Add(1); return time.Now() })
			e, err := Open(testhook.With(t.Context(), hook), t.TempDir(), Options{})
			require.NoError(t, err)
			wait := workflow.Node{ID: "nap", Wait: &workflow.WaitSpec{For: 3 * 24 * time.Hour}}
			run := workflow.Run{ID: "a", Definition: &workflow.Definition{Name: "nap", Start: "nap", Nodes: []workflow.Node{wait}}}
			require.NoError(t, e.Start(t.Context(), run, nil))
			out, err := e.Wait(t.Context(), "a")
			require.NoError(t, err)
			require.Equal(t, 3*24*time.Hour, out.EndedAt.Sub(out.StartedAt))
			require.LessOrEqual(t, looks.Load(), int64(atMost))
			if nap == 0 {
				require.Greater(t, looks.Load(), int64(3*24*60), "once a minute")
			}
			require.NoError(t, e.Close(context.Background()))
		})
	}
}

// publish publishes a definition.
func publish(t *testing.T, e *Engine, d *workflow.Definition) {
	t.Helper()
	_, err := e.Publish(t.Context(), d)
	require.NoError(t, err)
}

// A child's id may be taken by a run that is not the child: one with another
// parent, with none, or with another definition. The node fails, and that run
// goes on as if nothing had been.
func TestIDOfChildIsTaken(t *testing.T) {
	child := compileText(t, "name: one\nstart: w\nnodes: [{id: w, task: w}]\n")
	other := compileText(t, "name: other\nstart: w\nnodes: [{id: w, task: w}]\n")
	parent := compileText(t, `
name: parent
start: sub
nodes: [{id: sub, subworkflow: {name: one}}, {id: rescue, output: {output.why: error.code, output.text: error.message}}]
transitions: [{from: sub, to: rescue, outcome: error}]
`)
	for name, b := range map[string]running.Birth{
		"another parent":     {Graph: child, Parent: &workflow.Parent{Run: "q", Token: 1, Attempt: 1, Root: "q", Depth: 1}},
		"no parent":          {Graph: child},
		"another definition": {Graph: other, Parent: &workflow.Parent{Run: "p", Token: 1, Attempt: 1, Root: "q", Depth: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			e, err := Open(ctx, t.TempDir(), Options{})
			require.NoError(t, err)
			defer func() { require.NoError(t, e.Close(context.Background())) }()
			publish(t, e, child.Definition)
			require.NoError(t, e.Start(ctx, workflow.Run{ID: "q", Definition: child.Definition}, nil))

			b.Graph, b.InputHash = e.dir.AddDefinition(b.Graph), value.Hash(map[string]any{})
			require.NoError(t, e.runs.AskOrStart(ctx, "p/1.1", state.Start{Input: map[string]any{}, Parent: b.Parent}, &b))
			out, err := e.Run(ctx, workflow.Run{ID: "p", Definition: parent.Definition}, nil)
			require.NoError(t, err)
			require.Equal(t, map[string]any{"why": workflow.CodeIDConflict, "text": `run "p/1.1" is not the child`}, out.Output)

			taken, err := e.Inspect(ctx, "p/1.1")
			require.NoError(t, err)
			require.Equal(t, workflow.RunRunning, taken.Status, "it is not cancelled with a parent that is not its own")
		})
	}
}

func compileText(t *testing.T, yaml string) *compiled.Graph {
	t.Helper()
	d, err := workflow.ParseYAML([]byte(yaml))
	require.NoError(t, err)
	g, err := compiled.Compile(workflow.Bounds{}, d)
	require.NoError(t, err)
	return g
}

// A child whose parent is not there any more is not wanted.
func TestAnOrphanIsCancelled(t *testing.T) {
	e, err := Open(t.Context(), t.TempDir(), Options{})
	require.NoError(t, err)
	d := &workflow.Definition{Name: "w", Start: "a", Nodes: []workflow.Node{{ID: "a", Wait: &workflow.WaitSpec{Event: "e"}}}}
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "orphan", Definition: d}, nil))
	e.runs.Messenger.Enqueue("orphan", roster.Message{Parent: workflow.Parent{Run: "gone", Token: 1, Attempt: 1}})
	out, err := e.Wait(t.Context(), "orphan")
	require.NoError(t, err)
	require.Equal(t, workflow.RunCancelled, out.Status)
	require.NoError(t, e.Close(t.Context()))
}

// Close does not wait without a bound for a function of the host that serves the socket and does not return.
func TestCloseLeavesAServerOfTheSocket(t *testing.T) {
	var log bytes.Buffer
	release, returned := make(chan struct{}), make(chan struct{})
	e, err := Open(t.Context(), t.TempDir(), Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Socket: func(*Engine, net.Listener) {
		defer close(returned)
		<-release
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Close(ctx); err != nil { // on a slow machine
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, e.Close(t.Context()))
	}
	require.Contains(t, log.String(), "Options.Socket has not returned")
	require.False(t, e.socket.Stop(t.Context(), time.Millisecond), "nor does it wait longer than it says")
	close(release)
	<-returned
}

// A run with an instant that JSON has no form for is told without it, and with its trouble.
func TestASummaryOfImpossibleInstants(t *testing.T) {
	s := summaryOf(&store.Head{Run: "a", Workflow: "w", StartedAt: time.UnixMilli(316516809600000)})
	text, err := json.Marshal(s)
	require.NoError(t, err)
	require.Contains(t, string(text), `"trouble":"it has an instant of the year 12000: there are those of the years 1 to 9999 only"`)
	require.Contains(t, string(text), `"run":"a"`)
	require.Empty(t, summaryOf(&store.Head{Run: "a", StartedAt: time.Unix(0, 0)}).Trouble)
}

// A start does not get the actor of another one before the commit is made that begins and ends the run of that: it may fail.
func TestAStartWaitsForARunThatEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := &testhook.Hook{}
		e, err := Open(testhook.With(t.Context(), hook), t.TempDir(), Options{})
		require.NoError(t, err)
		d := compileText(t, "name: w\nstart: a\nnodes: [{id: a}]\n").Definition
		synctest.Wait() // nobody reads the index while the commit is held up
		other, waiting, once := make(chan error, 1), -1, sync.Once{}
		hook.OnHit(func(point string) {
			if point == "commit.begin" {
				once.Do(func() {
					go func() { other <- e.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, map[string]any{"x": 1}) }()
					synctest.Wait()
					a := e.registry.Hold("r")
					waiting = a.Waiting()
					e.registry.Release(a)
				})
			}
		})
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil))
		require.ErrorIs(t, <-other, ErrRunExists)
		require.Zero(t, waiting, "the other start is in the mailbox")
		require.NoError(t, e.Close(t.Context()))
	})
}

// A start that is repeated while its run is purged begins the run anew.
func TestARepeatedStartMeetsAPurge(t *testing.T) {
	ctx, hook := t.Context(), &testhook.Hook{}
	e, err := Open(testhook.With(ctx, hook), t.TempDir(), Options{})
	require.NoError(t, err)
	run := workflow.Run{ID: "r", Definition: compileText(t, "name: w\nstart: a\nnodes: [{id: a}]\n").Definition}
	_, err = e.Run(ctx, run, nil)
	require.NoError(t, err)
	purges := 0
	hook.OnHit(func(point string) {
		if point == "start.answer" && purges < 2 {
			purges++
			require.NoError(t, e.Purge(ctx, "r"))
		}
	})
	require.NoError(t, e.Start(ctx, run, nil))
	require.Equal(t, 2, purges, "the second is of the run that began anew")
	require.ErrorIs(t, e.Purge(ctx, "r"), ErrRunNotFound)
	require.NoError(t, e.Close(ctx))
}

// Wait does not read the row of a run whose actor will tell of its end. The row tells once the actor has
// told, and after a commit that has failed and may have ended the run.
func TestWhoTellsOfTheEnd(t *testing.T) {
	ctx := t.Context()
	hook := &testhook.Hook{}
	e, err := Open(testhook.With(ctx, hook), t.TempDir(), Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	g := compileText(t, "name: w\nstart: w\nnodes: [{id: w, wait: {event: go}}]\n")
	require.False(t, e.registry.GoesOn("r"))
	require.NoError(t, e.Start(ctx, workflow.Run{ID: "r", Definition: g.Definition}, nil))
	require.True(t, e.registry.GoesOn("r"))

	e.registry.NoteStatus("r", workflow.RunSuspended)
	require.True(t, e.registry.GoesOn("r"))
	e.registry.NoteStatus("r", workflow.RunCreated) // as after a commit that failed
	require.False(t, e.registry.GoesOn("r"))
	waits := make(chan error, 1)
	go func() {
		_, err := e.Wait(ctx, "r")
		waits <- err
	}()
	told := make(chan bool, 1)
	hook.OnHit(func(point string) {
		if point == "release.begin" {
			told <- e.registry.GoesOn("r")
		}
	})
	require.NoError(t, e.Signal(ctx, "r", workflow.Signal{Name: "go"}))
	require.False(t, <-told, "who begins to wait now is not told")
	require.NoError(t, <-waits)
	out, err := e.Wait(ctx, "r")
	require.NoError(t, err)
	require.Equal(t, workflow.RunCompleted, out.Status)
	require.False(t, e.registry.GoesOn("nobody"))
	_, err = e.Wait(ctx, "nobody")
	require.ErrorIs(t, err, ErrRunNotFound)
}

// A suspended run takes no result that comes from outside. When it is resumed, the attempt is performed again, also one whose
// handler was still at work.
func TestAResultFromOutsideOfASuspendedRun(t *testing.T) {
	for _, early := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			calls := make(chan Key, 4)
			finish := make(chan struct{}, 4)
			e, err := Open(ctx, t.TempDir(), Options{Executor: Handlers{"ask": func(_ context.Context, t Task) (any, error) {
				calls <- t.Key
				<-finish
				return nil, ErrPending
			}}})
			require.NoError(t, err)
			defer func() { require.NoError(t, e.Close(context.Background())) }()
			g := compileText(t, "name: w\nstart: w\nnodes: [{id: w, task: ask, output: {output.got: result}}]\n")
			require.NoError(t, e.Start(ctx, workflow.Run{ID: "r", Definition: g.Definition}, nil))
			key := <-calls
			if !early {
				finish <- struct{}{}
				synctest.Wait()
			}
			require.NoError(t, e.runs.Ask(ctx, "r", state.Suspend{Cause: "a fault"}))
			require.ErrorIs(t, e.Complete(ctx, key, "lost"), ErrSuspended)
			require.ErrorIs(t, e.Fail(ctx, key, errors.New("lost")), ErrSuspended)
			synctest.Wait()
			require.Empty(t, calls, "a suspended run sends nothing")
			require.NoError(t, e.Resume(ctx, "r"))
			if early {
				synctest.Wait()
				require.Empty(t, calls, "no key is executed twice at a time")
				finish <- struct{}{}
			}
			require.Equal(t, key, <-calls)
			finish <- struct{}{}
			synctest.Wait()
			require.NoError(t, e.Complete(ctx, key, "kept"))
			out, err := e.Wait(ctx, "r")
			require.NoError(t, err)
			require.Equal(t, "kept", out.Output["got"])
			require.Empty(t, calls)
		})
	}
}

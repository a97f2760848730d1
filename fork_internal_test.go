package pawl

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/taskkey"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

// A run refuses a result because it is suspended, and is resumed before the goroutine
// that delivered the result has ended: the task that it sends again, under the key
// that is still held, is executed.
func TestATaskThatIsSentAgainWhileItsResultIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		def, err := workflow.ParseJSON([]byte(`{"name": "x", "version": 1, "start": "a", "nodes": [{"id": "a", "task": "t"}, {"id": "b"}], "transitions": [{"from": "a", "to": "b"}]}`))
		require.NoError(t, err)
		var e *Engine
		var g *compiled.Graph
		node := workflow.NodeID("b")
		executed := 0
		var restore func()
		var resumed []error
		work := func(context.Context, Task) (any, error) {
			if executed++; executed == 1 {
				h, err := e.dir.Head("r")
				if err != nil {
					return nil, err
				}
				if g, err = e.dir.Graph(h.Definition); err != nil {
					return nil, err
				}
				b := g.Nodes[node]
				restore = func() { g.Nodes[node] = b }
				delete(g.Nodes, node) // what a bug of the planner would do
			}
			return 1, nil
		}
		log := slog.New(onWarn{slog.DiscardHandler, func(text string) {
			if text == "pawl: results could not be delivered" && len(resumed) == 0 {
				restore()
				resumed = append(resumed, e.Resume(context.Background(), "r"))
			}
		}})
		e, err = Open(t.Context(), t.TempDir(), Options{Executor: Handlers{"t": work}, Logger: log})
		require.NoError(t, err)
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		out, err := e.Wait(ctx, "r")
		require.NoError(t, err)
		require.Equal(t, workflow.RunCompleted, out.Status)
		require.Equal(t, []error{nil}, resumed)
		require.Equal(t, 2, executed)
		require.NoError(t, e.Close(t.Context()))
		require.Zero(t, e.dispatcher.Counts())
	})
}

type onWarn struct {
	slog.Handler
	do func(string)
}

func (h onWarn) Enabled(context.Context, slog.Level) bool { return true }

func (h onWarn) Handle(_ context.Context, r slog.Record) error { h.do(r.Message); return nil }

// An attempt that is withdrawn while its handler runs, and says then that its result
// comes later, is over: nothing is kept of it.
func TestAnAttemptIsForgottenThoughItSaysPending(t *testing.T) {
	began := make(chan struct{})
	e, err := Open(t.Context(), t.TempDir(), Options{Executor: Handlers{"*": func(ctx context.Context, _ Task) (any, error) {
		close(began)
		<-ctx.Done()
		return nil, ErrPending
	}}})
	require.NoError(t, err)
	d := &workflow.Definition{Name: "w", Start: "a", Nodes: []workflow.Node{{ID: "a", Task: "t"}}}
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: d}, nil))
	<-began
	require.NoError(t, e.Cancel(t.Context(), "a", ""))
	require.NoError(t, e.dispatcher.StopAndWait(t.Context()))
	require.Zero(t, e.dispatcher.Counts())
	require.NoError(t, e.Close(t.Context()))
}

// openForkable opens an engine in which run a waits for a task.
func openForkable(t *testing.T, hook *testhook.Hook) *Engine {
	t.Helper()
	e, err := Open(testhook.With(t.Context(), hook), t.TempDir(), Options{})
	require.NoError(t, err)
	d, err := workflow.ParseYAML([]byte("name: one\nstart: a\nnodes: [{id: a, task: a}]\n"))
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: d}, nil))
	return e
}

// While a run is purged no fork gets its id: keys of the two would be the same.
func TestAForkWaitsForThePurgeOfItsID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := openForkable(t, nil)
		release, err := e.registry.Reserve(t.Context(), "b") // as Purge does; the rest of it is over
		require.NoError(t, err)
		forked := make(chan error, 1)
		go func() { forked <- e.Fork(t.Context(), "a", "b", ForkOptions{}) }()
		synctest.Wait()
		require.Empty(t, forked)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, e.Fork(ctx, "a", "b", ForkOptions{}), context.Canceled)

		e.purges.Add(1)
		release()
		require.NoError(t, <-forked)
		s, err := e.Inspect(t.Context(), "b")
		require.NoError(t, err)
		require.Equal(t, e.keyOf(taskkey.Attempt{Run: "b", Token: 1, Number: 1, Epoch: e.dispatchEpoch()}), s.Tokens[0].Key)
		require.NoError(t, e.Close(t.Context()))
	})
}

// importable returns the run a of an engine as another engine can import it.
func importable(t *testing.T, e *Engine) Recording {
	t.Helper()
	rec, err := e.Recording(t.Context(), "a")
	require.NoError(t, err)
	return rec
}

// No import gets the id of a run that is being purged either, nor does anybody reach it before it is told.
func TestAnImportWaitsForThePurgeOfItsID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := &testhook.Hook{}
		e := openForkable(t, hook)
		release, err := e.registry.Reserve(t.Context(), "b")
		require.NoError(t, err)
		imported := make(chan error, 1)
		go func() { imported <- e.Import(t.Context(), importable(t, e), "b", ForkOptions{}) }()
		synctest.Wait()
		require.Empty(t, imported)

		cancelled := make(chan error, 1)
		hook.OnHit(func(point string) {
			switch point {
			case "fork.ask":
				go func() { cancelled <- e.Cancel(t.Context(), "b", "") }()
				synctest.Wait()
			case "fork.answer":
				synctest.Wait()
				require.Empty(t, cancelled, "somebody has reached the run before it was told")
			}
		})
		e.purges.Add(1)
		release()
		require.NoError(t, <-imported)
		hook.OnHit(func(string) {})
		require.NoError(t, <-cancelled)
		s, err := e.Inspect(t.Context(), "b")
		require.NoError(t, err)
		require.Equal(t, workflow.RunCancelled, s.Status)
		require.NoError(t, e.Import(t.Context(), importable(t, e), "c", ForkOptions{}))
		s, err = e.Inspect(t.Context(), "c")
		require.NoError(t, err)
		require.Equal(t, e.keyOf(taskkey.Attempt{Run: "c", Token: 1, Number: 1, Epoch: e.dispatchEpoch()}), s.Tokens[0].Key)
		require.NoError(t, e.Close(t.Context()))
	})
}

// A start that is refused has an actor which has found no run: a fork or an import that gets its id waits until that has left. It then
// proceeds by itself, and others who start a run of that id are told that it is there.
func TestAForkWaitsForARefusedStart(t *testing.T) {
	for name, fork := range map[string]func(*testing.T, *Engine) error{
		"fork": func(t *testing.T, e *Engine) error { return e.Fork(t.Context(), "a", "b", ForkOptions{}) },
		"import": func(t *testing.T, e *Engine) error {
			return e.Import(t.Context(), importable(t, e), "b", ForkOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hook := &testhook.Hook{}
				e := openForkable(t, hook)
				d, strict := compileText(t, "name: w\nstart: a\nnodes: [{id: a}]\n"), compileText(t, "name: w\nstart: a\nnodes: [{id: a}]\ninput: {schema: {type: object, required: [n]}}\n")
				goOn := make(chan struct{})
				hook.OnHit(func(point string) {
					if point == "actor.active" {
						<-goOn
					}
				})
				refused, forked, other := make(chan error, 1), make(chan error, 1), make(chan error, 1)
				go func() { refused <- e.Start(t.Context(), workflow.Run{ID: "b", Definition: strict.Definition}, nil) }()
				synctest.Wait() // its actor has found nothing
				go func() { forked <- fork(t, e) }()
				synctest.Wait()
				go func() { other <- e.Start(t.Context(), workflow.Run{ID: "b", Definition: d.Definition}, nil) }()
				synctest.Wait()
				require.Empty(t, forked)
				close(goOn)
				require.ErrorAs(t, <-refused, new(*workflow.InputError))
				require.NoError(t, <-forked)
				require.ErrorIs(t, <-other, ErrRunExists)
				synctest.Wait()
				require.Equal(t, 2, e.dispatcher.Counts().Pending, "the task of the fork is sent")
				require.NoError(t, e.Close(t.Context()))
			})
		})
	}
}

// Watchers are told of a fork before anything happens to it, so that the last change that
// they are told of is the last one.
func TestAForkIsToldBeforeItMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := &testhook.Hook{}
		e := openForkable(t, hook)
		var seqs []int64
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			for c, err := range e.Watch(ctx, WatchFilter{Prefix: "b"}) {
				if err == nil && !c.Lost {
					seqs = append(seqs, c.Seq)
				}
			}
		}()
		synctest.Wait()

		cancelled := make(chan error, 1)
		var once sync.Once
		hook.OnHit(func(point string) {
			switch point {
			case "commit.done": // whoever looks from now on finds the fork
				once.Do(func() { go func() { cancelled <- e.Cancel(t.Context(), "b", "") }() })
			case "fork.answer":
				synctest.Wait()
				require.Empty(t, cancelled, "the fork has moved before anybody was told that it is there")
				require.Equal(t, []int64{2}, seqs)
			}
		})
		require.NoError(t, e.Fork(t.Context(), "a", "b", ForkOptions{}))
		require.NoError(t, <-cancelled)
		synctest.Wait()
		require.Equal(t, []int64{2, 3}, seqs)
		require.NoError(t, e.Close(t.Context()))
	})
}

// Forks and imports at once keep to the bounds: the place of a run that is being made is taken, and free again if the run is not made. A
// fork that makes the same run finds it made, and needs no room.
func TestAForkTakesItsPlaceBeforeItIsMade(t *testing.T) {
	for name, options := range map[string]Options{
		"of a tenant": {Tenants: map[string]TenantLimit{"acme": {Active: 2}}},
		"of all":      {MaxActive: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hook := &testhook.Hook{}
				e, err := Open(testhook.With(t.Context(), hook), t.TempDir(), options)
				require.NoError(t, err)
				def := compileText(t, "name: one\nstart: a\nnodes: [{id: a, task: a}]\n").Definition
				require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: def, Tenant: "acme"}, nil))
				recording := importable(t, e)
				var busy []error
				same, other := make(chan error, 1), make(chan error, 1)
				var held atomic.Bool // the first of them
				hook.OnHit(func(point string) {
					if point != "fork.ask" || held.Swap(true) {
						return
					}
					go func() { same <- e.Fork(t.Context(), "a", "b", ForkOptions{}) }()
					go func() { other <- e.Fork(t.Context(), "a", "b", ForkOptions{InFlight: workflow.InFlightPark}) }()
					synctest.Wait()
					busy = append(busy, e.Fork(t.Context(), "a", "c", ForkOptions{}), e.Import(t.Context(), recording, "d", ForkOptions{}),
						e.Start(t.Context(), workflow.Run{ID: "e", Definition: def, Tenant: "acme"}, nil))
				})
				require.NoError(t, e.Fork(t.Context(), "a", "b", ForkOptions{}))
				busy = append(busy, e.Fork(t.Context(), "a", "c", ForkOptions{}))
				require.Len(t, busy, 4)
				for _, err := range busy {
					require.ErrorIs(t, err, ErrBusy)
				}
				require.NoError(t, <-same)
				require.ErrorIs(t, <-other, ErrRunExists)

				require.NoError(t, e.Cancel(t.Context(), "b", ""))
				synctest.Wait() // its actor leaves
				hook.OnHit(func(point string) {
					if point == "fork.ask" {
						panic(point)
					}
				})
				require.PanicsWithValue(t, "fork.ask", func() { _ = e.Fork(t.Context(), "a", "c", ForkOptions{}) })
				hook.OnHit(func(string) {})
				require.Equal(t, 1, e.registry.CountBusy())
				require.NoError(t, e.Import(t.Context(), recording, "d", ForkOptions{}))
				require.NoError(t, e.Close(t.Context()))
			})
		})
	}
}

// A run whose start is refused was never there: who has got its actor is told so.
func TestNobodyReachesARunThatHasNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := &testhook.Hook{}
		e, err := Open(testhook.With(t.Context(), hook), t.TempDir(), Options{})
		require.NoError(t, err)
		goOn, answers := make(chan struct{}), make(chan error, 9)
		hook.OnHit(func(point string) {
			if point == "actor.active" {
				<-goOn
			}
		})
		strict := compileText(t, "name: w\nstart: a\nnodes: [{id: a, approval: {}}]\ninput: {schema: {type: object, required: [n]}}\n").Definition
		refused := make(chan error, 1)
		go func() { refused <- e.Start(t.Context(), workflow.Run{ID: "r", Definition: strict}, nil) }()
		synctest.Wait()
		for _, act := range []Act{Cancel{}, Signal{Name: "s"}, Vote{Target: Target{Node: "a"}, By: "ann", Approved: true}, Retry{Target: Target{Node: "a"}}, Pause{}} {
			go func() { answers <- e.Do(t.Context(), "r", act) }()
		}
		go func() { _, err := e.Overview(t.Context(), "r"); answers <- err }()
		synctest.Wait()
		require.Empty(t, answers)
		close(goOn)
		require.ErrorAs(t, <-refused, new(*workflow.InputError))
		for range 6 {
			require.ErrorIs(t, <-answers, ErrRunNotFound)
		}
		require.NoError(t, e.Close(t.Context()))
	})
}

package pawl_test

import (
	"context"
	"io"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/store/logtest"
	"github.com/pawl-run/pawl/workflow"
)

// listError returns the error that ends a list.
func listError[T any](list func(func(T, error) bool)) (last error) {
	list(func(_ T, err error) bool { last = err; return true })
	return last
}

// Lists that wait for a log which does not answer wait no longer than their contexts, whichever of them waits first.
func TestListsWaitForALogUntilTheirContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, silent := newSharedPlace(t), atomic.Bool{}
		o := p.options(nil, func(string) logtest.Fault {
			if silent.Load() {
				return logtest.Refused
			}
			return logtest.None
		})
		e, err := pawl.Open(t.Context(), filepath.Join(replays.Dir(t), "data"), o)
		require.NoError(t, err)
		def := define(t, "name: w\nstart: a\nnodes: [{id: a, wait: {event: go}}]\n")
		publish(t, e, def)
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "first", Definition: def}, nil))
		silent.Store(true)
		started := make(chan error)
		go func() { started <- e.Start(t.Context(), workflow.Run{ID: "second", Definition: def}, nil) }()
		synctest.Wait()

		lists := map[string]func(context.Context) error{
			"Runs": func(ctx context.Context) error { return listError(e.Runs(ctx, pawl.RunFilter{})) },
			"Runs of a label": func(ctx context.Context) error {
				return listError(e.Runs(ctx, pawl.RunFilter{Labels: map[string]string{"a": "b"}}))
			},
			"Runs of a prefix": func(ctx context.Context) error { return listError(e.Runs(ctx, pawl.RunFilter{Prefix: "f"})) },
			"Runs after one":   func(ctx context.Context) error { return listError(e.Runs(ctx, pawl.RunFilter{After: "first"})) },
			"Approvals":        func(ctx context.Context) error { return listError(e.Approvals(ctx, pawl.ApprovalFilter{})) },
			"DeadLetters":      func(ctx context.Context) error { return listError(e.DeadLetters(ctx, pawl.DeadLetterFilter{})) },
			"DeadLetters where": func(ctx context.Context) error {
				return listError(e.DeadLetters(ctx, pawl.DeadLetterFilter{Where: "status == 'running'"}))
			},
			"Definitions": func(ctx context.Context) error { return listError(e.Definitions(ctx, pawl.DefinitionFilter{})) },
			"Counts":      func(ctx context.Context) error { _, err := e.Counts(ctx); return err },
			"Summary":     func(ctx context.Context) error { _, err := e.Summary(ctx, "first"); return err },
		}
		ended := make(chan error, 10*len(lists))
		for i := range 3 {
			for name, list := range lists {
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Second)
					defer cancel()
					began := time.Now()
					err := list(ctx)
					if took := time.Since(began); took != time.Duration(i+1)*time.Second {
						t.Errorf("%s took %v", name, took)
					}
					ended <- err
				}()
			}
		}
		for range 3 * len(lists) {
			require.ErrorIs(t, <-ended, context.DeadlineExceeded)
		}
		for _, list := range lists {
			go func() { ended <- list(t.Context()) }()
		}
		synctest.Wait()
		require.Empty(t, ended)
		silent.Store(false)
		require.NoError(t, <-started)
		for range lists {
			require.NoError(t, <-ended)
		}
		require.NoError(t, e.Close(t.Context()))
	})
}

// errorOf is the error of a call that returns something as well.
func errorOf[T any](_ T, err error) error { return err }

// openOnSilentLog opens an engine whose log answers while the flag is not set.
func openOnSilentLog(t *testing.T) (*pawl.Engine, *atomic.Bool) {
	silent := &atomic.Bool{}
	o := newSharedPlace(t).options(nil, func(string) logtest.Fault {
		if silent.Load() {
			return logtest.Refused
		}
		return logtest.None
	})
	e, err := pawl.Open(t.Context(), filepath.Join(t.TempDir(), "data"), o)
	require.NoError(t, err)
	return e, silent
}

// A call that looks at a run, or acts on one, waits for a log that does not answer no longer than its context.
func TestCallsWaitForALogUntilTheirContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, silent := openOnSilentLog(t)
		def := define(t, "name: w\nstart: a\nnodes: [{id: a, wait: {event: go}}]\n")
		publish(t, e, def)
		for _, id := range []workflow.RunID{"first", "ended", "other"} {
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: def}, nil))
		}
		require.NoError(t, e.Cancel(t.Context(), "ended", "for the test"))
		require.NoError(t, errorOf(e.Once(t.Context(), "kept", func(context.Context) (any, error) { return "out", nil })))
		<-time.After(time.Minute) // no run that has ended is in memory any more
		silent.Store(true)
		started := make(chan error)
		go func() { started <- e.Start(t.Context(), workflow.Run{ID: "second", Definition: def}, nil) }()
		synctest.Wait()

		none := pawl.EventsOptions{}
		for name, call := range map[string]func(context.Context) error{
			"Inspect":    func(ctx context.Context) error { return errorOf(e.Inspect(ctx, "first")) },
			"Events":     func(ctx context.Context) error { return listError(e.Events(ctx, "first", none)) },
			"Journal":    func(ctx context.Context) error { return listError(e.Journal(ctx, "first")) },
			"Wait":       func(ctx context.Context) error { return errorOf(e.Wait(ctx, "ended")) },
			"Why":        func(ctx context.Context) error { return errorOf(e.Why(ctx, "first")) },
			"Overview":   func(ctx context.Context) error { return errorOf(e.Overview(ctx, "ended")) },
			"Tokens":     func(ctx context.Context) error { return listError(e.Tokens(ctx, "ended", pawl.TokenFilter{})) },
			"Signals":    func(ctx context.Context) error { return listError(e.Signals(ctx, "ended")) },
			"Branches":   func(ctx context.Context) error { return listError(e.Branches(ctx, "ended", pawl.BranchFilter{})) },
			"Published":  func(ctx context.Context) error { return errorOf(e.Published(ctx, "w", 1)) },
			"Definition": func(ctx context.Context) error { _, _, err := e.Definition(ctx, "ended"); return err },
			"Revision":   func(ctx context.Context) error { return errorOf(e.Revision(ctx, "ended", 1)) },
			"Revisions":  func(ctx context.Context) error { return listError(e.Revisions(ctx, "ended", 0)) },
			"Export":     func(ctx context.Context) error { return e.Export(ctx, "first", io.Discard, pawl.ExportOptions{}) },
			"Simulate":   func(ctx context.Context) error { return errorOf(e.Simulate(ctx, "first")) },
			"SimulateAt": func(ctx context.Context) error { return errorOf(e.SimulateAt(ctx, "first", 1)) },
			"SimulateFork": func(ctx context.Context) error {
				return errorOf(e.SimulateFork(ctx, "ended", "third", pawl.ForkOptions{}))
			},
			"SimulateStart": func(ctx context.Context) error {
				return errorOf(e.SimulateStart(ctx, workflow.Run{ID: "first", Workflow: "w"}, nil))
			},
			"Publish": func(ctx context.Context) error {
				next := *def
				next.Version++
				return errorOf(e.Publish(ctx, &next))
			},
			"DryRunPublish": func(ctx context.Context) error { _, _, err := e.DryRunPublish(ctx, def); return err },
			"DryRunPurge":   func(ctx context.Context) error { return errorOf(e.DryRunPurge(ctx, "ended")) },
			"Once":          func(ctx context.Context) error { return errorOf(e.Once(ctx, "kept", nil)) },
			"Start by name": func(ctx context.Context) error { return e.Start(ctx, workflow.Run{ID: "third", Workflow: "w"}, nil) },
			"Start":         func(ctx context.Context) error { return e.Start(ctx, workflow.Run{ID: "third", Definition: def}, nil) },
			"Fork":          func(ctx context.Context) error { return e.Fork(ctx, "ended", "third", pawl.ForkOptions{}) },
			"Signal":        func(ctx context.Context) error { return e.Signal(ctx, "first", workflow.Signal{Name: "go"}) },
			"Cancel":        func(ctx context.Context) error { return e.Cancel(ctx, "other", "again") },
			"Retry": func(ctx context.Context) error {
				return e.Retry(ctx, pawl.Target{Run: "first", Node: "a"}, pawl.RetryOptions{})
			},
			"Purge":        func(ctx context.Context) error { return e.Purge(ctx, "ended") },
			"CancelAll":    func(ctx context.Context) error { return errorOf(e.CancelAll(ctx, pawl.RunFilter{}, "all")) },
			"Forget":       func(ctx context.Context) error { return e.Forget(ctx, "kept") },
			"ForgetBefore": func(ctx context.Context) error { return errorOf(e.ForgetBefore(ctx, time.Now())) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			ended, began := make(chan error, 1), time.Now()
			go func() { ended <- call(ctx) }()
			select {
			case err := <-ended:
				require.ErrorIs(t, err, context.DeadlineExceeded, name)
				require.Equal(t, time.Second, time.Since(began), name)
			case <-time.After(time.Minute):
				require.Fail(t, "it waits on", name)
			}
			cancel()
		}
		silent.Store(false)
		require.NoError(t, <-started)
		require.NoError(t, e.Close(t.Context()))
	})
}

// Calls that commit by themselves, and are the first to find that the log does not answer, leave as well; the commit that they have begun
// goes on, and counts when the log answers.
func TestCommitsGoOnWithoutTheirCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, silent := openOnSilentLog(t)
		def := define(t, "name: w\nstart: a\nnodes: [{id: a, wait: {event: go}}]\n")
		keep := func(context.Context) (any, error) { return "out", nil }
		isThere := func(id workflow.RunID) bool { return errorOf(e.Summary(t.Context(), id)) == nil }
		made := 0
		effect := func(context.Context) (any, error) { made++; return "out", nil }
		isKept := func() bool { return errorOf(e.Once(t.Context(), "kept", nil)) == nil }
		for _, c := range []struct {
			name string
			call func(context.Context) error
			done func() bool
		}{
			{"Purge", func(ctx context.Context) error { return e.Purge(ctx, "ended") }, func() bool { return !isThere("ended") }},
			{"Fork", func(ctx context.Context) error { return e.Fork(ctx, "live", "fork", pawl.ForkOptions{}) }, func() bool { return isThere("fork") }},
			{"Once", func(ctx context.Context) error { return errorOf(e.Once(ctx, "new", effect)) }, func() bool { return errorOf(e.Once(t.Context(), "new", nil)) == nil && made == 1 }},
			{"Forget", func(ctx context.Context) error { return e.Forget(ctx, "kept") }, func() bool { return !isKept() }},
			{"ForgetBefore", func(ctx context.Context) error { return errorOf(e.ForgetBefore(ctx, time.Now().Add(time.Hour))) }, func() bool { return !isKept() }},
		} {
			for _, id := range []workflow.RunID{"live", "ended"} {
				require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: def}, nil))
			}
			require.NoError(t, e.Cancel(t.Context(), "ended", "for the test"))
			require.NoError(t, errorOf(e.Once(t.Context(), "kept", keep)))
			require.False(t, c.done(), c.name)
			silent.Store(true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			began := time.Now()
			require.ErrorIs(t, c.call(ctx), context.DeadlineExceeded, c.name)
			require.Equal(t, time.Second, time.Since(began), c.name)
			cancel()
			silent.Store(false)
			<-time.After(time.Minute)
			require.True(t, c.done(), c.name)
		}
		silent.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, e.Forget(ctx, "kept"), context.DeadlineExceeded)
		require.NoError(t, e.Close(t.Context())) // after a last while
	})
}

package pawl_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/harness/replays"
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

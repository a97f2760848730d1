package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/store/logtest"
	"github.com/pawl-run/pawl/workflow"
)

// An engine that has lost its log, or cannot reach it, refuses no attempt and makes no effect: it does not know those of the engine that
// has the log now. The one that has it refuses what is over.
func TestOnlyTheOwnerOfALogRefusesAttempts(t *testing.T) {
	made := 0
	effect := func(context.Context) (any, error) { made++; return "out", nil }
	for name, ask := range map[string]func(context.Context, *pawl.Engine, pawl.Key) error{
		"Complete":  func(ctx context.Context, e *pawl.Engine, k pawl.Key) error { return e.Complete(ctx, k, nil) },
		"Fail":      func(ctx context.Context, e *pawl.Engine, k pawl.Key) error { return e.Fail(ctx, k, context.Canceled) },
		"Heartbeat": func(ctx context.Context, e *pawl.Engine, k pawl.Key) error { return e.Heartbeat(ctx, k, nil) },
		"Once": func(ctx context.Context, e *pawl.Engine, _ pawl.Key) error {
			return errorOf(e.Once(ctx, "kept", effect))
		},
	} {
		for _, cut := range []bool{false, true} {
			t.Run(fmt.Sprint(name, cut), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					made = 0
					p, keys, away := newSharedPlace(t), make(chan pawl.Key, 1), new(atomic.Bool)
					h := pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) { keys <- task.Key; return nil, pawl.ErrPending }}
					a, err := pawl.Open(t.Context(), filepath.Join(t.TempDir(), "a"), p.options(h, func(string) logtest.Fault {
						if away.Load() {
							return logtest.Refused
						}
						return logtest.None
					}))
					require.NoError(t, err)
					b, err := pawl.Open(t.Context(), filepath.Join(t.TempDir(), "b"), p.options(h, nil))
					require.NoError(t, err)
					away.Store(cut)
					require.NoError(t, b.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, "name: w\nstart: a\nnodes: [{id: a, task: work}]\n")}, nil))
					require.NoError(t, errorOf(b.Once(t.Context(), "kept", effect)))
					key, want := <-keys, pawl.ErrFenced
					if cut {
						want = context.DeadlineExceeded
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					err = ask(ctx, a, key)
					require.ErrorIs(t, err, want)
					require.NotErrorIs(t, err, pawl.ErrStale)
					require.Equal(t, 1, made, "the effect of b")
					require.NoError(t, ask(t.Context(), b, key))
					if name == "Complete" {
						late := b.Heartbeat(t.Context(), key, nil)
						require.True(t, errors.Is(late, pawl.ErrEnded) || errors.Is(late, pawl.ErrStale), late)
					}
					away.Store(false)
					require.NoError(t, a.Close(t.Context()))
					require.NoError(t, b.Close(t.Context()))
				})
			})
		}
	}
}

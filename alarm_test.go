package pawl

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

// A run that cannot be loaded when it is due, for a reason that may pass, is
// woken later, less and less often.
func TestRunsAreWokenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := Open(t.Context(), t.TempDir(), Options{IdleAfter: time.Second})
		require.NoError(t, err)
		nap := workflow.Node{ID: "nap", Wait: &workflow.WaitSpec{For: time.Hour}}
		run := workflow.Run{ID: "a", Definition: &workflow.Definition{Name: "nap", Start: "nap", Nodes: []workflow.Node{nap}}}
		require.NoError(t, e.Start(t.Context(), run, nil))
		up, tries := e.wake, 0
		e.wake = func(id workflow.RunID) error {
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

// That a run could not be woken says nothing of the run that has its id after a
// purge.
func TestARunWithTheIDOfADamagedOneIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := Open(t.Context(), t.TempDir(), Options{IdleAfter: time.Second})
		require.NoError(t, err)
		up, tries := e.wake, 0
		e.wake = func(id workflow.RunID) error {
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

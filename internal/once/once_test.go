package once

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A keptDirectory counts the outcomes that are kept in it.
type keptDirectory struct {
	Directory
	kept int
}

func (*keptDirectory) Outcome(context.Context, string) (any, error) { return nil, store.ErrNoOutcome }

func (d *keptDirectory) KeepOutcome(string, any, time.Time) error {
	d.kept++
	return nil
}

// pinned has every blob.
type pinned struct{}

func (pinned) PinReferences(context.Context, any, ...workflow.Artifact) (func(), error) {
	return func() {}, nil
}

// The outcome of an effect that was made is kept although Close cancels the context of its task before that has begun.
func TestAnOutcomeIsKeptWhileTheEngineCloses(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the caller leaves before the outcome is tried
	for range 10 {
		dir, calls := &keptDirectory{}, &late.Calls{}
		o := New(Options{
			ConfirmLog: func(context.Context) error { return nil }, Dir: dir, Blobs: pinned{}, Late: calls, Remote: true, Alive: t.Context(),
			Limits: value.Limits{Bytes: 100}, Now: time.Now, Epoch: func() state.Epoch { return 1 },
		})
		task, stopTasks := context.WithCancelCause(t.Context())
		_, err := o.Do(task, "key", func(context.Context) (any, error) {
			stopTasks(refusal.ErrClosed)
			return "made", nil
		})
		if err != nil {
			require.ErrorIs(t, err, refusal.ErrClosed)
		}
		calls.Close()
		require.Equal(t, 1, dir.kept)
	}
}

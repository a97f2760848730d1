package dispatch

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A quietDirectory has many quiet runs. Close begins while the first of them is loaded.
type quietDirectory struct {
	close context.CancelFunc
	loads int
}

func (*quietDirectory) Quiet(since, _ time.Time) (quiet []store.QuietRun, err error) {
	for i := range 1000 {
		quiet = append(quiet, store.QuietRun{Run: workflow.RunID(strconv.Itoa(i)), Seq: 1, At: since})
	}
	return quiet, nil
}

func (q *quietDirectory) HeadAndState(ctx context.Context, id workflow.RunID) (store.Head, *state.State, error) {
	q.loads++
	q.close()
	return store.Head{Run: id}, nil, ctx.Err()
}

// Close waits for no more of a scan than the run that is being loaded, and nobody is warned of that.
func TestCloseEndsAScanForStalledRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		dir := &quietDirectory{close: cancel}
		NewStallDetector(StallOptions{
			Dir: dir, After: time.Hour, Logger: slog.New(slog.DiscardHandler), Hook: &testhook.Hook{},
			Ask:  func(workflow.RunID, state.Message) error { panic("no run has stalled") },
			Tell: func(text string, _ workflow.RunID, _ error) { t.Error(text) },
		}).ScanUntilDone(ctx)
		require.Equal(t, 1, dir.loads)
	})
}

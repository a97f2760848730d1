package natstest

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// told gets the lines of a log, as long as there is room.
type told chan string

// Write implements io.Writer.
func (l told) Write(line []byte) (int, error) {
	select {
	case l <- string(line):
	default:
	}
	return len(line), nil
}

// The disk of the engine is full when a worker has made an effect: the outcome waits for room, and neither another attempt nor
// who else asks for the same key makes the effect again.
func TestOnceOnAFullDisk(t *testing.T) {
	onEach(t, func(t *testing.T, over transport) {
		dir, log := harness.Workspace(t), make(told, 100)
		harness.MountSmall(t, dir, 4<<20)
		before := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
		t.Cleanup(func() { slog.SetDefault(before) })
		engine, stop := over.open(t, dir, longLease)
		defer stop()
		var made atomic.Int64
		filled := make(chan func(), 1)
		charge := func(context.Context) (any, error) {
			if made.Add(1) == 1 {
				filled <- harness.FillDisk(t, dir, 0)
			}
			return harness.RandomLetters(100 << 10), nil
		}
		defer workOver(t, over, "ann", 1, pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
			_, err := task.Once(ctx, "order/1", charge)
			return "paid", err
		}})()
		require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, single)}, nil))
		release := <-filled
		for !strings.Contains(<-log, "the disk is full") {
		}
		other := make(chan error, 1)
		go func() {
			_, err := engine.Once(t.Context(), "order/1", charge)
			other <- err
		}()
		release()
		require.NoError(t, <-other)
		out, err := engine.Wait(t.Context(), "r")
		require.NoError(t, err)
		require.NoError(t, out.Err())
		require.Equal(t, "paid", out.Output["a"])
		require.EqualValues(t, 1, made.Load(), "the effect was made as often")
	})
}

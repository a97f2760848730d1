package tasklog_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/spantest"
	"github.com/pawl-run/pawl/workflow"
)

// lineKeeper is a handler of slog that keeps what it is told.
type lineKeeper struct {
	mu    sync.Mutex
	lines []map[string]any // with the text as "msg"
}

// Enabled implements slog.Handler.
func (k *lineKeeper) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler; only Logger uses it, for handlers.
func (k *lineKeeper) WithAttrs([]slog.Attr) slog.Handler { return k }

// WithGroup implements slog.Handler.
func (k *lineKeeper) WithGroup(string) slog.Handler { return k }

// Handle implements slog.Handler.
func (k *lineKeeper) Handle(_ context.Context, r slog.Record) error {
	line := map[string]any{"msg": r.Message}
	r.Attrs(func(a slog.Attr) bool {
		line[a.Key] = a.Value.Any()
		return true
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lines = append(k.lines, line)
	return nil
}

// The lines of an engine in which things go wrong have the keys that they share, for all that they are about: an attempt whose handler
// panics, a run that is purged, a definition that is warned of, and a schedule that cannot start its run.
func TestLinesOfAnEngine(t *testing.T) {
	var p spantest.Provider
	k := &lineKeeper{}
	e, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{
		TracerProvider: &p, Logger: slog.New(k), Executor: pawl.Handlers{"t": func(context.Context, pawl.Task) (any, error) { panic("no more") }},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
	d, err := workflow.ParseYAML([]byte("name: w\nstart: a\nnodes: [{id: a, task: t, retry: {maxAttempts: 2, initialInterval: 1ms}}]"))
	require.NoError(t, err)
	_, err = e.Run(t.Context(), workflow.Run{ID: "r", Definition: d}, nil)
	require.NoError(t, err)
	require.NoError(t, e.Purge(pawl.As(t.Context(), "ann"), "r"))
	require.NoError(t, e.Close(t.Context()))

	start := p.Find(t, "start w")
	attempts := int64(0)
	for _, line := range k.lines {
		switch msg, _ := line["msg"].(string); {
		case strings.Contains(msg, "panicked"):
			attempts++
			for key, want := range map[string]any{"run": "r", "workflow": "w", "node": "a", "token": int64(1), "attempt": attempts, "task": "t", "trace_id": start.Trace, "error": "no more"} {
				require.Equal(t, want, line[key], "%s of %v", key, line)
			}
		case strings.Contains(msg, "purged"):
			require.Equal(t, "r", line["run"])
			require.Equal(t, "ann", line["by"])
		}
	}
	require.Equal(t, int64(1), attempts, "%v", k.lines)
}

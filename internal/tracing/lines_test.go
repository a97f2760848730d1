package tracing_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testing/spantest"
	"github.com/pawl-run/pawl/worker"
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

// A shyStore does not tell what it has when it is asked for the first time.
type shyStore struct {
	*blob.Files
	asked atomic.Int64
}

// Stat implements blob.Store.
func (s *shyStore) Stat(ctx context.Context, hash string) (blob.Info, error) {
	if s.asked.Add(1) == 1 {
		return blob.Info{}, errors.New("not now")
	}
	return s.Files.Stat(ctx, hash)
}

// A shyFeed refuses the first message about a task.
type shyFeed struct{ refused atomic.Bool }

// Publish implements pawl.Feed.
func (f *shyFeed) Publish(_ context.Context, m pawl.FeedMessage) error {
	if m.Event.Token != 0 && f.refused.CompareAndSwap(false, true) {
		return errors.New("not now")
	}
	return nil
}

// An outcome that cannot be kept, and an event that cannot be published, tell which run waits for them: here, in a worker of another
// process, and behind the record of the event.
func TestLinesOfOnceAndOfTheFeed(t *testing.T) {
	for _, remote := range []bool{false, true} {
		k := &lineKeeper{}
		files, err := blob.OpenFiles(t.TempDir(), blob.Options{})
		require.NoError(t, err)
		pool, err := worker.New(worker.Options{Token: "secret"})
		require.NoError(t, err)
		handlers := pawl.Handlers{"t": func(ctx context.Context, task pawl.Task) (any, error) {
			ref, err := task.Put(ctx, strings.NewReader("x"), "")
			if err != nil {
				return nil, err
			}
			_, err = task.Once(ctx, "k", func(context.Context) (any, error) { return ref, nil })
			return nil, err
		}}
		o := pawl.Options{Logger: slog.New(k), Feed: pawl.FeedOptions{To: &shyFeed{}}, Blobs: &shyStore{Files: files}, Executor: handlers}
		if remote {
			o.Executor = pool
		}
		e, err := pawl.Open(t.Context(), t.TempDir(), o)
		require.NoError(t, err)
		pool.Attach(e)
		server := httptest.NewServer(pool.Handler())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		c := &worker.Client{URL: server.URL, Token: "secret", ID: "far"}
		go func() { done <- c.Run(ctx, handlers) }()
		d, err := workflow.ParseYAML([]byte("name: w\nstart: a\nnodes: [{id: a, task: t}]"))
		require.NoError(t, err)
		_, err = e.Run(t.Context(), workflow.Run{ID: "r", Definition: d}, nil)
		require.NoError(t, err)
		cancel()
		<-done
		server.Close()
		require.NoError(t, pool.Close(t.Context()))
		require.NoError(t, e.Close(t.Context()))
		k.requireLine(t, "an effect cannot be kept", map[string]any{"run": "r", "workflow": "w", "node": "a", "token": int64(1), "attempt": int64(1), "task": "t"})
		k.requireLine(t, "events cannot be published", map[string]any{"run": "r", "workflow": "w", "seq": int64(1)})
	}
}

// requireLine requires that there is one line with a text, and that it has these values and an error.
func (k *lineKeeper) requireLine(t *testing.T, text string, want map[string]any) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	found := 0
	for _, line := range k.lines {
		if msg, _ := line["msg"].(string); strings.Contains(msg, text) {
			found++
			require.NotEmpty(t, line["error"])
			for key, v := range want {
				require.Equal(t, v, line[key], "%s of %v", key, line)
			}
		}
	}
	require.Equal(t, 1, found, "%v", k.lines)
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

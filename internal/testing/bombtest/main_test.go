package bombtest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

func TestMain(m *testing.M) { harness.VerifyTestMain(m) }

// A tally counts what a test has tried and what came of it.
type tally struct {
	tried, taken, refused int
}

func (c *tally) report(t *testing.T, what string) {
	t.Helper()
	t.Logf("%s: %d tried, %d taken, %d ended in a typed error", what, c.tried, c.taken, c.refused)
	require.Positive(t, c.tried)
}

// A world is an engine and what its tasks give.
type world struct {
	*pawl.Engine
	t     *testing.T
	hook  testhook.Hook
	mu    sync.Mutex
	gives map[workflow.RunID]any
	keys  map[workflow.RunID]pawl.Key // of tasks that are pending
	next  int
}

// open opens an engine in memory where there is a file system in memory: what is
// tested here is not the disk.
func open(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, gives: map[workflow.RunID]any{}, keys: map[workflow.RunID]pawl.Key{}}
	e, err := pawl.Open(testhook.With(t.Context(), &w.hook), harness.Workspace(t), pawl.Options{Durability: pawl.ProcessCrash, Executor: pawl.Handlers{
		"give": w.give, "hold": w.hold,
		"echo": func(_ context.Context, task pawl.Task) (any, error) { return task.Input, nil },
	}})
	require.NoError(t, err)
	w.Engine = e
	t.Cleanup(func() { require.NoError(t, e.Close(context.WithoutCancel(t.Context()))) })
	return w
}

func (w *world) give(ctx context.Context, task pawl.Task) (any, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f, ok := w.gives[task.Run].(func(context.Context, pawl.Task) (any, error)); ok {
		return f(ctx, task)
	}
	return w.gives[task.Run], nil
}

func (w *world) hold(_ context.Context, task pawl.Task) (any, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys[task.Run] = task.Key
	return nil, pawl.ErrPending
}

func define(t *testing.T, yaml string, args ...any) *workflow.Definition {
	t.Helper()
	d, err := workflow.ParseYAML([]byte(fmt.Sprintf(yaml, args...)))
	require.NoError(t, err)
	return d
}

// fresh returns an id that no run has.
func (w *world) fresh() workflow.RunID {
	w.next++
	return workflow.RunID(fmt.Sprint("run-", w.next))
}

// begin starts a run of d.
func (w *world) begin(d *workflow.Definition, input any) workflow.RunID {
	w.t.Helper()
	id := w.fresh()
	require.NoError(w.t, w.Start(w.t.Context(), workflow.Run{ID: id, Definition: d}, input))
	return id
}

// end starts a run of d whose task give gives v, and returns how it ends.
func (w *world) end(d *workflow.Definition, input, v any) workflow.Outcome {
	w.t.Helper()
	id := w.fresh()
	w.mu.Lock()
	w.gives[id] = v
	w.mu.Unlock()
	require.NoError(w.t, w.Start(w.t.Context(), workflow.Run{ID: id, Definition: d}, input))
	return w.outcome(id)
}

// outcome waits for the end of a run, for as long as a run that is stuck is
// given.
func (w *world) outcome(id workflow.RunID) workflow.Outcome {
	w.t.Helper()
	patience := harness.Figure(5*time.Minute, 5*time.Minute, time.Hour) // a million tokens, one after another
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	out, err := w.Wait(ctx, id)
	require.NoError(w.t, err, "%q does not end", id)
	return out
}

// settled waits until a run has a task that is pending.
func (w *world) settled(id workflow.RunID) pawl.Key {
	w.t.Helper()
	var key pawl.Key
	require.Eventually(w.t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		key = w.keys[id]
		return key != ""
	}, 5*time.Minute, time.Millisecond)
	return key
}

// digest is a hash of all that is stored of a run: its state and its journal. Which tasks are
// performed at the moment is not stored, and is left out.
func (w *world) digest(id workflow.RunID) string {
	w.t.Helper()
	snap, err := w.Inspect(w.t.Context(), id)
	require.NoError(w.t, err)
	for i := range snap.Tokens {
		token := &snap.Tokens[i]
		token.Executing, token.Since, token.Worker, token.Queued = false, time.Time{}, "", nil
	}
	h := sha256.New()
	raw, err := json.Marshal(snap)
	require.NoError(w.t, err)
	_, _ = h.Write(raw)
	for r, err := range w.Journal(w.t.Context(), id, pawl.EventsOptions{}) {
		require.NoError(w.t, err)
		_, _ = fmt.Fprintf(h, "%d %v %v\n", r.Seq, r.Message, r.Decisions)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// text returns a string whose JSON has n bytes.
func text(n int) string { return strings.Repeat("x", n-len(`""`)) }

// object returns an object whose JSON has n bytes.
func object(n int) map[string]any { return map[string]any{"v": text(n - len(`{"v":}`))} }

// deep returns n lists inside each other.
func deep(n int) any {
	var v any = int64(1)
	for range n {
		v = []any{v}
	}
	return v
}

// signalling gives a task that signals another run.
func (w *world) signalling(other workflow.RunID) func(context.Context, pawl.Task) (any, error) {
	return func(ctx context.Context, _ pawl.Task) (any, error) {
		return nil, w.Signal(ctx, other, workflow.Signal{Name: "ball"})
	}
}

// asAny reports whether an error is of one of the types of the targets.
func asAny(err error, targets ...any) bool {
	return slices.ContainsFunc(targets, func(target any) bool { return errors.As(err, target) })
}

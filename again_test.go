package pawl

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

// A run refuses a result because it is suspended, and is resumed before the goroutine
// that delivered the result has ended: the task that it sends again, under the key
// that is still held, is executed.
func TestATaskThatIsSentAgainWhileItsResultIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		def, err := workflow.ParseJSON([]byte(`{"name": "x", "version": 1, "start": "a", "nodes": [{"id": "a", "task": "t"}, {"id": "b"}], "transitions": [{"from": "a", "to": "b"}]}`))
		require.NoError(t, err)
		var e *Engine
		var g *workflow.Graph
		node := workflow.NodeID("b")
		executed := 0
		var restore func()
		var resumed []error
		work := func(context.Context, Task) (any, error) {
			if executed++; executed == 1 {
				h, err := e.dir.Head("r")
				if err != nil {
					return nil, err
				}
				if g, err = e.dir.Graph(h.Definition); err != nil {
					return nil, err
				}
				b := g.Nodes[node]
				restore = func() { g.Nodes[node] = b }
				delete(g.Nodes, node) // what a bug of the planner would do
			}
			return 1, nil
		}
		log := slog.New(onWarn{slog.DiscardHandler, func(text string) {
			if text == "pawl: results could not be delivered" && len(resumed) == 0 {
				restore()
				resumed = append(resumed, e.Resume(context.Background(), "r"))
			}
		}})
		e, err = Open(t.Context(), t.TempDir(), Options{Executor: Handlers{"t": work}, Logger: log})
		require.NoError(t, err)
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		out, err := e.Wait(ctx, "r")
		require.NoError(t, err)
		require.Equal(t, workflow.RunCompleted, out.Status)
		require.Equal(t, []error{nil}, resumed)
		require.Equal(t, 2, executed)
		require.NoError(t, e.Close(t.Context()))
		require.Zero(t, e.dispatcher.Counts())
	})
}

type onWarn struct {
	slog.Handler
	do func(string)
}

func (h onWarn) Enabled(context.Context, slog.Level) bool { return true }

func (h onWarn) Handle(_ context.Context, r slog.Record) error { h.do(r.Message); return nil }

// An attempt that is withdrawn while its handler runs, and says then that its result
// comes later, is over: nothing is kept of it.
func TestAnAttemptIsForgottenThoughItSaysPending(t *testing.T) {
	began := make(chan struct{})
	e, err := Open(t.Context(), t.TempDir(), Options{Executor: Handlers{"*": func(ctx context.Context, _ Task) (any, error) {
		close(began)
		<-ctx.Done()
		return nil, ErrPending
	}}})
	require.NoError(t, err)
	d := &workflow.Definition{Name: "w", Start: "a", Nodes: []workflow.Node{{ID: "a", Task: "t"}}}
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: d}, nil))
	<-began
	require.NoError(t, e.Cancel(t.Context(), "a", ""))
	require.NoError(t, e.dispatcher.StopAndWait(t.Context()))
	require.Zero(t, e.dispatcher.Counts())
	require.NoError(t, e.Close(t.Context()))
}

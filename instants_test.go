package pawl_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// askedInSQL asks the recording of a run in SQL.
func askedInSQL(t *testing.T, e *pawl.Engine, id workflow.RunID, text string) (rows [][]any) {
	rec, err := e.Recording(t.Context(), id)
	require.NoError(t, err)
	defer rec.Close()
	q, err := replay.NewQuery(text)
	require.NoError(t, err)
	require.NoError(t, q.Add(rec))
	require.NoError(t, q.Answer(t.Context(), func([]string) error { return nil }, func(values []any) error {
		rows = append(rows, append([]any{}, values...))
		return nil
	}))
	require.NoError(t, q.Close())
	return rows
}

// The result of a task brings along when somebody began to perform it: of each attempt it can be told how long it was queued and
// how long it was worked at, also in a fork, which dispatches anew what was out in the other run.
func TestAttemptsKnowWhenTheyBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		var waited []time.Duration
		e := open(t, t.TempDir(), pawl.Options{Concurrency: 1, Executor: pawl.Handlers{
			"work": func(ctx context.Context, task pawl.Task) (any, error) {
				waited = append(waited, task.BeganAt.Sub(task.DispatchedAt))
				<-time.After(3 * time.Second)
				return nil, nil
			},
			"hold": func(ctx context.Context, task pawl.Task) (any, error) {
				if task.Run == "r" {
					<-hold
				}
				<-time.After(time.Second)
				return nil, nil
			},
		}})
		def := define(t, `
name: w
start: s
nodes: [{id: s}, {id: a, task: work}, {id: b, task: work}, {id: c, task: hold}]
transitions: [{from: s, to: a}, {from: s, to: b}, {from: b, to: c}]
`)
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
		<-time.After(time.Minute)
		const text = `SELECT node, queue_ms, work_ms, elapsed FROM attempts WHERE outcome = 'completed' ORDER BY token`
		require.Equal(t, [][]any{{"a", int64(0), int64(3000), int64(3000)}, {"b", int64(3000), int64(3000), int64(6000)}}, askedInSQL(t, e, "r", text))
		require.Equal(t, []time.Duration{0, 3 * time.Second}, waited)
		require.NoError(t, e.Fork(t.Context(), "r", "fork", pawl.ForkOptions{}))
		<-time.After(time.Minute)
		close(hold)
		require.NoError(t, wait(t, e, "r").Err())
		require.NoError(t, wait(t, e, "fork").Err())
		require.Equal(t, [][]any{{"c", int64(0), int64(115000), int64(115000)}}, askedInSQL(t, e, "r", text)[2:])
		require.Equal(t, [][]any{{"c", int64(61000), int64(1000), int64(62000)}}, askedInSQL(t, e, "fork", text)[2:])
	})
}

// The event of the end of an attempt tells when somebody began to perform it, however it ends.
func TestEventsTellWhenAttemptsBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{Concurrency: 1, Executor: pawl.Handlers{
			"work": func(_ context.Context, task pawl.Task) (any, error) {
				<-time.After(3 * time.Second)
				switch {
				case task.Node != "b":
					return pawl.Result{Metadata: map[string]any{"mine": true}}, nil
				case task.Attempt == 1:
					return nil, pawl.Snooze(time.Minute)
				case task.Attempt == 2:
					return nil, errors.New("once more")
				default:
					return nil, pawl.Permanent(errors.New("no"))
				}
			},
		}})
		def := define(t, `
name: w
start: s
nodes: [{id: s}, {id: a, task: work}, {id: b, task: work, retry: {maxAttempts: 3, initialInterval: 1m}}, {id: g, task: work}, {id: j}]
transitions: [{from: s, to: a}, {from: s, to: b}, {from: s, to: g, spawnCount: 2, siblingGroup: g}, {from: g, to: j, synchronization: {siblingGroup: g}}]
`)
		begin := time.Now()
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
		require.Error(t, wait(t, e, "r").Err())
		told := map[string][]float64{}
		for v, err := range e.Events(t.Context(), "r", pawl.EventsOptions{}) {
			require.NoError(t, err)
			text, ok := v.Data["beganAt"].(string)
			if !ok {
				continue
			}
			at, err := time.Parse(time.RFC3339Nano, text)
			require.NoError(t, err)
			require.Equal(t, 3*time.Second, v.At.Sub(at), "%v", v)
			what := string(v.Node) + " " + string(v.Type)
			told[what] = append(told[what], at.Sub(begin).Seconds())
		}
		require.Equal(t, map[string][]float64{
			"a token.completed": {0}, "b task.snoozed": {3}, "g token.waiting": {6, 9}, "b task.retrying": {66}, "b task.failed": {129},
		}, told)
	})
}

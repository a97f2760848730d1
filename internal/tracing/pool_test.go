package tracing_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/spantest"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// An attempt has the same attributes whether a handler of the engine performs it, a worker of a pool, or somebody who tells the result
// later, however it ends.
func TestAttributesAreTheSameElsewhere(t *testing.T) {
	usage := map[string]any{"gen_ai.usage.input_tokens": 12, "gen_ai.request.model": "m", "cost": 3}
	tries := map[string]int{}
	handlers := pawl.Handlers{"*": func(ctx context.Context, task pawl.Task) (any, error) {
		switch tries[task.Type]++; {
		case task.Type == "parks", task.Type == "retries" && tries[task.Type] == 1, task.Type == "fails":
			return pawl.Result{Metadata: usage}, pawl.TaskError{Code: "bad", Message: "no secret here", Retryable: true}
		case task.Type == "snoozes" && tries[task.Type] == 1:
			return nil, pawl.Snooze(time.Second)
		case task.Type == "late":
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return pawl.Result{Metadata: usage}, nil
	}}
	want := map[string]string{"fails": "failed", "parks": "failed", "works": "completed", "late": "failed", "snoozes": "snoozed", "retries": "failed"}
	nodes := map[string]string{"parks": ", retry: {maxAttempts: 1, exhausted: park}", "retries": ", retry: {maxAttempts: 2}", "late": ", timeout: 1m"}
	for kind, outcome := range want {
		var known map[string]any
		for _, where := range []string{"engine", "pool"} {
			synctest.Test(t, func(t *testing.T) {
				var p spantest.Provider
				clear(tries)
				pool, err := worker.New(worker.Options{Token: "secret"})
				require.NoError(t, err)
				o := pawl.Options{Executor: pool}
				if where == "engine" {
					o.Executor = handlers
				}
				e := open(t, t.TempDir(), &p, o)
				if where == "pool" {
					pool.Attach(e)
					require.NoError(t, pool.Start(worker.Registration{ID: "near", Capacity: 1}, pawl.Handlers{kind: handlers["*"]}))
				}
				d := define(t, "name: w\nstart: b\nnodes: [{id: b, task: "+kind+nodes[kind]+"}]")
				require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil))
				<-time.After(2 * time.Minute)
				require.NoError(t, pool.Close(t.Context()))
				require.NoError(t, e.Close(t.Context()))
				got := p.Named("task " + kind)[0].Attributes
				require.Equal(t, outcome, got["pawl.task.outcome"], "%s %s", kind, where)
				if known == nil {
					known = got
				}
				require.Equal(t, known, got, kind)
			})
		}
	}
}

// The wait for a result that comes later ends with what the result says, or with the run.
func TestAttributesOfCallbacks(t *testing.T) {
	var p spantest.Provider
	keys := make(chan pawl.Key, 1)
	e := open(t, t.TempDir(), &p, pawl.Options{Executor: pawl.Handlers{"*": func(_ context.Context, task pawl.Task) (any, error) {
		keys <- task.Key
		return nil, pawl.ErrPending
	}}})
	d := define(t, "name: w\nstart: a\nnodes: [{id: a, task: t}]")
	for i, end := range []func(pawl.Key) error{
		func(k pawl.Key) error {
			return e.Complete(t.Context(), k, pawl.Result{Metadata: map[string]any{"gen_ai.request.model": "m"}})
		},
		func(k pawl.Key) error { return e.Fail(t.Context(), k, pawl.TaskError{Code: "bad", Message: "no"}) },
		func(pawl.Key) error { return e.Cancel(t.Context(), "c", "not wanted") },
	} {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(rune('a' + i)), Definition: d}, nil))
		key := <-keys
		p.Await(t, "task t", i+1) // the handler has returned
		require.NoError(t, end(key))
		waits := p.Await(t, "wait result", i+1)
		got := waits[i].Attributes
		require.Equal(t, []any{"completed", "failed", "cancelled"}[i], got["pawl.task.outcome"])
		require.Equal(t, []any{"m", nil, nil}[i], got["gen_ai.request.model"])
		require.Equal(t, []any{nil, "bad", nil}[i], got["error.type"])
	}
}

// A tracedPool is an executor of the host that makes a span around a pool, as a middleware does, and one from a goroutine that it leaves.
type tracedPool struct {
	*worker.Pool
	p    *spantest.Provider
	left chan context.Context
}

func (x tracedPool) Unwrap() pawl.Executor { return x.Pool }

func (x tracedPool) Execute(ctx context.Context, t pawl.Task) (any, error) {
	if t.Node == "quiet" {
		x.left <- ctx
		return x.Pool.Execute(ctx, t)
	}
	ctx, span := x.p.Tracer("host").Start(ctx, "middleware")
	defer span.End()
	return x.Pool.Execute(ctx, t)
}

// A span that an executor makes around a pool has a parent that is told: the attempt that is pending then. So has one that it makes later.
func TestSpansAroundAPool(t *testing.T) {
	var p spantest.Provider
	pool, err := worker.New(worker.Options{Token: "secret"})
	require.NoError(t, err)
	x := tracedPool{pool, &p, make(chan context.Context, 1)}
	e := open(t, t.TempDir(), &p, pawl.Options{Executor: x})
	pool.Attach(e)
	require.NoError(t, pool.Start(worker.Registration{ID: "near", Capacity: 1}, pawl.Handlers{"near": func(context.Context, pawl.Task) (any, error) { return nil, nil }}))
	d := define(t, "name: w\nstart: b\nnodes: [{id: b, task: near}, {id: quiet, task: near}]\ntransitions: [{from: b, to: quiet}]")
	_, err = e.Run(t.Context(), workflow.Run{ID: "r", Definition: d}, nil)
	require.NoError(t, err)
	require.NoError(t, pool.Close(t.Context()))
	require.NoError(t, e.Close(t.Context()))
	_, late := p.Tracer("host").Start(<-x.left, "late")
	late.End()
	ends := map[string]spantest.Span{}
	for _, s := range p.Spans() {
		ends[s.ID] = s
	}
	for _, s := range p.Spans() {
		require.True(t, s.Parent == "" || ends[s.Parent].Name != "", "the parent of %s is never told", s.Name)
	}
	around := ends[p.Find(t, "middleware").Parent]
	require.Equal(t, "task near", around.Name)
	require.Contains(t, []any{"pending", "completed"}, around.Attributes["pawl.task.outcome"]) // the second if the worker was quick
	require.Contains(t, []string{"start w", "task near"}, ends[p.Find(t, "late").Parent].Name) // likewise
}

package tracing_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/handler"
	"github.com/pawl-run/pawl/internal/testing/spantest"
	"github.com/pawl-run/pawl/internal/traceparent"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// A worker in another process has the trace in the context of its handler, as has one in this; each attempt has one span, from the begin of
// its handler, that the engine makes when the result is committed.
func TestWorkersHaveTheTrace(t *testing.T) {
	var p spantest.Provider
	pool, err := worker.New(worker.Options{Token: "secret"})
	require.NoError(t, err)
	e := open(t, t.TempDir(), &p, pawl.Options{Executor: pool})
	pool.Attach(e)
	server := httptest.NewServer(pool.Handler())
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	handlers := func(name string) pawl.Handlers {
		return pawl.Handlers{name: func(ctx context.Context, task pawl.Task) (any, error) {
			_, inner := p.Tracer(name).Start(ctx, "inner "+name)
			inner.End()
			pawl.Logger(ctx).Info("here")
			if task.Attempt == 1 {
				return nil, errors.New("once more")
			}
			return nil, nil
		}}
	}
	done := make(chan error, 1)
	go func() {
		c := &worker.Client{URL: server.URL, Token: "secret", ID: "far"}
		done <- c.Run(ctx, handlers("far"))
	}()
	require.NoError(t, pool.Start(worker.Registration{ID: "near", Capacity: 1}, handlers("near")))
	d := define(t, `
name: w
start: a
nodes:
  - {id: a, task: far, retry: {maxAttempts: 2, initialInterval: 1ms}}
  - {id: b, task: near, retry: {maxAttempts: 2, initialInterval: 1ms}}
transitions: [{from: a, to: b}]
`)
	outer, end := below(t, &p)
	_, err = e.Run(outer, workflow.Run{ID: "r", Definition: d}, nil)
	require.NoError(t, err)
	end()
	cancel()
	<-done
	require.NoError(t, pool.Close(t.Context()))
	require.NoError(t, e.Close(t.Context()))
	spans := p.Spans()
	require.Equal(t, "2 inner far; 2 inner near; 1 request; 1 run w; 1 start w; 2 task far; 2 task near", spantest.Names(spans))
	start := p.Find(t, "start w")
	for i := range spans {
		s := &spans[i]
		require.Equal(t, start.Trace, s.Trace, s.Name)
		if s.Name != "request" && s.Name != "start w" {
			require.Equal(t, start.ID, s.Parent, s.Name)
		}
	}
	for _, name := range []string{"task far", "task near"} {
		require.NotEmpty(t, p.Named(name)[0].Error)
		require.Empty(t, p.Named(name)[1].Error)
	}
}

// An attempt whose result comes through Complete has a span around its handler, and one of the wait for the result.
func TestCallbacks(t *testing.T) {
	var p spantest.Provider
	keys := make(chan pawl.Key, 1)
	dir := t.TempDir()
	o := pawl.Options{Executor: pawl.Handlers{"*": func(ctx context.Context, task pawl.Task) (any, error) {
		_, inner := p.Tracer("h").Start(ctx, "inner")
		inner.End()
		keys <- task.Key
		return nil, pawl.ErrPending
	}}}
	e := open(t, dir, &p, o)
	d := define(t, "name: w\nstart: a\nnodes: [{id: a, task: t}]")
	for i, id := range []workflow.RunID{"done", "cancelled"} {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: d}, nil))
		key := <-keys
		p.Await(t, "task t", i+1)
		if id == "done" {
			require.NoError(t, e.Complete(t.Context(), key, nil))
		} else {
			require.NoError(t, e.Cancel(t.Context(), id, "enough"))
		}
		_, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
	}
	require.NoError(t, e.Close(t.Context()))
	require.Equal(t, "2 inner; 2 run w; 2 start w; 2 task t; 2 wait result", spantest.Names(p.Spans()))
	require.Equal(t, "pending", p.Named("task t")[0].Attributes["pawl.task.outcome"])
}

// An attempt that Close interrupts has a span, below which those of its handler are, and another when it is performed again.
func TestInterruptedAttempts(t *testing.T) {
	for _, end := range []func(error) (any, error){
		func(err error) (any, error) { return nil, err },
		func(err error) (any, error) { panic(err) },
	} {
		var p spantest.Provider
		dir, begun := t.TempDir(), make(chan bool, 1)
		e := open(t, dir, &p, pawl.Options{Executor: pawl.Handlers{"*": func(ctx context.Context, _ pawl.Task) (any, error) {
			_, inner := p.Tracer("h").Start(ctx, "inner")
			inner.End()
			begun <- true
			<-ctx.Done()
			return end(ctx.Err())
		}}})
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, "name: w\nstart: a\nnodes: [{id: a, task: t}]")}, nil))
		<-begun
		require.NoError(t, e.Close(t.Context()))
		e = open(t, dir, &p, pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, nil }}})
		_, err := e.Wait(t.Context(), "r")
		require.NoError(t, err)
		require.NoError(t, e.Close(t.Context()))
		require.Equal(t, "1 inner; 1 run w; 1 start w; 2 task t", spantest.Names(p.Spans()))
		attempts := p.Named("task t")
		require.Equal(t, "interrupted", attempts[0].Attributes["pawl.task.outcome"])
		require.Equal(t, attempts[0].ID, p.Find(t, "inner").Parent)
	}
}

// The ready-made handlers hand the span of their attempt on.
func TestHandlersHandTheSpanOn(t *testing.T) {
	var p spantest.Provider
	got := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	defer server.Close()
	handlers := pawl.Handlers{
		"call": handler.HTTP(handler.HTTPOptions{Private: true, Hosts: []string{"127.0.0.1"}}), "exec": handler.Exec(handler.ExecOptions{Command: []string{"env"}}),
	}
	e := open(t, t.TempDir(), &p, pawl.Options{Executor: handlers})
	d := define(t, "name: w\nstart: a\nnodes: [{id: a, task: call, input: {url: input.url}}]")
	_, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: d}, map[string]any{"url": server.URL})
	require.NoError(t, err)
	header := <-got
	attempt := p.Find(t, "task call")
	require.Equal(t, "00-"+attempt.Trace+"-"+attempt.ID+"-01", header.Get(traceparent.Header))
	if runtime.GOOS == "windows" {
		return
	}
	d = define(t, "name: x\nstart: a\nnodes: [{id: a, task: exec, input: {text: 'true'}}]\noutput: {mapping: {text: nodes.a.output.stdout}}")
	out, err := e.Run(t.Context(), workflow.Run{ID: "x", Definition: d}, nil)
	require.NoError(t, err)
	attempt = p.Find(t, "task exec")
	text, _ := out.Output["text"].(string)
	require.True(t, strings.Contains(text, "TRACEPARENT=00-"+attempt.Trace+"-"+attempt.ID+"-01\n"), "%v %v", out.Failure, text)
}

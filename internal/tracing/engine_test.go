package tracing_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/spantest"
	"github.com/pawl-run/pawl/workflow"
)

// define parses a definition.
func define(t testing.TB, text string) *workflow.Definition {
	t.Helper()
	d, err := workflow.ParseYAML([]byte(text))
	require.NoError(t, err)
	return d
}

// open opens an engine that makes spans for p.
func open(t *testing.T, dir string, p *spantest.Provider, o pawl.Options) *pawl.Engine {
	t.Helper()
	if p != nil {
		o.TracerProvider = p
	}
	e, err := pawl.Open(t.Context(), dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
	return e
}

// below returns a context in a span of p, as the host's caller has it.
func below(t *testing.T, p *spantest.Provider) (ctx context.Context, end func()) {
	ctx, span := p.Tracer("host").Start(t.Context(), "request")
	return ctx, func() { span.End() }
}

// settle waits, in virtual time, until all spans are told that are over.
func settle() {
	<-time.After(time.Second)
	synctest.Wait()
}

// A start span is the parent of all that the run does, in the trace of the caller; the context of a handler is in the span of its attempt.
func TestASpanForEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p spantest.Provider
		tries := 0
		e := open(t, t.TempDir(), &p, pawl.Options{Executor: pawl.Handlers{
			"quote": func(ctx context.Context, task pawl.Task) (any, error) {
				_, inner := p.Tracer("handler").Start(ctx, "inner")
				inner.End()
				<-time.After(time.Second)
				if tries++; tries == 1 {
					return nil, pawl.TaskError{Code: "busy", Message: "no secret here", Retryable: true}
				}
				return pawl.Result{Output: map[string]any{"secret": 1}, Metadata: map[string]any{
					"gen_ai.usage.input_tokens": 12, "gen_ai.request.model": "m", "cost": 3, "gen_ai.input.messages": []any{"secret"},
				}}, nil
			},
		}})
		ctx, end := below(t, &p)
		require.NoError(t, e.Start(ctx, workflow.Run{ID: "r", Definition: define(t, `
name: order
version: 3
start: a
nodes: [{id: a, task: quote, retry: {maxAttempts: 2, initialInterval: 1m}}]
`)}, map[string]any{"secret": "s"}))
		end()
		_, err := e.Wait(t.Context(), "r")
		require.NoError(t, err)
		settle()

		spans := p.Spans()
		require.Equal(t, "2 inner; 1 request; 1 run order; 1 start order; 2 task quote", spantest.Names(spans))
		request, start := p.Find(t, "request"), p.Find(t, "start order")
		require.Equal(t, request.ID, start.Parent)
		require.Equal(t, "producer", start.Kind)
		require.Equal(t, start.Begin.Truncate(time.Millisecond), start.End.Truncate(time.Millisecond))
		attempts := p.Named("task quote")
		require.Equal(t, "busy", attempts[0].Error)
		require.Equal(t, map[string]any{
			"pawl.run.id": "r", "pawl.workflow.name": "order", "pawl.workflow.version": int64(3), "pawl.node.id": "a", "pawl.token.id": int64(1),
			"pawl.attempt": int64(1), "pawl.task.type": "quote", "pawl.task.outcome": "failed", "error.type": "busy",
		}, attempts[0].Attributes)
		require.Equal(t, map[string]any{
			"pawl.run.id": "r", "pawl.workflow.name": "order", "pawl.workflow.version": int64(3), "pawl.node.id": "a", "pawl.token.id": int64(1),
			"pawl.attempt": int64(2), "pawl.task.type": "quote", "pawl.task.outcome": "completed",
			"gen_ai.usage.input_tokens": int64(12), "gen_ai.request.model": "m",
		}, attempts[1].Attributes)
		for i, inner := range p.Named("inner") {
			require.Equal(t, start.ID, attempts[i].Parent)
			require.Equal(t, attempts[i].ID, inner.Parent)
			require.Equal(t, time.Second, attempts[i].End.Sub(attempts[i].Begin))
		}
		run := p.Find(t, "run order")
		require.Equal(t, start.ID, run.Parent)
		require.Equal(t, "completed", run.Attributes["pawl.run.status"])
		require.Equal(t, time.Minute+2*time.Second, run.End.Sub(run.Begin).Truncate(time.Second))
		for i := range spans {
			require.Equal(t, request.Trace, spans[i].Trace)
		}
	})
}

// many is a workflow with waits of each kind: a fan-out of three, a timer, a signal, an approval, and a child run.
const many = `
name: many
start: split
nodes:
  - {id: split}
  - {id: work, task: work}
  - {id: pause, wait: {for: 10m}}
  - {id: ask, approval: {quorum: 1}}
  - {id: below, subworkflow: {name: small}}
  - {id: parks, task: parks, retry: {maxAttempts: 1, exhausted: park}}
transitions:
  - {from: split, to: work, siblingGroup: g, spawnCount: 3}
  - {from: work, to: pause, synchronization: {siblingGroup: g}}
  - {from: pause, to: ask}
  - {from: ask, to: below}
  - {from: below, to: parks}
`

const small = "name: small\nstart: a\nnodes: [{id: a, task: work}]"

// Waits, joins, approvals, child runs and runs have spans of the times that the journal tells, also if they began in an earlier life of the
// engine; opening that makes none.
func TestWaits(t *testing.T) {
	for _, reopen := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var p spantest.Provider
			dir := t.TempDir()
			fail := true
			o := pawl.Options{TraceLinkAfter: -1, Executor: pawl.Handlers{
				"work": func(context.Context, pawl.Task) (any, error) { <-time.After(time.Second); return nil, nil },
				"parks": func(context.Context, pawl.Task) (any, error) {
					if fail {
						return nil, errors.New("no")
					}
					return nil, nil
				},
			}}
			e := open(t, dir, &p, o)
			again := func() {
				if !reopen {
					return
				}
				require.NoError(t, e.Close(t.Context()))
				before := p.Begun()
				e = open(t, dir, &p, o)
				<-time.After(time.Second)
				require.Equal(t, before, p.Begun(), "opening makes no span")
			}
			_, err := e.Publish(t.Context(), define(t, small))
			require.NoError(t, err)
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, many)}, nil))
			began := time.Now()
			<-time.After(time.Minute)
			again()
			<-time.After(10 * time.Minute)
			again()
			<-time.After(2 * time.Hour)
			require.NoError(t, e.Vote(t.Context(), pawl.Target{Run: "r", Node: "ask"}, workflow.Ballot{By: "ann", Approved: true}))
			<-time.After(time.Minute)
			again()
			<-time.After(time.Hour)
			fail = false
			require.NoError(t, e.Retry(t.Context(), pawl.Target{Run: "r", Node: "parks"}, pawl.RetryOptions{}))
			_, err = e.Wait(t.Context(), "r")
			require.NoError(t, err)
			require.NoError(t, e.Close(t.Context()))

			spans := p.Spans()
			require.Equal(t, "1 join; 1 run many; 1 run small; 1 start many; 2 task parks; 4 task work; 1 wait approval; 1 wait operator; 1 wait timer", spantest.Names(spans))
			spantest.RequireWhole(t, spans)
			start := p.Find(t, "start many")
			for i := range spans {
				if spans[i].Name != "start many" {
					require.Equal(t, start.ID, spans[i].Parent, spans[i].Name)
				}
			}
			lasted := func(name string) time.Duration { s := p.Find(t, name); return s.End.Sub(s.Begin).Truncate(time.Minute) }
			require.Equal(t, 10*time.Minute, lasted("wait timer"))
			require.Equal(t, 2*time.Hour, lasted("wait approval").Truncate(time.Hour))
			require.Equal(t, time.Hour, lasted("wait operator").Truncate(time.Hour))
			join := p.Find(t, "join")
			require.Equal(t, time.Second, join.End.Sub(join.Begin).Truncate(time.Second))
			require.Equal(t, int64(3), join.Attributes["pawl.group.branches"])
			require.WithinDuration(t, began, p.Find(t, "run many").Begin, time.Second)
			branches := map[any]bool{}
			for _, s := range p.Named("task work") {
				branches[s.Attributes["pawl.branch.index"]] = true
			}
			require.Equal(t, map[any]bool{int64(0): true, int64(1): true, int64(2): true, nil: true}, branches)
		})
	}
}

// After TraceLinkAfter the attempts of a run, its waits and its children have traces of their own, which link to its start; so has a fork.
func TestOldRunsLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p spantest.Provider
		e := open(t, t.TempDir(), &p, pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, nil }}})
		_, err := e.Publish(t.Context(), define(t, small))
		require.NoError(t, err)
		d := define(t, `
name: slow
start: a
nodes: [{id: a, task: early}, {id: w, wait: {for: 61m}}, {id: b, task: late}, {id: c, subworkflow: {name: small}}]
transitions: [{from: a, to: w}, {from: w, to: b}, {from: b, to: c}]
`)
		out, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: d}, nil)
		require.NoError(t, err)
		require.Equal(t, workflow.RunCompleted, out.Status)
		settle()
		start, below := p.Find(t, "start slow"), p.Find(t, "start small")
		require.Equal(t, start.ID, p.Find(t, "task early").Parent)
		anchor := start.Trace + "/" + start.ID
		for _, name := range []string{"wait timer", "task late", "start small", "run slow"} {
			s := p.Find(t, name)
			require.Empty(t, s.Parent, name)
			require.NotEqual(t, start.Trace, s.Trace, name)
			require.Equal(t, []string{anchor}, s.Links, name)
		}
		require.Equal(t, below.ID, p.Find(t, "task work").Parent)
		require.Equal(t, below.ID, p.Find(t, "run small").Parent)

		require.NoError(t, e.Fork(t.Context(), "r", "again", pawl.ForkOptions{At: 1}))
		_, err = e.Wait(t.Context(), "again")
		require.NoError(t, err)
		settle()
		forked := p.Named("start slow")
		require.Len(t, forked, 2)
		require.Empty(t, forked[1].Parent)
		require.Equal(t, []string{anchor}, forked[1].Links)
		require.Equal(t, "again", forked[1].Attributes["pawl.run.id"])
		require.Equal(t, forked[1].ID, p.Named("task early")[1].Parent)
		spantest.RequireWhole(t, p.Spans())
	})
}

// Only what commits makes spans.
func TestLooksMakeNoSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p spantest.Provider
		e := open(t, t.TempDir(), &p, pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, nil }}})
		d := define(t, "name: w\nstart: a\nnodes: [{id: a, task: t}, {id: b, approval: {quorum: 1}}]\ntransitions: [{from: a, to: b}]")
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil))
		settle()
		require.Len(t, p.Named("task t"), 1)
		before := p.Begun()
		for range 3 {
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil), "again")
		}
		_, err := e.Why(t.Context(), "r")
		require.NoError(t, err)
		_, err = e.Inspect(t.Context(), "r")
		require.NoError(t, err)
		_, err = e.Simulate(t.Context(), pawl.OfRun{Run: "r"})
		require.NoError(t, err)
		settle()
		require.Equal(t, before, p.Begun())
	})
}

// A run that was started without a provider has traces, and no link; one that was started with one goes on in its trace.
func TestProvidersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p spantest.Provider
		dir := t.TempDir()
		o := pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, nil }}}
		d := define(t, "name: w\nstart: b\nnodes: [{id: b, approval: {quorum: 1}}, {id: a, task: t}]\ntransitions: [{from: b, to: a}]")
		vote := func(e *pawl.Engine, id workflow.RunID) {
			require.NoError(t, e.Vote(t.Context(), pawl.Target{Run: id, Node: "b"}, workflow.Ballot{By: "ann", Approved: true}))
			_, err := e.Wait(t.Context(), id)
			require.NoError(t, err)
		}
		e := open(t, dir, nil, o)
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "dark", Definition: d}, nil))
		require.NoError(t, e.Close(t.Context()))
		e = open(t, dir, &p, o)
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "lit", Definition: d}, nil))
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "off", Definition: d}, nil))
		vote(e, "dark")
		require.NoError(t, e.Close(t.Context()))
		e = open(t, dir, nil, o)
		vote(e, "off")
		require.NoError(t, e.Close(t.Context()))
		e = open(t, dir, &p, o)
		vote(e, "lit")
		require.NoError(t, e.Close(t.Context()))
		spans := p.Spans()
		spantest.RequireWhole(t, spans)
		roots := 0
		for i := range spans {
			s := &spans[i]
			if s.Parent == "" {
				roots++
			}
			require.Equal(t, s.Name == "start w" || s.Attributes["pawl.run.id"] == "dark", s.Parent == "", "%s %v", s.Name, s.Attributes)
		}
		require.Equal(t, "2 run w; 2 start w; 2 task t; 2 wait approval", spantest.Names(spans))
		require.Equal(t, 5, roots)
	})
}

var _ trace.TracerProvider = &spantest.Provider{}

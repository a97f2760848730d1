package tracing_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/spantest"
	"github.com/pawl-run/pawl/schedule"
)

// Each firing of a schedule begins a trace of its own, also where the engine was opened and the schedule applied within spans, and what its run
// does is below its start. That of a trigger links to its caller.
func TestFiringsBeginTraces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p spantest.Provider
		outer, end := below(t, &p)
		e, err := pawl.Open(outer, t.TempDir(), pawl.Options{
			TracerProvider: &p, Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, nil }},
		})
		require.NoError(t, err)
		_, err = e.Publish(outer, define(t, small))
		require.NoError(t, err)
		all, err := schedule.Parse([]byte("schedules: [{id: s, workflow: {name: small}, every: 10m}]"))
		require.NoError(t, err)
		_, err = e.Schedules().Apply(outer, all, pawl.ApplyOptions{})
		require.NoError(t, err)
		end()
		<-time.After(21 * time.Minute)
		_, err = e.Schedules().Trigger(outer, "s")
		require.NoError(t, err)
		settle()
		require.NoError(t, e.Close(context.Background()))

		spans := p.Spans()
		require.Equal(t, "1 request; 3 run small; 3 start small; 3 task work", spantest.Names(spans))
		spantest.RequireWhole(t, spans)
		request := p.Find(t, "request")
		traces := map[string]bool{request.Trace: true}
		for i, start := range p.Named("start small") {
			require.Empty(t, start.Parent)
			if i == 2 { // it was triggered
				require.Equal(t, []string{request.Trace + "/" + request.ID}, start.Links)
			} else {
				require.Empty(t, start.Links)
			}
			require.False(t, traces[start.Trace])
			traces[start.Trace] = true
			for _, name := range []string{"task work", "run small"} {
				require.Equal(t, start.ID, p.Named(name)[i].Parent, name)
			}
		}
	})
}

// A trigger whose run waits for another one links to its caller as well, also when another engine starts it.
func TestTriggersThatWaitLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p spantest.Provider
		dir := t.TempDir()
		o := pawl.Options{TracerProvider: &p, Executor: pawl.Handlers{"*": func(ctx context.Context, _ pawl.Task) (any, error) {
			select {
			case <-time.After(time.Hour):
			case <-ctx.Done():
			}
			return nil, ctx.Err()
		}}}
		e := open(t, dir, nil, o)
		_, err := e.Publish(t.Context(), define(t, small))
		require.NoError(t, err)
		all, err := schedule.Parse([]byte("schedules: [{id: s, workflow: {name: small}, at: ['2100-01-01T00:00:00Z'], overlap: buffer}]"))
		require.NoError(t, err)
		_, err = e.Schedules().Apply(t.Context(), all, pawl.ApplyOptions{})
		require.NoError(t, err)
		_, err = e.Schedules().Trigger(t.Context(), "s")
		require.NoError(t, err)
		caller, end := below(t, &p)
		_, err = e.Schedules().Trigger(caller, "s")
		require.NoError(t, err)
		end()
		require.NoError(t, e.Close(context.Background()))
		e = open(t, dir, nil, o)
		<-time.After(3 * time.Hour)
		require.NoError(t, e.Close(context.Background()))
		request, starts := p.Find(t, "request"), p.Named("start small")
		require.Len(t, starts, 2)
		require.Empty(t, starts[0].Links)
		require.Equal(t, []string{request.Trace + "/" + request.ID}, starts[1].Links)
		require.NotEqual(t, request.Trace, starts[1].Trace)
	})
}

// Each run of a trigger links to the caller who triggered it, also where one begins while the firing of another waits in a schedule that is paused.
func TestTriggersBesideOneThatWaitsLink(t *testing.T) {
	for _, spanned := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var p spantest.Provider
			o := pawl.Options{TracerProvider: &p, Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) {
				<-time.After(time.Hour)
				return nil, nil
			}}}
			e := open(t, t.TempDir(), nil, o)
			_, err := e.Publish(t.Context(), define(t, small))
			require.NoError(t, err)
			all, err := schedule.Parse([]byte("schedules: [{id: s, workflow: {name: small}, at: ['2100-01-01T00:00:00Z'], overlap: buffer}]"))
			require.NoError(t, err)
			s := e.Schedules()
			_, err = s.Apply(t.Context(), all, pawl.ApplyOptions{})
			require.NoError(t, err)
			trigger := func(ctx context.Context) string {
				run, err := s.Trigger(ctx, "s")
				require.NoError(t, err)
				return string(run)
			}
			first := trigger(t.Context())
			caller, end := below(t, &p)
			waits := trigger(caller)
			end()
			require.NoError(t, s.Pause(t.Context(), "s"))
			<-time.After(2 * time.Hour)
			other, end := t.Context(), func() {}
			if spanned {
				other, end = below(t, &p)
			}
			beside := trigger(other)
			end()
			<-time.After(2 * time.Hour)
			require.NoError(t, s.Resume(t.Context(), "s"))
			<-time.After(2 * time.Hour)
			require.NoError(t, e.Close(context.Background()))

			links := map[string][]string{}
			for _, start := range p.Named("start small") {
				links[start.Attributes["pawl.run.id"].(string)] = start.Links
			}
			var want []string
			for _, r := range p.Named("request") {
				want = append(want, r.Trace+"/"+r.ID)
			}
			require.Len(t, links, 3)
			require.Empty(t, links[first])
			require.Equal(t, want[:1], links[waits])
			require.ElementsMatch(t, want[1:], links[beside])
		})
	}
}

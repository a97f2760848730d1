package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/telemetry"
	"github.com/pawl-run/pawl/internal/testing/metertest"
	"github.com/pawl-run/pawl/workflow"
)

// define parses a definition.
func define(t *testing.T, text string) *workflow.Definition {
	t.Helper()
	d, err := workflow.ParseYAML([]byte(text))
	require.NoError(t, err)
	return d
}

// open opens an engine that counts for p.
func open(t *testing.T, dir string, p *metertest.Provider, o pawl.Options) *pawl.Engine {
	t.Helper()
	o.MeterProvider = p
	e, err := pawl.Open(t.Context(), dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
	return e
}

// start starts a run of a definition.
func start(t *testing.T, e *pawl.Engine, id string, d *workflow.Definition) {
	t.Helper()
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(id), Tenant: "acme", Definition: d}, nil))
}

// requireSome fails unless each series has its value.
func requireSome[V comparable](t *testing.T, want, got map[string]V) {
	t.Helper()
	for series, v := range want {
		require.Equal(t, v, got[series], "%s in %v", series, got)
	}
}

// one is a workflow with one task of a type.
func one(kind string) string {
	return fmt.Sprintf("name: %s\nstart: a\nnodes: [{id: a, task: %s}]\n", kind, kind)
}

// The second of two runs waits for the first, if there is one slot: the time in the queue and that of work are told apart, as are
// the attempts that stand at each moment.
func TestTimeInTheQueueBesideTimeOfWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p metertest.Provider
		e := open(t, t.TempDir(), &p, pawl.Options{Concurrency: 1, Executor: pawl.Handlers{"slow": func(context.Context, pawl.Task) (any, error) {
			<-time.After(2 * time.Second)
			return nil, nil
		}}})
		d := define(t, one("slow"))
		start(t, e, "r1", d)
		synctest.Wait()
		start(t, e, "r2", d)
		<-time.After(time.Second)
		requireSome(t, map[string]float64{
			"pawl.task.waiting{pawl.task.type=slow}": 1, "pawl.task.waiting.age{pawl.task.type=slow}": 1, "pawl.task.running{pawl.task.type=slow}": 1,
		}, p.Collect(t.Context()))
		for _, id := range []workflow.RunID{"r1", "r2"} {
			_, err := e.Wait(t.Context(), id)
			require.NoError(t, err)
		}
		ended := "{pawl.run.status=completed,pawl.workflow.name=slow}"
		worked := "pawl.task.duration{pawl.task.outcome=completed,pawl.task.type=slow}"
		queued := "pawl.task.queue.duration{pawl.task.type=slow}"
		requireSome(t, map[string]int{
			"pawl.run.started{pawl.workflow.name=slow}": 2, "pawl.run.ended" + ended: 2, "pawl.run.duration" + ended: 2, worked: 2, queued: 2,
		}, p.Counts())
		requireSome(t, map[string]float64{worked: 4, queued: 2, "pawl.run.duration" + ended: 6}, p.Sums())
		requireSome(t, map[string]float64{
			"pawl.task.waiting{pawl.task.type=slow}": 0, "pawl.task.waiting.age{pawl.task.type=slow}": 0, "pawl.task.running{pawl.task.type=slow}": 0,
		}, p.Collect(t.Context()))
	})
}

// Each way in which an attempt can end counts once, with the code of its error.
func TestOutcomesOfAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p metertest.Provider
		tries := map[string]int{}
		e := open(t, t.TempDir(), &p, pawl.Options{Concurrency: 1, Executor: pawl.Handlers{"*": func(ctx context.Context, task pawl.Task) (any, error) {
			tries[task.Type]++
			switch {
			case task.Type == "snoozes" && tries[task.Type] == 1:
				return nil, pawl.Snooze(time.Second)
			case task.Type == "retries" && tries[task.Type] == 1:
				return nil, errors.New("not yet")
			case task.Type == "fails", task.Type == "parks":
				return nil, pawl.TaskError{Code: "no_" + task.Type, Message: "no"}
			case task.Type == "late":
				<-ctx.Done()
				return nil, ctx.Err()
			case task.Type == "pends":
				return nil, pawl.ErrPending
			}
			return nil, nil
		}}})
		nodes := map[string]string{
			"snoozes": "", "fails": "", "parks": ", retry: {maxAttempts: 1, exhausted: park}", "retries": ", retry: {maxAttempts: 2}", "late": ", timeout: 1m", "pends": "",
		}
		for kind, more := range nodes {
			d := define(t, fmt.Sprintf("name: %s\nstart: a\nnodes: [{id: a, task: %s%s}]\n", kind, kind, more))
			start(t, e, kind, d)
			<-time.After(2 * time.Minute)
		}
		requireSome(t, map[string]float64{"pawl.task.pending{pawl.task.type=pends}": 1}, p.Collect(t.Context()))
		require.NoError(t, e.Cancel(t.Context(), "pends", ""))
		_, err := e.Wait(t.Context(), "pends")
		require.NoError(t, err)
		want := map[string]int{
			"outcome=snoozed,type=snoozes": 1, "outcome=completed,type=snoozes": 1, "error=no_fails,outcome=failed,type=fails": 1,
			"error=no_parks,outcome=parked,type=parks": 1, "error=error,outcome=retried,type=retries": 1, "outcome=completed,type=retries": 1,
			"error=timeout,outcome=failed,type=late": 1, "outcome=cancelled,type=pends": 1,
		}
		got := map[string]int{}
		short := strings.NewReplacer("pawl.task.duration{", "", "}", "", "error.type", "error", "pawl.task.", "")
		for series, n := range p.Counts() {
			if strings.HasPrefix(series, "pawl.task.duration{") {
				got[short.Replace(series)] = n
			}
		}
		require.Equal(t, want, got)
		requireSome(t, map[string]float64{"pawl.task.pending{pawl.task.type=pends}": 0, "pawl.task.running{pawl.task.type=late}": 0}, p.Collect(t.Context()))
		requireSome(t, map[string]int{"pawl.run.ended{pawl.run.status=cancelled,pawl.workflow.name=pends}": 1}, p.Counts())
	})
}

// A label takes so many names, and the others count together; tenants are labels only where they are asked for.
func TestLabelsAreBounded(t *testing.T) {
	for _, tenants := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var p metertest.Provider
			later := pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }}
			e := open(t, t.TempDir(), &p, pawl.Options{MeterTenants: tenants, Executor: later})
			for i := range telemetry.MaxNames + 5 {
				id := fmt.Sprint("w", i)
				start(t, e, id, define(t, one(id)))
			}
			synctest.Wait()
			pending := p.Collect(t.Context())
			requireSome(t, map[string]float64{"pawl.task.pending{pawl.task.type=_OTHER}": 5, "pawl.task.pending{pawl.task.type=w7}": 1}, pending)
			for i := range telemetry.MaxNames + 5 {
				require.NoError(t, e.Cancel(t.Context(), workflow.RunID(fmt.Sprint("w", i)), ""))
			}
			synctest.Wait()
			types := 0
			for series, n := range p.Counts() {
				if strings.HasPrefix(series, "pawl.task.duration{") {
					types++
					require.Equal(t, strings.Contains(series, "_OTHER"), n == 5, series)
					require.Equal(t, tenants, strings.Contains(series, "pawl.tenant=acme"), series)
				}
			}
			require.Equal(t, telemetry.MaxNames+1, types)
		})
	}
}

// Neither what an engine without a provider does, nor a collection after Close, reaches a provider.
func TestNothingIsCountedAfterClose(t *testing.T) {
	var p metertest.Provider
	e, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{MeterProvider: &p})
	require.NoError(t, err)
	require.NoError(t, e.Close(t.Context()))
	require.Empty(t, p.Collect(t.Context()))
	require.NotEmpty(t, p.Instruments())
}

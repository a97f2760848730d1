package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/serving"
	"github.com/pawl-run/pawl/internal/telemetry"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/metertest"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/store/logtest"
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

// Numbers in the metadata of results count by workflow, task type and name, of failed attempts too, as in the sums of runs.
func TestReportsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p metertest.Provider
		e := open(t, t.TempDir(), &p, pawl.Options{Executor: pawl.Handlers{
			"model": func(_ context.Context, task pawl.Task) (any, error) {
				if task.Run == "r" && task.Attempt == 1 {
					return nil, pawl.WithMetadata(errors.New("busy"), map[string]any{"cost": 0.25, "model": "m"})
				}
				return pawl.Result{Metadata: map[string]any{"cost": 0.5, "tokens": 1200}}, nil
			},
			"mail": func(context.Context, pawl.Task) (any, error) { return nil, nil },
		}})
		_, err := e.Publish(t.Context(), define(t, "name: below\nstart: a\nnodes: [{id: a, task: model}]\n"))
		require.NoError(t, err)
		start(t, e, "r", define(t, `
name: ask
start: a
nodes: [{id: a, taskExpr: "'model'", tasks: [model], retry: {maxAttempts: 2}}, {id: b, task: mail}, {id: c, subworkflow: {name: below}}]
transitions: [{from: a, to: b}, {from: b, to: c}]`))
		_, err = e.Wait(t.Context(), "r")
		require.NoError(t, err)
		got := map[string]float64{}
		for series, sum := range p.Sums() {
			if name, ok := strings.CutPrefix(series, "pawl.task.reported"); ok {
				got[name] = sum
			}
		}
		require.Equal(t, map[string]float64{
			"{pawl.report.name=cost,pawl.task.type=model,pawl.workflow.name=ask}": 0.75, "{pawl.report.name=tokens,pawl.task.type=model,pawl.workflow.name=ask}": 1200,
			"{pawl.report.name=cost,pawl.task.type=model,pawl.workflow.name=below}": 0.5, "{pawl.report.name=tokens,pawl.task.type=model,pawl.workflow.name=below}": 1200,
		}, got)
		o, err := e.Overview(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, map[string]float64{"cost": 0.75, "tokens": 1200}, o.Meta)
		require.Equal(t, map[string]float64{"cost": 0.5, "tokens": 1200}, o.MetaBelow)
	})
}

// A label takes so many names, and the others count together; tenants are labels only where they are asked for.
func TestLabelsAreBounded(t *testing.T) {
	harness.InTurn(t, 4)
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

// Approvals and dead letters are those of the directory: of runs that sleep as well, and of runs that were there before the
// engine was opened.
func TestApprovalsAndDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		tries := 0
		o := pawl.Options{IdleAfter: time.Second, Executor: pawl.Handlers{"parks": func(context.Context, pawl.Task) (any, error) {
			if tries++; tries == 1 {
				return nil, pawl.TaskError{Code: "no", Message: "no"}
			}
			return nil, nil
		}}}
		approvals, letters := "pawl.approvals.open{pawl.workflow.name=asks}", "pawl.dead_letters{pawl.workflow.name=parks}"
		both := map[string]float64{approvals: 1, letters: 1}
		parks := define(t, "name: parks\nstart: a\nnodes: [{id: a, task: parks, retry: {maxAttempts: 1, exhausted: park}}]\n")
		asks := define(t, "name: asks\nstart: a\nnodes: [{id: a, approval: {message: ok}}]\n")
		var first metertest.Provider
		o.MeterProvider = &first
		e, err := pawl.Open(t.Context(), dir, o)
		require.NoError(t, err)
		start(t, e, "r1", parks)
		start(t, e, "r2", asks)
		synctest.Wait()
		requireSome(t, both, first.Collect(t.Context()))
		requireSome(t, map[string]float64{"pawl.actor.active{}": 2}, first.Collect(t.Context()))
		<-time.After(time.Minute) // both runs sleep
		requireSome(t, both, first.Collect(t.Context()))
		requireSome(t, map[string]float64{"pawl.actor.active{}": 0}, first.Collect(t.Context()))
		require.NoError(t, e.Close(t.Context()))

		// An engine that opens the directory counts the age from the run's last record, which here has asked.
		age := "pawl.approvals.open.age{pawl.workflow.name=asks}"
		var second metertest.Provider
		e = open(t, dir, &second, o)
		synctest.Wait()
		requireSome(t, both, second.Collect(t.Context()))
		requireSome(t, map[string]float64{age: 60}, second.Collect(t.Context()))
		<-time.After(time.Minute)
		start(t, e, "r3", asks) // a younger one
		synctest.Wait()
		requireSome(t, map[string]float64{age: 120}, second.Collect(t.Context()))
		require.NoError(t, e.Retry(t.Context(), pawl.Target{Run: "r1", Node: "a"}, pawl.RetryOptions{}))
		require.NoError(t, e.Cancel(t.Context(), "r2", ""))
		synctest.Wait()
		requireSome(t, map[string]float64{approvals: 1, letters: 0, age: 0}, second.Collect(t.Context()))
		require.NoError(t, e.Vote(t.Context(), pawl.Target{Run: "r3", Node: "a"}, workflow.Ballot{By: "ann", Approved: true}))
		synctest.Wait()
		requireSome(t, map[string]float64{approvals: 0, age: 0}, second.Collect(t.Context()))
	})
}

// Each record of a journal counts, whoever has committed it, and an alarm says how late it was.
func TestCommitsAndAlarms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		d := define(t, "name: naps\nstart: a\nnodes: [{id: a, wait: {for: 1m}}, {id: b, wait: {for: 1m}}]\ntransitions: [{from: a, to: b}]\n")
		counts := map[string]float64{}
		lag, records, journal := "pawl.alarm.lag{}", "pawl.commit.records{}", 0.0
		for life := range 2 {
			var p metertest.Provider
			e, err := pawl.Open(t.Context(), dir, pawl.Options{MeterProvider: &p, IdleAfter: time.Second})
			require.NoError(t, err)
			if life == 0 {
				start(t, e, "r", d)
				<-time.After(61 * time.Second)
			} else {
				_, err := e.Wait(t.Context(), "r")
				require.NoError(t, err)
				for _, err := range e.Journal(t.Context(), "r", pawl.EventsOptions{}) {
					require.NoError(t, err)
					journal++
				}
			}
			require.NoError(t, e.Close(t.Context()))
			for series, n := range p.Sums() {
				counts[series] += n
			}
			require.Equal(t, 1, p.Counts()[lag])
			require.Positive(t, p.Counts()["pawl.commit.duration{}"])
			require.Equal(t, 1, p.Counts()["pawl.plan.duration{pawl.message=AlarmFired}"])
			<-time.After(time.Hour) // nobody has the directory
		}
		require.InDelta(t, 3600-59+1, counts[lag], 3) // the first was in time
		require.Equal(t, journal, counts[records])    // a record is counted after its call is answered, and before Close returns
	})
}

// The state of the engine, the room in its bounds, and the feed are told while it is open, and after another engine has
// taken the directory.
func TestStateAndBounds(t *testing.T) {
	dir := t.TempDir()
	var p metertest.Provider
	refused := errors.New("the broker is away")
	e, err := pawl.Open(t.Context(), dir, pawl.Options{
		MeterProvider: &p, MaxActive: 4, Concurrency: 2, Logger: slog.New(slog.DiscardHandler),
		Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }},
		Feed:     pawl.FeedOptions{To: pawl.FeedFunc(func(context.Context, pawl.FeedMessage) error { return refused })},
	})
	require.NoError(t, err)
	start(t, e, "r", define(t, one("work")))
	seen := p.Collect(t.Context())
	requireSome(t, map[string]float64{
		"pawl.engine.state{pawl.engine.state=open}": 1, "pawl.engine.state{pawl.engine.state=failed}": 0, "pawl.engine.state{pawl.engine.state=fenced}": 0,
		"pawl.engine.state{pawl.engine.state=maintenance}": 0, "pawl.bound.room{pawl.bound=runs}": 0.75,
		"pawl.bound.room{pawl.bound=readers}": 1, "pawl.bound.room{pawl.bound=commits}": 1,
	}, seen)
	for _, series := range []string{"pawl.feed.waiting{}", "pawl.feed.size{}", "pawl.bound.room{pawl.bound=feed}", "pawl.bound.room{pawl.bound=files}", "pawl.bound.room{pawl.bound=tasks}"} {
		require.Positive(t, seen[series], series)
	}
	require.Zero(t, p.Counts()["pawl.feed.lag{}"])

	require.NoError(t, os.Rename(filepath.Join(dir, "LOCK"), filepath.Join(dir, "LOCK.away")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "LOCK"), nil, 0o600))
	require.Error(t, e.Start(t.Context(), workflow.Run{ID: "r2", Definition: define(t, one("work"))}, nil))
	require.ErrorIs(t, e.AwaitFailure(t.Context()), pawl.ErrFenced)
	requireSome(t, map[string]float64{"pawl.engine.state{pawl.engine.state=open}": 0, "pawl.engine.state{pawl.engine.state=fenced}": 1}, p.Collect(t.Context()))
	_ = e.Close(t.Context()) // its directory is another's
}

// A feed tells how long events have waited, and a worker that loses its task is told apart from one that ends it.
func TestFeedLagAndLostWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p metertest.Provider
		var task pawl.Task
		var host serving.Host
		pool := pawl.Handlers{"work": func(ctx context.Context, t pawl.Task) (any, error) {
			host = serving.Of(ctx)
			host.ReportWorker(string(t.Key), "") // as pools do
			task = t
			return nil, pawl.ErrPending
		}}
		e := open(t, t.TempDir(), &p, pawl.Options{Executor: pool, Feed: pawl.FeedOptions{
			To: pawl.FeedFunc(func(context.Context, pawl.FeedMessage) error { <-time.After(time.Second); return nil }), Types: []workflow.EventType{workflow.EventWorkflowStarted},
		}})
		start(t, e, "r", define(t, one("work")))
		synctest.Wait()
		requireSome(t, map[string]float64{"pawl.task.waiting{pawl.task.type=work}": 1, "pawl.task.running{pawl.task.type=work}": 0}, p.Collect(t.Context()))
		<-time.After(5 * time.Second)
		requireSome(t, map[string]int{"pawl.feed.lag{}": 1}, p.Counts())
		require.InDelta(t, 1, p.Sums()["pawl.feed.lag{}"], 0.1)

		host.ReportWorker(string(task.Key), "ann")
		queued, lost := "pawl.task.queue.duration{pawl.task.type=work}", "pawl.worker.lost{pawl.task.type=work}"
		requireSome(t, map[string]float64{"pawl.task.waiting{pawl.task.type=work}": 0, "pawl.task.running{pawl.task.type=work}": 1}, p.Collect(t.Context()))
		require.Equal(t, 1, p.Counts()[queued])
		require.InDelta(t, 5, p.Sums()[queued], 0.1)
		host.ReportWorker(string(task.Key), "") // the lease has run out
		<-time.After(3 * time.Second)
		requireSome(t, map[string]int{lost: 1}, p.Counts())
		requireSome(t, map[string]float64{"pawl.task.waiting{pawl.task.type=work}": 1, "pawl.task.waiting.age{pawl.task.type=work}": 3}, p.Collect(t.Context()))
		host.ReportWorker(string(task.Key), "bob")
		require.NoError(t, e.Complete(t.Context(), task.Key, nil))
		synctest.Wait()
		requireSome(t, map[string]int{lost: 1, queued: 2, "pawl.task.duration{pawl.task.outcome=completed,pawl.task.type=work}": 1}, p.Counts())
		host.ReportWorker(string(task.Key), "")
		requireSome(t, map[string]int{lost: 1}, p.Counts())
	})
}

// Runs that have not ended are those of the directory, and records are unfiled until a file of their run has them.
func TestRunsAndRecordsOfTheDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		d := define(t, one("work"))
		o := pawl.Options{IdleAfter: time.Minute, Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }}}
		running, paused := "pawl.run.active{pawl.run.status=running,pawl.workflow.name=work}", "pawl.run.active{pawl.run.status=paused,pawl.workflow.name=work}"
		var first metertest.Provider
		o.MeterProvider = &first
		e, err := pawl.Open(t.Context(), dir, o)
		require.NoError(t, err)
		for i := range 5 {
			start(t, e, fmt.Sprint("r", i), d)
		}
		require.NoError(t, e.Pause(t.Context(), "r1"))
		require.NoError(t, e.Cancel(t.Context(), "r2", ""))
		<-time.After(30 * time.Second) // but for r2, all are awake
		seen := first.Collect(t.Context())
		requireSome(t, map[string]float64{running: 3, paused: 1, "pawl.log.unfiled{}": first.Sums()["pawl.commit.records{}"] - 2, "pawl.log.unfiled.age{}": 30}, seen)
		require.NotContains(t, seen, "pawl.log.outside.waiting.age{}")
		<-time.After(5 * time.Minute) // all sleep, and are in their files
		requireSome(t, map[string]float64{running: 3, paused: 1, "pawl.log.unfiled{}": 0, "pawl.log.unfiled.age{}": 0}, first.Collect(t.Context()))
		require.NoError(t, e.Close(t.Context()))

		var second metertest.Provider
		e = open(t, dir, &second, o)
		requireSome(t, map[string]float64{running: 3, paused: 1}, second.Collect(t.Context()))
		for i := range 5 {
			id := workflow.RunID(fmt.Sprint("r", i))
			require.NoError(t, e.Cancel(t.Context(), id, ""))
			if i == 0 {
				require.NoError(t, e.Purge(t.Context(), id))
			}
		}
		<-time.After(time.Minute)
		requireSome(t, map[string]float64{running: 0, paused: 0, "pawl.log.unfiled{}": 0}, second.Collect(t.Context()))
		counts, err := e.Counts(t.Context())
		require.NoError(t, err)
		for _, n := range counts {
			require.True(t, n.Status.Final())
		}
	})
}

// A heldLog is a log that keeps nothing while it is held.
type heldLog struct {
	store.Log
	held chan struct{} // holds one while it is
}

func (l *heldLog) Append(ctx context.Context, entry []byte) (store.Position, error) {
	l.held <- struct{}{}
	defer func() { <-l.held }()
	return l.Log.Append(ctx, entry)
}

// heldOptions returns options with a log outside that keeps nothing while it is held.
func heldOptions(t *testing.T) (*heldLog, pawl.Options) {
	t.Helper()
	log := &heldLog{(&logtest.Memory{}).Writer(nil), make(chan struct{}, 1)}
	var stores []blob.Store
	for range 2 {
		s, err := blob.OpenFiles(t.TempDir(), blob.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		stores = append(stores, s)
	}
	return log, pawl.Options{Blobs: stores[0], Remote: pawl.RemoteOptions{Log: log, Bases: stores[1]}, Executor: pawl.Handlers{}}
}

// The log outside of a directory says how long it takes, and for how long a commit waits for it.
func TestTheLogOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p metertest.Provider
		log, o := heldOptions(t)
		e := open(t, filepath.Join(t.TempDir(), "data"), &p, o)
		waits, kept := "pawl.log.outside.waiting.age{}", "pawl.log.outside.append.duration{}"
		requireSome(t, map[string]float64{waits: 0}, p.Collect(t.Context()))
		before := p.Counts()[kept]
		log.held <- struct{}{}
		go start(t, e, "r", define(t, one("work")))
		<-time.After(7 * time.Second)
		requireSome(t, map[string]float64{waits: 7}, p.Collect(t.Context())) // which does not wait for the commit
		<-log.held
		_, err := e.Wait(t.Context(), "r")
		require.NoError(t, err)
		seen := p.Collect(t.Context())
		requireSome(t, map[string]float64{waits: 0}, seen)
		require.Positive(t, seen["pawl.log.outside.unbased{}"])
		require.Greater(t, p.Counts()[kept], before)
		require.GreaterOrEqual(t, p.Sums()[kept], 7.0)
	})
}

// A run that cannot be loaded is told: people hear of it from nobody else.
func TestDamagedRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, damaged := t.TempDir(), "pawl.run.damaged{}"
		var first, second metertest.Provider
		e := open(t, dir, &first, pawl.Options{})
		waits := define(t, "name: waits\nstart: a\nnodes: [{id: a, wait: {event: go}}]\n")
		start(t, e, "r1", waits)
		start(t, e, "r2", waits)
		requireSome(t, map[string]float64{damaged: 0}, first.Collect(t.Context()))
		require.NoError(t, e.Close(t.Context()))
		files, err := filepath.Glob(filepath.Join(dir, "runs", "*", "*"))
		require.NoError(t, err)
		require.Len(t, files, 2)
		require.NoError(t, os.WriteFile(files[0], []byte("no database"), 0o600))

		e = open(t, dir, &second, pawl.Options{})
		synctest.Wait()
		requireSome(t, map[string]float64{damaged: 1}, second.Collect(t.Context()))
		stats, err := e.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, stats.Damaged)
		require.NoError(t, e.Close(t.Context()))
	})
}

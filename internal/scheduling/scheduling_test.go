package scheduling_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// report is what the schedules of tests start: a task of the type in its input.
const report = `
name: report
start: work
nodes: [{id: work, task: work}]
`

// opening is an engine that is closed with the test, and may be closed before.
type opening struct {
	*pawl.Engine
	t    *testing.T
	hook *testhook.Hook
	gone bool
}

func open(t *testing.T, dir string, work func(context.Context, pawl.Task) (any, error)) *opening {
	t.Helper()
	hook := &testhook.Hook{}
	e, err := pawl.Open(testhook.With(t.Context(), hook), dir, pawl.Options{Executor: pawl.Handlers{"work": work}, LockWait: 24 * time.Hour})
	require.NoError(t, err)
	o := &opening{Engine: e, t: t, hook: hook}
	t.Cleanup(o.shut)
	return o
}

func (o *opening) shut() {
	if !o.gone {
		o.gone = true
		require.NoError(o.t, o.Close(context.Background()))
	}
}

// publish publishes the workflow of the schedules.
func (o *opening) publish() { o.publishAs(report) }

func (o *opening) publishAs(text string) {
	o.t.Helper()
	d, err := workflow.ParseYAML([]byte(text))
	require.NoError(o.t, err)
	_, err = o.Publish(o.t.Context(), d)
	require.NoError(o.t, err)
}

// applyFields applies one schedule, given its fields but id and workflow.
func (o *opening) applyFields(fields string) {
	o.t.Helper()
	_, err := o.Schedules().Apply(o.t.Context(), one(o.t, fields), pawl.ApplyOptions{})
	require.NoError(o.t, err)
}

func one(t *testing.T, fields string) []schedule.Schedule {
	t.Helper()
	set, err := schedule.Parse([]byte("schedules: [{id: s, workflow: {name: report}, " + fields + "}]"))
	require.NoError(t, err)
	return set
}

// runs returns the ids of all runs behind the @, with their statuses, in order.
func (o *opening) runs() (out []string) {
	o.t.Helper()
	for r, err := range o.Runs(o.t.Context(), pawl.RunFilter{}) {
		require.NoError(o.t, err)
		out = append(out, fmt.Sprintf("%s %s", string(r.Run)[len("s@"):], r.Status))
	}
	slices.Sort(out)
	return out
}

// events returns the events of the schedule, each in a few words.
func (o *opening) events() (out []string) {
	o.t.Helper()
	all, err := o.Schedules().Events(o.t.Context(), "s", time.Time{}, time.Time{})
	require.NoError(o.t, err)
	for _, ev := range all {
		text := string(ev.Kind)
		if !ev.Scheduled.IsZero() {
			text += " " + ev.Scheduled.Format("02T15:04:05")
		}
		if ev.Skip != "" {
			text += " " + string(ev.Skip)
		}
		if ev.Count > 0 {
			text += fmt.Sprintf(" x%d", ev.Count)
		}
		if ev.Status.Final() {
			text += " " + ev.Status.String()
		}
		out = append(out, text)
	}
	return out
}

func (o *opening) readStanding() schedule.Standing {
	o.t.Helper()
	st, err := o.Schedules().Get(o.t.Context(), "s")
	require.NoError(o.t, err)
	return st
}

// done is a task that has nothing to do.
func done(context.Context, pawl.Task) (any, error) { return "done", nil }

// pass lets time pass, and then everything come to rest.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// The runs of a schedule have the limits that it says.
func TestRunsHaveLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), func(context.Context, pawl.Task) (any, error) {
			return pawl.Result{Metadata: map[string]any{"cost": 2}}, nil
		})
		o.publish()
		o.applyFields("every: 1m, metaLimits: {cost: 1.5}")
		pass(time.Minute)
		run := schedule.Firing{At: time.Now().UTC()}.RunID("s")
		ov, err := o.Overview(t.Context(), run)
		require.NoError(t, err)
		require.Equal(t, map[string]float64{"cost": 1.5}, ov.MetaLimits)
		o.shut()
	})
}

// A schedule starts its runs at its instants, with their input, and goes on after the engine was opened again.
func TestFiresAtItsInstants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := open(t, dir, func(_ context.Context, task pawl.Task) (any, error) { return task.Input, nil })
		o.publish()
		o.applyFields(`cron: ["0 * * * *"], timezone: Europe/Berlin, input: {at: string(scheduled), n: fire.count, before: "last == null ? null : last.status"}, labels: {kind: nightly}`)
		require.Empty(t, o.runs())
		pass(time.Hour)
		require.Equal(t, []string{"2000-01-01T01:00:00Z completed"}, o.runs())
		pass(30 * time.Minute)
		o.shut()
		o = open(t, dir, func(_ context.Context, task pawl.Task) (any, error) { return task.Input, nil })
		pass(90 * time.Minute)
		require.Equal(t, []string{"2000-01-01T01:00:00Z completed", "2000-01-01T02:00:00Z completed", "2000-01-01T03:00:00Z completed"}, o.runs())
		require.Equal(t, []string{"started 01T01:00:00 completed", "started 01T02:00:00 completed", "started 01T03:00:00 completed"}, o.events())
		s, err := o.Inspect(t.Context(), "s@2000-01-01T03:00:00Z")
		require.NoError(t, err)
		require.Equal(t, map[string]any{"at": "2000-01-01T03:00:00Z", "n": int64(3), "before": "completed"}, s.Input)
		require.Equal(t, map[string]string{"kind": "nightly"}, s.Labels)
		st := o.readStanding()
		require.Equal(t, time.Date(2000, 1, 1, 4, 0, 0, 0, time.UTC), st.Next[0].At)
		require.Len(t, st.Next, 5)
		require.Len(t, st.Events, 3)
		require.EqualValues(t, 3, st.Fired)
		require.Zero(t, st.LagMillis)
		require.Equal(t, "it fires next at 2000-01-01T04:00:00Z", st.Why)
	})
}

// slow returns a task that takes a while.
func slow(d time.Duration) func(context.Context, pawl.Task) (any, error) {
	return func(ctx context.Context, _ pawl.Task) (any, error) {
		select {
		case <-time.After(d):
			return "done", nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Each overlap does as it says while a run is not over; runs take 25 minutes, and instants come each 10. A paused run is not over.
func TestOverlap(t *testing.T) {
	harness.InTurn(t, 4)
	for policy, want := range map[string][]string{
		"skip":   {"started 01T00:10:00 completed", "skipped 01T00:20:00 overlap", "skipped 01T00:30:00 overlap", "started 01T00:40:00"},
		"buffer": {"started 01T00:10:00 completed", "waiting 01T00:20:00", "skipped 01T00:30:00 overlap", "started 01T00:20:00", "waiting 01T00:40:00"},
		"cancel": {"started 01T00:10:00 cancelled", "started 01T00:20:00 cancelled", "started 01T00:30:00 cancelled", "started 01T00:40:00"},
		"allow":  {"started 01T00:10:00 completed", "started 01T00:20:00", "started 01T00:30:00", "started 01T00:40:00"},
	} {
		t.Run(policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := open(t, t.TempDir(), slow(25*time.Minute))
				o.publish()
				o.applyFields("every: 10m, overlap: " + policy)
				pass(40 * time.Minute)
				require.Equal(t, want, o.events())
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), slow(5*time.Minute))
		o.publishAs("{name: report, start: a, nodes: [{id: a, task: work}, {id: b, task: work}], transitions: [{from: a, to: b}]}")
		o.applyFields("every: 10m")
		pass(11 * time.Minute)
		require.NoError(t, o.Engine.Pause(t.Context(), "s@2000-01-01T00:10:00Z"))
		pass(20 * time.Minute)
		require.Equal(t, []string{"started 01T00:10:00", "skipped 01T00:20:00 overlap", "skipped 01T00:30:00 overlap"}, o.events())
		require.Equal(t, "it fires next at 2000-01-01T00:40:00Z, unless run s@2000-01-01T00:10:00Z is not over by then: its overlap is skip", o.readStanding().Why)
	})
}

// After a time without an engine the latest firings within the window are made up for, and no more.
func TestCatchUp(t *testing.T) {
	for name, c := range map[string]struct {
		fields string
		want   []string
	}{
		"the latest": {"every: 10m, overlap: allow, catchUp: {window: 1h}", []string{
			"skipped 01T01:10:00 window x12", "skipped 01T03:10:00 most x5", "started 01T04:00:00 completed", "started 01T04:10:00 completed",
		}},
		"the latest three": {"every: 10m, overlap: allow, catchUp: {window: 1h, most: 3}", []string{
			"skipped 01T01:10:00 window x12", "skipped 01T03:10:00 most x3", "started 01T03:40:00 completed", "started 01T03:50:00 completed", "started 01T04:00:00 completed", "started 01T04:10:00 completed",
		}},
		"all": {"every: 1h, overlap: allow, catchUp: {most: 1000}", []string{
			"started 01T02:00:00 completed", "started 01T03:00:00 completed", "started 01T04:00:00 completed",
		}},
		"what is listed": {"at: [2000-01-01T02:00:00Z, 2000-01-01T04:10:00Z], catchUp: {window: 1h}", []string{
			"skipped 01T02:00:00 window x1", "started 01T04:10:00 completed",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				o := open(t, dir, done)
				o.publish()
				pass(65 * time.Minute)
				o.applyFields(c.fields)
				o.shut()
				pass(3 * time.Hour) // it is 04:05
				o = open(t, dir, done)
				pass(10 * time.Minute)
				require.Equal(t, c.want, o.events())
			})
		})
	}
}

// An engine that closes while a schedule fires decides nothing: the next one starts the run.
func TestCloseDecidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := open(t, dir, done)
		o.publishAs("{name: report, start: work, nodes: [{id: work, task: work}], output: {mapping: {at: string(run.scheduledAt)}}}")
		o.applyFields(`every: 10m, input: {before: "last == null ? '' : last.output.at"}`)
		pass(10 * time.Minute)
		var asked atomic.Int32 // alarms ask as well
		closed := make(chan struct{})
		instant := time.Now().Add(10 * time.Minute)
		o.hook.OnNow(func() time.Time {
			if now := time.Now(); now.Before(instant) {
				return now
			}
			if asked.Add(1) == 2 { // by the step, after the heap
				go func() { defer close(closed); o.shut() }()
				<-time.After(time.Second)
			}
			return time.Now()
		})
		<-time.After(10 * time.Minute)
		<-closed
		o = open(t, dir, done)
		pass(time.Minute)
		require.Equal(t, []string{"started 01T00:10:00 completed", "started 01T00:20:00 completed"}, o.events())
	})
}

// An instant fires once, also if its run was purged, and whatever the clock does. A clock that was far ahead keeps no instant from
// firing when it is right again.
func TestOncePerInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := open(t, dir, done)
		o.publish()
		o.applyFields("every: 10m, catchUp: {window: 1h}")
		pass(30 * time.Minute)
		first := workflow.RunID("s@2000-01-01T00:10:00Z")
		require.NoError(t, o.Purge(t.Context(), first))
		set := func(d time.Duration) {
			o.hook.OnNow(func() time.Time { return time.Now().Add(d) })
			pass(2 * time.Minute)
		}
		set(-25 * time.Minute)
		require.Equal(t, []string{"2000-01-01T00:20:00Z completed", "2000-01-01T00:30:00Z completed"}, o.runs())
		pass(20 * time.Minute) // until 00:27 on its clock
		require.Equal(t, []string{"2000-01-01T00:20:00Z completed", "2000-01-01T00:30:00Z completed"}, o.runs(), "nothing is repeated")
		set(10 * 365 * 24 * time.Hour)
		require.Equal(t, []string{"2000-01-01T00:20:00Z completed", "2000-01-01T00:30:00Z completed", "2009-12-29T00:50:00Z completed"}, o.runs(), "no burst")
		set(0)
		pass(10 * time.Minute)
		require.Equal(t, []string{"2000-01-01T00:20:00Z completed", "2000-01-01T00:30:00Z completed", "2000-01-01T00:50:00Z completed", "2000-01-01T01:00:00Z completed", "2009-12-29T00:50:00Z completed"}, o.runs())
	})
}

// An exception is told also where the next firing is a day later, when the instant is out of the window.
func TestExceptionsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), done)
		o.publish()
		o.applyFields(`cron: ["0 2 * * *"], except: ["* * 3-5 1 *", "0 2 8 1 *"]`)
		pass(9 * 24 * time.Hour)
		require.Equal(t, []string{
			"started 01T02:00:00 completed", "started 02T02:00:00 completed", "skipped 03T02:00:00 except x3", "started 06T02:00:00 completed",
			"started 07T02:00:00 completed", "skipped 08T02:00:00 except x1", "started 09T02:00:00 completed",
		}, o.events())
		o.shut()
	})
}

// A schedule that fires each second fires again behind a weekend that it leaves out, and tells that it did not fire there.
func TestLongExceptionOfEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), done)
		o.publish()
		o.applyFields(`every: 1s, start: "2000-01-07T23:59:58Z", except: ["* * * * SAT,SUN"]`)
		pass(time.Until(time.Date(2000, 1, 8, 0, 0, 5, 0, time.UTC)))
		require.Equal(t, "it fires next at 2000-01-10T00:00:00Z", o.readStanding().Why)
		pass(time.Until(time.Date(2000, 1, 10, 0, 0, 1, 0, time.UTC)))
		require.Equal(t, []string{
			"started 07T23:59:58 completed", "started 07T23:59:59 completed", "skipped 08T00:00:00 except x10000", "started 10T00:00:00 completed", "started 10T00:00:01 completed",
		}, o.events())
	})
}

// A wider window makes up for none of the instants that were told as skipped.
func TestWiderWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := open(t, dir, done)
		o.publish()
		o.applyFields("every: 1h, overlap: allow, catchUp: {window: 2h, most: 1}")
		pass(time.Hour)
		o.shut()
		pass(72 * time.Hour)
		o = open(t, dir, done)
		pass(time.Minute)
		told := o.events()
		require.Equal(t, []string{"started 01T01:00:00 completed", "skipped 01T02:00:00 window x70", "started 04T00:00:00 completed", "started 04T01:00:00 completed"}, told)
		o.applyFields("every: 1h, overlap: allow, catchUp: {window: 240h, most: 1000}")
		pass(time.Minute)
		require.Equal(t, told, o.events())
		pass(time.Hour)
		require.Equal(t, append(told, "started 04T02:00:00 completed"), o.events())
	})
}

// While nothing can be committed, the end of a run is noted again and again with a pause between, and not as fast as a processor can.
func TestEndsAreNotedWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), done)
		o.publish()
		var looks atomic.Int64
		o.hook.OnHit(func(point string) {
			if point == "schedule.ended" {
				o.hook.Fence()
				looks.Store(0)
			}
		})
		o.hook.OnNow(func() time.Time {
			if looks.Add(1) == 100_000 {
				t.Error("the schedule was looked at all the time")
				runtime.Goexit() // time would not go on
			}
			return time.Now()
		})
		o.applyFields("every: 1h")
		pass(2 * time.Hour)
		require.Greater(t, looks.Load(), int64(10))
		require.Less(t, looks.Load(), int64(2000))
	})
}

// An instant that has fired is decided, also where so much time has gone since it was found that it is out of the window.
func TestTimeGoesOnWhileAScheduleFires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), done)
		o.publish()
		var ahead atomic.Int64
		o.hook.OnNow(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
		o.hook.OnHit(func(point string) {
			if point == "schedule.due" {
				ahead.CompareAndSwap(0, int64(48*time.Hour))
			}
		})
		o.applyFields("every: 24h, offset: 1h, overlap: allow")
		pass(2 * time.Hour)
		require.Equal(t, []string{"started 01T01:00:00 completed", "skipped 02T01:00:00 window x1", "started 03T01:00:00 completed"}, o.events())
	})
}

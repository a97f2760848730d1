package scheduling_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// A set is applied as a whole, twice is once, and a dry run changes nothing.
func TestApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), done)
		o.publish()
		all := func(text string, a pawl.ApplyOptions) []schedule.Change {
			set, err := schedule.Parse([]byte("schedules: " + text))
			require.NoError(t, err)
			changes, err := o.Schedules().Apply(t.Context(), set, a)
			require.NoError(t, err)
			return changes
		}
		two := "[{id: a, workflow: {name: report}, every: 1h}, {id: b, workflow: {name: report}, every: 1h}]"
		created := []schedule.Change{{ID: "a", Kind: "created"}, {ID: "b", Kind: "created"}}
		require.Equal(t, created, all(two, pawl.ApplyOptions{DryRun: true}))
		require.Equal(t, created, all(two, pawl.ApplyOptions{}))
		require.Equal(t, []schedule.Change{{ID: "a", Kind: "unchanged"}, {ID: "b", Kind: "unchanged"}}, all(two, pawl.ApplyOptions{}))
		changed := "[{id: b, workflow: {name: report}, every: 2h, overlap: allow}]"
		want := []schedule.Change{{ID: "a", Kind: "deleted"}, {ID: "b", Kind: "changed", Fields: []string{"every", "overlap"}}}
		require.Equal(t, want, all(changed, pawl.ApplyOptions{DryRun: true, Prune: true}))
		require.Equal(t, want, all(changed, pawl.ApplyOptions{Prune: true}))
		_, err := o.Schedules().Get(t.Context(), "a")
		require.ErrorIs(t, err, pawl.ErrScheduleNotFound)
		require.ErrorIs(t, o.Schedules().Pause(t.Context(), "a"), pawl.ErrScheduleNotFound)
		_, err = o.Schedules().Apply(t.Context(), []schedule.Schedule{{ID: "x"}}, pawl.ApplyOptions{})
		require.True(t, errors.As(err, new(*schedule.Error)), "%v", err)
		_, err = o.ForgetBefore(t.Context(), time.Now().Add(time.Hour))
		require.NoError(t, err)
		require.ErrorIs(t, o.Forget(t.Context(), "pawl:schedule:b@"), pawl.ErrInvalid)
		o.shut()
	})
}

// A paused schedule fires no more of itself, and resumed it passes over what has come meanwhile.
func TestPauseAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), done)
		o.publish()
		o.applyFields("every: 10m")
		ctx := pawl.Because(pawl.As(t.Context(), "ann"), "the disk is full")
		require.NoError(t, o.Schedules().Pause(ctx, "s"))
		require.NoError(t, o.Schedules().Pause(ctx, "s"), "twice is once")
		pass(35 * time.Minute)
		require.Equal(t, "it is paused since 2000-01-01T00:00:00Z by ann: the disk is full", o.readStanding().Why)
		run, err := o.Schedules().Trigger(t.Context(), "s")
		require.NoError(t, err)
		require.Equal(t, workflow.RunID("s@2000-01-01T00:35:00Z"), run)
		require.NoError(t, o.Schedules().Resume(ctx, "s"))
		pass(10 * time.Minute)
		require.Equal(t, []string{
			"paused", "started 01T00:35:00 completed", "skipped 01T00:10:00 paused x3", "resumed", "started 01T00:40:00 completed",
		}, o.events())
	})
}

// A trigger at an instant of the schedule has a run of its own, and so has the instant.
func TestTriggerAtAnInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), done)
		o.publish()
		o.applyFields("every: 10m, overlap: allow")
		pass(10 * time.Minute)
		run, err := o.Schedules().Trigger(t.Context(), "s")
		require.NoError(t, err)
		require.Equal(t, workflow.RunID("s@2000-01-01T00:10:00.001Z"), run)
		run, err = o.Schedules().Trigger(t.Context(), "s")
		require.NoError(t, err)
		require.Equal(t, workflow.RunID("s@2000-01-01T00:10:00.002Z"), run)
		pass(5 * time.Minute)
		run, err = o.Schedules().Trigger(t.Context(), "s")
		require.NoError(t, err)
		require.Equal(t, workflow.RunID("s@2000-01-01T00:15:00Z"), run)
		synctest.Wait()
		require.Equal(t, []string{
			"started 01T00:10:00 completed", "started 01T00:10:00 completed", "started 01T00:10:00 completed", "started 01T00:15:00 completed",
		}, o.events())
	})
}

// Backfills fire what has not fired, so many at once, also after a restart, and nothing twice.
func TestBackfill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		pass(65 * time.Minute)
		o := open(t, dir, slow(5*time.Minute))
		o.publish()
		o.applyFields("every: 10m")
		pass(6 * time.Minute) // 01:10 has fired, and runs
		from, to := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), time.Now()
		n, err := o.Schedules().Backfill(pawl.Because(pawl.As(t.Context(), "ann"), "outage 1"), "s", schedule.Backfill{From: from, To: to, Most: 2})
		require.NoError(t, err)
		require.Equal(t, 7, n)
		pass(time.Minute)
		require.Equal(t, "outage 1", o.readStanding().Backfills[0].Reason)
		require.Equal(t, []string{"2000-01-01T00:10:00Z running", "2000-01-01T00:20:00Z running", "2000-01-01T01:10:00Z running"}, o.runs())
		o.shut()
		o = open(t, dir, slow(5*time.Minute))
		pass(16 * time.Minute)
		require.Equal(t, []string{
			"2000-01-01T00:10:00Z completed", "2000-01-01T00:20:00Z completed", "2000-01-01T00:30:00Z completed", "2000-01-01T00:40:00Z completed",
			"2000-01-01T00:50:00Z completed", "2000-01-01T01:00:00Z completed", "2000-01-01T01:10:00Z completed", "2000-01-01T01:20:00Z completed",
		}, o.runs())
		require.Empty(t, o.readStanding().Backfills)
		events, err := o.Schedules().Events(t.Context(), "s", time.Time{}, time.Time{})
		require.NoError(t, err)
		for _, ev := range events {
			if ev.Cause == "backfill" {
				require.Equal(t, "ann: outage 1", ev.By+": "+ev.Reason)
			}
		}
		for _, b := range []schedule.Backfill{{From: to, To: from, Most: 1}, {From: from, To: to}, {From: from, To: to.Add(time.Hour), Most: 1}} {
			_, err = o.Schedules().Backfill(t.Context(), "s", b)
			require.ErrorIs(t, err, pawl.ErrInvalid)
		}
	})
}

// The instants of a schedule by after follow the ends of its runs.
func TestAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := open(t, dir, slow(20*time.Minute))
		o.publish()
		o.applyFields("after: 10m")
		pass(65 * time.Minute)
		require.Equal(t, []string{"started 01T00:10:00 completed", "started 01T00:40:00 completed"}, o.events()[:2])
		require.Len(t, o.events(), 2)
		o.shut()
		pass(2 * time.Hour)
		o = open(t, dir, slow(20*time.Minute))
		pass(time.Minute)
		require.Equal(t, "started 01T01:10:00", o.events()[2], "one, however long nobody was there")
	})
}

// A schedule by after whose runs cannot begin is refused once for a time without an engine, and not once for each interval of it; an
// interval after that it is tried again.
func TestAfterIsRefusedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := open(t, dir, done)
		o.applyFields("after: 1m, pauseAfterFailures: 100")
		pass(10 * time.Second)
		o.shut()
		pass(72*time.Hour + 300*time.Millisecond)
		o = open(t, dir, done)
		pass(0)
		require.Equal(t, []string{"refused 01T00:01:00"}, o.events())
		pass(2 * time.Minute)
		require.Equal(t, []string{"refused 01T00:01:00", "refused 04T00:01:10", "refused 04T00:02:10"}, o.events())
	})
}

// A clock that was a year ahead when runs of a schedule by after ended blocks none when it is right again, also if the engine is opened
// again and again meanwhile.
func TestAfterAClockThatWasAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := open(t, dir, done)
		o.publish()
		o.hook.OnNow(func() time.Time { return time.Now().AddDate(1, 0, 0) })
		o.applyFields("after: 10m")
		pass(25 * time.Minute)
		require.Len(t, o.runs(), 2)
		for range 3 {
			o.shut()
			o = open(t, dir, done)
			pass(6 * time.Minute)
		}
		require.Equal(t, []string{"2000-01-01T00:35:00Z completed", "2001-01-01T00:10:00Z completed", "2001-01-01T00:20:00Z completed"}, o.runs())
		pass(10 * time.Minute)
		require.Len(t, o.runs(), 4)
		o.hook.OnNow(func() time.Time { return time.Now().AddDate(1, 0, 0) })
		pass(2 * time.Minute)
		o.hook.OnNow(time.Now)
		pass(time.Hour)
		require.Greater(t, len(o.runs()), 8)
	})
}

// A clock that was a year ahead when a schedule came that has instants of its own keeps none from firing when it is right again, and lets
// none fire twice.
func TestInstantsAfterAClockThatWasAhead(t *testing.T) {
	for _, fields := range []string{
		"every: 10m", `cron: ["*/10 * * * *"]`, "at: [2000-01-01T00:30:00Z, 2000-01-01T00:40:00Z, 2000-01-01T00:50:00Z, 2001-01-01T00:10:00Z, 2001-01-01T00:20:00Z]",
	} {
		synctest.Test(t, func(t *testing.T) {
			o := open(t, t.TempDir(), done)
			o.publish()
			ahead := func() time.Time { return time.Now().AddDate(1, 0, 0) }
			o.hook.OnNow(ahead)
			o.applyFields(fields)
			pass(25 * time.Minute)
			o.hook.OnNow(time.Now)
			pass(30 * time.Minute)
			o.hook.OnNow(ahead)
			pass(3 * time.Minute)
			events, runs := o.events(), o.runs()
			require.Len(t, runs, int(o.readStanding().Fired))
			require.GreaterOrEqual(t, len(runs), 5)
			require.Equal(t, []string{
				"started 01T00:10:00 completed", "started 01T00:20:00 completed",
				"started 01T00:30:00 completed", "started 01T00:40:00 completed", "started 01T00:50:00 completed",
			}, events[:5], fields)
			require.Equal(t, []string{"2000-01-01T00:30:00Z completed", "2000-01-01T00:40:00Z completed", "2000-01-01T00:50:00Z completed"}, runs[:3])
		})
	}
}

// heldSteps hold the steps of schedules until they are let go.
type heldSteps struct {
	mu    sync.Mutex
	rings []func() // nil once they are let go
	free  bool
}

func (h *heldSteps) Hold(run string, ring func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.free || !strings.HasPrefix(run, "@") {
		return false
	}
	h.rings = append(h.rings, ring)
	return true
}

func (*heldSteps) Rang(string) {}

// letGo lets the steps go that are held, and all others.
func (h *heldSteps) letGo() {
	h.mu.Lock()
	h.free = true
	h.mu.Unlock()
	for _, ring := range h.rings {
		ring()
	}
}

// A trigger counts no run that its caller has seen end, though the schedule was not told, and does not overtake a firing that waits for it.
func TestTriggerBehindAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), slow(time.Minute))
		o.publish()
		steps := &heldSteps{}
		o.hook.OnAlarm(steps)
		trigger := func() workflow.RunID {
			run, err := o.Schedules().Trigger(t.Context(), "s")
			require.NoError(t, err)
			return run
		}
		o.applyFields("every: 24h")
		for range 3 {
			_, err := o.Wait(t.Context(), trigger())
			require.NoError(t, err)
		}
		o.applyFields("every: 24h, overlap: buffer")
		first := trigger()
		second := trigger()
		_, err := o.Wait(t.Context(), first)
		require.NoError(t, err)
		third := trigger()
		_, err = o.Schedules().Trigger(t.Context(), "s")
		require.ErrorIs(t, err, pawl.ErrBusy)
		steps.letGo()
		for _, run := range []workflow.RunID{second, third} {
			pass(time.Minute)
			out, err := o.Overview(t.Context(), run)
			require.NoError(t, err)
			require.Equal(t, workflow.RunCompleted, out.Status)
		}
	})
}

// The instants of a paused schedule that is changed are its own from the change on, and none of those before is told.
func TestApplyWhilePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), done)
		o.publish()
		o.applyFields(`cron: ["0 0 * * *"]`)
		pass(time.Minute)
		require.NoError(t, o.Schedules().Pause(t.Context(), "s"))
		pass(10 * time.Hour)
		o.applyFields("every: 1m")
		pass(5*time.Minute + time.Second)
		require.NoError(t, o.Schedules().Resume(t.Context(), "s"))
		pass(time.Minute)
		require.Equal(t, []string{"paused", "skipped 01T10:02:00 paused x5", "resumed", "started 01T10:07:00 completed"}, o.events())
	})
}

// The reason of a pause quotes nothing of an input that cannot be computed: values are in the error of the event alone.
func TestPauseQuotesNoValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), done)
		o.publish()
		o.applyFields(`every: 10m, pauseAfterFailures: 2, input: {n: "{'a': 1}[fire.date]"}`)
		pass(time.Hour)
		st := o.readStanding()
		require.Equal(t, "2 failures in a row, the last: its run could not begin", st.Paused.Reason)
		require.Equal(t, st.Paused.Reason, st.Events[0].Reason)
		require.Contains(t, st.Events[1].Error, "2000-01-01")
	})
}

// A run that is to be cancelled for the next one goes on if the input of that one cannot be computed.
func TestRefusedInputCancelsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), slow(5*time.Hour))
		o.publish()
		o.applyFields(`every: 1h, overlap: cancel, input: {n: "scheduled.getHours() == 2 ? 1 / 0 : 1"}`)
		pass(150 * time.Minute)
		require.Equal(t, []string{"started 01T01:00:00", "refused 01T02:00:00"}, o.events())
		pass(time.Hour)
		require.Equal(t, []string{"started 01T01:00:00 cancelled", "refused 01T02:00:00", "started 01T03:00:00"}, o.events())
	})
}

// A run that is to be cancelled for the next one goes on if that one is refused because a newer version takes another input.
func TestRefusedStartCancelsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), slow(5*time.Hour))
		o.publish()
		o.applyFields("every: 1h, overlap: cancel")
		pass(90 * time.Minute)
		o.publishAs("{name: report, version: 2, input: {schema: {type: object, required: [x]}}, start: work, nodes: [{id: work, task: work}]}")
		pass(time.Hour)
		_, err := o.Schedules().Trigger(t.Context(), "s")
		require.ErrorIs(t, err, pawl.ErrInvalid)
		require.Equal(t, []string{"started 01T01:00:00", "refused 01T02:00:00", "refused 01T02:30:00"}, o.events())
		o.publishAs("{name: report, version: 3, start: work, nodes: [{id: work, task: work}]}")
		pass(time.Hour)
		require.Equal(t, []string{"2000-01-01T01:00:00Z cancelled", "2000-01-01T03:00:00Z running"}, o.runs())
	})
}

// A firing whose run is there already, which somebody began by hand, cancels no other: nothing would begin in its place.
func TestARunThatIsThereCancelsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), slow(5*time.Hour))
		o.publish()
		o.applyFields("every: 1h, overlap: cancel")
		pass(90 * time.Minute)
		require.NoError(t, o.Start(t.Context(), workflow.Run{ID: "s@2000-01-01T02:00:00Z", Workflow: "report"}, nil))
		pass(time.Hour)
		require.Equal(t, []string{"2000-01-01T01:00:00Z running", "2000-01-01T02:00:00Z running"}, o.runs())
		pass(time.Hour)
		require.Equal(t, []string{"2000-01-01T01:00:00Z cancelled", "2000-01-01T02:00:00Z cancelled", "2000-01-01T03:00:00Z running"}, o.runs())
	})
}

// A backfill ends when its schedule gets instants that it could not have: more than its bound, or those that follow runs.
func TestBackfillsEndWithTheirInstants(t *testing.T) {
	for fields, want := range map[string]int{"every: 2h": 1, "every: 1s": 0, "after: 25m": 0} {
		synctest.Test(t, func(t *testing.T) {
			o := open(t, t.TempDir(), done)
			o.publish()
			o.applyFields("every: 1h")
			require.NoError(t, o.Schedules().Pause(t.Context(), "s"))
			day := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
			n, err := o.Schedules().Backfill(t.Context(), "s", schedule.Backfill{From: day.Add(-4 * time.Hour), To: day, Most: 1})
			require.NoError(t, err)
			require.Equal(t, 4, n)
			o.applyFields(fields)
			require.Len(t, o.readStanding().Backfills, want, fields)
			require.NoError(t, o.Schedules().Resume(t.Context(), "s"))
			synctest.Wait()
			require.Len(t, o.runs(), 2*want, fields)
			require.Empty(t, o.readStanding().Backfills)
		})
	}
}

// Runs that fail, or cannot begin, pause a schedule which says so; its instants go on until then.
func TestPauseAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), func(context.Context, pawl.Task) (any, error) { return nil, pawl.Permanent(errors.New("no")) })
		o.applyFields("every: 10m, pauseAfterFailures: 3")
		pass(10 * time.Minute)
		o.publish()
		pass(time.Hour)
		require.Equal(t, []string{"refused 01T00:10:00", "started 01T00:20:00 failed", "started 01T00:30:00 failed", "paused"}, o.events())
		st := o.readStanding()
		require.True(t, st.Paused.Incident)
		require.Contains(t, st.Why, "3 failures in a row")
		require.NoError(t, o.Schedules().Resume(t.Context(), "s"))
		require.Zero(t, o.readStanding().Failures)
		pass(10 * time.Minute)
		require.Len(t, o.readStanding().Events, 5)
		require.Equal(t, 1, o.readStanding().Failures)
	})
}

// A run knows the instant for which it was started, whenever it begins.
func TestScheduledAtIsTheInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), done)
		o.publishAs("{name: report, start: work, nodes: [{id: work, task: work}], output: {mapping: {at: string(run.scheduledAt)}}}")
		o.applyFields("every: 10m, jitter: 5m")
		pass(16 * time.Minute)
		out, err := o.Wait(t.Context(), "s@2000-01-01T00:10:00Z")
		require.NoError(t, err)
		require.Equal(t, map[string]any{"at": "2000-01-01T00:10:00Z"}, out.Output)
	})
}

// An input that cannot be computed refuses the firing, and the next one comes.
func TestRefusedInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), done)
		o.publish()
		o.applyFields(`every: 10m, jitter: 5m, input: {n: "1 / (fire.count - 1)"}`)
		pass(30 * time.Minute)
		require.Equal(t, []string{"refused 01T00:10:00", "refused 01T00:20:00"}, o.events()[:2])
		_, err := o.Schedules().Trigger(t.Context(), "s")
		require.ErrorIs(t, err, pawl.ErrInvalid)
	})
}

// A trigger says like Start that nobody has published the definition, and a tenant that no run can have is refused before it is stored.
func TestRunsThatCannotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), done)
		o.applyFields("every: 10m")
		_, err := o.Schedules().Trigger(t.Context(), "s")
		require.ErrorIs(t, err, pawl.ErrNotPublished)
		require.Equal(t, 404, pawl.HTTPStatus(err))
		for _, tenant := range []string{" a ", "\uff41", "a\u200b"} {
			set := one(t, "every: 10m")
			set[0].Tenant = tenant
			_, err = o.Schedules().Apply(t.Context(), set, pawl.ApplyOptions{})
			require.ErrorIs(t, err, pawl.ErrInvalid)
			require.ErrorContains(t, err, `schedule "s": `)
		}
	})
}

// A run that a backfill has started, and a firing that comes after it has joined, is over once: the schedule fires again.
func TestEndOfAJoinedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), slow(80*time.Minute))
		o.publish()
		pass(30 * time.Minute)
		o.applyFields("every: 1h, offset: 40m, jitter: 59m")
		f := o.readStanding().Next[0]
		require.True(t, f.Due.After(f.At.Add(time.Minute)), "it has a jitter")
		pass(11 * time.Minute)
		_, err := o.Schedules().Backfill(t.Context(), "s", schedule.Backfill{From: f.At.Add(-time.Minute), To: f.At, Most: 1})
		require.NoError(t, err)
		pass(3 * time.Hour)
		require.Equal(t, []string{
			"started 01T00:40:00 completed", "joined 01T00:40:00 completed", "started 01T01:40:00 completed", "skipped 01T02:40:00 overlap",
		}, o.events())
	})
}

// A backup has the schedules, and where they stood: the copy fires from there on, what is within the window, whatever the original has fired
// since. Each of the two has its runs, under the same ids.
func TestBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := open(t, filepath.Join(dir, "engine"), done)
		o.publish()
		o.applyFields("every: 10m, overlap: allow, catchUp: {window: 1h, most: 1000}")
		pass(15 * time.Minute)
		require.NoError(t, o.Purge(t.Context(), "s@2000-01-01T00:10:00Z"))
		_, err := o.Backup(t.Context(), filepath.Join(dir, "copy"))
		require.NoError(t, err)
		pass(10 * time.Minute)
		require.NoError(t, o.Schedules().Pause(t.Context(), "s"))
		pass(10 * time.Minute)
		c := open(t, filepath.Join(dir, "copy"), done)
		pass(10 * time.Minute)
		require.Equal(t, []string{"2000-01-01T00:20:00Z completed"}, o.runs())
		require.Equal(t, []string{"2000-01-01T00:20:00Z completed", "2000-01-01T00:30:00Z completed", "2000-01-01T00:40:00Z completed"}, c.runs())
		require.Equal(t, []string{"started 01T00:10:00 completed", "started 01T00:20:00 completed", "started 01T00:30:00 completed", "started 01T00:40:00 completed"}, c.events())
	})
}

// An engine that waits for the directory while another has it takes its schedules over when that one has stopped dead, and fires on: what
// that one has decided it does not fire again, and what it could not decide it does.
func TestTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := open(t, dir, done)
		o.publish()
		o.applyFields("every: 1s, overlap: allow, catchUp: {window: 1h, most: 1000}")
		taken := make(chan *opening)
		go func() { taken <- open(t, dir, done) }()
		pass(2500 * time.Millisecond)
		require.Len(t, o.runs(), 2)
		o.hook.Fence()
		pass(2 * time.Second)
		require.Error(t, o.Schedules().Pause(t.Context(), "s"))
		_ = o.Close(t.Context()) // it has stopped dead
		o.gone = true
		n := <-taken
		pass(time.Second)
		require.Equal(t, []string{
			"started 01T00:00:01 completed", "started 01T00:00:02 completed", "started 01T00:00:03 completed", "started 01T00:00:04 completed", "started 01T00:00:05 completed",
		}, n.events())
		require.Len(t, n.runs(), 5)
	})
}

// A backfill fires no instant again that another one has fired while it waited, also if the run was purged.
func TestBackfillsOfTheSameInstants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		performed := map[workflow.RunID]int{}
		o := open(t, t.TempDir(), func(ctx context.Context, task pawl.Task) (any, error) {
			performed[task.Run]++ // one at a time
			return slow(time.Minute)(ctx, task)
		})
		o.publish()
		o.applyFields("every: 24h")
		day := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		for range 2 {
			n, err := o.Schedules().Backfill(t.Context(), "s", schedule.Backfill{From: day.AddDate(0, 0, -4), To: day, Most: 1})
			require.NoError(t, err)
			require.Equal(t, 4, n)
		}
		pass(150 * time.Second)
		for _, run := range []workflow.RunID{"s@1999-12-29T00:00:00Z", "s@1999-12-30T00:00:00Z"} {
			require.NoError(t, o.Purge(t.Context(), run))
		}
		pass(time.Hour)
		require.Equal(t, map[workflow.RunID]int{
			"s@1999-12-29T00:00:00Z": 1, "s@1999-12-30T00:00:00Z": 1, "s@1999-12-31T00:00:00Z": 1, "s@2000-01-01T00:00:00Z": 1,
		}, performed)
	})
}

// A backfill whose firings are all refused lets others have their turn before it is over.
func TestRefusedBackfillsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), done)
		o.publish()
		o.applyFields(`every: 1m, input: {n: "1 / 0"}`)
		paused, asked := make(chan error, 1), atomic.Bool{}
		o.hook.OnHit(func(point string) {
			if point == "schedule.backfill" && asked.CompareAndSwap(false, true) {
				go func() { paused <- o.Schedules().Pause(t.Context(), "s") }()
				synctest.Wait() // it waits for its turn
			}
		})
		_, err := o.Schedules().Backfill(t.Context(), "s", schedule.Backfill{From: time.Now().Add(-200 * time.Minute), To: time.Now(), Most: 1})
		require.NoError(t, err)
		pass(time.Second)
		require.NoError(t, <-paused)
		require.Len(t, o.events(), 65)
		require.NoError(t, o.Schedules().Resume(t.Context(), "s"))
		pass(time.Second)
		require.Empty(t, o.readStanding().Backfills)
	})
}

// Ends of many runs of a schedule whose step takes long keep no other schedule waiting.
func TestLongStep(t *testing.T) {
	harness.InTurn(t, 4)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		o := open(t, t.TempDir(), func(_ context.Context, task pawl.Task) (any, error) {
			if strings.HasPrefix(string(task.Run), "s@") {
				<-release
			}
			return nil, nil
		})
		o.publish()
		o.applyFields("every: 24h, overlap: allow")
		day := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		_, err := o.Schedules().Backfill(t.Context(), "s", schedule.Backfill{From: day.AddDate(0, 0, -100), To: day, Most: 100})
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, o.runs(), 100)
		set, err := schedule.Parse([]byte("schedules: [{id: x, workflow: {name: report}, every: 1m}]"))
		require.NoError(t, err)
		_, err = o.Schedules().Apply(t.Context(), set, pawl.ApplyOptions{})
		require.NoError(t, err)
		long, taken := make(chan struct{}), atomic.Bool{}
		o.hook.OnHit(func(point string) {
			if point == "schedule.ended" && taken.CompareAndSwap(false, true) {
				<-long
			}
		})
		close(release)
		pass(90 * time.Second)
		st, err := o.Schedules().Get(t.Context(), "x")
		require.NoError(t, err)
		require.EqualValues(t, 1, st.Fired)
		close(long)
		synctest.Wait()
		require.Empty(t, o.readStanding().Running)
	})
}

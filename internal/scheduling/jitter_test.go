package scheduling_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

// A jitter that is longer than the time between two instants drops none while the engine runs: each waits for those before it, and is told
// to be due when they are.
func TestJitterBeyondTheNextInstant(t *testing.T) {
	for fields, n := range map[string]int{
		`cron: ["*/5 * * * *"], jitter: 30m`: 30,
		`at: ["2000-01-01T00:05:00Z", "2000-01-01T00:10:00Z", "2000-01-01T00:15:00Z", "2000-01-01T00:20:00Z"], jitter: 1h`: 4,
	} {
		synctest.Test(t, func(t *testing.T) {
			o := open(t, t.TempDir(), done)
			o.publish()
			o.applyFields(fields + ", overlap: allow")
			due := map[workflow.RunID]time.Time{}
			var last time.Time
			for _, f := range o.readStanding().Next {
				require.False(t, f.Due.Before(last))
				last, due[f.RunID("s")] = f.Due, f.Due
			}
			pass(3 * time.Hour)
			var want []string
			for i := range n {
				want = append(want, "started "+time.Date(2000, 1, 1, 0, 5*i+5, 0, 0, time.UTC).Format("02T15:04:05")+" completed")
			}
			require.Equal(t, want, o.events()[:n])
			for r, err := range o.Runs(t.Context(), pawl.RunFilter{}) {
				require.NoError(t, err)
				if at, known := due[r.Run]; known {
					require.Equal(t, at, r.StartedAt.UTC())
				}
			}
		})
	}
}

// An instant that waited behind the jitter of another is not late for that, also where an engine that was opened a moment ago fires it.
func TestJitterAndATakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := open(t, dir, done)
		o.publish()
		o.applyFields(`at: ["2000-01-01T01:03:00Z", "2000-01-01T01:04:00Z", "2000-01-01T01:05:00Z"], jitter: 10m, overlap: allow`)
		next := o.readStanding().Next
		require.Equal(t, next[0].Due, next[2].Due, "two wait for the first")
		var hits atomic.Int32
		closed := make(chan struct{})
		o.hook.OnHit(func(point string) {
			if point == "schedule.due" && hits.Add(1) == 2 {
				go func() { defer close(closed); o.shut() }()
				<-time.After(time.Second)
			}
		})
		<-closed
		o = open(t, dir, done)
		pass(time.Second)
		require.Equal(t, []string{"started 01T01:03:00 completed", "started 01T01:04:00 completed", "started 01T01:05:00 completed"}, o.events())
	})
}

// An exception among instants with a long jitter neither keeps others waiting nor has the schedule looked at all the time.
func TestJitterAndExceptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), done)
		o.publish()
		var looks atomic.Int64
		o.hook.OnNow(func() time.Time {
			if looks.Add(1) == 100_000 {
				t.Error("the schedule was looked at all the time")
				runtime.Goexit() // time would not go on
			}
			return time.Now()
		})
		o.applyFields(`cron: ["*/5 * * * *"], except: ["*/10 * * * *"], jitter: 30m, overlap: allow`)
		pass(2 * time.Hour)
		started := 0
		for _, text := range o.events() {
			if text[:7] == "started" {
				require.Equal(t, fmt.Sprintf("started 01T%02d:%02d:00 completed", (5+10*started)/60, (5+10*started)%60), text)
				started++
			}
		}
		require.GreaterOrEqual(t, started, 9)
	})
}

// A pause has the instants that become due in it, with their jitter: one that came before and is due in it is skipped and told, and one
// that comes in it and is due behind it fires.
func TestJitterAndPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir(), done)
		o.publish()
		o.applyFields("every: 1h, jitter: 59m")
		pauseBetween := func(from, to time.Time) {
			t.Helper()
			pass(time.Until(from))
			require.NoError(t, o.Schedules().Pause(t.Context(), "s"))
			next := o.readStanding().Next[0]
			pass(time.Until(to))
			require.NoError(t, o.Schedules().Resume(t.Context(), "s"))
			require.False(t, next.Due.Before(from))
		}
		f := o.readStanding().Next
		pauseBetween(f[0].At.Add(10*time.Second), f[0].Due.Add(10*time.Second))
		require.Equal(t, []string{"paused", "skipped 01T01:00:00 paused", "resumed"}, o.events())
		pauseBetween(f[1].At.Add(-2*time.Second), f[1].At.Add(2*time.Second))
		require.Equal(t, f[1], o.readStanding().Next[0])
		pass(time.Until(f[2].At))
		require.Equal(t, []string{"paused", "resumed", "started 01T02:00:00 completed"}, o.events()[3:])
		pauseBetween(f[2].At.Add(time.Second), f[2].At.Add(2*time.Second))
		pass(time.Until(f[3].At))
		require.Equal(t, "started 01T03:00:00 completed", o.events()[8], "it came before the pause, and is due behind it")
	})
}

// An exception behind an instant that fires keeps that one undecided until it has fired: a crash between the two loses nothing.
func TestCrashBehindAnException(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := open(t, dir, done)
		o.publish()
		o.applyFields(`cron: ["*/10 * * * *"], except: ["20 * * * *"], overlap: allow, catchUp: {most: 1000}`)
		o.shut()
		pass(35 * time.Minute)
		hook := &testhook.Hook{}
		hook.OnHit(func(point string) {
			if point == "schedule.due" {
				hook.Fence()
			}
		})
		e, err := pawl.Open(testhook.With(t.Context(), hook), dir, pawl.Options{Executor: pawl.Handlers{"work": done}})
		require.NoError(t, err)
		pass(time.Second)
		_ = e.Close(context.Background()) // it has stopped dead
		o = open(t, dir, done)
		pass(time.Second)
		require.Equal(t, []string{"skipped 01T00:20:00 except", "started 01T00:10:00 completed", "started 01T00:30:00 completed"}, o.events())
	})
}

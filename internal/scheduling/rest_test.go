package scheduling_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
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

// applyMany applies schedules of the workflow report, one for each offset, that fire every day.
func applyMany(tb testing.TB, e *pawl.Engine, offsets []time.Duration) {
	tb.Helper()
	set := make([]schedule.Schedule, len(offsets))
	for i, d := range offsets {
		set[i] = schedule.Schedule{ID: fmt.Sprint("s", i), Workflow: schedule.Workflow{Name: "report"}, Every: 24 * time.Hour, Offset: d}
	}
	_, err := e.Schedules().Apply(tb.Context(), set, pawl.ApplyOptions{})
	require.NoError(tb, err)
}

// spread returns offsets from one on, so many in each second.
func spread(n int, from time.Duration, perSecond int) (out []time.Duration) {
	for i := range n {
		out = append(out, (from+time.Duration(i/perSecond)*time.Second)%(24*time.Hour))
	}
	return out
}

// Ten thousand schedules at rest do no more than one: a goroutine looks at the clock as often, and no other is there. Each of those
// that come fires at its instant.
func TestSchedulesAtRest(t *testing.T) {
	harness.InTurn(t, 4)
	looks, threads := map[int]int64{}, map[int]int{}
	for _, n := range []int{1, 10_000} {
		synctest.Test(t, func(t *testing.T) {
			o := open(t, t.TempDir(), done)
			o.publish()
			applyMany(t, o.Engine, spread(n, 2*time.Hour, 10))
			pass(30 * time.Minute)
			var seen atomic.Int64
			o.hook.OnNow(func() time.Time { seen.Add(1); return time.Now() })
			pass(time.Hour)
			looks[n], threads[n] = seen.Load(), harness.CountBubbled()
			pass(30*time.Minute + 9*time.Second)
			fired := 0
			for r, err := range o.Runs(t.Context(), pawl.RunFilter{}) {
				require.NoError(t, err)
				_, instant, _ := strings.Cut(string(r.Run), "@")
				require.Equal(t, instant, r.StartedAt.Format(time.RFC3339Nano))
				fired++
			}
			require.Equal(t, min(n, 100), fired)
			o.shut()
		})
	}
	require.Positive(t, looks[1])
	require.Equal(t, looks[1], looks[10_000])
	require.Positive(t, threads[1])
	require.Equal(t, threads[1], threads[10_000])
}

// An engine that takes up busy schedules after a crash reads one row of each, and no events. A backfill that goes on reads those of its
// schedule, once.
func TestOpenReadsNoEvents(t *testing.T) {
	const schedules, minutes = 20, 30
	synctest.Test(t, func(t *testing.T) {
		dir, crashed := t.TempDir(), t.TempDir()
		ends := make(chan bool)
		work := func(ctx context.Context, _ pawl.Task) (any, error) {
			select {
			case <-ends:
			case <-ctx.Done():
			}
			return nil, ctx.Err()
		}
		o := open(t, dir, work)
		o.publish()
		set := one(t, "every: 1m, catchUp: {window: 1m}")
		for i := range schedules {
			set[0].ID = fmt.Sprint("s", i)
			_, err := o.Schedules().Apply(t.Context(), set, pawl.ApplyOptions{})
			require.NoError(t, err)
		}
		pass(minutes * time.Minute)
		now := time.Now()
		_, err := o.Schedules().Backfill(t.Context(), "s0", schedule.Backfill{From: now.Add(-time.Hour), To: now.Add(-50 * time.Minute), Most: 1})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, os.CopyFS(crashed, os.DirFS(dir))) // as a crash leaves it
		o.shut()

		var hook testhook.Hook
		var mu sync.Mutex
		read := map[string]int{}
		hook.OnHit(func(point string) {
			mu.Lock()
			defer mu.Unlock()
			read[point]++
		})
		e, err := pawl.Open(testhook.With(t.Context(), &hook), crashed, pawl.Options{Executor: pawl.Handlers{"work": work}})
		require.NoError(t, err)
		synctest.Wait()
		mu.Lock()
		require.Equal(t, schedules, read["schedule.load"])
		require.Zero(t, read["schedule.read"])
		mu.Unlock()
		close(ends)
		pass(time.Second)
		mu.Lock()
		require.Greater(t, read["schedule.read"], minutes)
		require.Less(t, read["schedule.read"], minutes+10, "the events of one schedule")
		mu.Unlock()
		require.NoError(t, e.Close(context.Background()))
	})
}

// A latenesses are how late tasks of schedules have begun.
type latenesses struct {
	mu  sync.Mutex
	all map[workflow.RunID]time.Duration
}

// work performs the task of a run, which knows its instant.
func (l *latenesses) work(_ context.Context, t pawl.Task) (any, error) {
	now := time.Now()
	var in struct{ At string }
	if err := t.Bind(&in); err != nil || in.At == "" {
		return nil, err
	}
	at, err := time.Parse(time.RFC3339, in.At)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[t.Run] = now.Sub(at)
	return nil, err
}

// scheduled is a workflow whose task gets the instant of its run, or nothing.
const scheduled = `
name: report
start: work
nodes: [{id: work, task: work, input: {at: "string(run.?scheduledAt.orValue(''))"}}]
`

// BenchmarkFire has 10,000 schedules, and ten or a hundred of them fire in each second of twenty, beside eight callers that start runs
// and wait for them, as fast as they can. It tells how late the tasks of schedules begin, in ms, and how many other runs end.
//
//	go test ./internal/scheduling -run '^$' -bench Fire/100 -benchtime 1x
func BenchmarkFire(b *testing.B) {
	for _, each := range []int{10, 100} {
		b.Run(fmt.Sprint(each), func(b *testing.B) {
			for b.Loop() {
				fireBesideLoad(b, each)
			}
		})
	}
}

func fireBesideLoad(b *testing.B, each int) {
	b.Helper()
	const seconds, ahead = 20, 5
	l := &latenesses{all: map[workflow.RunID]time.Duration{}}
	e, err := pawl.Open(b.Context(), b.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": l.work}})
	require.NoError(b, err)
	d, err := workflow.ParseYAML([]byte(scheduled))
	require.NoError(b, err)
	_, err = e.Publish(b.Context(), d)
	require.NoError(b, err)
	first := time.Now().Truncate(time.Second).Add(ahead * time.Second)
	applyMany(b, e, spread(10_000, first.Sub(first.Truncate(24*time.Hour)), each))
	others := runBeside(b, e, d, first.Add(seconds*time.Second))
	require.NoError(b, e.Close(context.Background()))
	late := slices.Sorted(maps.Values(l.all))
	require.GreaterOrEqual(b, len(late), (seconds-1)*each)
	for name, i := range map[string]int{"ms-median": len(late) / 2, "ms-p99": len(late) * 99 / 100, "ms-max": len(late) - 1} {
		b.ReportMetric(float64(late[i])/1e6, name)
	}
	b.ReportMetric(float64(others)/(seconds+ahead), "others/s")
}

// runBeside runs a definition again and again, eight at a time, until an instant, and returns how often.
func runBeside(b *testing.B, e *pawl.Engine, d *workflow.Definition, until time.Time) int64 {
	b.Helper()
	var n atomic.Int64
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for k := 0; time.Now().Before(until); k++ {
				if _, err := e.Run(b.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("other-", i, "-", k)), Definition: d}, nil); err != nil {
					b.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	group.Wait()
	return n.Load()
}

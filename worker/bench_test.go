package worker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/heap"
	"github.com/pawl-run/pawl/internal/serving"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

// loaded is a queue with so many tasks and workers, and all workers are busy.
type loaded struct {
	*queue
	members []*workerState
	order   int64
	now     time.Time
	next    int
	tenants int64
}

func load(tasks, workers int, tenants int64) *loaded {
	l := &loaded{queue: newQueue(testLease, testExpiry, nil), now: epoch, tenants: tenants}
	for range tasks + workers {
		l.dispatch()
	}
	for w := range workers {
		l.members = append(l.members, l.registerWorker(Registration{ID: fmt.Sprint("w", w), Types: []string{"a", "b"}, Capacity: 1}, false, l.now))
		l.requestTasks(l.members[w], 1, l.now)
	}
	l.out = l.out[:0]
	return l
}

func (l *loaded) dispatch() {
	l.order++
	l.addTask(serving.Of(context.Background()), pawl.Task{Key: pawl.Key(fmt.Sprint("k", l.order)), Type: "a", Order: l.order, Priority: int(l.order % 3), Tenant: fmt.Sprint(l.order % l.tenants)}, l.order, l.now)
}

// turn is one assignment and all that belongs to it: a worker completes its task
// and gets the next one, with a heartbeat in between, and a new task comes.
func (l *loaded) turn() {
	s := l.members[l.next%len(l.members)]
	l.next++
	l.now = l.now.Add(time.Microsecond)
	for k := range s.held {
		l.holdKey(s.id, k, l.now)
		l.beginCompletion(s.id, k, l.now)
		l.finishCompletion(s.id, k, true, false, l.now)
	}
	l.requestTasks(s, 1, l.now)
	l.out = l.out[:0]
	l.dispatch()
}

var sizes = []struct{ tasks, workers int }{{1000, 10}, {1000, 1000}, {100_000, 10}, {100_000, 1000}}

// BenchmarkAssignment is the cost of an assignment, with the completion before
// it, in the queue alone.
func BenchmarkAssignment(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("queued=%d/workers=%d", size.tasks, size.workers), func(b *testing.B) {
			l := load(size.tasks, size.workers, 1)
			b.ReportAllocs()
			for b.Loop() {
				l.turn()
			}
		})
	}
}

// BenchmarkPool is the same through Pool with its lock and timer: a call of
// Execute, a completion and a poll.
func BenchmarkPool(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("queued=%d/workers=%d", size.tasks, size.workers), func(b *testing.B) {
			p := mustNew(Options{NoToken: true})
			f := newFake(p)
			ids, held := make([]string, size.workers), make([]pawl.Key, size.workers)
			sent := 0
			dispatch := func() {
				sent++
				f.dispatch("a", pawl.Key(fmt.Sprint("k", sent)))
			}
			take := func(w int) {
				tasks, _, err := p.pollTasks(b.Context(), want{worker: ids[w], most: 1})
				require.NoError(b, err)
				require.Len(b, tasks, 1)
				held[w] = tasks[0].Key
			}
			for range size.tasks + size.workers {
				dispatch()
			}
			for w := range ids {
				ids[w] = fmt.Sprint("w", w)
				require.NoError(b, p.registerRemote(Registration{ID: ids[w], Types: []string{"a"}}, ""))
				take(w)
			}
			i := 0
			for b.Loop() {
				w := i % size.workers
				i++
				require.NoError(b, p.completeTask(b.Context(), completion{worker: ids[w], key: held[w]}))
				take(w)
				dispatch()
			}
			b.StopTimer()
			require.NoError(b, p.Close(b.Context()))
		})
	}
}

// The cost of leases is flat in tasks that wait, in workers and in tenants. It is
// counted in comparisons, which no machine disturbs.
func TestTheCostOfAnAssignmentIsFlat(t *testing.T) {
	harness.InTurn(t, 4)
	compared := func(tasks, workers int, tenants int64) float64 {
		l := load(tasks, workers, tenants)
		n := 0
		leases := heap.New(func(a, b *item) bool { n++; return a.until.Before(b.until) }, func(i *item) *heap.Place { return &i.lease })
		for l.leases.Len() > 0 {
			leases.Put(l.leases.Pop())
		}
		l.leases = leases
		n = 0
		const turns = 10_000
		for range turns {
			l.turn()
		}
		return float64(n) / turns
	}
	few, many := compared(1000, 10, 1), compared(100_000, 10, 1)
	crowd, house := compared(1000, 1000, 1), compared(100_000, 10, 10_000)
	t.Logf("comparisons: %.0f with 1,000 tasks and 10 workers, %.0f with 100,000 tasks, %.0f with 1,000 workers, %.0f with 100,000 tasks of 10,000 tenants", few, many, crowd, house)
	require.Less(t, many/few, 2.0)
	require.Less(t, crowd/few, 4.0)
	require.Less(t, house/few, 2.0)
}

// The time of an assignment is flat too.
func TestTheTimeOfAnAssignmentIsFlat(t *testing.T) {
	harness.MeasuresTime(t)
	spent := func(tasks, workers int) time.Duration {
		l := load(tasks, workers, 1)
		const turns = 5000
		begin := time.Now()
		for range turns {
			l.turn()
		}
		return time.Since(begin) / turns
	}
	a, b, c := time.Hour, time.Hour, time.Hour
	for range 5 { // the best of five: what disturbs only adds; in turn, so that it disturbs all of them
		a, b, c = min(a, spent(1000, 10)), min(b, spent(100_000, 10)), min(c, spent(1000, 1000))
	}
	t.Logf("time: %v with 1,000 tasks and 10 workers, %v with 100,000 tasks, %v with 1,000 workers", a, b, c)
	require.Less(t, b, 10*a, "a scan would be a hundred times as slow")
	require.Less(t, c, 10*a)
}

package taskqueue

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/heap"
)

// loaded returns a queue with so many tasks, in turn of so many tenants with one run each, and what lets one go and another come.
func loaded(o Options, tasks, tenants int) (q *Queue[struct{}], turn func()) {
	q, order := New[struct{}](o), 0
	add := func() {
		order++
		tenant := fmt.Sprint(order % tenants)
		q.Put(&task{Type: "a", Tenant: tenant, Run: tenant, Priority: order % 3, Order: int64(order)})
	}
	for range tasks {
		add()
	}
	return q, func() {
		q.Release(q.Take())
		add()
	}
}

// BenchmarkTurn is the cost of a task that goes and one that comes.
func BenchmarkTurn(b *testing.B) {
	for _, size := range []struct{ tasks, tenants int }{{1, 1}, {1000, 1}, {100_000, 1}, {100_000, 1000}} {
		b.Run(fmt.Sprintf("waiting=%d/tenants=%d", size.tasks, size.tenants), func(b *testing.B) {
			_, turn := loaded(Options{Most: 256}, size.tasks, size.tenants)
			b.ReportAllocs()
			for b.Loop() {
				turn()
			}
		})
	}
}

// counted returns a heap with the elements of another, that counts its comparisons.
func counted[T any](from heap.Heap[T], before func(a, b T) bool, place func(T) *heap.Place, n *int) heap.Heap[T] {
	to := heap.New(func(a, b T) bool { *n++; return before(a, b) }, place)
	for from.Len() > 0 {
		to.Put(from.Pop())
	}
	return to
}

// The cost of a task is flat in tasks that wait and in tenants. It is counted in comparisons, which no machine disturbs.
func TestTheCostOfATaskIsFlat(t *testing.T) {
	compared := func(tasks, tenants int) float64 {
		q, turn := loaded(Options{Apart: true}, tasks, tenants)
		n := 0
		for _, r := range q.runs {
			for _, lr := range r.lanes {
				lr.entries = counted(lr.entries, (*task).StartsBefore, func(e *task) *heap.Place { return &e.place }, &n)
			}
		}
		for _, l := range q.lanes {
			l.tenants = counted(l.tenants, (*laneTenant[struct{}]).startsBefore, func(lt *laneTenant[struct{}]) *heap.Place { return &lt.place }, &n)
			l.oldest = counted(l.oldest, (*laneTenant[struct{}]).waitsLonger, func(lt *laneTenant[struct{}]) *heap.Place { return &lt.age }, &n)
		}
		n = 0
		const turns = 10_000
		for range turns {
			turn()
		}
		return float64(n) / turns
	}
	few, many, house := compared(1000, 1), compared(100_000, 1), compared(100_000, 10_000)
	t.Logf("comparisons: %.0f with 1,000 tasks, %.0f with 100,000 tasks, %.0f with 100,000 tasks of 10,000 tenants", few, many, house)
	require.Less(t, many/few, 3.0)
	require.Less(t, house/few, 5.0)
}

// The cost of a task is flat in types that wait for their rates, or whose rates rest. It is counted in comparisons.
func TestTheCostOfATaskIsFlatInPacedTypes(t *testing.T) {
	compared := func(types int) float64 {
		q, now, order, n := New[struct{}](Options{Types: map[string]Limit{"*": {Rate: 0.01}, "quick": {Rate: 1000}}}), time.Unix(100, 0), 0, 0
		put := func(kind string) {
			order++
			q.Put(&task{Type: kind, Run: kind, Order: int64(order)})
		}
		q.AdvanceTo(now)
		for i := range types {
			put(fmt.Sprint(i))
			q.Release(q.Take())
			if i%2 == 0 {
				put(fmt.Sprint(i))
			}
		}
		q.paced = counted(q.paced, (*Lane[struct{}]).goesBefore, func(l *Lane[struct{}]) *heap.Place { return &l.pace }, &n)
		q.resting = counted(q.resting, (*Lane[struct{}]).restsBefore, func(l *Lane[struct{}]) *heap.Place { return &l.rest }, &n)
		n = 0
		const turns = 1000
		for range turns {
			now = now.Add(time.Millisecond)
			put("quick")
			q.AdvanceTo(now)
			q.Release(q.Take())
			require.Equal(t, time.Unix(200, 0), q.NextDue())
		}
		require.Equal(t, types/2, q.paced.Len())
		return float64(n) / turns
	}
	few, many := compared(10), compared(10_000)
	t.Logf("comparisons: %.0f with 10 types, %.0f with 10,000", few, many)
	require.Less(t, many/few, 5.0)
}

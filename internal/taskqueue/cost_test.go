package taskqueue

import (
	"fmt"
	"testing"

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

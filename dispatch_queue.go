package pawl

import (
	"cmp"
	"container/heap"

	"github.com/pawl-run/pawl/workflow"
)

// A taskQueue holds the tasks that wait to begin, on two levels: each run has a
// heap of its own tasks, and those runs that may begin one stand in a heap of
// runs. The next task is the first one of the first run: the lowest priority
// number, then the run whose turn it is (start-time fair queueing: Goyal, Vin and
// Cheng, 1996, with tasks that all count the same), then the order of arrival.
//
// A run is clogged while so many of its results wait to be delivered as there may
// be tasks at once. It leaves the heap of runs, with all its tasks, until one of
// them is delivered.
type taskQueue struct {
	most  int                           // results that wait make a run clogged
	runs  map[workflow.RunID]*queuedRun // with tasks here, or results that wait
	ready runHeap                       // those with tasks that are not clogged
	turn  int64                         // of the task that was taken last
}

// A queuedRun is what the queue knows of a run.
type queuedRun struct {
	id      workflow.RunID
	tasks   taskHeap
	waiting int   // results, to be delivered
	turn    int64 // of its first task, while it is ready
	index   int   // in the heap of runs; -1 outside
}

func newTaskQueue(most int) *taskQueue {
	return &taskQueue{most: most, runs: map[workflow.RunID]*queuedRun{}}
}

// add lets a task wait.
func (q *taskQueue) add(t *outTask) {
	r := q.run(t.Run)
	heap.Push(&r.tasks, t)
	q.settle(r)
}

// take returns the task that is to begin next, which is in the queue no longer;
// nil if none may begin.
func (q *taskQueue) take() *outTask {
	if len(q.ready) == 0 {
		return nil
	}
	r := q.ready[0]
	t := heap.Pop(&r.tasks).(*outTask)
	q.turn = max(q.turn, r.turn)
	r.turn++
	q.settle(r)
	return t
}

// remove takes a task out that is no longer wanted.
func (q *taskQueue) remove(t *outTask) {
	r := q.runs[t.Run]
	heap.Remove(&r.tasks, t.index)
	q.settle(r)
}

// returned says that a result of a run waits to be delivered from now on.
func (q *taskQueue) returned(id workflow.RunID) {
	r := q.run(id)
	r.waiting++
	q.settle(r)
}

// delivered says that a result of a run has ceased to wait.
func (q *taskQueue) delivered(id workflow.RunID) {
	r := q.runs[id]
	r.waiting--
	q.settle(r)
}

func (q *taskQueue) run(id workflow.RunID) *queuedRun {
	r := q.runs[id]
	if r == nil {
		r = &queuedRun{id: id, index: -1}
		q.runs[id] = r
	}
	return r
}

// settle puts a run, which has changed, where it belongs. One that comes into the
// heap of runs gets the next turn: what it has missed is not made up for. That never
// puts it forward, for the turn of no run is later than the next.
func (q *taskQueue) settle(r *queuedRun) {
	may := len(r.tasks) > 0 && r.waiting < q.most
	switch {
	case may && r.index < 0:
		r.turn = q.turn + 1
		heap.Push(&q.ready, r)
	case may:
		heap.Fix(&q.ready, r.index)
	case r.index >= 0:
		heap.Remove(&q.ready, r.index)
	}
	if len(r.tasks) == 0 && r.waiting == 0 {
		delete(q.runs, r.id)
	}
}

// A runHeap has the runs that may begin a task, by the priority of their first
// one, their turn, and the arrival of that task. Each has one, but for a run that is
// being removed, which heap.Remove compares with none.
type runHeap []*queuedRun

// Len implements heap.Interface.
func (h runHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h runHeap) Less(i, j int) bool {
	a, b := h[i].tasks[0], h[j].tasks[0]
	return cmp.Or(cmp.Compare(a.Node.Priority, b.Node.Priority), cmp.Compare(h[i].turn, h[j].turn), cmp.Compare(a.order, b.order)) < 0
}

// Swap implements heap.Interface.
func (h runHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *runHeap) Push(x any) {
	r := x.(*queuedRun)
	r.index = len(*h)
	*h = append(*h, r)
}

// Pop implements heap.Interface.
func (h *runHeap) Pop() any {
	old := *h
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*h, r.index = old[:len(old)-1], -1
	return r
}

// A taskHeap has the tasks of one run by priority and arrival.
type taskHeap []*outTask

// Len implements heap.Interface.
func (h taskHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h taskHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].Node.Priority, h[j].Node.Priority), cmp.Compare(h[i].order, h[j].order)) < 0
}

// Swap implements heap.Interface.
func (h taskHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *taskHeap) Push(x any) {
	t := x.(*outTask)
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop implements heap.Interface.
func (h *taskHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h, t.index = old[:len(old)-1], -1
	return t
}

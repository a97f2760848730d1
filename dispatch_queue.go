package pawl

import (
	"cmp"

	"github.com/pawl-run/pawl/internal/heap"
	"github.com/pawl-run/pawl/workflow"
)

// A taskQueue holds the tasks that wait to begin, on two levels: each run has a
// heap of its own tasks, and those runs that may begin one stand in a heap of
// runs. The next task is the first one of the first run: the lowest priority
// number, then the run whose turn it is (start-time fair queueing: Goyal, Vin and
// Cheng, 1996, with tasks that all count the same), then the order of arrival. An
// urgent task takes the turn of its run: what else that has may wait meanwhile.
//
// A run is backpressured while so many of its results wait to be delivered as there
// may be tasks at once. It leaves the heap of runs, with all its tasks, until one of
// these results is delivered.
type taskQueue struct {
	most  int                           // waiting results with which a run is backpressured
	runs  map[workflow.RunID]*queuedRun // with tasks here, or results that wait
	ready heap.Heap[*queuedRun]         // those with tasks that are not backpressured
	turn  int64                         // of the task that was taken last
}

// A queuedRun is what the queue knows of a run.
type queuedRun struct {
	id      workflow.RunID
	tasks   heap.Heap[*outTask]
	waiting int        // results, to be delivered
	turn    int64      // of its first task, while it is ready
	place   heap.Place // in the heap of runs
}

func newTaskQueue(most int) *taskQueue {
	return &taskQueue{
		most: most, runs: map[workflow.RunID]*queuedRun{},
		ready: heap.New((*queuedRun).startsBefore, func(r *queuedRun) *heap.Place { return &r.place }),
	}
}

// addTask lets a task wait.
func (q *taskQueue) addTask(t *outTask) {
	r := q.runOf(t.Run)
	r.tasks.Put(t)
	q.placeRun(r)
}

// takeNext takes the task that begins next out of the queue and returns it; nil if
// none may begin.
func (q *taskQueue) takeNext() *outTask {
	if q.ready.Len() == 0 {
		return nil
	}
	r := q.ready.First()
	t := r.tasks.Pop()
	q.turn = max(q.turn, r.turn)
	r.turn = q.turn + 1 // not that after its own: it may have stood behind urgent tasks
	q.placeRun(r)
	return t
}

// removeTask takes a task out that is no longer wanted.
func (q *taskQueue) removeTask(t *outTask) {
	r := q.runs[t.Run]
	r.tasks.Remove(t)
	q.placeRun(r)
}

// resultReturned notes that a result of a run waits to be delivered from now on.
func (q *taskQueue) resultReturned(id workflow.RunID) {
	r := q.runOf(id)
	r.waiting++
	q.placeRun(r)
}

// resultDelivered notes that a result of a run has ceased to wait.
func (q *taskQueue) resultDelivered(id workflow.RunID) {
	r := q.runs[id]
	r.waiting--
	q.placeRun(r)
}

// runOf returns what the queue knows of a run, made if it knows nothing.
func (q *taskQueue) runOf(id workflow.RunID) *queuedRun {
	r := q.runs[id]
	if r == nil {
		r = &queuedRun{id: id, tasks: heap.New((*outTask).startsBefore, func(t *outTask) *heap.Place { return &t.place })}
		q.runs[id] = r
	}
	return r
}

// placeRun puts a run that has changed where it belongs: into the heap of runs, out of
// it, or out of the queue. A run that comes into the heap gets the next turn: turns
// that it has missed are not made up for. That never puts it forward, for the turn of
// no run is later than the next.
func (q *taskQueue) placeRun(r *queuedRun) {
	if r.tasks.Len() > 0 && r.waiting < q.most {
		if !r.place.In() {
			r.turn = q.turn + 1
		}
		q.ready.Put(r)
	} else {
		q.ready.Remove(r)
	}
	if r.tasks.Len() == 0 && r.waiting == 0 {
		delete(q.runs, r.id)
	}
}

// startsBefore orders runs that may begin a task: by the priority of their first task,
// then their turn, then the arrival of that task.
func (r *queuedRun) startsBefore(other *queuedRun) bool {
	a, b := r.tasks.First(), other.tasks.First()
	return cmp.Or(cmp.Compare(a.Node.Priority, b.Node.Priority), cmp.Compare(r.turn, other.turn), cmp.Compare(a.order, b.order)) < 0
}

// startsBefore orders the tasks of one run, by priority and arrival.
func (t *outTask) startsBefore(other *outTask) bool {
	return cmp.Or(cmp.Compare(t.Node.Priority, other.Node.Priority), cmp.Compare(t.order, other.order)) < 0
}

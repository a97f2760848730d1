package pawl

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/heap"
	"github.com/pawl-run/pawl/workflow"
)

// A taskQueue holds the tasks that wait to begin, on three levels. A lane holds the
// tasks of one type that has a limit, or those of all types without one. In a lane
// each run has a heap of its own tasks, and those runs that may begin one stand in a
// heap of runs. The lanes whose limit allows a task stand in a heap of lanes.
//
// The next task of a lane is the first one of its first run: the lowest priority
// number, then the run whose turn it is in this lane (start-time fair queueing: Goyal,
// Vin and Cheng, 1996, with tasks that all count the same), then the order of arrival.
// Lanes are ordered by their next tasks in the same way, with the turns that runs have
// in the queue as a whole: a run with tasks of many types has no more than its turn,
// and a scarce type is shared fairly whatever else its runs have. An urgent task
// takes the turn of its run: what else that has may wait meanwhile.
//
// A run is backpressured while so many of its results wait to be delivered as there
// may be tasks at once. It leaves the heaps of runs, with all its tasks, until one of
// these results is delivered.
type taskQueue struct {
	most   int                           // waiting results with which a run is backpressured
	types  map[string]TypeLimit          // by task type; "*" for those without one of their own
	runs   map[workflow.RunID]*queuedRun // with tasks here, or results that wait
	free   *lane                         // of the types without a limit
	lanes  map[string]*lane              // of the others that are in use
	ready  heap.Heap[*lane]              // with tasks that may begin now
	paced  map[*lane]struct{}            // with tasks that wait for the rate of their type
	turn   int64                         // of the run whose task was taken last
	latest time.Time                     // to which advanceTo has come
}

// A queuedRun is what the queue knows of a run.
type queuedRun struct {
	id      workflow.RunID
	lanes   []*laneRun // with tasks of it
	waiting int        // results, to be delivered
	turn    int64      // in the queue as a whole, while it is ready
	ready   bool       // it has tasks and is not backpressured
}

// A laneRun has the tasks that one run has in one lane.
type laneRun struct {
	run   *queuedRun
	lane  *lane
	tasks heap.Heap[*outTask]
	turn  int64      // in the lane, while the run is ready
	place heap.Place // in the lane's heap of runs
}

func newTaskQueue(most int, types map[string]TypeLimit) *taskQueue {
	return &taskQueue{
		most: most, types: types, runs: map[workflow.RunID]*queuedRun{},
		free: newLane("", TypeLimit{}), lanes: map[string]*lane{}, paced: map[*lane]struct{}{},
		ready: heap.New((*lane).startsBefore, func(l *lane) *heap.Place { return &l.place }),
	}
}

// addTask lets a task wait.
func (q *taskQueue) addTask(t *outTask) {
	r, l := q.runOf(t.Run), q.laneOf(t.Task)
	q.liftLanes(r)
	l.queued++
	r.in(l).tasks.Put(t)
	q.placeRun(r)
}

// takeNext takes the task that begins next out of the queue and returns it; nil if
// none may begin. Its type counts it until typeFreed.
func (q *taskQueue) takeNext() *outTask {
	if q.ready.Len() == 0 {
		return nil
	}
	l := q.ready.First()
	lr := l.runs.First()
	q.liftLanes(lr.run)
	t, r := lr.tasks.Pop(), lr.run
	l.countTask(q.latest)
	l.turn = max(l.turn, lr.turn)
	lr.turn = l.turn + 1 // not that after its own: it may have stood behind urgent tasks
	q.turn = max(q.turn, r.turn)
	r.turn = q.turn + 1
	q.placeRun(r)
	return t
}

// removeTask takes a task out that is no longer wanted.
func (q *taskQueue) removeTask(t *outTask) {
	r, l := q.runs[t.Run], q.laneOf(t.Task)
	q.liftLanes(r)
	l.queued--
	r.in(l).tasks.Remove(t)
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
		r = &queuedRun{id: id}
		q.runs[id] = r
	}
	return r
}

// in returns what the run has in a lane, made if it has nothing there.
func (r *queuedRun) in(l *lane) *laneRun {
	for _, lr := range r.lanes {
		if lr.lane == l {
			return lr
		}
	}
	lr := &laneRun{run: r, lane: l, tasks: heap.New((*outTask).startsBefore, func(t *outTask) *heap.Place { return &t.place })}
	r.lanes = append(r.lanes, lr)
	return lr
}

// liftLanes takes the lanes of a run out of their heap until placeRun: their order changes
// with its first tasks and its turn, and elements that change are not to be compared.
func (q *taskQueue) liftLanes(r *queuedRun) {
	for _, lr := range r.lanes {
		q.ready.Remove(lr.lane)
	}
}

// placeRun puts a run that has changed where it belongs in each of its lanes: into the
// heap of runs, out of it, or out of the queue. A run that comes to be ready gets the next
// turn: turns that it has missed are not made up for. That never puts it forward, for the
// turn of no run is later than the next.
func (q *taskQueue) placeRun(r *queuedRun) {
	tasks := slices.ContainsFunc(r.lanes, func(lr *laneRun) bool { return lr.tasks.Len() > 0 })
	was := r.ready
	r.ready = tasks && r.waiting < q.most
	if r.ready && !was {
		r.turn = q.turn + 1
	}
	for _, lr := range r.lanes {
		if lr.tasks.Len() > 0 && r.ready {
			if !lr.place.In() {
				lr.turn = lr.lane.turn + 1
			}
			lr.lane.runs.Put(lr)
		} else {
			lr.lane.runs.Remove(lr)
		}
		q.placeLane(lr.lane)
	}
	r.lanes = slices.DeleteFunc(r.lanes, func(lr *laneRun) bool { return lr.tasks.Len() == 0 })
	if len(r.lanes) == 0 && r.waiting == 0 {
		delete(q.runs, r.id)
	}
}

// startsBefore orders the runs of a lane that may begin a task: by the priority of their
// first task, then their turn, then the arrival of that task.
func (r *laneRun) startsBefore(other *laneRun) bool {
	a, b := r.tasks.First(), other.tasks.First()
	return cmp.Or(cmp.Compare(a.Node.Priority, b.Node.Priority), cmp.Compare(r.turn, other.turn), cmp.Compare(a.order, b.order)) < 0
}

// startsBefore orders the tasks of one run, by priority and arrival.
func (t *outTask) startsBefore(other *outTask) bool {
	return cmp.Or(cmp.Compare(t.Node.Priority, other.Node.Priority), cmp.Compare(t.order, other.order)) < 0
}

package pawl

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/heap"
	"github.com/pawl-run/pawl/workflow"
)

// A taskQueue holds the tasks that wait to begin, on four levels. A lane holds the
// tasks of one type that has a limit, or those of all types without one. In a lane
// each run has a heap of its own tasks, those runs of a tenant that may begin one stand in a
// heap of runs, and the tenants of these in a heap of tenants. The lanes whose limit allows
// a task stand in a heap of lanes. Runs without a tenant are those of the tenant "".
//
// The next task of a lane is the first one of the first run of its first tenant: that of the tenant
// whose turn it is in this lane, the lowest priority
// number, then the run whose turn it is (start-time fair queueing: Goyal,
// Vin and Cheng, 1996, with tasks that all count the same), then the order of arrival.
// Lanes are ordered in the same way, with the turns that tenants and runs have
// in the queue as a whole, by the tenant in each whose turn it is there: who has tasks of many types has no more than its turn,
// and a scarce type is shared fairly whatever else its runs have. An urgent task
// takes the turn of its run, and is before those of its tenant only: what else these have
// may wait meanwhile.
//
// A run is backpressured while so many of its results wait to be delivered as there
// may be tasks at once. It leaves the heaps of runs, with all its tasks, until one of
// these results is delivered.
type taskQueue struct {
	most    int                           // waiting results with which a run is backpressured
	types   map[string]TypeLimit          // by task type; "*" for those without one of their own
	limits  map[string]TenantLimit        // by tenant; "*" for those without one of their own
	tenants map[string]*queuedTenant      // with runs here, or tasks that run
	runs    map[workflow.RunID]*queuedRun // with tasks here, or results that wait
	free    *lane                         // of the types without a limit
	lanes   map[string]*lane              // of the others that are in use
	ready   heap.Heap[*lane]              // with tasks that may begin now
	paced   map[*lane]struct{}            // with tasks that wait for the rate of their type
	turn    int64                         // of the tenant whose task was taken last
	latest  time.Time                     // to which advanceTo has come
	length  int                           // tasks in it

	// What is not there any more, to be used again: a run that is a chain comes and goes with each step.
	spareRuns    spares[queuedRun]
	spareLanes   spares[laneRun]
	spareTenants spares[laneTenant]
}

// A queuedRun is what the queue knows of a run.
type queuedRun struct {
	id      workflow.RunID
	tenant  *queuedTenant
	lanes   []*laneRun // with tasks of it
	waiting int        // results, to be delivered
	turn    int64      // among all runs of its tenant, while it is ready
	ready   bool       // it has tasks and is not backpressured
}

// A laneRun has the tasks that one run has in one lane.
type laneRun struct {
	run   *queuedRun
	in    *laneTenant
	tasks heap.Heap[*outTask]
	turn  int64      // among the runs of its tenant in the lane, while the run is ready
	place heap.Place // in its tenant's heap of runs in the lane
}

func newTaskQueue(most int, types map[string]TypeLimit, limits map[string]TenantLimit) *taskQueue {
	return &taskQueue{
		most: most, types: types, limits: limits, tenants: map[string]*queuedTenant{}, runs: map[workflow.RunID]*queuedRun{},
		free: newLane("", TypeLimit{}), lanes: map[string]*lane{}, paced: map[*lane]struct{}{},
		ready: heap.New((*lane).startsBefore, func(l *lane) *heap.Place { return &l.place }),
	}
}

// addTask lets a task wait.
func (q *taskQueue) addTask(t *outTask) {
	r, l := q.runOf(t), q.laneOf(t.Task)
	q.liftLanes(r)
	l.queued++
	q.length++
	q.runInLane(r, l).tasks.Put(t)
	q.placeRun(r)
}

// firstTask returns the task that takeNext would take; nil if none may begin.
func (q *taskQueue) firstTask() *outTask {
	if q.ready.Len() == 0 {
		return nil
	}
	return q.ready.First().tenants.First().runs.First().tasks.First()
}

// takeNext takes the task that begins next out of the queue and returns it; nil if
// none may begin. Its type counts it until taskReturned, and its tenant until releaseTenant.
func (q *taskQueue) takeNext() *outTask {
	if q.ready.Len() == 0 {
		return nil
	}
	l := q.ready.First()
	lt := l.tenants.First()
	lr, n := lt.runs.First(), lt.tenant
	q.liftLanes(lr.run)
	t, r := lr.tasks.Pop(), lr.run
	l.countTask(q.latest)
	q.length--
	n.running++
	t.counted = true
	lr.turn = takeTurn(&lt.runTurn, lr.turn)
	lt.turn = takeTurn(&l.turn, lt.turn)
	r.turn = takeTurn(&n.runTurn, r.turn)
	n.turn = takeTurn(&q.turn, n.turn)
	q.placeRun(r)
	return t
}

// takeTurn takes the turn of one whose task is taken, and returns its next one: not the one
// after its own, since it may have stood behind urgent tasks.
func takeTurn(latest *int64, own int64) (next int64) {
	*latest = max(*latest, own)
	return *latest + 1
}

// removeTask takes a task out that is no longer wanted.
func (q *taskQueue) removeTask(t *outTask) {
	r, l := q.runs[t.Run], q.laneOf(t.Task)
	q.liftLanes(r)
	l.queued--
	q.length--
	q.runInLane(r, l).tasks.Remove(t)
	q.placeRun(r)
}

// resultReturned notes that a result of a run waits to be delivered from now on.
func (q *taskQueue) resultReturned(t *outTask) {
	r := q.runOf(t)
	q.liftLanes(r)
	r.waiting++
	q.placeRun(r)
}

// resultDelivered notes that a result of a run has ceased to wait.
func (q *taskQueue) resultDelivered(id workflow.RunID) {
	r := q.runs[id]
	q.liftLanes(r)
	r.waiting--
	q.placeRun(r)
}

// runOf returns what the queue knows of the run of a task, made if it knows nothing.
func (q *taskQueue) runOf(t *outTask) *queuedRun {
	r := q.runs[t.Run]
	if r == nil {
		n := q.tenantOf(t.Tenant)
		n.runs++
		r = q.spareRuns.takeSpare()
		r.id, r.tenant = t.Run, n
		q.runs[t.Run] = r
	}
	return r
}

// runInLane returns what a run has in a lane, made if it has nothing there.
func (q *taskQueue) runInLane(r *queuedRun, l *lane) *laneRun {
	for _, lr := range r.lanes {
		if lr.in.lane == l {
			return lr
		}
	}
	lt := q.tenantInLane(r.tenant, l)
	lt.members++
	lr := q.spareLanes.takeSpare()
	if lr.run, lr.in = r, lt; lr.tasks.IsZero() {
		lr.tasks = heap.New((*outTask).startsBefore, func(t *outTask) *heap.Place { return &t.place })
	}
	r.lanes = append(r.lanes, lr)
	return lr
}

// liftLanes takes the lanes of a run out of their heap until placeRun, and those of its tenant if
// there is another: their order changes
// with its first tasks and with turns, and elements that change are not to be compared.
func (q *taskQueue) liftLanes(r *queuedRun) {
	if q.isShared() {
		for _, lt := range r.tenant.lanes {
			q.ready.Remove(lt.lane)
		}
		return
	}
	for _, lr := range r.lanes {
		q.ready.Remove(lr.in.lane)
	}
}

// placeRun puts a run that has changed where it belongs in each of its lanes: into the
// heap of runs, out of it, or out of the queue. A run that comes to be ready gets the next
// turn: turns that it has missed are not made up for. That never puts it forward, for the
// turn of no run is later than the next.
func (q *taskQueue) placeRun(r *queuedRun) {
	tasks := slices.ContainsFunc(r.lanes, func(lr *laneRun) bool { return lr.tasks.Len() > 0 })
	was, n := r.ready, r.tenant
	r.ready = tasks && r.waiting < q.most
	if r.ready && !was {
		n.ready++
		r.turn = n.runTurn + 1
	}
	if was && !r.ready {
		n.ready--
	}
	for _, lr := range r.lanes {
		if lr.tasks.Len() > 0 && r.ready {
			if !lr.place.In() {
				lr.turn = lr.in.runTurn + 1
			}
			lr.in.runs.Put(lr)
		} else {
			lr.in.runs.Remove(lr)
		}
	}
	q.placeTenant(n, r)
	r.lanes = slices.DeleteFunc(r.lanes, func(lr *laneRun) bool {
		if lr.tasks.Len() > 0 {
			return false
		}
		lr.in.members--
		q.spareLanes.addSpare(lr, laneRun{tasks: lr.tasks.Reuse()})
		return true
	})
	if len(r.lanes) == 0 && r.waiting == 0 {
		delete(q.runs, r.id)
		n.runs--
		q.spareRuns.addSpare(r, queuedRun{lanes: r.lanes})
	}
	q.forgetUnused(n)
}

// startsBefore orders the runs of a tenant that may begin a task in a lane: by the priority of their
// first task, then their turn, then the arrival of that task.
func (r *laneRun) startsBefore(other *laneRun) bool {
	a, b := r.tasks.First(), other.tasks.First()
	return cmp.Or(cmp.Compare(a.Node.Priority, b.Node.Priority), cmp.Compare(r.turn, other.turn), cmp.Compare(a.order, b.order)) < 0
}

// startsBefore orders the tasks of one run, by priority and arrival.
func (t *outTask) startsBefore(other *outTask) bool {
	return cmp.Or(cmp.Compare(t.Node.Priority, other.Node.Priority), cmp.Compare(t.order, other.order)) < 0
}

package pawl

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

func waitingTask(run workflow.RunID, order int64, priority int) *outTask {
	t := &outTask{order: order}
	t.Run, t.Tenant, t.Node = run, modelTenants[run], &workflow.GraphNode{Node: &workflow.Node{Priority: priority}}
	return t
}

// modelTypes are the limits of a model: of two types, and a third one has none.
var modelTypes = map[string]TypeLimit{"one": {Concurrency: 1}, "few": {Concurrency: 3}}

// modelTenants have the runs of a model; a and b have none. modelLimits are their limits.
var (
	modelTenants = map[workflow.RunID]string{"c": "t", "d": "t", "e": "u", "f": "v"}
	modelLimits  = map[string]TenantLimit{"u": {Concurrency: 1}, "t": {Concurrency: 4}}
)

// A laneOfRun names a run in the lane of a type, "" for those without a limit.
type laneOfRun struct {
	lane string
	run  workflow.RunID
}

// A laneOfTenant names a tenant in a lane.
type laneOfTenant struct{ lane, tenant string }

// modelTurns are the turns of those that may begin a task, and of the one that did last.
type modelTurns[K comparable, In comparable] struct {
	of     map[K]int64
	latest map[In]int64
}

func newModelTurns[K, In comparable]() modelTurns[K, In] {
	return modelTurns[K, In]{map[K]int64{}, map[In]int64{}}
}

// settle gives those that have come to be ready a turn, and takes that of the others.
func (m *modelTurns[K, In]) settle(ready map[K]bool, in func(K) In) {
	for k := range m.of {
		if !ready[k] {
			delete(m.of, k)
		}
	}
	for k := range ready {
		if m.of[k] == 0 {
			m.of[k] = m.latest[in(k)] + 1
		}
	}
}

// take takes the turn of one.
func (m *modelTurns[K, In]) take(k K, in In) {
	m.latest[in] = max(m.latest[in], m.of[k])
	m.of[k] = m.latest[in] + 1
}

// A queueModel is what a taskQueue must do, by looking through all that it has.
type queueModel struct {
	most        int
	limits      map[string]TenantLimit
	tasks       []*outTask // by arrival
	running     []*outTask
	waiting     map[workflow.RunID]int
	runs        modelTurns[workflow.RunID, string]  // in their tenants
	tenants     modelTurns[string, struct{}]        // in the queue
	laneRuns    modelTurns[laneOfRun, laneOfTenant] // of the runs of a tenant in each lane
	laneTenants modelTurns[laneOfTenant, string]    // in each lane
}

func newQueueModel(most int, limits map[string]TenantLimit) *queueModel {
	return &queueModel{
		most: most, limits: limits, waiting: map[workflow.RunID]int{}, runs: newModelTurns[workflow.RunID, string](), tenants: newModelTurns[string, struct{}](),
		laneRuns: newModelTurns[laneOfRun, laneOfTenant](), laneTenants: newModelTurns[laneOfTenant, string](),
	}
}

func (m *queueModel) runningOf(fits func(*outTask) bool) (n int) {
	for _, t := range m.running {
		if fits(t) {
			n++
		}
	}
	return n
}

func (m *queueModel) runningType(kind string) int {
	return m.runningOf(func(t *outTask) bool { return t.Task == kind })
}

// mayBegin says that a tenant has not as many tasks running as may.
func (m *queueModel) mayBegin(tenant string) bool {
	limit := m.limits[tenant].Concurrency
	return limit == 0 || m.runningOf(func(t *outTask) bool { return t.Tenant == tenant }) < limit
}

// settle gives whoever has come to be ready a turn, takes that of the others, and forgets what is unused.
func (m *queueModel) settle() {
	runs, tenants, laneRuns, laneTenants := map[workflow.RunID]bool{}, map[string]bool{}, map[laneOfRun]bool{}, map[laneOfTenant]bool{}
	known, lanes, used := map[string]bool{}, map[laneOfTenant]bool{}, map[string]bool{"": true}
	for _, t := range m.tasks {
		known[t.Tenant], used[t.Task], lanes[laneOfTenant{t.Task, t.Tenant}] = true, true, true
		if m.waiting[t.Run] < m.most {
			runs[t.Run], laneRuns[laneOfRun{t.Task, t.Run}] = true, true
			if m.mayBegin(t.Tenant) {
				tenants[t.Tenant], laneTenants[laneOfTenant{t.Task, t.Tenant}] = true, true
			}
		}
	}
	m.runs.settle(runs, func(r workflow.RunID) string { return modelTenants[r] })
	m.tenants.settle(tenants, func(string) struct{} { return struct{}{} })
	m.laneRuns.settle(laneRuns, func(l laneOfRun) laneOfTenant { return laneOfTenant{l.lane, modelTenants[l.run]} })
	m.laneTenants.settle(laneTenants, func(l laneOfTenant) string { return l.lane })
	for _, t := range m.running {
		known[t.Tenant], used[t.Task] = true, true
	}
	for id, n := range m.waiting {
		known[modelTenants[id]] = known[modelTenants[id]] || n > 0
	}
	maps.DeleteFunc(m.runs.latest, func(n string, _ int64) bool { return !known[n] })
	maps.DeleteFunc(m.laneRuns.latest, func(l laneOfTenant, _ int64) bool { return !lanes[l] })
	maps.DeleteFunc(m.laneTenants.latest, func(l string, _ int64) bool { return !used[l] })
}

// first returns which of some tasks comes first: of one run, or with the turns that turn
// tells.
func first(tasks []*outTask, turn func(t *outTask) int64) *outTask {
	return slices.MinFunc(tasks, func(a, b *outTask) int {
		return cmp.Or(cmp.Compare(a.Node.Priority, b.Node.Priority), cmp.Compare(turn(a), turn(b)), cmp.Compare(a.order, b.order))
	})
}

// take finds the first task of every ready run in every lane, the first of these of every tenant, the
// first of these in every
// lane whose limit allows it, and takes the first of those.
func (m *queueModel) take() *outTask {
	ofRun, ofTenant, ofLane := map[laneOfRun][]*outTask{}, map[laneOfTenant][]*outTask{}, map[string][]*outTask{}
	for _, t := range m.tasks {
		limit := modelTypes[t.Task].Concurrency
		if m.runs.of[t.Run] > 0 && m.tenants.of[t.Tenant] > 0 && (limit == 0 || m.runningType(t.Task) < limit) {
			at := laneOfRun{t.Task, t.Run}
			ofRun[at] = append(ofRun[at], t)
		}
	}
	for at, tasks := range ofRun {
		t := first(tasks, func(*outTask) int64 { return 0 })
		in := laneOfTenant{at.lane, t.Tenant}
		ofTenant[in] = append(ofTenant[in], t)
	}
	for in, tasks := range ofTenant {
		ofLane[in.lane] = append(ofLane[in.lane], first(tasks, func(t *outTask) int64 { return m.laneRuns.of[laneOfRun{t.Task, t.Run}] }))
	}
	longest := func(a, b *outTask) int { // whose tenant's turn it is
		return cmp.Or(cmp.Compare(m.tenants.of[a.Tenant], m.tenants.of[b.Tenant]), cmp.Compare(a.Tenant, b.Tenant))
	}
	var heads []*outTask
	waits := map[*outTask]*outTask{}
	for lane, tasks := range ofLane {
		heads = append(heads, slices.MinFunc(tasks, func(a, b *outTask) int {
			return cmp.Or(cmp.Compare(m.laneTenants.of[laneOfTenant{lane, a.Tenant}], m.laneTenants.of[laneOfTenant{lane, b.Tenant}]), cmp.Compare(a.order, b.order))
		}))
		waits[heads[len(heads)-1]] = slices.MinFunc(tasks, longest)
	}
	if len(heads) == 0 {
		return nil
	}
	next := slices.MinFunc(heads, func(a, b *outTask) int {
		a, b = waits[a], waits[b]
		return cmp.Or(longest(a, b), cmp.Compare(a.Node.Priority, b.Node.Priority), cmp.Compare(m.runs.of[a.Run], m.runs.of[b.Run]), cmp.Compare(a.order, b.order))
	})
	m.runs.take(next.Run, next.Tenant)
	m.tenants.take(next.Tenant, struct{}{})
	m.laneRuns.take(laneOfRun{next.Task, next.Run}, laneOfTenant{next.Task, next.Tenant})
	m.laneTenants.take(laneOfTenant{next.Task, next.Tenant}, next.Task)
	m.running = append(m.running, next)
	m.remove(next)
	return next
}

func (m *queueModel) remove(t *outTask) {
	m.tasks = slices.DeleteFunc(m.tasks, func(o *outTask) bool { return o == t })
	m.settle()
}

func (m *queueModel) free(t *outTask) {
	m.running = slices.DeleteFunc(m.running, func(o *outTask) bool { return o == t })
	m.settle()
}

func (m *queueModel) wait(id workflow.RunID, n int) {
	m.waiting[id] += n
	m.settle()
}

// A queueMachine does the same to a queue and to its model.
type queueMachine struct {
	q     *taskQueue
	m     *queueModel
	order int64
	taken map[*outTask]bool
}

func (w *queueMachine) run(t *rapid.T) workflow.RunID {
	return rapid.SampledFrom([]workflow.RunID{"a", "b", "c", "d", "e", "f"}).Draw(t, "run")
}

// Add lets several tasks of a run wait.
func (w *queueMachine) Add(t *rapid.T) {
	id := w.run(t)
	for range rapid.IntRange(1, 5).Draw(t, "tasks") {
		w.order++
		task := waitingTask(id, w.order, rapid.IntRange(0, 2).Draw(t, "priority"))
		task.Task = rapid.SampledFrom([]string{"", "one", "few"}).Draw(t, "type")
		w.q.addTask(task)
		w.m.tasks = append(w.m.tasks, task)
		w.m.settle()
	}
}

// Take takes the next task.
func (w *queueMachine) Take(t *rapid.T) {
	got := w.q.takeNext()
	require.Same(t, w.m.take(), got)
	if got == nil {
		t.Skip("no task may begin")
	}
	require.False(t, got.place.In())
	require.False(t, w.taken[got], "taken twice")
	w.taken[got] = true
}

// Withdraw takes any task out.
func (w *queueMachine) Withdraw(t *rapid.T) {
	if len(w.m.tasks) == 0 {
		t.Skip("empty")
	}
	task := rapid.SampledFrom(w.m.tasks).Draw(t, "task")
	w.q.removeTask(task)
	w.m.remove(task)
	w.taken[task] = true
}

// Free ends a task that runs.
func (w *queueMachine) Free(t *rapid.T) {
	if len(w.m.running) == 0 {
		t.Skip("none runs")
	}
	w.free(rapid.SampledFrom(w.m.running).Draw(t, "task"))
}

func (w *queueMachine) free(t *outTask) {
	w.q.taskReturned(t)
	w.m.free(t)
}

// Return lets a result of a run wait.
func (w *queueMachine) Return(t *rapid.T) {
	id := w.run(t)
	w.q.resultReturned(waitingTask(id, 0, 0))
	w.m.wait(id, 1)
}

// Deliver ends the wait of a result.
func (w *queueMachine) Deliver(t *rapid.T) {
	id := w.run(t)
	if w.m.waiting[id] == 0 {
		t.Skip("none waits")
	}
	w.q.resultDelivered(id)
	w.m.wait(id, -1)
}

// Check compares what the queue has with what it should have.
func (w *queueMachine) Check(t *rapid.T) {
	tasks, lanes := 0, map[string]int{}
	for id, r := range w.q.runs {
		require.Equal(t, w.m.waiting[id], r.waiting)
		require.True(t, len(r.lanes) > 0 || r.waiting > 0, "a run without work is kept")
		require.Equal(t, w.m.runs.of[id] > 0, r.ready)
		require.Equal(t, modelTenants[id], r.tenant.id)
		for _, lr := range r.lanes {
			require.NotZero(t, lr.tasks.Len(), "a lane without tasks is kept")
			require.Equal(t, r.ready, lr.place.In())
			if r.ready {
				require.Equal(t, w.m.runs.of[id], r.turn)
				require.LessOrEqual(t, r.turn, r.tenant.runTurn+1)
				require.Equal(t, w.m.laneRuns.of[laneOfRun{lr.in.lane.kind, id}], lr.turn)
				if w.m.mayBegin(r.tenant.id) {
					lanes[lr.in.lane.kind]++
				}
			}
			tasks += lr.tasks.Len()
		}
	}
	require.Len(t, w.m.tasks, tasks)
	for kind, l := range w.q.lanes {
		require.Equal(t, w.m.runningType(kind), l.running)
		require.LessOrEqual(t, l.running, modelTypes[kind].Concurrency)
		require.Equal(t, lanes[kind] > 0 && !l.isFull(), l.place.In())
	}
	for _, task := range w.m.tasks {
		require.True(t, task.place.In())
	}
	for id, n := range w.q.tenants {
		require.True(t, n.runs > 0 || n.running > 0, "a tenant without work is kept")
		require.Equal(t, w.m.runningOf(func(t *outTask) bool { return t.Tenant == id }), n.running)
		require.Equal(t, w.m.tenants.of[id] > 0, n.may)
		if n.may {
			require.Equal(t, w.m.tenants.of[id], n.turn)
			require.LessOrEqual(t, n.turn, w.q.turn+1)
		}
	}
}

// TestQueueIsItsModel: tasks are taken in the order of the model, whatever comes,
// is withdrawn, returns and is delivered meanwhile, and none is lost.
func TestQueueIsItsModel(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 3).Draw(t, "most")
		var limits map[string]TenantLimit
		if rapid.Bool().Draw(t, "limits") {
			limits = modelLimits
		}
		w := &queueMachine{q: newTaskQueue(most, modelTypes, limits), m: newQueueModel(most, limits), taken: map[*outTask]bool{}}
		t.Repeat(map[string]func(*rapid.T){"": w.Check, "add": w.Add, "take": w.Take, "withdraw": w.Withdraw, "free": w.Free, "return": w.Return, "deliver": w.Deliver})
		for id, n := range w.m.waiting {
			for range n {
				w.q.resultDelivered(id)
				w.m.wait(id, -1)
			}
		}
		for len(w.m.tasks) > 0 {
			for len(w.m.running) > 0 {
				w.free(w.m.running[0])
			}
			w.Take(t)
		}
		require.Nil(t, w.q.takeNext())
		for len(w.m.running) > 0 {
			w.free(w.m.running[0])
		}
		require.Empty(t, w.q.runs)
		require.Empty(t, w.q.tenants)
		require.Empty(t, w.q.lanes)
		require.Zero(t, w.q.ready.Len())
		require.Len(t, w.taken, int(w.order), "every task was taken or withdrawn")
	})
}

// queued returns a queue with tasks of runs: a letter each, in order.
func queued(most int, runs string) *taskQueue {
	q := newTaskQueue(most, nil, nil)
	for i, r := range runs {
		q.addTask(waitingTask(workflow.RunID(r), int64(i+1), 0))
	}
	return q
}

// takes returns the runs of the next tasks.
func takes(q *taskQueue, n int) (runs string) {
	for range n {
		if t := q.takeNext(); t != nil {
			runs += string(t.Run)
		}
	}
	return runs
}

func TestBackpressuredRunsArePassedOver(t *testing.T) {
	q := queued(2, "aaaaabbbb")
	require.Equal(t, "abab", takes(q, 4))
	q.resultReturned(waitingTask("a", 0, 0))
	require.Equal(t, "a", takes(q, 1), "one result of two")
	q.resultReturned(waitingTask("a", 0, 0))
	require.Equal(t, "bb", takes(q, 9))
	q.resultDelivered("a")
	require.Equal(t, "aa", takes(q, 9))
}

// What a run has missed while it was backpressured is not made up for: it would keep
// the others waiting.
func TestARunThatWasBackpressuredTakesTurns(t *testing.T) {
	q := queued(1, "aaaabbbbbbbb")
	q.resultReturned(waitingTask("a", 0, 0))
	require.Equal(t, "bbbb", takes(q, 4))
	q.resultDelivered("a")
	require.Equal(t, "abab", takes(q, 4))
	q.resultReturned(waitingTask("a", 0, 0))
	q.resultReturned(waitingTask("a", 0, 0))
	q.resultDelivered("a")
	require.Equal(t, "bb", takes(q, 4), "one still waits")
	q.resultDelivered("a")
	require.Equal(t, "aa", takes(q, 4))
}

// A run whose tasks stood behind urgent ones of others does not make up for the turns
// that went by: a run that comes after them would have to wait for all of those.
func TestARunBehindUrgentTasksSavesUpNoTurns(t *testing.T) {
	q := queued(9, "aaaa")
	for i := range int64(5) {
		q.addTask(waitingTask("u", 10+i, -1))
	}
	require.Equal(t, "uuuuu", takes(q, 5))
	for i := range int64(3) {
		q.addTask(waitingTask("n", 20+i, 0))
	}
	require.Equal(t, "aananan", takes(q, 9), "one turn, and then the first of equals")
}

// A withdrawal may take away what gave a run its place.
func TestAWithdrawalMovesItsRun(t *testing.T) {
	q := queued(1, "bbaa")
	urgent := waitingTask("a", 5, -1)
	q.addTask(urgent)
	q.removeTask(urgent)
	require.Equal(t, "baba", takes(q, 5))
	require.Empty(t, q.runs)
}

// A type that is full keeps no other waiting, and its runs take turns when it goes on,
// whatever else they have.
func TestAFullTypeIsPassedOver(t *testing.T) {
	q := newTaskQueue(9, map[string]TypeLimit{"ocr": {Concurrency: 1}}, nil)
	order := int64(0)
	add := func(kind string, runs string) {
		for _, r := range runs {
			order++
			task := waitingTask(workflow.RunID(r), order, 0)
			task.Task = kind
			q.addTask(task)
		}
	}
	free := func(kind string) {
		task := waitingTask("a", 0, 0)
		task.Task = kind
		q.taskReturned(task)
	}
	add("ocr", "aaabbb")
	add("mail", "aaaaaaaa")
	require.Equal(t, "aaaaaaaaa", takes(q, 99), "one of the full type, and all others")
	got := ""
	for range 5 {
		free("ocr")
		got += takes(q, 9)
	}
	require.Equal(t, "babab", got)
	free("ocr")
	require.Empty(t, q.runs)
	require.Empty(t, q.lanes)
}

// Whatever one tenant has, in runs, tasks or urgent ones, another has every second turn, and
// a third every third.
func TestTenantsTakeTurns(t *testing.T) {
	q := newTaskQueue(9, nil, nil)
	order := int64(0)
	add := func(tenant string, run workflow.RunID, tasks, priority int) {
		for range tasks {
			order++
			task := waitingTask(run, order, priority)
			task.Tenant = tenant
			q.addTask(task)
		}
	}
	add("big", "wide", 10_000, 0)
	for i := range 300 {
		add("big", workflow.RunID(fmt.Sprint("many", i)), 10, -i%7)
	}
	next := func(n int) (tenants []string) {
		for range n {
			tenants = append(tenants, q.takeNext().Tenant)
		}
		return tenants
	}
	require.Equal(t, []string{"big", "big", "big"}, next(3))
	add("small", "s", 4, 5) // its tasks are less urgent, which is a matter between its own
	add("", "none", 2, 9)
	require.Equal(t, []string{"big", "small", "", "big", "small", "", "big", "small", "big", "small", "big", "big"}, next(12))
}

// Who waits for a type is not delayed by what another has of other types.
func TestTenantsTakeTurnsAcrossTypes(t *testing.T) {
	q := newTaskQueue(9, map[string]TypeLimit{"*": {Concurrency: 9999}}, nil)
	order := int64(0)
	add := func(tenant, kind string, tasks int) {
		for range tasks {
			order++
			task := waitingTask(workflow.RunID(tenant), order, 0)
			task.Tenant, task.Task = tenant, kind
			q.addTask(task)
		}
	}
	add("big", "mail", 1000)
	add("big", "resize", 1)
	add("small", "resize", 1)
	before := 0
	for q.takeNext().Tenant == "big" {
		before++
	}
	require.Equal(t, 2, before, "one of each type")
}

// A tenant at its limit holds no slot, and keeps no other waiting.
func TestATenantAtItsLimitIsPassedOver(t *testing.T) {
	q := newTaskQueue(9, nil, map[string]TenantLimit{"t": {Concurrency: 2}, "*": {Concurrency: 1}})
	var tasks []*outTask
	for i, run := range "cccceeeaaa" { // of t, u, and none
		tasks = append(tasks, waitingTask(workflow.RunID(run), int64(i), 0))
		q.addTask(tasks[i])
	}
	require.Equal(t, "ceacaa", takes(q, 99))
	require.True(t, q.isLimited(tasks[3]))
	q.taskReturned(tasks[0])
	require.False(t, q.isLimited(tasks[3]))
	require.Equal(t, "c", takes(q, 99))
	q.taskReturned(tasks[4])
	require.Equal(t, "e", takes(q, 99))
}

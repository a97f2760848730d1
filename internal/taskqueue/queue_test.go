package taskqueue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// A task is an entry; its item is of no interest here.
type task = Entry[struct{}]

func waitingTask(run string, order int64, priority int) *task {
	return &task{Run: run, Tenant: modelTenants[run], Order: order, Priority: priority}
}

// modelTypes are the limits of a model: of two types, and a third one has none.
var modelTypes = map[string]Limit{"one": {Concurrency: 1}, "few": {Concurrency: 3}}

// modelTenants have the runs of a model; a and b have none. modelLimits are their limits.
var (
	modelTenants = map[string]string{"c": "t", "d": "t", "e": "u", "f": "v"}
	modelLimits  = map[string]int{"u": 1, "t": 4}
)

// A laneOfRun names a run in the lane of a type, "" for those without a limit.
type laneOfRun struct {
	lane string
	run  string
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

// A robin has those that may go on, with numbers that order them: the last turn of each, or when it came.
type robin[K comparable] map[K]int

// settle makes those that have come to be ready the last ones, and forgets the others.
func (m robin[K]) settle(ready map[K]bool) {
	maps.DeleteFunc(m, func(k K, _ int) bool { return !ready[k] })
	for k := range ready { // of one tenant: none is in the same lane as another
		if _, known := m[k]; !known {
			m.takeTurn(k)
		}
	}
}

// takeTurn makes one the last.
func (m robin[K]) takeTurn(k K) { m[k] = slices.Max(append(slices.Collect(maps.Values(m)), 0)) + 1 }

// A queueModel is what a Queue must do, by looking through all that it has.
type queueModel struct {
	most        int
	limits      map[string]int
	tasks       []*task // by arrival
	running     []*task
	waiting     map[string]int
	runs        modelTurns[string, string]          // in their tenants
	tenants     robin[string]                       // in the queue
	laneRuns    modelTurns[laneOfRun, laneOfTenant] // of the runs of a tenant in each lane
	laneTenants robin[laneOfTenant]                 // in each lane
}

func newQueueModel(most int, limits map[string]int) *queueModel {
	return &queueModel{
		most: most, limits: limits, waiting: map[string]int{}, runs: newModelTurns[string, string](), tenants: robin[string]{},
		laneRuns: newModelTurns[laneOfRun, laneOfTenant](), laneTenants: robin[laneOfTenant]{},
	}
}

func (m *queueModel) runningOf(fits func(*task) bool) (n int) {
	for _, t := range m.running {
		if fits(t) {
			n++
		}
	}
	return n
}

func (m *queueModel) runningType(kind string) int {
	return m.runningOf(func(t *task) bool { return t.Type == kind })
}

// mayBegin says that a tenant has not as many tasks running as may.
func (m *queueModel) mayBegin(tenant string) bool {
	limit := m.limits[tenant]
	return limit == 0 || m.runningOf(func(t *task) bool { return t.Tenant == tenant }) < limit
}

// settle gives whoever has come to be ready a turn, takes that of the others, and forgets what is unused.
func (m *queueModel) settle() {
	runs, tenants, laneRuns, laneTenants := map[string]bool{}, map[string]bool{}, map[laneOfRun]bool{}, map[laneOfTenant]bool{}
	known, lanes := map[string]bool{}, map[laneOfTenant]bool{}
	for _, t := range m.tasks {
		known[t.Tenant], lanes[laneOfTenant{t.Type, t.Tenant}] = true, true
		if m.waiting[t.Run] < m.most {
			runs[t.Run], laneRuns[laneOfRun{t.Type, t.Run}] = true, true
			if m.mayBegin(t.Tenant) {
				tenants[t.Tenant], laneTenants[laneOfTenant{t.Type, t.Tenant}] = true, true
			}
		}
	}
	m.runs.settle(runs, func(r string) string { return modelTenants[r] })
	m.tenants.settle(tenants)
	m.laneRuns.settle(laneRuns, func(l laneOfRun) laneOfTenant { return laneOfTenant{l.lane, modelTenants[l.run]} })
	m.laneTenants.settle(laneTenants)
	for _, t := range m.running {
		known[t.Tenant] = true
	}
	for id, n := range m.waiting {
		known[modelTenants[id]] = known[modelTenants[id]] || n > 0
	}
	maps.DeleteFunc(m.runs.latest, func(n string, _ int64) bool { return !known[n] })
	maps.DeleteFunc(m.laneRuns.latest, func(l laneOfTenant, _ int64) bool { return !lanes[l] })
}

// first returns which of some tasks comes first: of one run, or with the turns that turn
// tells.
func first(tasks []*task, turn func(t *task) int64) *task {
	return slices.MinFunc(tasks, func(a, b *task) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(turn(a), turn(b)), cmp.Compare(a.Order, b.Order))
	})
}

// take finds the first task of every ready run in every lane, the first of these of every tenant, the
// first of these in every
// lane whose limit allows it, and takes the first of those.
func (m *queueModel) take() *task {
	ofRun, ofTenant, ofLane := map[laneOfRun][]*task{}, map[laneOfTenant][]*task{}, map[string][]*task{}
	for _, t := range m.tasks {
		limit := modelTypes[t.Type].Concurrency
		if m.runs.of[t.Run] > 0 && m.tenants[t.Tenant] > 0 && (limit == 0 || m.runningType(t.Type) < limit) {
			at := laneOfRun{t.Type, t.Run}
			ofRun[at] = append(ofRun[at], t)
		}
	}
	for at, tasks := range ofRun {
		t := first(tasks, func(*task) int64 { return 0 })
		in := laneOfTenant{at.lane, t.Tenant}
		ofTenant[in] = append(ofTenant[in], t)
	}
	for in, tasks := range ofTenant {
		ofLane[in.lane] = append(ofLane[in.lane], first(tasks, func(t *task) int64 { return m.laneRuns.of[laneOfRun{t.Type, t.Run}] }))
	}
	longest := func(a, b *task) int { // whose tenant's turn it is
		return cmp.Compare(m.tenants[a.Tenant], m.tenants[b.Tenant])
	}
	var heads []*task
	waits := map[*task]*task{}
	for lane, tasks := range ofLane {
		heads = append(heads, slices.MinFunc(tasks, func(a, b *task) int {
			return cmp.Compare(m.laneTenants[laneOfTenant{lane, a.Tenant}], m.laneTenants[laneOfTenant{lane, b.Tenant}])
		}))
		waits[heads[len(heads)-1]] = slices.MinFunc(tasks, longest)
	}
	if len(heads) == 0 {
		return nil
	}
	next := slices.MinFunc(heads, func(a, b *task) int {
		a, b = waits[a], waits[b]
		return cmp.Or(longest(a, b), cmp.Compare(a.Priority, b.Priority), cmp.Compare(m.runs.of[a.Run], m.runs.of[b.Run]), cmp.Compare(a.Order, b.Order))
	})
	m.begin(next)
	return next
}

// begin lets a task be out, which takes the turns of its run and its tenant.
func (m *queueModel) begin(next *task) {
	if m.runs.of[next.Run] > 0 { // else it is backpressured, and has no turn
		m.runs.take(next.Run, next.Tenant)
		m.laneRuns.take(laneOfRun{next.Type, next.Run}, laneOfTenant{next.Type, next.Tenant})
	}
	m.tenants.takeTurn(next.Tenant)
	m.laneTenants.takeTurn(laneOfTenant{next.Type, next.Tenant})
	m.running = append(m.running, next)
	m.remove(next)
}

func (m *queueModel) remove(t *task) {
	m.tasks = slices.DeleteFunc(m.tasks, func(o *task) bool { return o == t })
	m.settle()
}

func (m *queueModel) free(t *task) {
	m.running = slices.DeleteFunc(m.running, func(o *task) bool { return o == t })
	m.settle()
}

func (m *queueModel) wait(id string, n int) {
	m.waiting[id] += n
	m.settle()
}

// A queueMachine does the same to a queue and to its model.
type queueMachine struct {
	q       *Queue[struct{}]
	m       *queueModel
	order   int64
	changes int // of order, without a task that comes
	taken   map[*task]bool
}

func (w *queueMachine) run(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "run")
}

// Add lets several tasks of a run wait.
func (w *queueMachine) Add(t *rapid.T) {
	id := w.run(t)
	for range rapid.IntRange(1, 5).Draw(t, "tasks") {
		w.order++
		task := waitingTask(id, w.order, rapid.IntRange(0, 2).Draw(t, "priority"))
		task.Type = rapid.SampledFrom([]string{"", "one", "few"}).Draw(t, "type")
		task.Bound = w.m.limits[task.Tenant]
		w.q.Put(task)
		w.m.tasks = append(w.m.tasks, task)
		w.m.settle()
	}
}

// Take takes the next task.
func (w *queueMachine) Take(t *rapid.T) {
	got := w.q.Take()
	require.Same(t, w.m.take(), got)
	if got == nil {
		t.Skip("no task may begin")
	}
	require.False(t, got.place.In())
	require.False(t, w.taken[got], "taken twice")
	w.taken[got] = true
}

// Hold lets any task be out without its turn.
func (w *queueMachine) Hold(t *rapid.T) {
	if len(w.m.tasks) == 0 {
		t.Skip("empty")
	}
	held := rapid.SampledFrom(w.m.tasks).Draw(t, "task")
	w.q.Hold(held)
	w.m.begin(held)
	w.taken[held] = true
}

// Claim lets a task be out that never waited.
func (w *queueMachine) Claim(t *rapid.T) {
	w.order++
	held := waitingTask(w.run(t), w.order, 0)
	held.Bound = w.m.limits[held.Tenant]
	w.q.Hold(held)
	w.m.running = append(w.m.running, held)
	w.m.settle()
	w.taken[held] = true
}

// Change gives a task another place.
func (w *queueMachine) Change(t *rapid.T) {
	if len(w.m.tasks) == 0 {
		t.Skip("empty")
	}
	w.order++
	changed := rapid.SampledFrom(w.m.tasks).Draw(t, "task")
	w.q.Change(changed, rapid.IntRange(0, 2).Draw(t, "priority"), w.order, changed.Bound)
	w.changes++
}

// Withdraw takes any task out.
func (w *queueMachine) Withdraw(t *rapid.T) {
	if len(w.m.tasks) == 0 {
		t.Skip("empty")
	}
	task := rapid.SampledFrom(w.m.tasks).Draw(t, "task")
	w.q.Remove(task)
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

func (w *queueMachine) free(t *task) {
	w.q.Release(t)
	w.m.free(t)
}

// Return lets a result of a run wait.
func (w *queueMachine) Return(t *rapid.T) {
	id := w.run(t)
	w.q.ResultReturned(waitingTask(id, 0, 0))
	w.m.wait(id, 1)
}

// Deliver ends the wait of a result.
func (w *queueMachine) Deliver(t *rapid.T) {
	id := w.run(t)
	if w.m.waiting[id] == 0 {
		t.Skip("none waits")
	}
	w.q.ResultDelivered(id)
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
			require.NotZero(t, lr.entries.Len(), "a lane without tasks is kept")
			require.Equal(t, r.ready, lr.place.In())
			if r.ready {
				require.Equal(t, w.m.runs.of[id], r.turn)
				require.LessOrEqual(t, r.turn, r.tenant.runTurn+1)
				require.Equal(t, w.m.laneRuns.of[laneOfRun{lr.in.lane.Type, id}], lr.turn)
				if w.m.mayBegin(r.tenant.id) {
					lanes[lr.in.lane.Type]++
				}
			}
			tasks += lr.entries.Len()
		}
	}
	require.Len(t, w.m.tasks, tasks)
	for kind, l := range w.q.lanes {
		require.Equal(t, w.m.runningType(kind), l.out)
		require.Equal(t, lanes[kind] > 0 && !l.isFull(), l.place.In())
	}
	for _, task := range w.m.tasks {
		require.True(t, task.place.In())
	}
	for id, n := range w.q.tenants {
		require.True(t, n.runs > 0 || n.out > 0, "a tenant without work is kept")
		require.Equal(t, w.m.runningOf(func(t *task) bool { return t.Tenant == id }), n.out)
		require.Equal(t, w.m.tenants[id] > 0, n.may)
	}
}

// TestQueueIsItsModel: tasks are taken in the order of the model, whatever comes,
// is withdrawn, returns and is delivered meanwhile, and none is lost.
func TestQueueIsItsModel(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 3).Draw(t, "most")
		var limits map[string]int
		if rapid.Bool().Draw(t, "limits") {
			limits = modelLimits
		}
		w := &queueMachine{q: New[struct{}](Options{Most: most, Types: modelTypes}), m: newQueueModel(most, limits), taken: map[*task]bool{}}
		t.Repeat(map[string]func(*rapid.T){"": w.Check, "add": w.Add, "take": w.Take, "withdraw": w.Withdraw, "free": w.Free, "hold": w.Hold, "claim": w.Claim, "change": w.Change, "return": w.Return, "deliver": w.Deliver})
		for id, n := range w.m.waiting {
			for range n {
				w.q.ResultDelivered(id)
				w.m.wait(id, -1)
			}
		}
		for len(w.m.tasks) > 0 {
			for len(w.m.running) > 0 {
				w.free(w.m.running[0])
			}
			w.Take(t)
		}
		require.Nil(t, w.q.Take())
		for len(w.m.running) > 0 {
			w.free(w.m.running[0])
		}
		require.Empty(t, w.q.runs)
		require.Empty(t, w.q.tenants)
		require.Empty(t, w.q.lanes)
		require.Zero(t, w.q.ready.Len())
		require.Len(t, w.taken, int(w.order)-w.changes, "every task was taken or withdrawn")
	})
}

// queued returns a queue with tasks of runs: a letter each, in order.
func queued(most int, runs string) *Queue[struct{}] {
	q := New[struct{}](Options{Most: most})
	for i, r := range runs {
		q.Put(waitingTask(string(r), int64(i+1), 0))
	}
	return q
}

// takes returns the runs of the next tasks.
func takes(q *Queue[struct{}], n int) (runs string) {
	for range n {
		if t := q.Take(); t != nil {
			runs += t.Run
		}
	}
	return runs
}

func TestBackpressuredRunsArePassedOver(t *testing.T) {
	q := queued(2, "aaaaabbbb")
	require.Equal(t, "abab", takes(q, 4))
	q.ResultReturned(waitingTask("a", 0, 0))
	require.Equal(t, "a", takes(q, 1), "one result of two")
	q.ResultReturned(waitingTask("a", 0, 0))
	require.Equal(t, "bb", takes(q, 9))
	q.ResultDelivered("a")
	require.Equal(t, "aa", takes(q, 9))
}

// Turns that a run has missed while it was backpressured are not made up for: it would keep
// the others waiting.
func TestARunThatWasBackpressuredTakesTurns(t *testing.T) {
	q := queued(1, "aaaabbbbbbbb")
	q.ResultReturned(waitingTask("a", 0, 0))
	require.Equal(t, "bbbb", takes(q, 4))
	q.ResultDelivered("a")
	require.Equal(t, "abab", takes(q, 4))
	q.ResultReturned(waitingTask("a", 0, 0))
	q.ResultReturned(waitingTask("a", 0, 0))
	q.ResultDelivered("a")
	require.Equal(t, "bb", takes(q, 4), "one still waits")
	q.ResultDelivered("a")
	require.Equal(t, "aa", takes(q, 4))
}

// A run whose tasks stood behind urgent ones of others does not make up for the turns
// that went by: a run that comes after them would have to wait for all of those.
func TestARunBehindUrgentTasksSavesUpNoTurns(t *testing.T) {
	q := queued(9, "aaaa")
	for i := range int64(5) {
		q.Put(waitingTask("u", 10+i, -1))
	}
	require.Equal(t, "uuuuu", takes(q, 5))
	for i := range int64(3) {
		q.Put(waitingTask("n", 20+i, 0))
	}
	require.Equal(t, "aananan", takes(q, 9), "one turn, and then the first of equals")
}

// A withdrawal may take away what gave a run its place.
func TestAWithdrawalMovesItsRun(t *testing.T) {
	q := queued(1, "bbaa")
	urgent := waitingTask("a", 5, -1)
	q.Put(urgent)
	q.Remove(urgent)
	require.Equal(t, "baba", takes(q, 5))
	require.Empty(t, q.runs)
}

// A type that is full keeps no other waiting, and its runs take turns when it goes on,
// whatever else they have.
func TestAFullTypeIsPassedOver(t *testing.T) {
	q := New[struct{}](Options{Most: 9, Types: map[string]Limit{"ocr": {Concurrency: 1}}})
	order := int64(0)
	add := func(kind string, runs string) {
		for _, r := range runs {
			order++
			task := waitingTask(string(r), order, 0)
			task.Type = kind
			q.Put(task)
		}
	}
	add("ocr", "aaabbb")
	add("mail", "aaaaaaaa")
	out := q.Take()
	require.Equal(t, "a", out.Run)
	require.Equal(t, "aaaaaaaa", takes(q, 99), "one of the full type, and all others")
	require.Nil(t, q.Take())
	got := ""
	for range 5 {
		q.ReleaseType(out)
		out = q.Take()
		got += out.Run
	}
	require.Equal(t, "babab", got)
	require.Nil(t, q.Take())
	q.ReleaseType(out)
	q.ReleaseType(out) // once
	require.Empty(t, q.runs)
	require.Empty(t, q.lanes)
}

// However many runs, tasks or urgent tasks one tenant has, another has every second turn, and
// a third every third.
func TestTenantsTakeTurns(t *testing.T) {
	q := New[struct{}](Options{Most: 9})
	order := int64(0)
	add := func(tenant string, run string, tasks, priority int) {
		for range tasks {
			order++
			task := waitingTask(run, order, priority)
			task.Tenant = tenant
			q.Put(task)
		}
	}
	add("big", "wide", 10_000, 0)
	for i := range 300 {
		add("big", fmt.Sprint("many", i), 10, -i%7)
	}
	next := func(n int) (tenants []string) {
		for range n {
			tenants = append(tenants, q.Take().Tenant)
		}
		return tenants
	}
	require.Equal(t, []string{"big", "big", "big"}, next(3))
	add("small", "s", 4, 5) // its tasks are less urgent, which is a matter between its own
	add("", "none", 2, 9)
	require.Equal(t, []string{"big", "small", "", "big", "small", "", "big", "small", "big", "small", "big", "big"}, next(12))
}

// A tenant that waits for a type is not delayed by what another has of other types.
func TestTenantsTakeTurnsAcrossTypes(t *testing.T) {
	q := New[struct{}](Options{Most: 9, Types: map[string]Limit{"*": {Concurrency: 9999}}})
	order := int64(0)
	add := func(tenant, kind string, tasks int) {
		for range tasks {
			order++
			task := waitingTask(tenant, order, 0)
			task.Tenant, task.Type = tenant, kind
			q.Put(task)
		}
	}
	add("big", "mail", 1000)
	add("big", "resize", 1)
	add("small", "resize", 1)
	before := 0
	for q.Take().Tenant == "big" {
		before++
	}
	require.Equal(t, 2, before, "one of each type")
}

// A tenant at its limit holds no slot, and keeps no other waiting.
func TestATenantAtItsLimitIsPassedOver(t *testing.T) {
	q := New[struct{}](Options{Most: 9})
	var tasks []*task
	for i, run := range "cccceeeaaa" { // of t, u, and none
		tasks = append(tasks, waitingTask(string(run), int64(i), 0))
		tasks[i].Bound = map[string]int{"t": 2, "u": 1}[tasks[i].Tenant]
		q.Put(tasks[i])
	}
	require.Equal(t, "ceacaa", takes(q, 99))
	require.Equal(t, TenantBound, q.BoundOn(tasks[3]))
	q.Release(tasks[0])
	require.Equal(t, NoBound, q.BoundOn(tasks[3]))
	require.Equal(t, "c", takes(q, 99))
	q.Release(tasks[4])
	require.Equal(t, "e", takes(q, 99))
}

// A lane is kept as long as a new one in its place would let more entries go.
func TestALaneIsForgottenWhenItsRateHasRested(t *testing.T) {
	now := time.Unix(100, 0)
	q := New[struct{}](Options{Types: map[string]Limit{"*": {Rate: 1, Burst: 2}}})
	q.AdvanceTo(now)
	pass := func(order int64) *task {
		e := &task{Type: "paced", Run: "r", Order: order}
		q.Put(e)
		return q.Take()
	}
	for order := range int64(2) {
		q.Release(pass(order))
	}
	require.Nil(t, pass(2))
	require.Equal(t, now.Add(time.Second), q.NextDue())
	q.AdvanceTo(now.Add(time.Second))
	q.Release(q.Take())
	require.Zero(t, q.NextDue(), "nothing waits for a lane without entries")
	q.AdvanceTo(now.Add(3*time.Second - 1))
	require.Len(t, q.lanes, 1)
	q.AdvanceTo(now.Add(3 * time.Second))
	require.Empty(t, q.lanes)
	require.Zero(t, q.paced.Len()+q.resting.Len())

	slow := pass(3)
	q.AdvanceTo(now.Add(time.Minute))
	require.Len(t, q.lanes, 1, "an entry is out")
	q.Release(slow)
	require.Empty(t, q.lanes)
}

package pawl

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/harness"
	"github.com/pawl-run/pawl/workflow"
)

func waitingTask(run workflow.RunID, order int64, priority int) *outTask {
	t := &outTask{order: order}
	t.Run, t.Node = run, &workflow.GraphNode{Node: &workflow.Node{Priority: priority}}
	return t
}

// modelTypes are the limits of a model: of two types, and a third one has none.
var modelTypes = map[string]TypeLimit{"one": {Concurrency: 1}, "few": {Concurrency: 3}}

// A laneOfRun names a run in the lane of a type, "" for those without a limit.
type laneOfRun struct {
	lane string
	run  workflow.RunID
}

// A queueModel is what a taskQueue must do, by looking through all that it has.
type queueModel struct {
	most      int
	tasks     []*outTask // by arrival
	waiting   map[workflow.RunID]int
	turns     map[workflow.RunID]int64 // of the runs that may begin a task
	turn      int64
	laneTurns map[laneOfRun]int64 // the same in each lane
	laneTurn  map[string]int64
	running   map[string]int // by type
}

// settle gives the runs that have come to be ready a turn, and takes that of the others.
func (m *queueModel) settle() {
	ready, lanes := map[workflow.RunID]bool{}, map[laneOfRun]bool{}
	for _, t := range m.tasks {
		if m.waiting[t.Run] < m.most {
			ready[t.Run], lanes[laneOfRun{t.Task, t.Run}] = true, true
		}
	}
	settleTurns(m.turns, ready, func(workflow.RunID) int64 { return m.turn })
	settleTurns(m.laneTurns, lanes, func(l laneOfRun) int64 { return m.laneTurn[l.lane] })
}

func settleTurns[K comparable](turns map[K]int64, ready map[K]bool, now func(K) int64) {
	for k := range turns {
		if !ready[k] {
			delete(turns, k)
		}
	}
	for k := range ready {
		if turns[k] == 0 {
			turns[k] = now(k) + 1
		}
	}
}

// first returns which of some tasks comes first: of one run, or with the turns that turn
// tells.
func first(tasks []*outTask, turn func(t *outTask) int64) *outTask {
	return slices.MinFunc(tasks, func(a, b *outTask) int {
		return cmp.Or(cmp.Compare(a.Node.Priority, b.Node.Priority), cmp.Compare(turn(a), turn(b)), cmp.Compare(a.order, b.order))
	})
}

// take finds the first task of every ready run in every lane, the first of these in every
// lane whose limit allows it, and takes the first of those.
func (m *queueModel) take() *outTask {
	ofRun, ofLane, heads := map[laneOfRun][]*outTask{}, map[string][]*outTask{}, []*outTask(nil)
	for _, t := range m.tasks {
		limit := modelTypes[t.Task].Concurrency
		if m.turns[t.Run] > 0 && (limit == 0 || m.running[t.Task] < limit) {
			at := laneOfRun{t.Task, t.Run}
			ofRun[at] = append(ofRun[at], t)
		}
	}
	for at, tasks := range ofRun {
		ofLane[at.lane] = append(ofLane[at.lane], first(tasks, func(*outTask) int64 { return 0 }))
	}
	for _, tasks := range ofLane {
		heads = append(heads, first(tasks, func(t *outTask) int64 { return m.laneTurns[laneOfRun{t.Task, t.Run}] }))
	}
	if len(heads) == 0 {
		return nil
	}
	next := first(heads, func(t *outTask) int64 { return m.turns[t.Run] })
	at := laneOfRun{next.Task, next.Run}
	m.turn = max(m.turn, m.turns[next.Run])
	m.turns[next.Run] = m.turn + 1
	m.laneTurn[at.lane] = max(m.laneTurn[at.lane], m.laneTurns[at])
	m.laneTurns[at] = m.laneTurn[at.lane] + 1
	m.running[next.Task]++
	m.remove(next)
	return next
}

func (m *queueModel) remove(t *outTask) {
	m.tasks = slices.DeleteFunc(m.tasks, func(o *outTask) bool { return o == t })
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
	return rapid.SampledFrom([]workflow.RunID{"a", "b", "c", "d"}).Draw(t, "run")
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
	w.forgetLane(task.Task)
	w.taken[task] = true
}

// Free ends a task of a type.
func (w *queueMachine) Free(t *rapid.T) {
	kind := rapid.SampledFrom([]string{"", "one", "few"}).Draw(t, "type")
	if w.m.running[kind] == 0 {
		t.Skip("none runs")
	}
	w.q.typeFreed(kind)
	w.m.running[kind]--
	w.forgetLane(kind)
}

// forgetLane lets the model forget a lane that is used no longer, as the queue does.
func (w *queueMachine) forgetLane(kind string) {
	idle := kind != "" && w.m.running[kind] == 0 && !slices.ContainsFunc(w.m.tasks, func(t *outTask) bool { return t.Task == kind })
	if idle {
		delete(w.m.laneTurn, kind)
	}
}

// Return lets a result of a run wait.
func (w *queueMachine) Return(t *rapid.T) {
	id := w.run(t)
	w.q.resultReturned(id)
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
		require.Equal(t, w.m.turns[id] > 0, r.ready)
		for _, lr := range r.lanes {
			require.NotZero(t, lr.tasks.Len(), "a lane without tasks is kept")
			require.Equal(t, r.ready, lr.place.In())
			if r.ready {
				require.Equal(t, w.m.turns[id], r.turn)
				require.LessOrEqual(t, r.turn, w.q.turn+1)
				require.Equal(t, w.m.laneTurns[laneOfRun{lr.lane.kind, id}], lr.turn)
				lanes[lr.lane.kind]++
			}
			tasks += lr.tasks.Len()
		}
	}
	require.Len(t, w.m.tasks, tasks)
	for kind, l := range w.q.lanes {
		require.Equal(t, w.m.running[kind], l.running)
		require.LessOrEqual(t, l.running, modelTypes[kind].Concurrency)
		require.Equal(t, lanes[kind] > 0 && !l.isFull(), l.place.In())
	}
	for _, task := range w.m.tasks {
		require.True(t, task.place.In())
	}
}

// TestQueueIsItsModel: tasks are taken in the order of the model, whatever comes,
// is withdrawn, returns and is delivered meanwhile, and none is lost.
func TestQueueIsItsModel(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 3).Draw(t, "most")
		w := &queueMachine{q: newTaskQueue(most, modelTypes), taken: map[*outTask]bool{}}
		w.m = &queueModel{
			most: most, waiting: map[workflow.RunID]int{}, turns: map[workflow.RunID]int64{},
			laneTurns: map[laneOfRun]int64{}, laneTurn: map[string]int64{}, running: map[string]int{},
		}
		t.Repeat(map[string]func(*rapid.T){"": w.Check, "add": w.Add, "take": w.Take, "withdraw": w.Withdraw, "free": w.Free, "return": w.Return, "deliver": w.Deliver})
		for id, n := range w.m.waiting {
			for range n {
				w.q.resultDelivered(id)
				w.m.wait(id, -1)
			}
		}
		for len(w.m.tasks) > 0 {
			for kind, n := range w.m.running {
				for range n {
					w.q.typeFreed(kind)
				}
				w.m.running[kind] = 0
				w.forgetLane(kind)
			}
			w.Take(t)
		}
		require.Nil(t, w.q.takeNext())
		require.Empty(t, w.q.runs)
		require.Zero(t, w.q.ready.Len())
		require.Len(t, w.taken, int(w.order), "every task was taken or withdrawn")
	})
}

// queued returns a queue with tasks of runs: a letter each, in order.
func queued(most int, runs string) *taskQueue {
	q := newTaskQueue(most, nil)
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
	q.resultReturned("a")
	require.Equal(t, "a", takes(q, 1), "one result of two")
	q.resultReturned("a")
	require.Equal(t, "bb", takes(q, 9))
	q.resultDelivered("a")
	require.Equal(t, "aa", takes(q, 9))
}

// What a run has missed while it was backpressured is not made up for: it would keep
// the others waiting.
func TestARunThatWasBackpressuredTakesTurns(t *testing.T) {
	q := queued(1, "aaaabbbbbbbb")
	q.resultReturned("a")
	require.Equal(t, "bbbb", takes(q, 4))
	q.resultDelivered("a")
	require.Equal(t, "abab", takes(q, 4))
	q.resultReturned("a")
	q.resultReturned("a")
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
	q := newTaskQueue(9, map[string]TypeLimit{"ocr": {Concurrency: 1}})
	order := int64(0)
	add := func(kind string, runs string) {
		for _, r := range runs {
			order++
			task := waitingTask(workflow.RunID(r), order, 0)
			task.Task = kind
			q.addTask(task)
		}
	}
	add("ocr", "aaabbb")
	add("mail", "aaaaaaaa")
	require.Equal(t, "aaaaaaaaa", takes(q, 99), "one of the full type, and all others")
	got := ""
	for range 5 {
		q.typeFreed("ocr")
		got += takes(q, 9)
	}
	require.Equal(t, "babab", got)
	q.typeFreed("ocr")
	require.Empty(t, q.runs)
	require.Empty(t, q.lanes)
}

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

// A queueModel is what a taskQueue must do, by looking through all that it has.
type queueModel struct {
	most    int
	tasks   []*outTask // by arrival
	waiting map[workflow.RunID]int
	turns   map[workflow.RunID]int64 // of the runs that may begin a task
	turn    int64
}

// settle gives the runs that have come to be ready a turn, and takes that of the others.
func (m *queueModel) settle() {
	ready := map[workflow.RunID]bool{}
	for _, t := range m.tasks {
		if m.waiting[t.Run] < m.most {
			ready[t.Run] = true
		}
	}
	for id := range m.turns {
		if !ready[id] {
			delete(m.turns, id)
		}
	}
	for id := range ready {
		if m.turns[id] == 0 {
			m.turns[id] = m.turn + 1
		}
	}
}

// take finds the first task of every ready run, and takes the first of these.
func (m *queueModel) take() *outTask {
	first := map[workflow.RunID]*outTask{}
	var next *outTask
	for _, t := range m.tasks {
		if f := first[t.Run]; m.turns[t.Run] > 0 && (f == nil || t.Node.Priority < f.Node.Priority) {
			first[t.Run] = t
		}
	}
	for _, t := range first {
		if next == nil || cmp.Or(cmp.Compare(t.Node.Priority, next.Node.Priority), cmp.Compare(m.turns[t.Run], m.turns[next.Run]), cmp.Compare(t.order, next.order)) < 0 {
			next = t
		}
	}
	if next != nil {
		m.turn = max(m.turn, m.turns[next.Run])
		m.turns[next.Run] = m.turn + 1
		m.remove(next)
	}
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
	tasks, ready := 0, 0
	for id, r := range w.q.runs {
		require.Equal(t, w.m.waiting[id], r.waiting)
		require.True(t, r.tasks.Len() > 0 || r.waiting > 0, "a run without work is kept")
		require.Equal(t, w.m.turns[id] > 0, r.place.In())
		if r.place.In() {
			require.Equal(t, w.m.turns[id], r.turn)
			require.LessOrEqual(t, r.turn, w.q.turn+1)
			ready++
		}
		tasks += r.tasks.Len()
	}
	require.Len(t, w.m.tasks, tasks)
	require.Equal(t, ready, w.q.ready.Len())
	for _, task := range w.m.tasks {
		require.True(t, task.place.In())
	}
}

// TestQueueIsItsModel: tasks are taken in the order of the model, whatever comes,
// is withdrawn, returns and is delivered meanwhile, and none is lost.
func TestQueueIsItsModel(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 3).Draw(t, "most")
		w := &queueMachine{q: newTaskQueue(most), taken: map[*outTask]bool{}}
		w.m = &queueModel{most: most, waiting: map[workflow.RunID]int{}, turns: map[workflow.RunID]int64{}}
		t.Repeat(map[string]func(*rapid.T){"": w.Check, "add": w.Add, "take": w.Take, "withdraw": w.Withdraw, "return": w.Return, "deliver": w.Deliver})
		for id, n := range w.m.waiting {
			for range n {
				w.q.resultDelivered(id)
				w.m.wait(id, -1)
			}
		}
		for len(w.m.tasks) > 0 {
			w.Take(t)
		}
		require.Nil(t, w.q.takeNext())
		require.Empty(t, w.q.runs)
		require.Len(t, w.taken, int(w.order), "every task was taken or withdrawn")
	})
}

// queued returns a queue with tasks of runs: a letter each, in order.
func queued(most int, runs string) *taskQueue {
	q := newTaskQueue(most)
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

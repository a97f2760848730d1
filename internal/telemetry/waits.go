package telemetry

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/internal/heap"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Open approvals and dead letters are counted by run, from the state that an actor has loaded or committed. The engine loads
// every unfinished run when it is opened, so that no table need be read to know what stands. A run that has none takes no
// memory here, and one that has some about 200 bytes, also while it sleeps.

// A waitCount says how many tokens wait for people.
type waitCount struct{ approvals, letters int }

// A runWait is what of a run waits for people.
type runWait struct {
	waitCount
	asks  time.Time  // since when it has had an open approval, without a break
	place heap.Place // among those that have one
}

// A waitSum is what of the runs of a workflow waits for people.
type waitSum struct {
	waitCount
	asking heap.Heap[*runWait] // those that have an open approval, by since when
}

// waits are what of all runs waits for people. The zero value has none.
type waits struct {
	count atomic.Int64 // of runs

	mu   sync.Mutex
	runs map[workflow.RunID]*runWait
	sums map[string]*waitSum // by workflow, as labels have it: a name that was there stays
}

// noteWaits takes note of how many tokens of a run wait for people, as of its last record. It may be told the same again.
func (m *Metrics) noteWaits(s *state.State, at time.Time) {
	now := waitCount{s.CountByStatus(workflow.WaitingForApproval), s.CountByStatus(workflow.WaitingForOperator)}
	if s.Status.Final() {
		now = waitCount{}
	}
	w := &m.waits
	// In most engines nothing waits for people at most times. One goroutine at a time has a run, so that nobody else adds this one.
	if now == (waitCount{}) && w.count.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	run := w.runs[s.Run]
	if run == nil {
		run = &runWait{}
	}
	if now == run.waitCount {
		return
	}
	defer func() { w.count.Store(int64(len(w.runs))) }()
	if w.runs == nil {
		w.runs, w.sums = map[workflow.RunID]*runWait{}, map[string]*waitSum{}
	}
	if w.runs[s.Run] = run; now == (waitCount{}) {
		delete(w.runs, s.Run)
	}
	sum := w.sumOf(m.series.nameOf(workflowLabel, s.Graph.Definition.Name))
	sum.approvals += now.approvals - run.approvals
	sum.letters += now.letters - run.letters
	switch {
	case now.approvals == 0 && run.approvals > 0:
		sum.asking.Remove(run)
	case now.approvals > 0 && run.approvals == 0:
		run.asks = at
		sum.asking.Put(run)
	}
	run.waitCount = now
}

// sumOf returns what of a workflow waits for people. The lock is held.
func (w *waits) sumOf(name string) *waitSum {
	sum := w.sums[name]
	if sum == nil {
		sum = &waitSum{asking: heap.New(func(x, y *runWait) bool { return x.asks.Before(y.asks) }, func(x *runWait) *heap.Place { return &x.place })}
		w.sums[name] = sum
	}
	return sum
}

// eachWorkflow yields the counts by workflow, and since when the run has had an open approval that has had one for longest; zero of none.
func (w *waits) eachWorkflow(yield func(name string, n waitCount, asks time.Time)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, sum := range w.sums {
		asks := time.Time{}
		if sum.asking.Len() > 0 {
			asks = sum.asking.First().asks
		}
		yield(name, sum.waitCount, asks)
	}
}

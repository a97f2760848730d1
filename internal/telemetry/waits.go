package telemetry

import (
	"sync"
	"sync/atomic"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Open approvals and dead letters are counted by run, from the state that an actor has loaded or committed. The engine loads
// every unfinished run when it is opened, so that no table need be read to know what stands. A run that has none takes no
// memory here, and one that has some about 100 bytes, also while it sleeps.

// A waitCount says how many tokens of a run wait for people.
type waitCount struct{ approvals, letters int }

// waits count the tokens of all runs that wait for people. The zero value has none.
type waits struct {
	count atomic.Int64 // of runs

	mu   sync.Mutex
	runs map[workflow.RunID]waitCount
	sums map[string]waitCount // by workflow, as labels have it: a name that was there stays
}

// noteWaits takes note of how many tokens of a run wait for people. It may be told the same again.
func (m *Metrics) noteWaits(s *state.State) {
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
	before := w.runs[s.Run]
	if now == before {
		return
	}
	defer func() { w.count.Store(int64(len(w.runs))) }()
	if w.runs == nil {
		w.runs, w.sums = map[workflow.RunID]waitCount{}, map[string]waitCount{}
	}
	if w.runs[s.Run] = now; now == (waitCount{}) {
		delete(w.runs, s.Run)
	}
	name := m.series.nameOf(workflowLabel, s.Graph.Definition.Name)
	sum := w.sums[name]
	w.sums[name] = waitCount{sum.approvals + now.approvals - before.approvals, sum.letters + now.letters - before.letters}
}

// eachWorkflow yields the counts by workflow.
func (w *waits) eachWorkflow(yield func(name string, n waitCount)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, n := range w.sums {
		yield(name, n)
	}
}

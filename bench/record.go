package main

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// A record keeps what was executed, to check that every task was, once and in its
// order.
type record struct {
	mu   sync.Mutex
	runs map[string][]execution
}

type execution struct {
	task Task
	at   time.Time
}

func newRecord() *record { return &record{runs: map[string][]execution{}} }

// performTask is what every task does. Its result is the branch.
func (r *record) performTask(t Task) (any, error) {
	now := time.Now()
	r.mu.Lock()
	r.runs[t.Run] = append(r.runs[t.Run], execution{t, now})
	r.mu.Unlock()
	if isFailing(t.Run) {
		return nil, errors.New("this run is to fail")
	}
	return t.Branch, nil
}

// of returns what a run has executed.
func (r *record) of(run string) []execution {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs[run]
}

// checkChain checks that a run has executed its tasks from one index up to another,
// once each and in order.
func (r *record) checkChain(run string, from, to int) error {
	done := r.of(run)
	for i, x := range done {
		if x.task.Index != from+i {
			return fmt.Errorf("%s: execution %d was of task %d, not of %d", run, i, x.task.Index, from+i)
		}
	}
	if len(done) != to-from {
		return fmt.Errorf("%s: %d tasks were executed, not %d", run, len(done), to-from)
	}
	return nil
}

// checkFanout checks that every branch was executed once, and that the results are
// those of all, in order.
func (r *record) checkFanout(run string, results []int, n int) error {
	seen := make([]bool, n)
	done := r.of(run)
	for _, x := range done {
		if b := x.task.Branch; b < 0 || b >= n || seen[b] {
			return fmt.Errorf("%s: branch %d was executed twice, or is none", run, b)
		}
		seen[x.task.Branch] = true
	}
	if len(done) != n || len(results) != n {
		return fmt.Errorf("%s: %d branches were executed and %d results collected, not %d", run, len(done), len(results), n)
	}
	for i, x := range results {
		if x != i {
			return fmt.Errorf("%s: result %d is %d", run, i, x)
		}
	}
	return nil
}

package pawl

import (
	"sync"
	"time"

	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// A supervisor fails runs that make no progress and wait for nothing. It looks
// at the index, loads what has been quiet for too long, and leaves the decision
// to the run.
type supervisor struct {
	engine *Engine
	opened time.Time
	waits  map[workflow.RunID]int64 // runs that wait, with their last record

	mu    sync.Mutex
	beats map[workflow.RunID]time.Time // heartbeats that leave no record
}

func newSupervisor(e *Engine) *supervisor {
	return &supervisor{engine: e, opened: time.Now(), waits: map[workflow.RunID]int64{}, beats: map[workflow.RunID]time.Time{}}
}

// run looks again and again until the engine closes.
func (s *supervisor) run() {
	tick := time.NewTicker(min(max(s.engine.options.StallAfter/4, time.Second), time.Minute))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.look()
		case <-s.engine.ctx.Done():
			return
		}
	}
}

// beat notes that a task of a run is alive. A supervisor that is not there
// does not care.
func (s *supervisor) beat(run workflow.RunID) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beats[run] = time.Now()
}

// lately returns the runs with a heartbeat after an instant, and forgets older
// ones.
func (s *supervisor) lately(since time.Time) map[workflow.RunID]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[workflow.RunID]bool{}
	for run, at := range s.beats {
		if at.After(since) {
			out[run] = true
		} else {
			delete(s.beats, run)
		}
	}
	return out
}

// look fails the runs that have stalled by now. A run that waits is not loaded
// again before it has moved.
func (s *supervisor) look() {
	now := time.Now()
	since := now.Add(-s.engine.options.StallAfter)
	if since.Before(s.opened) {
		return // what is out was sent again when the engine was opened
	}
	beats := s.lately(since)
	quiet, err := s.engine.dir.Quiet(since)
	if err != nil {
		s.engine.options.Logger.Warn("pawl: runs that make no progress cannot be looked for", "error", err)
		return
	}
	waits := make(map[workflow.RunID]int64, len(quiet))
	for _, q := range quiet {
		if beats[q.Run] {
			continue
		}
		if seq, ok := s.waits[q.Run]; ok && seq == q.Seq {
			waits[q.Run] = q.Seq
			continue
		}
		state, err := s.engine.dir.State(q.Run)
		switch {
		case err != nil:
			s.engine.options.Logger.Warn("pawl: a run that makes no progress cannot be looked at", "run", string(q.Run), "error", err)
		case planning.Waits(state):
			waits[q.Run] = q.Seq
			continue
		default:
			idle := now.Sub(q.At).Truncate(time.Millisecond)
			err = s.engine.ask(s.engine.ctx, q.Run, workflow.Stall{Events: state.Events, Idle: idle})
			if err != nil && s.engine.ctx.Err() == nil {
				s.engine.options.Logger.Warn("pawl: a run that makes no progress cannot be failed", "run", string(q.Run), "error", err)
			}
		}
	}
	s.waits = waits
}

package pawl

import (
	"time"

	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// A supervisor fails runs that make no progress and wait for nothing. It looks
// at the index, loads what has been quiet for too long, and leaves the decision
// to the run.
type supervisor struct {
	engine *Engine
	waits  map[workflow.RunID]int64 // runs that wait, with their last record
}

func newSupervisor(e *Engine) *supervisor {
	return &supervisor{engine: e, waits: map[workflow.RunID]int64{}}
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

// look fails the runs that have stalled by now. A run that waits is not loaded
// again before it has moved.
func (s *supervisor) look() {
	now := time.Now()
	quiet, err := s.engine.dir.Quiet(now.Add(-s.engine.options.StallAfter))
	if err != nil {
		s.engine.options.Logger.Warn("pawl: runs that make no progress cannot be looked for", "error", err)
		return
	}
	waits := make(map[workflow.RunID]int64, len(quiet))
	for _, q := range quiet {
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

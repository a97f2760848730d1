package pawl

import (
	"sync"
	"time"

	"github.com/pawl-run/pawl/internal/clock"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// A supervisor fails runs that make no progress and wait for nothing. It looks
// at the index, loads what has been quiet for too long, and leaves the decision
// to the run.
type supervisor struct {
	engine *Engine
	opened time.Time
	steady time.Time                // when it was opened, or the wall clock jumped last
	ahead  time.Duration            // of the wall clock, at the last look
	waits  map[workflow.RunID]int64 // runs that wait, with their last record

	mu    sync.Mutex
	beats map[workflow.RunID]time.Time // heartbeats that leave no record
}

func newSupervisor(e *Engine) *supervisor {
	s := &supervisor{engine: e, opened: time.Now(), waits: map[workflow.RunID]int64{}, beats: map[workflow.RunID]time.Time{}}
	s.steady, s.ahead = s.opened, s.lead()
	return s
}

// lead returns how far the wall clock is ahead of the monotonic one, give or
// take a constant.
func (s *supervisor) lead() time.Duration {
	return clock.Now().Sub(s.opened.Round(0)) - time.Since(s.opened)
}

// maxSlew is how far the wall clock may move against the monotonic one between
// two looks before that counts as a jump; maxLead is how far ahead of now a
// record may be that was made before a smaller move.
const (
	maxSlew = time.Second
	maxLead = time.Minute
)

// watch finds that the wall clock has jumped since it was asked last. What the
// times of records tell then is not how long a run was quiet.
func (s *supervisor) watch() bool {
	ahead := s.lead()
	jumped := (ahead - s.ahead).Abs() > maxSlew
	s.ahead = ahead
	if jumped {
		s.steady = time.Now()
	}
	return jumped
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
	now, after := clock.Now(), s.engine.options.StallAfter
	if s.watch() || time.Since(s.steady) < after {
		return // what is out was sent again when the engine was opened
	}
	beats := s.lately(time.Now().Add(-after))
	quiet, err := s.engine.dir.Quiet(now.Add(-after), now.Add(maxLead))
	if s.watch() {
		return
	}
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
			if s.steady != s.opened { // the clock has jumped: it may have been quiet for longer
				idle = min(max(idle, after), time.Since(s.steady)).Truncate(time.Millisecond)
			}
			err = s.engine.ask(s.engine.ctx, q.Run, workflow.Stall{Events: state.Events, Idle: idle})
			if err != nil && s.engine.ctx.Err() == nil {
				s.engine.options.Logger.Warn("pawl: a run that makes no progress cannot be failed", "run", string(q.Run), "error", err)
			}
		}
	}
	s.waits = waits
}

package dispatch

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// StallOptions say where a detector looks for stalled runs. All fields but Hook are needed.
type StallOptions struct {
	Dir    StallDirectory
	After  time.Duration                                    // how long a run has made no progress when it has stalled
	Ask    func(run workflow.RunID, m state.Message) error  // delivers a message to a run and waits until the answer is committed
	Tell   func(text string, run workflow.RunID, err error) // warns of a fault that many runs may meet at once
	Logger *slog.Logger
	Hook   *testhook.Hook
}

// A StallDirectory is the engine directory as a detector sees it; *store.Dir is one.
type StallDirectory interface {
	Quiet(since, until time.Time) ([]store.QuietRun, error)
	HeadAndState(ctx context.Context, id workflow.RunID) (store.Head, *state.State, error)
}

// A StallDetector fails runs that make no progress and wait for nothing. It scans the
// index, loads each run that has been quiet for too long, and leaves the decision to
// that run.
type StallDetector struct {
	o      StallOptions
	opened time.Time
	steady time.Time                // the start of the time in which the wall clock has not jumped
	ahead  time.Duration            // of the wall clock, at the last scan
	waits  map[workflow.RunID]int64 // runs that wait, with their last record

	mu         sync.Mutex
	heartbeats map[workflow.RunID]time.Time // heartbeats that leave no record, and commits that were late
	commits    map[workflow.RunID]time.Time // that are under way, since when
}

// NewStallDetector returns a detector that scans nothing before ScanUntilDone.
func NewStallDetector(o StallOptions) *StallDetector {
	s := &StallDetector{o: o, opened: time.Now(), waits: map[workflow.RunID]int64{}, heartbeats: map[workflow.RunID]time.Time{}, commits: map[workflow.RunID]time.Time{}}
	s.steady, s.ahead = s.opened, s.clockLead()
	return s
}

// clockLead returns how far the wall clock is ahead of the monotonic one, give or
// take a constant.
func (s *StallDetector) clockLead() time.Duration {
	return s.o.Hook.Now().Sub(s.opened.Round(0)) - time.Since(s.opened)
}

// maxSlew is how far the wall clock may move against the monotonic one between
// two scans before that counts as a jump; maxLead is how far ahead of now a
// record may be that was made before a smaller move.
const (
	maxSlew = time.Second
	maxLead = time.Minute
)

// clockJumped reports whether the wall clock has jumped since it was called last. After
// a jump the times of records do not tell how long a run has been quiet.
func (s *StallDetector) clockJumped() bool {
	ahead := s.clockLead()
	jumped := (ahead - s.ahead).Abs() > maxSlew
	s.ahead = ahead
	if jumped {
		s.steady = time.Now()
	}
	return jumped
}

// ScanUntilDone scans again and again until ctx is done.
func (s *StallDetector) ScanUntilDone(ctx context.Context) {
	tick := time.NewTicker(min(max(s.o.After/4, time.Second), time.Minute))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.scanRuns(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// NoteHeartbeat notes that a task of a run is alive. It does nothing on a nil
// detector, as an engine without StallAfter has one.
func (s *StallDetector) NoteHeartbeat(run workflow.RunID) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heartbeats[run] = time.Now()
}

// NoteCommit notes that a run commits, and returns what notes that it has. Its records are of
// before: a commit that had to wait, for room in the outbox or for a log, is progress when it ends.
func (s *StallDetector) NoteCommit(run workflow.RunID) (ended func()) {
	if s == nil {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commits[run] = time.Now()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if time.Since(s.commits[run]) > lateCommit {
			s.heartbeats[run] = time.Now()
		}
		delete(s.commits, run)
	}
}

// lateCommit is how long a commit takes that the times of its records no longer date.
const lateCommit = time.Second

// isAlive reports whether a run commits, or had a heartbeat after an instant.
func (s *StallDetector) isAlive(run workflow.RunID, since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, commits := s.commits[run]
	return commits || s.heartbeats[run].After(since)
}

// forgetHeartbeats forgets those that are not after an instant.
func (s *StallDetector) forgetHeartbeats(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.heartbeats, func(_ workflow.RunID, at time.Time) bool { return !at.After(since) })
}

// scanRuns fails the runs that have stalled by now, until ctx is done. A run that was found
// to wait for something is not loaded again before it has taken another record.
func (s *StallDetector) scanRuns(ctx context.Context) {
	now, after := s.o.Hook.Now(), s.o.After
	if s.clockJumped() || time.Since(s.steady) < after {
		return // tasks that are out were sent again when the engine was opened
	}
	s.forgetHeartbeats(time.Now().Add(-after))
	quiet, err := s.o.Dir.Quiet(now.Add(-after), now.Add(maxLead))
	if s.clockJumped() {
		return
	}
	if err != nil {
		s.o.Logger.Warn("pawl: runs that make no progress cannot be looked for", "error", err)
		return
	}
	waits := make(map[workflow.RunID]int64, len(quiet))
	for _, q := range quiet {
		if s.isAlive(q.Run, time.Now().Add(-after)) { // the call for another run may have lasted
			continue
		}
		if seq, ok := s.waits[q.Run]; ok && seq == q.Seq {
			waits[q.Run] = q.Seq
			continue
		}
		head, found, err := s.o.Dir.HeadAndState(ctx, q.Run)
		switch {
		case ctx.Err() != nil:
			return // Close waits for the scan
		case err != nil:
			s.o.Tell("pawl: single runs that make no progress cannot be looked at", q.Run, err)
		case head.Seq != q.Seq: // it has moved since it was found
		case planning.Waits(found):
			waits[q.Run] = q.Seq
			continue
		default:
			idle := now.Sub(q.At).Truncate(time.Millisecond)
			if s.steady != s.opened { // the clock has jumped: it may have been quiet for longer
				idle = min(max(idle, after), time.Since(s.steady)).Truncate(time.Millisecond)
			}
			err = s.o.Ask(q.Run, state.Stall{Events: found.Events, Idle: idle})
			if err != nil && ctx.Err() == nil {
				s.o.Tell("pawl: runs that make no progress cannot be failed", q.Run, err)
			}
		}
	}
	s.waits = waits
}

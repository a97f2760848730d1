package inspector

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/workflow"
)

// An explained run has an answer to the question why, as of some record.
//
// It is kept for one life of a run and shared by all pages of it; mu guards all of it. x is the last answer, if has is true; err is the
// error of the last attempt. At most one goroutine works on an answer: ready is its channel, and all who want an answer wait for the
// same one.
type explained struct {
	mu    sync.Mutex
	later time.Time // before which nobody but the patient get it worked out anew
	moved time.Time // when the first frame after the last answer was made; zero if none was
	seen  int64     // the last record that a frame was made of
	since time.Time // when the first one of that record was
	has   bool
	x     history.Explanation
	err   error
	ready chan struct{} // is closed when the answer that is worked out is there; nil if none is
}

// explainNow says why the run stands where it stands, for a page that waits for that or does not.
//
// It marks the page as stale if the answer is of an earlier record: a hub then makes another frame when the run rests.
func (v *viewer) explainNow(patient bool) (history.Explanation, bool, error) {
	ended := v.ov.Status.Final()
	inAWhile := v.framed && !ended && (v.ov.Seq > fewRecords || v.ov.Live > fewRecords)
	x, ok, err := v.s.explainRun(v.ctx, v.lifeOf(), v.ov.Seq, whyAsked{patient, inAWhile, ended})
	v.stale = v.stale || err == nil && x.Seq < v.ov.Seq
	return x, ok, err
}

// A whyAsked says how an answer is wanted.
//
// The zero value waits for a moment, and takes an answer that is not quite new.
type whyAsked struct {
	patient  bool // however long it takes
	inAWhile bool // when the run rests
	ended    bool // once more, and never again
}

// explainRun says why a run stands where it stands after the record seq, or, where that takes too long and the caller does not want to
// wait, the answer that was known last; false without any.
//
// Three cases return at once: the answer is new enough; it is too early to work out another one, since the last one has cost much; or the
// run moves, and by the time an answer is there it would be old.
func (s *server) explainRun(ctx context.Context, life runLife, seq int64, asked whyAsked) (history.Explanation, bool, error) {
	e, ok := s.whys.find(life)
	if !ok {
		e = s.whys.keepValue(life, &explained{})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	// It is as new as the page, or newer. A task that was queued may be performed since, which no record says.
	if e.has && e.x.Seq >= seq && (time.Now().Before(e.later) || !slices.ContainsFunc(e.x.Waits, isQueued)) {
		return e.x, true, nil
	}
	if !asked.patient && (e.has && !asked.ended && time.Now().Before(e.later) || asked.inAWhile && !e.rests(seq)) {
		return e.x, e.has, nil
	}
	// Nobody works on it. The goroutine does not end with this request: its answer is there for the next one.
	if e.ready == nil {
		e.ready = make(chan struct{})
		go s.workOut(e, life.run) // ends within workOnWhy
	}
	// mu is free while waiting; the deferred Unlock needs it again afterwards.
	ready := e.ready
	e.mu.Unlock()
	var late <-chan time.Time
	// A short run is waited for until the answer is there.
	if !asked.patient && seq > quickRecords {
		timer := time.NewTimer(waitForWhy)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-ready:
	case <-late:
	case <-ctx.Done():
	}
	e.mu.Lock()
	// The reader has gone, or the hub has ended.
	if ctx.Err() != nil {
		return e.x, false, context.Cause(ctx)
	}
	// The attempt has ended, and there has never been an answer: the error is all that is known.
	if !e.has && e.ready == nil {
		return e.x, false, e.err
	}
	return e.x, e.has, nil
}

// isQueued reports whether nobody performs some of the tasks of a wait yet.
func isQueued(w history.Wait) bool { return w.Waiting > 0 }

// rests reports whether frames have shown the run at the same record for a while, or have shown it move for so long
// that it is asked about all the same.
//
// The caller holds mu. It notes the record, so it must be asked with each frame.
func (e *explained) rests(seq int64) bool {
	now := time.Now()
	if e.moved.IsZero() {
		e.moved = now
	}
	if seq > e.seen {
		e.seen, e.since = seq, now
	}
	return now.Sub(e.since) >= whyRest || now.Sub(e.moved) >= whyMoving
}

// workOut asks the engine, and wakes all who wait. An answer that was there before stays if this one fails.
func (s *server) workOut(e *explained, id workflow.RunID) {
	ctx, cancel := context.WithTimeout(context.Background(), workOnWhy)
	defer cancel()
	begin := time.Now()
	x, err := s.askWhy(ctx, id)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err = err; err == nil {
		e.x, e.has = x, true
	}
	e.moved = time.Time{}
	// An answer that took long is not worked out again soon: at most a hundredth of the time is spent on it, within bounds.
	e.later = time.Now().Add(whyPause(time.Since(begin)))
	close(e.ready)
	e.ready = nil
}

// askWhy asks the engine when there is a place among the answers that are worked out at once.
func (s *server) askWhy(ctx context.Context, id workflow.RunID) (history.Explanation, error) {
	select {
	case s.answers <- struct{}{}:
	case <-ctx.Done():
		return history.Explanation{}, context.Cause(ctx)
	}
	defer func() { <-s.answers }()
	return s.engine.Why(ctx, id)
}

package inspector

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// An explained run has an answer to the question why, as of some record.
type explained struct {
	mu    sync.Mutex
	later time.Time // before which nobody but the patient get it worked out anew
	moved time.Time // when the first frame after the last answer was made; zero if none was
	seen  int64     // the last record that a frame was made of
	since time.Time // when the first one of that record was
	has   bool
	x     pawl.Explanation
	err   error
	ready chan struct{} // is closed when the answer that is worked out is there; nil if none is
}

// explain says why the run stands where it stands, for a page that waits for that or does not.
func (v *viewer) explain(patient bool) (pawl.Explanation, bool, error) {
	ended := v.ov.Status.Final()
	inAWhile := v.framed && !ended && (v.ov.Seq > fewRecords || v.ov.Live > fewRecords)
	x, ok, err := v.s.explainRun(v.ctx, v.lifeOf(), v.ov.Seq, whyAsked{patient, inAWhile, ended})
	v.stale = v.stale || err == nil && x.Seq < v.ov.Seq
	return x, ok, err
}

// A whyAsked says how an answer is wanted.
type whyAsked struct {
	patient  bool // however long it takes
	inAWhile bool // when the run rests
	ended    bool // once more, and never again
}

// explainRun says why a run stands where it stands after the record seq, or, where that takes
// too long and the caller does not want to wait, what was known last; false if nothing was.
func (s *server) explainRun(ctx context.Context, life runLife, seq int64, asked whyAsked) (pawl.Explanation, bool, error) {
	e, ok := s.whys.find(life)
	if !ok {
		e = s.whys.keepValue(life, &explained{})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.has && e.x.Seq >= seq {
		return e.x, true, nil
	}
	if !asked.patient && (e.has && !asked.ended && time.Now().Before(e.later) || asked.inAWhile && !e.rests(seq)) {
		return e.x, e.has, nil
	}
	if e.ready == nil {
		e.ready = make(chan struct{})
		go s.workOut(e, life.run) // ends within workOnWhy
	}
	ready := e.ready
	e.mu.Unlock()
	var late <-chan time.Time
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
	if ctx.Err() != nil {
		return e.x, false, context.Cause(ctx)
	}
	if !e.has && e.ready == nil {
		return e.x, false, e.err
	}
	return e.x, e.has, nil
}

// rests reports whether frames have shown the run at the same record for a while, or have shown it move for so long
// that it is asked about all the same.
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

func (s *server) workOut(e *explained, id workflow.RunID) {
	ctx, cancel := context.WithTimeout(context.Background(), workOnWhy)
	defer cancel()
	begin := time.Now()
	x, err := s.engine.Why(ctx, id)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err = err; err == nil {
		e.x, e.has = x, true
	}
	e.moved = time.Time{}
	e.later = time.Now().Add(whyPause(time.Since(begin)))
	close(e.ready)
	e.ready = nil
}

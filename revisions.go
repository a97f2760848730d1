package pawl

import (
	"context"
	"iter"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A RunRevision says when a run got a revision of its definition, and from whom.
type RunRevision struct {
	Revision int       `json:"revision"`        // 1 is what it began with, 2 what the first patch made of it, and so on
	Seq      int64     `json:"seq"`             // the record that brought it
	At       time.Time `json:"at"`              // of the record
	By       string    `json:"by,omitzero"`     // who has started or patched the run, if that was told
	Reason   string    `json:"reason,omitzero"` // likewise
	Ops      int       `json:"ops"`             // operations of the patch; 0 of what the run began with
}

// Revisions lists the revisions of a run's definition that follow one of them, 0 being before the first, in order; Revision has each one. A
// fork begins with the revisions of its original. Revisions reads the journal until it has found all that there are now. An error ends the
// list. Errors: ErrRunNotFound, ErrCorrupt, ErrClosed, the cause of ctx.
//
// The number of the last revision is known first, from the state, so that the journal need not
// be read behind the record which brought it.
func (e *Engine) Revisions(ctx context.Context, id workflow.RunID, after int) iter.Seq2[RunRevision, error] {
	return func(yield func(RunRevision, error) bool) {
		last := 0
		if err := e.lookAt(ctx, id, nil, func(s *state.State, _ int64) { last = s.Revision() }); err != nil {
			yield(RunRevision{}, err)
			return
		}
		if after >= last {
			return
		}
		for r, err := range e.Journal(ctx, id) {
			if err != nil {
				yield(RunRevision{}, err)
				return
			}
			revision, ok := revisionOf(&r)
			if ok && revision.Revision > after && !yield(revision, nil) || revision.Revision == last {
				return
			}
		}
	}
}

// revisionOf returns the revision that a record has brought, if it has.
func revisionOf(r *Record) (RunRevision, bool) {
	act := state.ActOf(r.Message)
	out := RunRevision{Seq: r.Seq, At: r.At, By: act.By, Reason: act.Reason}
	if r.Seq == 1 {
		out.Revision = 1
		return out, true
	}
	for _, d := range r.Decisions {
		if p, ok := d.(decision.PatchRun); ok {
			if m, ok := r.Message.(state.Patch); ok {
				out.Ops = len(m.Ops)
			}
			out.Revision = p.Revision
			return out, true
		}
	}
	return out, false
}

package pawl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/running"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A PublishedDefinition names a definition that is published: what Definitions lists.
type PublishedDefinition struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	Hash    string `json:"hash"` // of its content
}

// A DefinitionFilter chooses published definitions. The zero value chooses all.
type DefinitionFilter struct {
	Workflow string // the name: all its versions
}

// Definitions lists the published definitions that the filter chooses, from the index, by name and version,
// page by page. An error ends the list: ErrCorrupt, ErrClosed, that of ctx.
func (e *Engine) Definitions(ctx context.Context, f DefinitionFilter) iter.Seq2[PublishedDefinition, error] {
	if err := e.checkUsable(ctx); err != nil {
		return func(yield func(PublishedDefinition, error) bool) { yield(PublishedDefinition{}, err) }
	}
	return listUntilDone(ctx, e.dir.AllPublished(ctx, f.Workflow), func(p store.Published) PublishedDefinition { return PublishedDefinition(p) })
}

// Published returns a published definition, the caller's own; version 0 is the latest. Errors:
// ErrNotPublished, ErrCorrupt, ErrClosed.
func (e *Engine) Published(ctx context.Context, name string, version int) (*workflow.Definition, error) {
	if err := e.checkCall(ctx); err != nil {
		return nil, err
	}
	hash, err := e.dir.Published(ctx, name, version)
	if err != nil {
		return nil, closedError(err)
	}
	g, err := e.dir.GraphUntil(ctx, hash)
	if err != nil {
		return nil, closedError(err)
	}
	return ownDefinition(g)
}

// ownDefinition returns a copy of a compiled definition.
func ownDefinition(g *compiled.Graph) (*workflow.Definition, error) {
	return compiled.Boundless().ParseJSON([]byte(g.JSON))
}

// Revision returns the definition that a run had at one of its revisions: 1 is what it began with, 2 what the first patch made of
// it, and so on. It looks for revisions after the first in the journal. Errors: ErrInvalid (there is no such revision yet),
// ErrRunNotFound, ErrCorrupt, ErrClosed.
func (e *Engine) Revision(ctx context.Context, id workflow.RunID, revision int) (*workflow.Definition, error) {
	if err := e.checkUsable(ctx); err != nil {
		return nil, err
	}
	h, err := e.dir.HeadUntil(ctx, id)
	if err != nil {
		return nil, closedError(err)
	}
	if revision == 1 {
		g, err := e.dir.GraphUntil(ctx, h.Definition)
		if err != nil {
			return nil, closedError(err)
		}
		return ownDefinition(g)
	}
	for r, err := range e.Journal(ctx, id, EventsOptions{}) {
		if err != nil {
			return nil, err
		}
		for _, d := range r.Decisions {
			if p, ok := d.(decision.PatchRun); ok && p.Revision == revision {
				return compiled.Boundless().ParseJSON(value.Encode(p.Definition))
			}
		}
	}
	return nil, fmt.Errorf("%w: run %q has no revision %d", ErrInvalid, string(id), revision)
}

// Patch changes the definition of a run that has not ended, whole or not at all. Its Ops are those of a JSON patch (RFC 6902):
// objects with op, path and value. In the document that they change, nodes and transitions are objects keyed by id, so that a
// path names what it changes wherever that stands: /nodes/verify/timeout. An element that is added has its key as id and comes
// last. The published definition and all other runs stay as they are.
//
// Everything that has begun continues as it began: running attempts, inputs, deadlines, finished nodes. The new definition
// decides from now on. Approvals, groups and joins are decided again at once; waits that the patch changes begin anew. Child runs
// keep their own definitions; a new node that names a definition gets the one that is published now.
//
// Errors: ErrConflict (another revision), *workflow.PatchError (an operation that cannot be applied, or something live would be
// left without its place), *workflow.DefinitionError (what the operations come to is no sound definition), *workflow.LimitError,
// ErrNotPublished, ErrRunNotFound, ErrEnded, ErrSuspended, ErrInvalid, ErrUnknown, ErrClosed.
//
// A function in the field Of may return the operations, instead of Base and Ops. It gets a copy of the run's definition, and
// returns no operations to leave the run as it is; Patch calls it again if somebody else patches the run meanwhile, five times at
// most.
type Patch struct {
	Base int                              `json:"base,omitzero"` // the revision that the patch is for; the next one is that which it makes
	Ops  []any                            `json:"ops,omitzero"`  // at most limits.MaxPatch
	Of   func(*workflow.Definition) []any `json:"-"`
}

// patchTries is how often Patch.Of is asked.
const patchTries = 5

// Patch does a [Patch], and returns the number of the revision that the run has now.
func (e *Engine) Patch(ctx context.Context, id workflow.RunID, p Patch) (revision int, err error) {
	d, err := e.performAct(ctx, id, p)
	if err != nil {
		return 0, err
	}
	return d.revision, nil
}

func (a Patch) doTo(ctx context.Context, d *deed) (err error) {
	if a.Of == nil {
		return a.patchRun(ctx, d)
	}
	if a.Base != 0 || a.Ops != nil {
		return fmt.Errorf("%w: a patch has Base and Ops, or Of", ErrInvalid)
	}
	for range patchTries {
		s, err := d.stateOf(ctx)
		if err != nil {
			return closedError(err)
		}
		definition, revision, err := definitionOf(s)
		if err != nil {
			return err
		}
		one := Patch{Base: revision, Ops: a.Of(definition)}
		if d.revision, d.idle = revision, len(one.Ops) == 0; d.idle {
			return nil
		}
		if err = one.patchRun(ctx, d); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return ErrConflict
}

// patchRun patches the run at the Base.
func (a Patch) patchRun(ctx context.Context, d *deed) error {
	ops, err := value.Normalize(a.Ops, resultLimits)
	if err != nil {
		return refusal.InvalidValue("the operations", err)
	}
	list, _ := ops.([]any)
	if len(list) == 0 {
		return fmt.Errorf("%w: a patch needs operations", ErrInvalid)
	}
	pins, err := d.patchPins(ctx, a.Base, list)
	if err != nil {
		return err
	}
	d.revision = a.Base + 1
	return d.submitMessage(ctx, state.Patch{Base: a.Base, Ops: list, Pins: pins, Act: d.by})
}

// patchPins applies a patch within the bounds of the engine, and returns the definitions of the subworkflows that it adds.
func (d *deed) patchPins(ctx context.Context, base int, ops []any) (state.Pins, error) {
	s, err := d.stateOf(ctx)
	switch {
	case err != nil:
		return nil, closedError(err)
	case s.Status.Final():
		return nil, state.ErrEnded
	case s.Revision() != base:
		return nil, fmt.Errorf("%w: it is at %d, the patch is for %d", ErrConflict, s.Revision(), base)
	}
	g, err := planning.Patched(s.Graph, ops, d.engine.options.Bounds)
	if err != nil {
		return nil, err
	}
	return running.ResolvePins(ctx, d.engine.dir, g, s.Pins)
}

// stateOf returns the state of the run, which the caller does not change.
func (d *deed) stateOf(ctx context.Context) (*state.State, error) {
	if d.copied == nil {
		_, s, err := d.engine.dir.HeadAndState(ctx, d.run)
		return s, err
	}
	if err := d.copied.copy.CheckRun(d.run); err != nil {
		return nil, err
	}
	return d.copied.copy.State, nil
}

// Definition returns the definition that a run has now and the number of its
// revision: 1, and one more for every patch. Revision returns earlier ones. Errors: ErrRunNotFound, ErrCorrupt, ErrClosed.
func (e *Engine) Definition(ctx context.Context, id workflow.RunID) (*workflow.Definition, int, error) {
	var g *compiled.Graph
	var revision int
	if err := e.lookAt(ctx, id, nil, func(s *state.State, _ int64) { g, revision = s.Graph, s.Revision() }); err != nil {
		return nil, 0, err
	}
	d, err := ownDefinition(g)
	return d, revision, err
}

// definitionOf returns a copy of the definition of a run, and its revision.
func definitionOf(s *state.State) (*workflow.Definition, int, error) {
	d, err := ownDefinition(s.Graph)
	return d, s.Revision(), err
}

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
		for r, err := range e.Journal(ctx, id, EventsOptions{}) {
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
	m, _ := r.Message.(state.Message)
	act := state.ActOf(m)
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

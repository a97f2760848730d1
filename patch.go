package pawl

import (
	"context"
	"fmt"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// Patch changes the definition of a run that has not ended, whole or not at all. Its Ops are those of a JSON patch (RFC
// 6902): objects with op, path and value. In the document that they change,
// nodes and transitions are objects keyed by id, so that a path names what it
// changes wherever that stands: /nodes/verify/timeout. An element that is added
// has its key as id and comes last. The published definition and all
// other runs stay as they are.
//
// Everything that has begun continues as it began: attempts that are out, inputs,
// deadlines, finished nodes. The new definition decides from now on. Approvals,
// groups and joins are decided again at once; waits that the patch changes begin
// anew. Child runs keep their own definitions; a new node that names a definition
// gets the one that is published now.
//
// Errors: ErrConflict (another revision), *workflow.PatchError (an operation that
// cannot be applied, or something live would be left without its place),
// *workflow.DefinitionError (what the operations come to is no sound definition),
// *workflow.LimitError, ErrNotPublished, ErrRunNotFound, ErrEnded, ErrSuspended,
// ErrInvalid, ErrUnknown, ErrClosed.
type Patch struct {
	Base int   `json:"base,omitzero"` // the revision that the patch is for; the next one is that which it makes
	Ops  []any `json:"ops,omitzero"`  // at most workflow.MaxPatch
}

// Patch does a [Patch], and returns the number of the new revision.
func (e *Engine) Patch(ctx context.Context, id workflow.RunID, p Patch) (revision int, err error) {
	if err := e.Do(ctx, id, p); err != nil {
		return 0, err
	}
	return p.Base + 1, nil
}

func (a Patch) doTo(ctx context.Context, d *deed) error {
	ops, err := value.Normalize(a.Ops, resultLimits)
	if err != nil {
		return invalidValue("the operations", err)
	}
	list, _ := ops.([]any)
	if len(list) == 0 {
		return fmt.Errorf("%w: a patch needs operations", ErrInvalid)
	}
	pins, err := d.patchPins(ctx, a.Base, list)
	if err != nil {
		return err
	}
	return d.submitMessage(ctx, state.Patch{Base: a.Base, Ops: list, Pins: pins, Act: d.by})
}

// patchPins applies a patch within the bounds of the engine, and returns the
// definitions of the subworkflows that it adds.
func (d *deed) patchPins(ctx context.Context, base int, ops []any) (workflow.Pins, error) {
	s, err := d.stateOf(ctx)
	switch {
	case err != nil:
		return nil, closedError(err)
	case s.Status.Final():
		return nil, workflow.ErrEnded
	case s.Revision() != base:
		return nil, fmt.Errorf("%w: it is at %d, the patch is for %d", ErrConflict, s.Revision(), base)
	}
	g, err := planning.Patched(s.Graph, ops, d.engine.options.Bounds)
	if err != nil {
		return nil, err
	}
	all, err := d.engine.resolvePins(ctx, g)
	if err != nil {
		return nil, err
	}
	var added workflow.Pins
	for _, pin := range all {
		if s.Pins.Of(&workflow.SubworkflowSpec{Name: pin.Name, Version: pin.Version}) == "" {
			added = append(added, pin)
		}
	}
	return added, nil
}

// stateOf returns the state of the run, which the caller does not change.
func (d *deed) stateOf(ctx context.Context) (*state.State, error) {
	if d.copied == nil {
		_, s, err := d.engine.dir.HeadAndState(ctx, d.run)
		return s, err
	}
	if err := d.copied.checkRun(d.run); err != nil {
		return nil, err
	}
	return d.copied.state, nil
}

// Definition returns the definition that a run has now and the number of its
// revision: 1, and one more for every patch. Revision returns earlier ones. Errors: ErrRunNotFound, ErrCorrupt, ErrClosed.
func (e *Engine) Definition(ctx context.Context, id workflow.RunID) (*workflow.Definition, int, error) {
	var g *workflow.Graph
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

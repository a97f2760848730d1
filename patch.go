package pawl

import (
	"context"
	"fmt"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// A Patch changes the definition of one run. Ops are those of a JSON patch (RFC
// 6902): objects with op, path and value. In the document that they change,
// nodes and transitions are objects keyed by id, so that a path names what it
// changes wherever that stands: /nodes/verify/timeout. An element that is added
// has its key as id and comes last.
type Patch struct {
	Base int   // the revision that the patch is for
	Ops  []any // at most workflow.MaxPatch
}

// Patch changes the definition of a run that has not ended, whole or not at all, and
// returns the number of its new revision. The published definition and all
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
func (e *Engine) Patch(ctx context.Context, id workflow.RunID, p Patch) (revision int, err error) {
	act, err := e.actOf(ctx)
	if err != nil {
		return 0, err
	}
	ops, err := value.Normalize(p.Ops, resultLimits)
	if err != nil {
		return 0, invalidValue("the operations", err)
	}
	list, _ := ops.([]any)
	if len(list) == 0 {
		return 0, fmt.Errorf("%w: a patch needs operations", ErrInvalid)
	}
	pins, err := e.patchPins(ctx, id, p.Base, list)
	if err != nil {
		return 0, err
	}
	if err := e.askRun(ctx, id, state.Patch{Base: p.Base, Ops: list, Pins: pins, Act: act}); err != nil {
		return 0, err
	}
	return p.Base + 1, nil
}

// patchPins applies a patch within the bounds of the engine, and returns the
// definitions of the subworkflows that it adds.
func (e *Engine) patchPins(ctx context.Context, id workflow.RunID, base int, ops []any) (workflow.Pins, error) {
	s, err := e.stateIn(ctx, id)
	switch {
	case err != nil:
		return nil, closedError(err)
	case s.Status.Final():
		return nil, workflow.ErrEnded
	case s.Revision() != base:
		return nil, fmt.Errorf("%w: it is at %d, the patch is for %d", ErrConflict, s.Revision(), base)
	}
	g, err := planning.Patched(s.Graph, ops, e.options.Bounds)
	if err != nil {
		return nil, err
	}
	all, err := e.resolvePins(ctx, g)
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

package pawl

import (
	"context"
	"fmt"
	"iter"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A PublishedDefinition names a definition that is published: what Definitions lists.
type PublishedDefinition = store.Published

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
	return listUntilDone(ctx, e.dir.AllPublished(ctx, f.Workflow))
}

// Published returns a published definition, the caller's own; version 0 is the latest. Errors:
// ErrNotPublished, ErrCorrupt, ErrClosed.
func (e *Engine) Published(ctx context.Context, name string, version int) (*workflow.Definition, error) {
	if err := e.checkUsable(ctx); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
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
func ownDefinition(g *workflow.Graph) (*workflow.Definition, error) {
	return workflow.Boundless().ParseJSON([]byte(g.JSON))
}

// Revision returns the definition that a run had at one of its revisions: 1 is what it began with, 2
// what the first patch made of it, and so on. It looks for revisions after the first in the journal.
// Errors: ErrInvalid (there is no such revision yet), ErrRunNotFound, ErrCorrupt, ErrClosed.
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
	for r, err := range e.Journal(ctx, id) {
		if err != nil {
			return nil, err
		}
		for _, d := range r.Decisions {
			if p, ok := d.(decision.PatchRun); ok && p.Revision == revision {
				return workflow.Boundless().ParseJSON(value.Encode(p.Definition))
			}
		}
	}
	return nil, fmt.Errorf("%w: run %q has no revision %d", ErrInvalid, string(id), revision)
}

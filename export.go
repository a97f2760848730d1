package pawl

import (
	"context"
	"fmt"
	"io"

	"github.com/pawl-run/pawl/internal/portable"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// Export writes a run, live or ended, with all runs below it, as one text that depends on
// nothing around it: their definitions and their journals, line by line in JSON, with a checksum
// at the end. pawl replay, step, diff, why and coverage read it, wherever it is; exports may be put one
// behind the other into one file. Each run is as of one of its commits; of a live one the export is as of
// now. What Options.Codec seals stands there in clear text. Blobs are not in it, only references to them.
//
// What was written is not an export, and is not taken for one, until Export has returned nil.
// Errors: ErrRunNotFound, ErrCorrupt, that of w, the cause of ctx.
func (e *Engine) Export(ctx context.Context, id workflow.RunID, w io.Writer) error {
	if err := e.checkUsable(ctx); err != nil {
		return err
	}
	h, err := e.dir.Head(id)
	if err != nil {
		return closedError(err)
	}
	to, err := portable.NewWriter(w, id)
	if err != nil {
		return err
	}
	family := []store.Head{h}
	for i := 0; i < len(family); i++ {
		if err := e.exportRun(ctx, to, &family[i]); err != nil {
			return fmt.Errorf("export run %q: %w", string(family[i].Run), closedError(err))
		}
		for h, err := range e.dir.AllHeads(store.RunFilter{Parent: family[i].Run}) {
			if err != nil {
				return closedError(err)
			}
			family = append(family, h)
		}
	}
	return to.Close()
}

// exportRun writes one run.
func (e *Engine) exportRun(ctx context.Context, to *portable.Writer, h *store.Head) error {
	g, err := e.dir.Graph(h.Definition)
	if err != nil {
		return err
	}
	err = to.WriteRun(&portable.Run{
		ID: h.Run, Parent: h.Parent, Root: h.Root, Tenant: h.Tenant, Labels: h.Labels, InputHash: h.InputHash, Hash: h.Definition, Definition: []byte(g.JSON),
	})
	if err != nil {
		return err
	}
	for r, err := range e.dir.History(h.Run) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = to.WriteRecord(&r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

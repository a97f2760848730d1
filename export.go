package pawl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/portable"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// ExportOptions say what is in an export besides the runs.
type ExportOptions struct {
	Blobs bool // those that the runs refer to and that are there
}

// Export writes a run, live or ended, with all runs below it, as one text that depends on
// nothing around it: their definitions and their journals, line by line in JSON, with a checksum
// at the end. pawl replay, step, diff, why and coverage read it, wherever it is; exports may be put one
// behind the other into one file. Each run is as of one of its commits; a live run is as of now. The export has in
// clear text what Options.Codec seals. Without ExportOptions.Blobs there are only references to blobs in it; nothing
// that was handed over with a result, and not kept when the run ended, is in it either way.
//
// Until Export has returned nil, the text is not an export, and is not taken for one. Errors: ErrRunNotFound,
// ErrCorrupt, *blob.Error, that of w, the cause of ctx.
func (e *Engine) Export(ctx context.Context, id workflow.RunID, w io.Writer, o ExportOptions) error {
	if err := e.checkUsable(ctx); err != nil {
		return err
	}
	h, err := e.dir.HeadUntil(ctx, id)
	if err != nil {
		return closedError(err)
	}
	to, err := portable.NewWriter(w, id)
	if err != nil {
		return err
	}
	x := &exporter{engine: e, to: to, blobs: map[string]bool{}}
	family := []store.Head{h}
	for i := 0; i < len(family); i++ {
		if err := x.exportRun(ctx, &family[i]); err != nil {
			return fmt.Errorf("export run %q: %w", string(family[i].Run), closedError(err))
		}
		for h, err := range e.dir.HeadsUntil(ctx, store.RunFilter{Parent: family[i].Run}) {
			if err != nil {
				return closedError(err)
			}
			family = append(family, h)
		}
	}
	if o.Blobs {
		if err := x.exportBlobs(ctx); err != nil {
			return fmt.Errorf("export run %q: %w", string(id), err)
		}
	}
	return to.Close()
}

// An exporter writes one export.
type exporter struct {
	engine *Engine
	to     *portable.Writer
	blobs  map[string]bool // the hashes of those that the runs refer to
}

// exportRun writes one run.
func (x *exporter) exportRun(ctx context.Context, h *store.Head) error {
	g, err := x.engine.dir.GraphUntil(ctx, h.Definition)
	if err != nil {
		return err
	}
	err = x.to.WriteRun(&portable.Run{
		ID: h.Run, Parent: h.Parent, Root: h.Root, Tenant: h.Tenant, Labels: h.Labels, InputHash: h.InputHash, Hash: h.Definition, Definition: []byte(g.JSON),
	})
	if err != nil {
		return err
	}
	for r, err := range x.engine.dir.HistoryUntil(ctx, h.Run, 0) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = x.to.WriteRecord(&r)
		}
		if err != nil {
			return err
		}
		for _, hash := range store.BlobRefs(g, r) {
			x.blobs[hash] = true
		}
	}
	return nil
}

// exportBlobs writes the blobs that the runs refer to.
func (x *exporter) exportBlobs(ctx context.Context) error {
	for _, hash := range slices.Sorted(maps.Keys(x.blobs)) {
		r, err := x.engine.blobs.Open(ctx, hash)
		if errors.Is(err, blob.ErrMissing) {
			continue
		}
		if err != nil {
			return blobError(err)
		}
		err = x.to.WriteBlob(hash, r)
		if err := errors.Join(err, r.Close()); err != nil {
			return blobError(err)
		}
	}
	return nil
}

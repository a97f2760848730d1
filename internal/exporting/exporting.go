// Package exporting writes runs as texts that depend on nothing around them; package portable has their form.
package exporting

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/keeping"
	"github.com/pawl-run/pawl/internal/portable"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// A Source is where runs are exported from.
type Source struct {
	Dir   *store.Dir
	Blobs *keeping.Keeper
}

// Write writes a run with all runs below it, and with blobs also those blobs that the runs refer to and that are there; with all it fails if one is not.
func Write(ctx context.Context, from Source, id workflow.RunID, w io.Writer, blobs, all bool) error {
	h, err := from.Dir.HeadUntil(ctx, id)
	if err != nil {
		return refusal.Closed(err)
	}
	to, err := portable.NewWriter(w, id)
	if err != nil {
		return err
	}
	x := &exporter{from: from, to: to, blobs: map[string]bool{}}
	family := []store.Head{h}
	for i := 0; i < len(family); i++ {
		if err := x.exportRun(ctx, &family[i]); err != nil {
			return fmt.Errorf("export run %q: %w", string(family[i].Run), refusal.Closed(err))
		}
		for h, err := range from.Dir.HeadsUntil(ctx, store.RunFilter{Parent: family[i].Run}) {
			if err != nil {
				return refusal.Closed(err)
			}
			family = append(family, h)
		}
	}
	if blobs || all {
		if err := x.exportBlobs(ctx, all); err != nil {
			return fmt.Errorf("export run %q: %w", string(id), err)
		}
	}
	return to.Close()
}

// An exporter writes one export.
type exporter struct {
	from  Source
	to    *portable.Writer
	blobs map[string]bool // the hashes of those that the runs refer to
}

// exportRun writes one run.
func (x *exporter) exportRun(ctx context.Context, h *store.Head) error {
	g, err := x.from.Dir.GraphUntil(ctx, h.Definition)
	if err != nil {
		return err
	}
	err = x.to.WriteRun(&portable.Run{
		ID: h.Run, Parent: h.Parent, Root: h.Root, Tenant: h.Tenant, Labels: h.Labels, InputHash: h.InputHash, Hash: h.Definition, Definition: []byte(g.JSON),
	})
	if err != nil {
		return err
	}
	for r, err := range x.from.Dir.HistoryUntil(ctx, h.Run, 0) {
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

// exportBlobs writes the blobs that the runs refer to. With all one that is missing is an error, unless it was an artifact that was not kept: nothing
// refers to it any more.
func (x *exporter) exportBlobs(ctx context.Context, all bool) error {
	for _, hash := range slices.Sorted(maps.Keys(x.blobs)) {
		r, err := x.from.Blobs.Open(ctx, hash)
		if errors.Is(err, blob.ErrMissing) {
			needed, failed := false, error(nil)
			if all {
				needed, failed = x.from.Dir.Refers(ctx, hash)
			}
			if failed != nil {
				return refusal.Closed(failed)
			}
			if !needed {
				continue
			}
		}
		if err != nil {
			return keeping.Error(err)
		}
		err = x.to.WriteBlob(hash, r)
		if err := errors.Join(err, r.Close()); err != nil {
			return keeping.Error(err)
		}
	}
	return nil
}

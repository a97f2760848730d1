// Package diskuse says what takes the disk in an engine directory.
package diskuse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/store"
)

const (
	// maxGroups is how many combinations of workflow, status, tenant and age are told apart.
	maxGroups = 10_000
	// other stands for the names of further ones.
	other = "_OTHER"
)

// A Directory is what is measured.
type Directory struct {
	Store *store.Dir
	Path  string
	Blobs *blob.Files // nil if they are kept elsewhere
	Now   time.Time
}

// MeasureDisk returns how many bytes the runs of a directory take, by workflow, status, tenant and age, and its other parts. It reads the
// row of each run, and the sizes of all blobs unless they are known.
func (d Directory) MeasureDisk(ctx context.Context) ([]history.DiskUse, error) {
	groups := map[history.DiskUse]*history.DiskUse{}
	for r, err := range d.Store.RunSizes(ctx) {
		if err != nil {
			return nil, err
		}
		key := d.keyOf(&r)
		if groups[key] == nil && len(groups) >= maxGroups {
			key.Workflow, key.Tenant = other, other
		}
		g := groups[key]
		if g == nil {
			g = new(key)
			groups[key] = g
		}
		g.Runs++
		g.Bytes += r.Bytes
		if r.Ended && !r.Damaged {
			g.Free += r.Bytes
		}
	}
	out := make([]history.DiskUse, 0, len(groups)+2)
	for _, g := range groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b history.DiskUse) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Age, b.Age))
	})
	return d.addParts(ctx, out)
}

// keyOf returns the group of a run, which counts nothing.
func (d Directory) keyOf(r *store.RunSize) history.DiskUse {
	if r.Damaged {
		return history.DiskUse{Part: "runs", Age: "hours"}
	}
	at := r.EndedAt
	if at.IsZero() {
		at = r.StartedAt
	}
	return history.DiskUse{Part: "runs", Workflow: r.Workflow, Status: r.Status, Tenant: r.Tenant, Age: ageOf(d.Now.Sub(at))}
}

func ageOf(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < day:
		return "hours"
	case d < 7*day:
		return "days"
	case d < 31*day:
		return "weeks"
	}
	return "months"
}

// addParts adds what is not of runs.
func (d Directory) addParts(ctx context.Context, out []history.DiskUse) ([]history.DiskUse, error) {
	index, err := d.measureIndex()
	if err != nil {
		return nil, fmt.Errorf("measure the index: %w", err)
	}
	out = append(out, history.DiskUse{Part: "index", Bytes: index})
	if d.Blobs == nil {
		return out, nil
	}
	blobs, known := d.Blobs.Size()
	if !known {
		blobs = 0
		for b, err := range d.Blobs.All(ctx) {
			if err != nil {
				return nil, fmt.Errorf("measure the blobs: %w", err)
			}
			blobs += b.Size
		}
	}
	return append(out, history.DiskUse{Part: "blobs", Bytes: blobs}), nil
}

// measureIndex adds up the files that stand in the directory itself.
func (d Directory) measureIndex() (bytes int64, err error) {
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return 0, err
		}
		bytes += info.Size()
	}
	return bytes, nil
}

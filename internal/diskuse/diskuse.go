// Package diskuse says what takes the disk in an engine directory.
package diskuse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/store"
)

const (
	// maxGroups is how many combinations of workflow, status, tenant and age are told apart.
	maxGroups = 10_000
	// other stands for the names of further ones.
	other = "_OTHER"
	// keptFor is how long callers get what was measured before.
	keptFor = 5 * time.Second
)

// A Directory is what is measured.
type Directory struct {
	Store *store.Dir
	Path  string
	Blobs *blob.Files // nil if they are kept elsewhere
	Now   func() time.Time
}

// A Meter measures a directory for many callers, one time at once: who asks meanwhile, or within 5 s, gets the same. Its zero value is ready.
type Meter struct {
	mu   sync.Mutex
	busy chan struct{} // closed when the measurement ends that is under way; nil without
	uses []history.DiskUse
	at   time.Time // of uses
}

// MeasureDisk is that of the directory, which is the same in all calls. A caller waits for another one's measurement until ctx is done, and
// measures itself if that fails.
func (m *Meter) MeasureDisk(ctx context.Context, d Directory) ([]history.DiskUse, error) {
	for {
		if ctx.Err() != nil {
			return nil, late.Cause(ctx)
		}
		m.mu.Lock()
		age, busy := d.Now().Sub(m.at), m.busy
		switch {
		case m.uses != nil && age >= 0 && age < keptFor:
			uses := slices.Clone(m.uses)
			m.mu.Unlock()
			return uses, nil
		case busy == nil:
			m.busy = make(chan struct{})
			m.mu.Unlock()
			return m.measureAnew(ctx, d)
		}
		m.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, late.Cause(ctx)
		}
	}
}

// measureAnew measures, and keeps what that gives.
func (m *Meter) measureAnew(ctx context.Context, d Directory) (uses []history.DiskUse, err error) {
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		close(m.busy)
		m.busy, m.uses, m.at = nil, slices.Clone(uses), d.Now()
	}()
	return d.MeasureDisk(ctx)
}

// MeasureDisk returns how many bytes the runs of a directory take, by workflow, status, tenant and age, and its other parts. It reads the
// row of each run, and the sizes of all blobs unless they are known.
func (d Directory) MeasureDisk(ctx context.Context) ([]history.DiskUse, error) {
	out, err := groupRuns(d.Store.RunSizes(ctx), d.Now())
	if err != nil {
		return nil, err
	}
	return d.addParts(ctx, out)
}

// groupRuns returns the groups of runs, sorted, those with damaged rows behind the others.
func groupRuns(sizes iter.Seq2[store.RunSize, error], now time.Time) ([]history.DiskUse, error) {
	groups := map[history.DiskUse]*history.DiskUse{}
	for r, err := range sizes {
		if err != nil {
			return nil, err
		}
		key := keyOf(&r, now)
		if groups[key] == nil && len(groups) >= maxGroups && !r.Damaged {
			key.Workflow, key.Tenant = other, other
		}
		g := groups[key]
		if g == nil {
			g = new(key)
			groups[key] = g
		}
		g.Runs++
		g.Bytes += r.Bytes
		if r.Ended {
			g.Free += r.Bytes
		}
	}
	out := make([]history.DiskUse, 0, len(groups)+2)
	for _, g := range groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b history.DiskUse) int {
		return cmp.Or(cmp.Compare(b.Part, a.Part), cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Age, b.Age))
	})
	return out, nil
}

// keyOf returns the group of a run, which counts nothing.
func keyOf(r *store.RunSize, now time.Time) history.DiskUse {
	if r.Damaged {
		return history.DiskUse{Part: "damaged"}
	}
	at := r.EndedAt
	if at.IsZero() {
		at = r.StartedAt
	}
	return history.DiskUse{Part: "runs", Workflow: r.Workflow, Status: r.Status, Tenant: r.Tenant, Age: ageOf(now.Sub(at))}
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

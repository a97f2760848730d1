// Package watching tells readers how runs stand: those who watch all runs, and those who wait for one.
package watching

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// Bounds of a Hub.
const (
	MaxChanges = 4096 // runs whose changes wait for one reader: up to 0.5 MiB of memory
	MaxReaders = 2048 // at once: each commit looks at the filter of each
)

// A Directory is the engine directory as those who wait see it; *store.Dir is one.
type Directory interface {
	HeadUntil(ctx context.Context, id workflow.RunID) (store.Head, error)
	Failed() <-chan struct{}
	Err() error
}

// A Filter says which runs a reader watches.
type Filter interface {
	// Takes reports whether a run may fit, as far as that costs next to nothing: it is called for each commit, in the goroutine
	// that commits.
	Takes(h *store.Head) bool
}

// A Hub has those who watch all runs, and gives them changes of type C. A commit costs them nothing while there are none.
//
// The list behind all is replaced and never changed, so that a commit reads it without a lock.
type Hub[C any] struct {
	of     func(h *store.Head, at time.Time, purged bool) *C
	mu     sync.Mutex // guards closed, and changes of all
	all    atomic.Pointer[[]*Reader[C]]
	closed bool
}

// NewHub returns a hub without readers. of makes the change that says how a run stands since an instant.
func NewHub[C any](of func(h *store.Head, at time.Time, purged bool) *C) *Hub[C] {
	return &Hub[C]{of: of}
}

// errReaders is what a reader is told at the bound.
var errReaders = fmt.Errorf("%w: %d readers watch already: end some, or let several readers share one", actor.ErrBusy, MaxReaders)

// Add adds a reader. It fails with ErrBusy if there are too many; a reader of a closed hub is told the end at once.
func (hub *Hub[C]) Add(f Filter) (*Reader[C], error) {
	r := &Reader[C]{filter: f, lost: true, moved: make(chan struct{}, 1)}
	hub.mu.Lock()
	defer hub.mu.Unlock()
	if hub.closed {
		r.lost, r.closed = false, true
		return r, nil
	}
	all := []*Reader[C]{r}
	if old := hub.all.Load(); old != nil {
		all = append(all, *old...)
	}
	if len(all) > MaxReaders {
		return nil, errReaders
	}
	hub.all.Store(&all)
	return r, nil
}

// Count returns how many readers there are.
func (hub *Hub[C]) Count() int {
	if all := hub.all.Load(); all != nil {
		return len(*all)
	}
	return 0
}

// Remove forgets a reader that has ended.
func (hub *Hub[C]) Remove(r *Reader[C]) {
	hub.mu.Lock()
	defer hub.mu.Unlock()
	old := hub.all.Load()
	if old == nil {
		return
	}
	all := slices.DeleteFunc(slices.Clone(*old), func(x *Reader[C]) bool { return x == r })
	if len(all) == 0 {
		hub.all.Store(nil)
		return
	}
	hub.all.Store(&all)
}

// TellCommit tells what a commit of records has made of a run, or that nobody knows.
//
// If a commit's outcome is unknown the run may stand as before or as after: every reader is
// told to list the runs.
func (hub *Hub[C]) TellCommit(run *store.Run, records []decision.Record, err error) {
	all := hub.all.Load()
	if all == nil || len(records) == 0 || err != nil && !errors.Is(err, state.ErrUnknown) {
		return
	}
	if err != nil {
		hub.LoseAll()
		return
	}
	h := run.Head()
	hub.tellChange(&h, records[len(records)-1].At, false)
}

// TellPurge tells that a run was purged; h was its head.
func (hub *Hub[C]) TellPurge(h *store.Head, at time.Time) { hub.tellChange(h, at, true) }

// tellChange gives a change to those who watch the run.
func (hub *Hub[C]) tellChange(h *store.Head, at time.Time, purged bool) {
	all := hub.all.Load()
	if all == nil {
		return
	}
	c := hub.of(h, at, purged)
	for _, r := range *all {
		if r.filter.Takes(h) {
			r.putChange(h.Run, c, purged)
		}
	}
}

// LoseAll tells that nobody knows what has changed.
func (hub *Hub[C]) LoseAll() {
	if all := hub.all.Load(); all != nil {
		for _, r := range *all {
			r.loseChanges()
		}
	}
}

// Close ends all readers once they have what waits for them.
func (hub *Hub[C]) Close() {
	hub.mu.Lock()
	defer hub.mu.Unlock()
	hub.closed = true
	if all := hub.all.Load(); all != nil {
		for _, r := range *all {
			r.closeReader()
		}
	}
}

// A Reader is one who watches runs, with the changes that wait for it.
//
// order has one change for each run. A purge ends the run: the next one under its id has a change
// of its own behind it. While lost is set pending and order are empty, as the list that the reader
// will make has everything.
type Reader[C any] struct {
	filter Filter
	moved  chan struct{} // gets a signal when there is something to take

	mu      sync.Mutex
	pending map[workflow.RunID]*waiting[C] // those in order that are no purges
	order   []*waiting[C]                  // oldest first
	lost    bool                           // the reader is to be told before anything else
	closed  bool
}

// A waiting change is one that its reader has not taken.
type waiting[C any] struct {
	run    workflow.RunID
	change *C // which other readers share
}

// putChange replaces the change of a run that waits, or adds one. The place in order stays: a
// run that changes all the time is not put back behind the others for ever.
func (r *Reader[C]) putChange(run workflow.RunID, c *C, purged bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost {
		return // what the reader will list has it
	}
	w := r.pending[run]
	if w == nil {
		if len(r.order) == MaxChanges {
			r.dropChanges()
			return
		}
		w = &waiting[C]{run: run}
		r.order = append(r.order, w)
	}
	if r.pending == nil {
		r.pending = map[workflow.RunID]*waiting[C]{}
	}
	w.change, r.pending[run] = c, w
	if purged {
		delete(r.pending, run)
	}
	r.wakeReader()
}

// loseChanges drops what waits, and has the reader told.
func (r *Reader[C]) loseChanges() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropChanges()
}

// dropChanges is loseChanges for the holder of the lock.
func (r *Reader[C]) dropChanges() {
	r.lost, r.pending, r.order = true, nil, nil
	r.wakeReader()
}

// closeReader lets the reader end when it has taken what waits.
func (r *Reader[C]) closeReader() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.wakeReader()
}

// wakeReader never blocks a commit: one signal is enough, as the reader takes until nothing is
// left.
func (r *Reader[C]) wakeReader() {
	select {
	case r.moved <- struct{}{}:
	default:
	}
}

// Next waits for the next change that the reader takes, or says that it has lost some. Changes that wait are taken before the end
// of the engine is told. Errors: ErrClosed, ErrFailed, the cause of ctx.
func (r *Reader[C]) Next(ctx context.Context, dir Directory) (c *C, lost bool, err error) {
	for {
		if ctx.Err() != nil {
			return nil, false, late.Cause(ctx)
		}
		c, lost, closed := r.takeChange()
		switch {
		case c != nil, lost:
			return c, lost, nil
		case closed:
			return nil, false, refusal.ErrClosed
		}
		select {
		case <-r.moved:
		case <-dir.Failed():
			return nil, false, refusal.Closed(dir.Err())
		case <-ctx.Done():
		}
	}
}

// takeChange returns what the reader is told next, nil if there is nothing, and whether nothing
// will follow.
func (r *Reader[C]) takeChange() (c *C, lost, closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.lost:
		r.lost = false
		return nil, true, false
	case len(r.order) == 0:
		return nil, false, r.closed
	}
	w := r.order[0]
	r.order = r.order[1:]
	if r.pending[w.run] == w {
		delete(r.pending, w.run)
	}
	return w.change, false, false
}

package inspector

import (
	"slices"
	"sync"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/workflow"
)

// A runLife is a run from its start to its purge, after which another run may have the id.
//
// Everything that is kept about runs has this as its key, so that the pages of a new run never show what was true of an old one with its
// id.
type runLife struct {
	run     workflow.RunID
	started int64 // in milliseconds of Unix time: see readBegin
}

// lifeOf returns the life of the run in view.
func (v *viewer) lifeOf() runLife { return runLife{v.id, v.began.UnixMilli()} }

// readBegin returns when the life of a run began. A fork has the start of the run that it was made of, as all forks of that run
// do: its life began with the record that made it.
func (p *page) readBegin(sum *pawl.RunSummary) (time.Time, error) {
	began := sum.StartedAt
	if sum.ForkedFrom.Run == "" {
		return began, nil
	}
	for r, err := range acts.Records(p.s.engine.Journal(p.r.Context(), sum.Run, pawl.EventsOptions{After: sum.ForkedFrom.Record})) {
		if err != nil {
			return began, err
		}
		began = r.At
		break
	}
	return began, nil
}

// forgetRun drops what is kept of a run that was purged.
//
// readViewer calls it when a run is not found. It is there for the memory, not for truth: see runLife. A cache with a key that
// has a life must be in this list.
func (s *server) forgetRun(id workflow.RunID) {
	s.whys.dropEntries(func(life runLife) bool { return life.run == id })
	s.pasts.dropEntries(func(life runLife) bool { return life.run == id })
	s.strips.dropEntries(func(life runLife) bool { return life.run == id })
	s.taken.dropEntries(func(key takenKey) bool { return key.life.run == id })
	s.graphs.dropEntries(func(key graphKey) bool { return key.life.run == id })
	s.places.dropEntries(func(key placeKey) bool { return key.life.run == id })
}

// A cache keeps the values that were added last, up to a number of them. order has the keys of kept, each once. Its methods may be called
// from any goroutine.
type cache[K comparable, V any] struct {
	mu    sync.Mutex
	most  int
	kept  map[K]V
	order []K // oldest first
}

// init makes an empty cache for so many values, at least one. It must come before all else.
func (c *cache[K, V]) init(most int) { c.most, c.kept = most, map[K]V{} }

// find returns a value, and whether there is one. Finding it does not make it younger: the value that was kept first goes first.
func (c *cache[K, V]) find(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.kept[key]
	return v, ok
}

// keepValue remembers a value, and returns the one that counts: the one that is kept already.
//
// So two goroutines that have made the same value at once go on with one of them, which matters where values have a lock of their own.
func (c *cache[K, V]) keepValue(key K, v V) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if had, ok := c.kept[key]; ok {
		return had
	}
	if len(c.order) == c.most {
		delete(c.kept, c.order[0])
		c.order = c.order[1:]
	}
	c.kept[key] = v
	c.order = append(c.order, key)
	return v
}

// dropEntries forgets the values whose keys fit.
func (c *cache[K, V]) dropEntries(fits func(K) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order = slices.DeleteFunc(c.order, func(key K) bool {
		if !fits(key) {
			return false
		}
		delete(c.kept, key)
		return true
	})
}

package inspector

import (
	"slices"
	"sync"

	"github.com/pawl-run/pawl/workflow"
)

// A runLife is a run from its start to its purge, after which another run may have the id.
type runLife struct {
	run     workflow.RunID
	started int64 // in milliseconds of Unix time
}

func (v *viewer) lifeOf() runLife { return runLife{v.id, v.ov.StartedAt.UnixMilli()} }

// forgetRun drops what is kept of a run that was purged.
func (s *server) forgetRun(id workflow.RunID) {
	s.whys.dropEntries(func(life runLife) bool { return life.run == id })
	s.pasts.dropEntries(func(life runLife) bool { return life.run == id })
	s.strips.dropEntries(func(life runLife) bool { return life.run == id })
	s.taken.dropEntries(func(key takenKey) bool { return key.life.run == id })
	s.graphs.dropEntries(func(key graphKey) bool { return key.life.run == id })
}

// A cache keeps the values that were used last, up to a number of them.
type cache[K comparable, V any] struct {
	mu    sync.Mutex
	most  int
	kept  map[K]V
	order []K // oldest first
}

func (c *cache[K, V]) init(most int) { c.most, c.kept = most, map[K]V{} }

func (c *cache[K, V]) find(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.kept[key]
	return v, ok
}

// keepValue remembers a value, and returns the one that counts: the one that is kept already.
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

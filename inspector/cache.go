package inspector

import "sync"

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

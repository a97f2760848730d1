// Package memo has tables that keep a bounded number of values, which can be made again.
package memo

// Bounds say how much a [Table] keeps.
type Bounds struct {
	Entries int // at least 1
	Bytes   int // of all values together; 0 is no bound. A value that is larger is kept alone
}

// A Table keeps values by key. Where there is no room for one more, as many others as it takes
// are forgotten, each drawn from all with equal chance (random replacement).
//
// The order of use would choose worse: where a few more keys than there is room for come in turn, as
// the definitions of tenants do, the one that was used the longest ago is the one that
// comes next, so that each is forgotten just before it is asked for. A draw forgets
// about twice the share that finds no room. It also needs no note of a use, so that a
// read changes nothing. The draws are a fixed sequence.
//
// The zero value is empty and ready. A Table is not for several goroutines at once, but for
// reads alone.
type Table[K comparable, V any] struct {
	places map[K]int // in entries
	kept   []entry[K, V]
	bytes  int
	drawn  uint64 // the state of the draws
}

type entry[K comparable, V any] struct {
	key   K
	value V
	size  int
}

// Len returns how many values are kept.
func (t *Table[K, V]) Len() int { return len(t.kept) }

// Bytes returns the size of all values that are kept.
func (t *Table[K, V]) Bytes() int { return t.bytes }

// Get returns the value of a key, and whether there is one.
func (t *Table[K, V]) Get(key K) (value V, ok bool) {
	at, ok := t.places[key]
	if ok {
		value = t.kept[at].value
	}
	return value, ok
}

// Has reports whether there is a value of a key.
func (t *Table[K, V]) Has(key K) bool { _, ok := t.places[key]; return ok }

// Put keeps a value of a size in bytes within most, in place of one of the same key.
func (t *Table[K, V]) Put(key K, value V, size int, most Bounds) {
	t.Delete(key)
	for len(t.kept) > 0 && (len(t.kept) >= most.Entries || most.Bytes > 0 && t.bytes+size > most.Bytes) {
		t.Delete(t.kept[t.drawPlace()].key)
	}
	if t.places == nil {
		t.places = map[K]int{}
	}
	t.places[key] = len(t.kept)
	t.kept = append(t.kept, entry[K, V]{key, value, size})
	t.bytes += size
}

// Delete forgets the value of a key, if there is one.
func (t *Table[K, V]) Delete(key K) {
	at, ok := t.places[key]
	if !ok {
		return
	}
	delete(t.places, key)
	t.bytes -= t.kept[at].size
	last := len(t.kept) - 1
	if at < last {
		t.kept[at] = t.kept[last]
		t.places[t.kept[at].key] = at
	}
	t.kept[last] = entry[K, V]{} // it holds nothing for the collector
	t.kept = t.kept[:last]
}

// drawPlace returns a place in kept: SplitMix64 (Steele, Lea, Flood 2014).
func (t *Table[K, V]) drawPlace() int {
	t.drawn += 0x9e3779b97f4a7c15
	z := t.drawn
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return int((z ^ z>>31) % uint64(len(t.kept)))
}

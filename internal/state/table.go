package state

import (
	"maps"
	"slices"

	"github.com/pawl-run/pawl/internal/pace"
)

// A table maps dense ids from 1 to immutable rows. A State's own table is a slice; an overlay's holds what it changed
// and falls through to its base. Ids are dense, and rows are never removed: a token that has ended keeps its row. So
// a slice serves in place of a map, at a fraction of its memory and time.
type table[K ~int64, V any] struct {
	base  *table[K, V]
	dense []*V         // without base: row of id i at i-1
	own   map[K]*V     // with base
	dirty dirtyRows[K] // without base: rows changed since the last TakeChanges
}

// newOverlay returns a table over t, which must stay where it is and must not change as long as the overlay is in
// use.
func (t *table[K, V]) newOverlay() table[K, V] {
	return table[K, V]{base: t}
}

// getRow returns the row of id, or nil.
func (t *table[K, V]) getRow(id K) *V {
	for t.base != nil {
		if v := t.own[id]; v != nil {
			return v
		}
		t = t.base
	}
	if id < 1 || int(id) > len(t.dense) {
		return nil
	}
	return t.dense[id-1]
}

// reserveRows makes room for n changed rows. The map then grows once, and not again and again while the rows are put
// one by one.
func (t *table[K, V]) reserveRows(n int) {
	if t.base != nil {
		t.own = withRoom(t.own, n)
	}
}

// withRoom returns m, or a copy of it, with room for n more entries. Small additions are not worth a copy.
func withRoom[K comparable, V any](m map[K]V, n int) map[K]V {
	if n < 64 {
		return m
	}
	out := make(map[K]V, len(m)+n)
	maps.Copy(out, m)
	return out
}

// putRow replaces the row of id. Without base, ids that are passed over have no row: signals that nobody will ask for
// are not kept.
func (t *table[K, V]) putRow(id K, v *V) {
	t.putCounts(id, v)
	if t.base != nil {
		return
	}
	t.dirty.markRow(id)
}

// putCounts is putRow for a row that changes only in what is counted from other rows, which no store keeps. Were such
// rows dirty, every flush would write the groups around all that moved.
func (t *table[K, V]) putCounts(id K, v *V) {
	if t.base != nil {
		if t.own == nil {
			t.own = map[K]*V{}
		}
		t.own[id] = v
		return
	}
	for int(id) > len(t.dense) {
		t.dense = pace.Push(t.dense, nil)
	}
	t.dense[id-1] = v
}

// dirtyRows note which rows have changed, each once. The marks are as dense as the ids, so that a token which moves
// ten times between two flushes costs nine looks at a byte.
type dirtyRows[K ~int64] struct {
	ids    []K // in the order of their first change
	marked []bool
}

func (d *dirtyRows[K]) markRow(id K) {
	for int(id) > len(d.marked) {
		d.marked = pace.Push(d.marked, false)
	}
	if !d.marked[id-1] {
		d.marked[id-1] = true
		d.ids = pace.Push(d.ids, id)
	}
}

// takeRows returns the rows that were marked, sorted, and marks none from then on.
func (d *dirtyRows[K]) takeRows() []K {
	ids := d.ids
	for i, id := range ids {
		pace.Each(i)
		d.marked[id-1] = false
	}
	d.ids = nil
	slices.Sort(ids)
	return ids
}

// ReserveBranches makes room in an overlay for a change to each of n branches. A join that fires changes a token of
// each branch, and drops its data.
func (s *State) ReserveBranches(n int) {
	if s.base != nil {
		s.tokens.reserveRows(n)
		s.branches.own, s.scopes = withRoom(s.branches.own, n), withRoom(s.scopes, n)
	}
}

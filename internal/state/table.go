package state

import (
	"maps"

	"github.com/pawl-run/pawl/internal/pace"
)

// A table maps dense ids from 1 to immutable rows. A State's own table is a
// slice; an overlay's holds what it changed and falls through to its base.
type table[K ~int64, V any] struct {
	base  *table[K, V]
	dense []*V       // without base: row of id i at i-1
	own   map[K]*V   // with base
	dirty map[K]bool // without base: rows changed since the last TakeChanges
}

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

// reserveRows makes room for n changed rows.
func (t *table[K, V]) reserveRows(n int) {
	if t.base != nil {
		t.own = withRoom(t.own, n)
	}
}

// withRoom returns m, or a copy of it, with room for n more entries.
func withRoom[K comparable, V any](m map[K]V, n int) map[K]V {
	if n < 64 {
		return m
	}
	out := make(map[K]V, len(m)+n)
	maps.Copy(out, m)
	return out
}

// putRow replaces the row of id. Without base, a new id must be the next one.
func (t *table[K, V]) putRow(id K, v *V) {
	t.putCounts(id, v)
	if t.base != nil {
		return
	}
	if t.dirty == nil {
		t.dirty = map[K]bool{}
	}
	t.dirty[id] = true
}

// putCounts is putRow for a row of which only that has changed which is counted from
// other rows: nothing that a store keeps.
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

// ReserveBranches makes room in an overlay for a change to each of n branches.
func (s *State) ReserveBranches(n int) {
	if s.base != nil {
		s.tokens.reserveRows(n)
		s.branches, s.scopes = withRoom(s.branches, n), withRoom(s.scopes, n)
	}
}

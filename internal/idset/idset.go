// Package idset keeps sorted sets of ids that are shared and never modified: a set with an id more is another set.
package idset

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
)

// A Set has ids from 0, sorted. Its zero value is empty.
//
// A few ids are a slice, which is copied whole. More are a tree of 64 ways by the bits of the ids, and a change copies the path to one
// leaf: a plan may make and end hundreds of thousands of tokens in one branch, and its cost must not grow with their square.
type Set[ID ~int64] struct {
	few  []ID
	many *tree // in place of few; nil without
}

// maxFew is how many ids are a slice at most.
const maxFew = 64

// Len returns how many ids there are.
func (s Set[ID]) Len() int {
	if s.many != nil {
		return s.many.count
	}
	return len(s.few)
}

// Put returns the set with an id, or without it.
func (s Set[ID]) Put(id ID, in bool) Set[ID] {
	if s.many != nil {
		return s.putMany(uint64(id), in)
	}
	i, found := slices.BinarySearch(s.few, id)
	switch {
	case found == in:
		return s
	case !in:
		return Set[ID]{few: slices.Delete(slices.Clone(s.few), i, i+1)}
	case len(s.few) < maxFew:
		few := make([]ID, len(s.few)+1)
		copy(few, s.few[:i])
		few[i] = id
		copy(few[i+1:], s.few[i:])
		return Set[ID]{few: few}
	}
	t := &tree{}
	for _, id := range s.few {
		t = t.putID(uint64(id), true)
	}
	return Set[ID]{many: t.putID(uint64(id), true)}
}

func (s Set[ID]) putMany(id uint64, in bool) Set[ID] {
	t := s.many.putID(id, in)
	if t.count > maxFew/2 {
		return Set[ID]{many: t}
	}
	return Set[ID]{few: Set[ID]{many: t}.AppendTo(nil)}
}

// All yields the ids, the lowest first.
func (s Set[ID]) All() iter.Seq[ID] {
	return func(yield func(ID) bool) {
		for _, id := range s.few {
			if !yield(id) {
				return
			}
		}
		if s.many != nil {
			s.many.root.visitIDs(s.many.height, 0, false, func(id uint64) bool { return yield(ID(id)) })
		}
	}
}

// Backward yields the ids, the highest first.
func (s Set[ID]) Backward() iter.Seq[ID] {
	return func(yield func(ID) bool) {
		for _, id := range slices.Backward(s.few) {
			if !yield(id) {
				return
			}
		}
		if s.many != nil {
			s.many.root.visitIDs(s.many.height, 0, true, func(id uint64) bool { return yield(ID(id)) })
		}
	}
}

// Equal reports whether two sets have the same ids.
func (s Set[ID]) Equal(other Set[ID]) bool {
	return slices.Equal(s.AppendTo(nil), other.AppendTo(nil))
}

// String implements fmt.Stringer.
func (s Set[ID]) String() string { return fmt.Sprint(s.AppendTo(nil)) }

// AppendTo appends the ids to a slice.
func (s Set[ID]) AppendTo(out []ID) []ID {
	out = slices.Grow(out, s.Len())
	for id := range s.All() {
		out = append(out, id)
	}
	return out
}

// A tree has count ids below 64 to the power of height+1.
type tree struct {
	count, height int
	root          *node
}

// A node has a bit for each of its ways that leads to ids. In a leaf, at height 0, these are the ids.
type node struct {
	ways  uint64
	below []*node // of the ways that are taken, in their order; nil in a leaf
}

// width is how many bits of an id a node looks at.
const width = 6

// putID returns the tree with an id, or without it.
func (t *tree) putID(id uint64, in bool) *tree {
	out := *t
	if out.root.hasID(out.height, id) == in {
		return t
	}
	if !in {
		out.count--
		out.root = out.root.dropID(out.height, id)
		return &out
	}
	out.count++
	for ; id>>(width*(out.height+1)) != 0; out.height++ {
		if out.root != nil {
			out.root = &node{1, []*node{out.root}}
		}
	}
	out.root = out.root.addID(out.height, id)
	return &out
}

// wayOf returns the bit of the way to an id at a height, and the place of what is below.
func (n *node) wayOf(height int, id uint64) (bit uint64, place int) {
	bit = 1 << (id >> (width * height) % 64)
	return bit, bits.OnesCount64(n.ways & (bit - 1))
}

func (n *node) hasID(height int, id uint64) bool {
	for ; n != nil && id>>(width*height) < 64; height-- {
		bit, place := n.wayOf(height, id)
		if n.ways&bit == 0 || height == 0 {
			return n.ways&bit != 0
		}
		n, id = n.below[place], id&(1<<(width*height)-1)
	}
	return false
}

// addID returns the node with an id that it has not; n may be nil.
func (n *node) addID(height int, id uint64) *node {
	var out node
	if n != nil {
		out = *n
	}
	bit, place := out.wayOf(height, id)
	if height > 0 {
		if out.ways&bit == 0 {
			out.below = slices.Insert(slices.Clip(out.below), place, nil)
		} else {
			out.below = slices.Clone(out.below)
		}
		out.below[place] = out.below[place].addID(height-1, id)
	}
	out.ways |= bit
	return &out
}

// dropID returns the node without an id that it has, nil if it was the last.
func (n *node) dropID(height int, id uint64) *node {
	out := *n
	bit, place := out.wayOf(height, id)
	if height > 0 {
		out.below = slices.Clone(out.below)
		out.below[place] = out.below[place].dropID(height-1, id)
		if out.below[place] != nil {
			return &out
		}
		out.below = slices.Delete(out.below, place, place+1)
	}
	if out.ways &^= bit; out.ways == 0 {
		return nil
	}
	return &out
}

// visitIDs yields the ids below a node, which begin with some bits, until that returns false.
func (n *node) visitIDs(height int, begin uint64, backward bool, yield func(uint64) bool) bool {
	if n == nil {
		return true
	}
	for left := n.ways; left != 0; {
		way := bits.TrailingZeros64(left)
		if backward {
			way = 63 - bits.LeadingZeros64(left)
		}
		left &^= 1 << way
		id := begin<<width | uint64(way)
		if height == 0 {
			if !yield(id) {
				return false
			}
			continue
		}
		_, place := n.wayOf(0, uint64(way))
		if !n.below[place].visitIDs(height-1, id, backward, yield) {
			return false
		}
	}
	return true
}

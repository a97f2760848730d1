// Package heap has priority queues whose elements know where they are, so that any
// of them can be moved or removed (container/heap, which does the work, needs to be
// told where an element is).
package heap

import "container/heap"

// A Place says where an element is in a heap; an element has one for each heap that
// it may be in. The zero value stands for outside. Only the heap may change it.
type Place struct{ at int32 } // 1 is the first

// In says that the element is in the heap.
func (p Place) In() bool { return p.at > 0 }

// A Heap holds elements and knows the first one. Put, Remove and Pop take O(log n)
// comparisons.
type Heap[T any] struct{ elements elements[T] }

// New returns an empty heap: before says which of two elements comes first, place
// where an element keeps its place in this heap.
func New[T any](before func(a, b T) bool, place func(T) *Place) Heap[T] {
	return Heap[T]{elements[T]{before: before, place: place}}
}

// IsZero reports whether h is the zero value, which is no heap.
func (h *Heap[T]) IsZero() bool { return h.elements.before == nil }

// Reuse returns a heap that is empty, to be used again: with its room, unless that is for many elements.
func (h *Heap[T]) Reuse() Heap[T] {
	if cap(h.elements.of) > fewElements {
		return Heap[T]{elements[T]{before: h.elements.before, place: h.elements.place}}
	}
	return *h
}

// fewElements take little memory.
const fewElements = 16

// Len returns how many elements there are.
func (h *Heap[T]) Len() int { return len(h.elements.of) }

// First returns the element before which no other comes. There must be one.
func (h *Heap[T]) First() T { return h.elements.of[0] }

// Put adds t, or finds its place again when its order has changed.
func (h *Heap[T]) Put(t T) {
	if p := h.elements.place(t); p.In() {
		heap.Fix(&h.elements, int(p.at)-1)
		return
	}
	heap.Push(&h.elements, t)
}

// Remove takes t out if it is in. Others are not compared with it.
func (h *Heap[T]) Remove(t T) {
	if p := h.elements.place(t); p.In() {
		heap.Remove(&h.elements, int(p.at)-1)
	}
}

// Pop takes the first element out. There must be one.
func (h *Heap[T]) Pop() T { return heap.Pop(&h.elements).(T) }

// elements are what container/heap sees of a Heap.
type elements[T any] struct {
	of     []T
	before func(a, b T) bool
	place  func(T) *Place
}

// Len implements heap.Interface.
func (e *elements[T]) Len() int { return len(e.of) }

// Less implements heap.Interface.
func (e *elements[T]) Less(i, j int) bool { return e.before(e.of[i], e.of[j]) }

// Swap implements heap.Interface.
func (e *elements[T]) Swap(i, j int) {
	e.of[i], e.of[j] = e.of[j], e.of[i]
	e.place(e.of[i]).at, e.place(e.of[j]).at = int32(i+1), int32(j+1) //nolint:gosec // elements take memory
}

// Push implements heap.Interface.
func (e *elements[T]) Push(x any) {
	t := x.(T)
	e.of = append(e.of, t)
	e.place(t).at = int32(len(e.of)) //nolint:gosec // likewise
}

// Pop implements heap.Interface.
func (e *elements[T]) Pop() any {
	var none T
	last := len(e.of) - 1
	t := e.of[last]
	e.of[last] = none
	e.of = e.of[:last]
	e.place(t).at = 0
	return t
}

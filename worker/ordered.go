package worker

import "container/heap"

// An ordered is a heap whose elements know their places in it, so that any of
// them can be moved or removed in O(log n).
type ordered[T any] struct {
	of    []T
	less  func(a, b T) bool
	place func(T) *int // -1 outside
}

// Len implements heap.Interface.
func (h *ordered[T]) Len() int { return len(h.of) }

// Less implements heap.Interface.
func (h *ordered[T]) Less(i, j int) bool { return h.less(h.of[i], h.of[j]) }

// Swap implements heap.Interface.
func (h *ordered[T]) Swap(i, j int) {
	h.of[i], h.of[j] = h.of[j], h.of[i]
	*h.place(h.of[i]), *h.place(h.of[j]) = i, j
}

// Push implements heap.Interface.
func (h *ordered[T]) Push(x any) {
	t := x.(T)
	*h.place(t) = len(h.of)
	h.of = append(h.of, t)
}

// Pop implements heap.Interface.
func (h *ordered[T]) Pop() any {
	var none T
	last := len(h.of) - 1
	t := h.of[last]
	h.of[last] = none
	h.of = h.of[:last]
	*h.place(t) = -1
	return t
}

// put adds t, or finds its place again when its order has changed.
func (h *ordered[T]) put(t T) {
	if at := *h.place(t); at >= 0 {
		heap.Fix(h, at)
		return
	}
	heap.Push(h, t)
}

// remove takes t out if it is in.
func (h *ordered[T]) remove(t T) {
	if at := *h.place(t); at >= 0 {
		heap.Remove(h, at)
	}
}

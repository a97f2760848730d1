package memo

// A Recent is a set of the keys that were added last: of at least Most of them, and at most twice as many.
//
// It is for one goroutine at a time.
type Recent[K comparable] struct {
	Most int // at least 1

	young, old map[K]struct{}
	forgot     bool
}

// Add adds a key.
func (r *Recent[K]) Add(key K) {
	if r.young == nil || len(r.young) == r.Most {
		r.forgot = r.forgot || r.old != nil
		r.young, r.old = map[K]struct{}{}, r.young
	}
	r.young[key] = struct{}{}
}

// Has reports whether a key was added, and is not forgotten.
func (r *Recent[K]) Has(key K) bool {
	_, young := r.young[key]
	_, old := r.old[key]
	return young || old
}

// HasForgotten reports whether a key that was added may be forgotten.
func (r *Recent[K]) HasForgotten() bool { return r.forgot }

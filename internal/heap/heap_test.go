package heap

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type element struct {
	key   int
	place Place
}

// TestHeap: whatever is put, moved and removed, each element knows its place and the
// least one is the first.
func TestHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		removing := (*element)(nil)
		h := New(func(a, b *element) bool {
			require.NotSame(t, removing, a)
			require.NotSame(t, removing, b)
			return a.key < b.key
		}, func(e *element) *Place { return &e.place })
		all := make([]*element, 20)
		for i := range all {
			all[i] = &element{}
		}
		key := rapid.IntRange(0, 9)
		in := map[*element]bool{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			e := rapid.SampledFrom(all).Draw(t, "element")
			switch rapid.SampledFrom([]string{"put", "remove", "pop"}).Draw(t, "step") {
			case "put":
				e.key = key.Draw(t, "key")
				h.Put(e)
				in[e] = true
			case "remove":
				removing = e
				h.Remove(e)
				removing = nil
				delete(in, e)
			case "pop":
				if h.Len() > 0 {
					first := h.First()
					require.Same(t, first, h.Pop())
					delete(in, first)
				}
			}
			require.Equal(t, len(in), h.Len())
			for _, e := range all {
				require.Equal(t, in[e], e.place.In())
			}
			if h.Len() > 0 {
				least := slices.MinFunc(slices.Collect(maps.Keys(in)), func(a, b *element) int { return a.key - b.key })
				require.Equal(t, least.key, h.First().key)
			}
		}
		var popped []int
		for h.Len() > 0 {
			popped = append(popped, h.Pop().key)
		}
		require.True(t, slices.IsSorted(popped))
		require.Len(t, popped, len(in))
	})
}

// TestReuse: a heap that was emptied is one to use again, and does not keep the room of many.
func TestReuse(t *testing.T) {
	for _, n := range []int{1, fewElements, 10 * fewElements} {
		h := New(func(a, b *element) bool { return a.key < b.key }, func(e *element) *Place { return &e.place })
		require.False(t, h.IsZero())
		for i := range n {
			h.Put(&element{key: -i})
		}
		for h.Len() > 0 {
			h.Pop()
		}
		again := h.Reuse()
		require.False(t, again.IsZero())
		require.LessOrEqual(t, cap(again.elements.of), fewElements)
		first := &element{key: 1}
		again.Put(first)
		require.Same(t, first, again.First())
	}
	require.True(t, new(Heap[int]).IsZero())
}

package idset_test

import (
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/idset"
)

// A set is what a sorted slice is, whichever ids come and go, and each one that was before stays as it was.
func TestSetIsASortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := rapid.SampledFrom([]int64{100, 5_000, 1 << 20, 1<<63 - 1}).Draw(t, "top")
		likely := rapid.IntRange(1, 9).Draw(t, "likely of ten to come")
		var (
			set  idset.Set[int64]
			ids  []int64
			sets []idset.Set[int64]
			were [][]int64
		)
		for range rapid.IntRange(0, 600).Draw(t, "steps") {
			id, in := rapid.Int64Range(0, top).Draw(t, "id"), rapid.IntRange(0, 9).Draw(t, "in") < likely
			if !in && len(ids) > 0 {
				id = ids[int(id%int64(len(ids)))]
			}
			set = set.Put(id, in)
			i, found := slices.BinarySearch(ids, id)
			switch ids = slices.Clone(ids); {
			case in && !found:
				ids = slices.Insert(ids, i, id)
			case !in && found:
				ids = slices.Delete(ids, i, i+1)
			}
			sets, were = append(sets, set), append(were, ids)
		}
		for i, s := range sets {
			require.Equal(t, len(were[i]), s.Len())
			require.True(t, slices.Equal(were[i], s.AppendTo(nil)), "%v %v", were[i], s.AppendTo(nil))
			backward := slices.Collect(s.Backward())
			slices.Reverse(backward)
			require.True(t, slices.Equal(were[i], backward))
		}
	})
}

// A loop over a set may end early.
func TestSetIsLeftEarly(t *testing.T) {
	var s idset.Set[int64]
	for id := range int64(5_000) {
		s = s.Put(id, true)
		for _, all := range []func(func(int64) bool){s.All(), s.Backward()} {
			n := 0
			all(func(int64) bool {
				n++
				return n < 3
			})
			require.Equal(t, min(int(id)+1, 3), n)
		}
	}
}

// The work for an id does not grow with the set: a hundred thousand come and go in a blink.
func BenchmarkSet(b *testing.B) {
	for b.Loop() {
		var s idset.Set[int64]
		for id := range int64(100_000) {
			s = s.Put(id, true)
		}
		for id := range int64(100_000) {
			s = s.Put(id, false)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/200_000, "ns/change")
}

// A change of a large set copies little of it: a plan may make as many as there may be decisions.
func TestPutCopiesLittle(t *testing.T) {
	var s idset.Set[int64]
	for id := range int64(200_000) {
		s = s.Put(id, true)
	}
	const changes = 1_000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range int64(changes) {
		s = s.Put(i*197, false)
	}
	runtime.ReadMemStats(&after)
	require.Equal(t, 200_000-changes, s.Len())
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/changes, uint64(4<<10), "bytes for a change")
}

package fair

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// However places are taken and given back, a family that has fewer than it may have gets one while
// there are any, and nothing is remembered of a family without places.
func TestPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most, mostOf = 6, 3
		p := NewPlaces[int](most)
		of, all := map[int]int{}, 0
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			f := rapid.IntRange(0, 3).Draw(t, "family")
			switch {
			case rapid.Bool().Draw(t, "take"):
				got := p.Take(f, mostOf)
				require.Equal(t, all < most && of[f] < mostOf, got)
				if got {
					all++
					of[f]++
				}
			case of[f] > 0:
				p.Free(f)
				all--
				of[f]--
			}
		}
		for f, n := range of {
			require.Equal(t, n, p.of[f])
		}
		require.LessOrEqual(t, len(p.of), all)
	})
}

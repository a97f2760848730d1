package fair

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestFamiliesTakeTurns(t *testing.T) {
	var q Queue[string, int]
	for i := range 1000 {
		q.Push("many", i)
	}
	q.Push("few", -1)
	q.Push("few", -2)
	var got []int
	for range 6 {
		v, ok := q.Pop()
		require.True(t, ok)
		got = append(got, v)
	}
	require.Equal(t, []int{0, -1, 1, -2, 2, 3}, got)
	require.Equal(t, 996, q.Len())
}

// However values are pushed and popped, each comes out once, the values of a family
// in order, and between two of one family each other family that waits has its turn.
func TestQueue(t *testing.T) {
	type value struct{ family, n int }
	rapid.Check(t, func(t *rapid.T) {
		var q Queue[int, value]
		pushed, popped := map[int]int{}, map[int]int{}
		passed := map[int]map[int]int{} // family -> how often others went before it since its last turn
		waits := func(f int) bool { return popped[f] < pushed[f] }
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "push") {
				f := rapid.IntRange(0, 4).Draw(t, "family")
				if !waits(f) {
					passed[f] = map[int]int{}
				}
				q.Push(f, value{f, pushed[f]})
				pushed[f]++
				continue
			}
			v, ok := q.Pop()
			if !ok {
				require.Equal(t, pushed, popped)
				continue
			}
			require.Equal(t, popped[v.family], v.n)
			popped[v.family]++
			passed[v.family] = map[int]int{}
			for f := range 5 {
				if f != v.family && waits(f) {
					passed[f][v.family]++
					require.LessOrEqual(t, passed[f][v.family], 1, "%d went twice before %d", v.family, f)
				}
			}
		}
		require.Equal(t, total(pushed)-total(popped), q.Len())
	})
}

func total(m map[int]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

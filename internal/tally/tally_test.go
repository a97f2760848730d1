package tally

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The oldest row is known whatever was dropped, to the second, or to as much longer as rows are older than that takes room.
func TestTheOldestRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := time.UnixMilli(1_700_000_000_123)
		var a Ages
		var rows []time.Time // those that are left, zero of others
		oldest := func() (at time.Time) {
			for _, r := range rows {
				if !r.IsZero() && (at.IsZero() || r.Before(at)) {
					at = r
				}
			}
			return at
		}
		at := begin
		for range rapid.IntRange(0, 3).Draw(t, "found") { // seconds of rows that are there at the beginning
			n := rapid.IntRange(1, 3).Draw(t, "in one second")
			for i := range n {
				rows = append(rows, at.Add(time.Duration(i)*time.Millisecond))
			}
			a.Add(int64(n), at)
			at = at.Add(10 * time.Hour)
		}
		step := rapid.SampledFrom([]int{1, 700, 20_000}).Draw(t, "step")
		for range rapid.IntRange(0, 9000).Draw(t, "rows") {
			at = at.Add(time.Duration(step) * time.Millisecond)
			rows = append(rows, at)
			a.Add(1, at)
		}
		for range rapid.IntRange(0, 50).Draw(t, "drops") {
			if len(rows) == 0 {
				break
			}
			i := rapid.IntRange(0, len(rows)-1).Draw(t, "drop")
			if !rows[i].IsZero() {
				a.Drop(rows[i])
				rows[i] = time.Time{}
			}
			got, want := a.Oldest(), oldest()
			require.Equal(t, want.IsZero(), got.IsZero())
			require.False(t, got.After(want))
			require.Less(t, want.Sub(got), time.Duration(max(a.width, 1))*time.Second)
			require.LessOrEqual(t, len(a.of), maxAges)
		}
	})
}

// A row that is dropped before it is added leaves nothing.
func TestADropBeforeItsAdd(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123)
	var a Ages
	a.Drop(at)
	require.Zero(t, a.Oldest())
	a.Add(2, at.Add(time.Hour))
	require.Equal(t, at.Add(time.Hour), a.Oldest())
	a.Add(1, at)
	require.Equal(t, at.Add(time.Hour), a.Oldest())
	require.Len(t, a.of, 1)
}

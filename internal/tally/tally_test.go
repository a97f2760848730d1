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
		found := rapid.IntRange(0, 3).Draw(t, "found")
		for range found {
			rows = append(rows, begin)
		}
		a.Begin(int64(found), int64(found), begin)
		step := rapid.SampledFrom([]int{1, 700, 20_000}).Draw(t, "step")
		at := begin
		for range rapid.IntRange(0, 9000).Draw(t, "rows") {
			at = at.Add(time.Duration(step) * time.Millisecond)
			rows = append(rows, at)
			a.Add(at)
		}
		for range rapid.IntRange(0, 50).Draw(t, "drops") {
			if len(rows) == 0 {
				break
			}
			i := rapid.IntRange(0, len(rows)-1).Draw(t, "drop")
			if !rows[i].IsZero() {
				a.Drop(int64(i+1), rows[i])
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

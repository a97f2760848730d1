package memo

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestKeysInTurn: a few more keys than there is room for come in turn, again and again. Most are found.
func TestKeysInTurn(t *testing.T) {
	const room, keys, passes = 1024, 1100, 20
	var table Table[int, int]
	missed := 0
	for i := range keys * passes {
		key := i % keys
		if v, ok := table.Get(key); ok {
			require.Equal(t, -key, v)
			continue
		}
		if i >= keys {
			missed++
		}
		table.Put(key, -key, 1, Bounds{Entries: room})
		require.LessOrEqual(t, table.Len(), room)
	}
	require.Less(t, missed, keys*(passes-1)/5)
}

// TestEachIsForgotten: no value has its place for ever.
func TestEachIsForgotten(t *testing.T) {
	var table Table[int, bool]
	for i := range 16 * 200 {
		table.Put(i, true, 1, Bounds{Entries: 16})
	}
	for i := range 16 * 150 {
		require.False(t, table.Has(i), i)
	}
	require.Equal(t, 16, table.Len())
}

// TestTable: it has what a map has, but for what was forgotten for want of room, and never more than its bounds allow.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := Bounds{Entries: rapid.IntRange(1, 8).Draw(t, "entries"), Bytes: rapid.SampledFrom([]int{0, 10, 100}).Draw(t, "bytes")}
		var table Table[int, int]
		size := map[int]int{}
		for i := range rapid.IntRange(1, 100).Draw(t, "acts") {
			key := rapid.IntRange(0, 20).Draw(t, "key")
			if rapid.IntRange(0, 4).Draw(t, "act") == 0 {
				table.Delete(key)
				require.False(t, table.Has(key))
				continue
			}
			size[key] = rapid.IntRange(0, 20).Draw(t, "size")
			table.Put(key, i, size[key], most)
			v, ok := table.Get(key)
			require.True(t, ok)
			require.Equal(t, i, v)
			require.LessOrEqual(t, table.Len(), most.Entries)
			require.True(t, most.Bytes == 0 || table.Bytes() <= most.Bytes || table.Len() == 1)
			sum, many := 0, 0
			for key := range 21 {
				if table.Has(key) {
					sum, many = sum+size[key], many+1
				}
			}
			require.Equal(t, many, table.Len())
			require.Equal(t, sum, table.Bytes())
		}
	})
}

// TestRecentKeys: the last keys are there, and the first are forgotten, which is told.
func TestRecentKeys(t *testing.T) {
	const most = 8
	keys := Recent[int]{Most: most}
	for i := range 5 * most {
		keys.Add(i)
		require.Equal(t, i >= 2*most, keys.HasForgotten(), i)
		for j := range i + 1 {
			if i-j < most || i < 2*most {
				require.True(t, keys.Has(j), "%d of %d", j, i)
			} else if i-j >= 2*most {
				require.False(t, keys.Has(j), "%d of %d", j, i)
			}
		}
		require.False(t, keys.Has(i+1))
	}
}

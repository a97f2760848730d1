package golden

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/store"
)

// The archives are journals of planners up to this one, of an earlier one among them, which is how TestGolden shows that this
// one decides what those did. An archive that is written anew would take that away.
func TestPlannersOfTheArchives(t *testing.T) {
	found := map[int]int{}
	for _, g := range goldens {
		dir := unpack(t, archive(g.name))
		d, err := store.Open(dir, store.Options{})
		require.NoError(t, err)
		for h, err := range d.AllHeads(store.RunFilter{}) {
			require.NoError(t, err)
			for r, err := range d.History(h.Run) {
				require.NoError(t, err)
				found[r.Planner]++
			}
		}
		require.NoError(t, d.Close())
	}
	earlier := 0
	for version, records := range found {
		require.LessOrEqual(t, version, planning.Version)
		if version < planning.Version {
			earlier += records
		}
	}
	require.NotZero(t, earlier, "%v", found)
}

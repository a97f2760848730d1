package store

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// A row that is damaged keeps no other run from a list: it is yielded with its error, also where another list begins behind it.
func TestADamagedRowFailsNoList(t *testing.T) {
	d := runsOfAllKinds(t)
	var ids []workflow.RunID
	for h, err := range d.AllHeads(RunFilter{}) {
		require.NoError(t, err)
		ids = append(ids, h.Run)
	}
	bad := ids[7]
	require.NoError(t, d.readRuns(t.Context(), func(db *sqlite.Conn) error {
		_, err := db.Exec(`UPDATE runs SET workflow = 'other' WHERE id = ?`, string(bad))
		return err
	}))
	for _, f := range []RunFilter{{}, {Where: `seq >= 0`}, {After: bad}, {Limit: 8}} {
		var got, damaged []workflow.RunID
		for h, err := range d.AllHeads(f) {
			if damage := (*CorruptError)(nil); errors.As(err, &damage) {
				damaged = append(damaged, damage.Run)
			} else {
				require.NoError(t, err)
			}
			got = append(got, h.Run)
		}
		switch {
		case f.After != "":
			require.True(t, slices.Equal(ids[8:], got))
			require.Empty(t, damaged)
		case f.Limit > 0:
			require.Equal(t, ids[:8], got)
			require.Equal(t, []workflow.RunID{bad}, damaged)
		default:
			require.True(t, slices.Equal(ids, got))
			require.Equal(t, []workflow.RunID{bad}, damaged)
		}
	}
}

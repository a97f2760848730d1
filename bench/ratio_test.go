package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// TestRatios: a step costs no multiple of what it costs today. Bytes are exact; rates are
// held against the bare loop of the same minute, the best of three rounds against a
// quarter of what an idle machine reaches, because others may use this one.
func TestRatios(t *testing.T) {
	harness.MeasuresTime(t)
	r, err := newRunner(t.Context(), settings{dir: t.TempDir(), rounds: 3, quick: true, only: "W1,W10,W11"}, time.Now())
	require.NoError(t, err)
	r.retakes = 0
	require.NoError(t, r.takeSamples(t.Context()))
	least := map[string]float64{
		"W1PowerLoss": 0.02, "W1ProcessCrash": 0.02, "W10PowerLoss": 0.03, "W10ProcessCrash": 0.03,
	}
	// At PowerLoss the room of the log is written before its frames are: 2 MB for 300 of these
	// 1,000 steps, no more once the log has all of its room.
	most := map[string]float64{"W11PowerLoss": 16, "W11ProcessCrash": 7.5}
	rows := map[string]bool{}
	for _, row := range r.rows() {
		key := row.Workload + row.Durability
		switch row.Unit {
		case "steps/s":
			rows[key] = true
			t.Logf("%v: %.3f of the bare loop", key, row.Max/row.Bare)
			require.Greater(t, row.Max/row.Bare, least[key], "%v: %v of %v", key, row.Max, row.Bare)
		case "KB":
			rows[key] = true
			if row.What == "written per step of a chain" {
				require.Less(t, row.Value, most[key], key)
			}
		}
	}
	require.Len(t, rows, 6)
}

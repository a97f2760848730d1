package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/servers"
)

// TestMain runs the tests, or is a server that one needs.
func TestMain(m *testing.M) {
	serveMember()
	os.Exit(m.Run())
}

// Each side plays each kind of workload, and the table has all that is measured, in lines that a terminal has room for.
func TestSidesPlayWorkloads(t *testing.T) {
	servers.RequirePostgres(t)
	t.Setenv("TMPDIR", os.TempDir()) // it is changed for the servers
	var table bytes.Buffer
	require.NoError(t, runBench(t.Context(), []string{"-rounds", "1"}, &table, func(quick bool) []workload {
		require.False(t, quick)
		all := listWorkloads(true)
		large := all[len(all)-1]
		large.steps = 2
		return []workload{
			chains("W10", 2, 2, 3, true), {name: "W3", what: all[1].what, runs: 2, atOnce: 1, steps: 2, unit: unitRuns},
			{name: "W4", what: all[2].what, runs: 2, atOnce: 1, steps: 1, unit: unitStarts}, large,
		}
	}))
	seen := map[string]int{}
	for line := range strings.Lines(table.String()) {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 101, line)
		require.NotContains(t, line, "NaN")
		for _, name := range []string{"pawl, synced files", "pawl, PostgreSQL", "pawl, JetStream R3", "DBOS, synced SQLite", "DBOS, PostgreSQL"} {
			if strings.Contains(line, " "+name+" ") {
				seen[name]++
			}
		}
		if unit := strings.TrimSpace(line[:min(len(line), 30)]); strings.HasPrefix(line, "  ") && unit != "" {
			seen[unit]++
		}
	}
	require.Equal(t, map[string]int{
		"pawl, synced files": 6, "pawl, PostgreSQL": 11, "pawl, JetStream R3": 7, "DBOS, synced SQLite": 6, "DBOS, PostgreSQL": 9,
		unitSteps: 3, unitRuns: 1, "ms, median": 1, "ms, 99th percentile": 1, "bytes in the tables, a step": 1, "bytes of WAL, a step": 1,
		"round trips, a step": 1, "steps, a group": 1, "round trips, a group": 1,
	}, seen, "%s", &table)
}

func TestFigures(t *testing.T) {
	require.Equal(t, 2.0, medianOf([]float64{3, 1, 2}))
	require.Equal(t, 2.5, medianOf([]float64{4, 1, 3, 2}))
	for want, v := range map[string]float64{"0.036": 0.0361, "0.12": 0.1234, "12.3": 12.34, "123": 123.4, "1,000": 999.6, "12,035": 12034.5, "1.23M": 1234567} {
		require.Equal(t, want, formatFigure(v))
	}
}

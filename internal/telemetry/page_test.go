package telemetry_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/telemetry"
	"github.com/pawl-run/pawl/internal/testing/metertest"
)

// A row is what docs/metrics.md says of a metric.
type row struct {
	kind, unit string
	labels     []string
}

// readPage returns the rows of docs/metrics.md by the names of the metrics.
func readPage(t *testing.T) map[string]row {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	require.NoError(t, err)
	rows := map[string]row{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| `pawl.") {
			continue
		}
		require.Len(t, cells, 7, line)
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		name := strings.Trim(cells[0], "`")
		require.NotContains(t, rows, name)
		require.Contains(t, []string{"process", "directory"}, cells[4], name)
		require.NotEmpty(t, cells[5], name)
		rows[name] = row{cells[1], cells[2], regexp.MustCompile("[a-z._]+").FindAllString(cells[3], -1)}
	}
	return rows
}

// The page and the table have the same metrics, and an engine makes each of them as both say.
func TestThePageHasEachMetric(t *testing.T) {
	page, made := readPage(t), map[string]metertest.Instrument{}
	var p metertest.Provider
	open(t, t.TempDir(), &p, pawl.Options{})
	for _, m := range p.Instruments() {
		require.NotContains(t, made, m.Name)
		made[m.Name] = m
	}
	names := map[string]bool{}
	for _, d := range telemetry.Instruments() {
		names[d.Name] = true
		require.Contains(t, page, d.Name, "docs/metrics.md lacks it")
		require.Equal(t, row{string(d.Kind), d.Unit, d.Labels}, page[d.Name], d.Name)
		require.Equal(t, metertest.Instrument{Name: d.Name, Kind: string(d.Kind), Unit: d.Unit, Text: d.Text}, made[d.Name])
	}
	for name := range page {
		require.True(t, names[name], "docs/metrics.md has %s, which nobody counts", name)
	}
	require.Len(t, made, len(names))
}

package telemetry_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pawl-run/pawl/internal/telemetry"
)

// metricName finds the metrics of pawl in an expression of Prometheus; labels are not followed by any of these.
var metricName = regexp.MustCompile(`\bpawl_[a-z_]+\b`)

// exported returns the names under which Prometheus has the metrics, by that of the instrument, and those of labels.
func exported() (names map[string][]string, labels map[string]bool) {
	names, labels = map[string][]string{}, map[string]bool{}
	for _, d := range telemetry.Instruments() {
		n := telemetry.PrometheusName(d)
		names[d.Name] = []string{n}
		if d.Kind == telemetry.Histogram {
			names[d.Name] = []string{n + "_bucket", n + "_count", n + "_sum"}
		}
		for _, l := range d.Labels {
			labels[strings.ReplaceAll(l, ".", "_")] = true
		}
	}
	return names, labels
}

// requireKnown fails unless all names in an expression are metrics or labels, and returns the metrics.
func requireKnown(t *testing.T, expr string) (used []string) {
	t.Helper()
	names, labels := exported()
	known := map[string]bool{}
	for _, all := range names {
		for _, n := range all {
			known[n] = true
		}
	}
	for _, n := range metricName.FindAllString(expr, -1) {
		require.True(t, known[n] || labels[n], "%s is no metric, in %s", n, expr)
		used = append(used, n)
	}
	return used
}

// The dashboard has every metric, and names no other.
func TestTheDashboardHasEachMetric(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "dashboards", "pawl.json"))
	require.NoError(t, err)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &board))
	used := map[string]bool{}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			for _, n := range requireKnown(t, target.Expr) {
				used[n] = true
			}
		}
	}
	requireKnown(t, string(text))
	names, _ := exported()
	for name, all := range names {
		found := false
		for _, n := range all {
			found = found || used[n]
		}
		require.True(t, found, "dashboards/pawl.json lacks %s", name)
	}
}

// An alertRule is one of dashboards/rules.yaml.
type alertRule struct {
	Alert, Expr string
	Annotations struct {
		Summary    string
		RunbookURL string `yaml:"runbook_url"`
	}
}

// Each alert is of metrics that there are, and leads to a section of the runbook, which names it. The runbook names no other.
func TestTheRunbookHasEachAlert(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "dashboards", "rules.yaml"))
	require.NoError(t, err)
	var rules struct {
		Groups []struct{ Rules []alertRule }
	}
	require.NoError(t, yaml.Unmarshal(text, &rules))
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "runbook.md"))
	require.NoError(t, err)
	sections := map[string]string{}
	for _, s := range strings.Split(string(page), "\n## ")[1:] {
		title, body, _ := strings.Cut(s, "\n")
		sections[strings.ReplaceAll(strings.ToLower(title), " ", "-")] = body
	}
	count := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			count++
			require.NotEmpty(t, requireKnown(t, strings.ReplaceAll(r.Expr, "node_filesystem", "pawl_actor_active node_filesystem")), r.Alert)
			requireKnown(t, r.Annotations.Summary)
			anchor, ok := strings.CutPrefix(r.Annotations.RunbookURL, "https://github.com/pawl-run/pawl/blob/main/docs/runbook.md#")
			require.True(t, ok, r.Alert)
			require.Regexp(t, `(?m)^- \*\*Alert\*\*: .*`+"`"+r.Alert+"`", sections[anchor], r.Alert)
		}
	}
	require.Greater(t, count, 10)
	require.Equal(t, count, strings.Count(string(page), "`Pawl"), "the runbook has an alert that is no rule")
}

// Prometheus fires each alert when dashboards/rules_test.yaml says so, if promtool is installed; PAWL_PROMETHEUS=required fails without.
func TestRulesFire(t *testing.T) {
	binary, err := exec.LookPath("promtool")
	if err != nil && os.Getenv("PAWL_PROMETHEUS") != "required" {
		t.Log("SKIPPED: promtool is not installed")
		return
	}
	require.NoError(t, err)
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Dir = filepath.Join("..", "..", "dashboards")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

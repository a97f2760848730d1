package soundness_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/pawltest"
	"github.com/pawl-run/pawl/soundness"
	"github.com/pawl-run/pawl/workflow"
)

// planted is the first line of a definition with a fault: its code, and where it is.
var planted = regexp.MustCompile(`^# (\w+) at (\w+): `)

// TestPlantedFaults finds the fault in each definition of testdata, and plays the runs that
// show it.
func TestPlantedFaults(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 40)
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			want := planted.FindStringSubmatch(string(text))
			require.NotNil(t, want)
			d, err := workflow.ParseYAML(text)
			require.NoError(t, err)
			r, err := soundness.Check(d, soundness.Options{})
			require.NoError(t, err)
			var found []string
			for _, f := range r.Faults() {
				found = append(found, f.Code+" at "+string(f.Node))
				playScenario(t, f)
			}
			assert.Contains(t, found, want[1]+" at "+want[2], "%v", r)
			if want[1] != soundness.ExpressionType {
				assert.Len(t, found, 1, "%v", r)
			}
		})
	}
}

// playScenario plays the run that shows a fault, on the whole engine.
func playScenario(t *testing.T, f soundness.Finding) {
	if !assert.NotEmpty(t, f.Scenario, "%v", f) {
		return
	}
	path := filepath.Join(t.TempDir(), "scenario.yaml")
	require.NoError(t, os.WriteFile(path, []byte(f.Scenario), 0o600))
	scenarios, err := pawltest.Load(path)
	require.NoError(t, err, f.Scenario)
	require.Len(t, scenarios, 1)
	report := pawltest.Play(t, scenarios[0], pawltest.Options{})
	assert.True(t, report.Passed, "%v\n%s\n%v", f, f.Scenario, report)
}

package soundness_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pawl-run/pawl/soundness"
	"github.com/pawl-run/pawl/workflow"
)

// definitionsIn returns the definitions in a file: a definition, or scenarios that hold some.
// It leaves out the definition of a scenario that expects a deadlock.
func definitionsIn(t *testing.T, path string) (out []*workflow.Definition) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc map[string]any
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			return out // a scenario of what cannot be read
		}
		if expect, _ := doc["expect"].(map[string]any); expect != nil {
			if failure, _ := expect["error"].(map[string]any); failure["code"] == workflow.CodeDeadlock {
				continue // it has the fault that it shows
			}
		}
		var found []any
		if doc["nodes"] != nil {
			found = append(found, doc)
		}
		found = append(found, doc["definition"])
		more, _ := doc["definitions"].([]any)
		for _, x := range append(found, more...) {
			text, err := json.Marshal(x)
			if x == nil || err != nil {
				continue
			}
			if def, err := workflow.ParseJSON(text); err == nil && def.Validate() == nil {
				out = append(out, def)
			}
		}
	}
}

// TestNoAlarm checks the definitions of the 43 control-flow patterns and of the examples: none
// has a fault.
func TestNoAlarm(t *testing.T) {
	patterns, err := filepath.Glob("../testdata/patterns/*.yaml")
	require.NoError(t, err)
	examples, err := filepath.Glob("../examples/*/*.yaml")
	require.NoError(t, err)
	inGo, err := filepath.Glob("../examples/testdata/definitions/*.json") // of the examples whose definitions are Go values
	require.NoError(t, err)
	require.NotEmpty(t, inGo)
	checked, complete, states := 0, 0, 0
	for _, path := range slices.Concat(patterns, examples, inGo) {
		for _, d := range definitionsIn(t, path) {
			r, err := soundness.Check(d, soundness.Options{})
			require.NoError(t, err)
			checked++
			states += r.States
			if r.Complete {
				complete++
			} else {
				t.Logf("%s: %s: %d states, %v", path, d.Name, r.States, r.Bounds)
			}
			for _, f := range r.Faults() {
				t.Errorf("%s: %s: %v\n%s", path, d.Name, f, f.Scenario)
			}
		}
	}
	require.Greater(t, checked, 50)
	t.Logf("%d definitions, %d wholly, %d states", checked, complete, states)
}

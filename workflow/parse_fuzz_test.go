package workflow_test

import (
	"errors"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

func FuzzParseJSON(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) { fuzzParse(t, data, workflow.ParseJSON) })
}

func FuzzParseYAML(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) { fuzzParse(t, data, workflow.ParseYAML) })
}

func seed(f *testing.F) {
	for _, text := range workflow.GoodDefinitions(f) {
		d, err := workflow.Parse([]byte(text))
		require.NoError(f, err)
		data, err := d.MarshalJSON()
		require.NoError(f, err)
		f.Add([]byte(text))
		f.Add(data)
	}
	t := &testing.T{}
	for _, file := range []string{"syntax", "definition", "node", "transition", "group", "graph"} {
		datadriven.RunTestFromString(t, workflow.ReadFile(f, "testdata/bad/"+file+".txt"), func(_ *testing.T, d *datadriven.TestData) string {
			f.Add([]byte(d.Input))
			return d.Expected
		})
	}
}

// fuzzParse: nothing panics, every refusal has a place, and what parses is
// written and parses to the same definition.
func fuzzParse(t *testing.T, data []byte, parse func([]byte) (*workflow.Definition, error)) {
	d, err := parse(data)
	if err != nil {
		var e *workflow.DefinitionError
		require.True(t, errors.As(err, &e))
		for _, p := range e.Problems {
			require.Positive(t, p.Line, "%s", p)
			require.NotEmpty(t, p.Code)
		}
		return
	}
	text, err := d.MarshalJSON()
	require.NoError(t, err)
	again, err := workflow.ParseJSON(text)
	require.NoError(t, err, "%s", text)
	require.Equal(t, workflow.HashOfDefinition(t, d), workflow.HashOfDefinition(t, again))
	require.Equal(t, d.Validate() == nil, again.Validate() == nil)
}

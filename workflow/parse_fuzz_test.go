package workflow

import (
	"errors"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

func FuzzParseJSON(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) { fuzzParse(t, data, ParseJSON) })
}

func FuzzParseYAML(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) { fuzzParse(t, data, ParseYAML) })
}

func seed(f *testing.F) {
	for _, text := range goodDefinitions(f) {
		d, err := Parse([]byte(text))
		require.NoError(f, err)
		data, err := d.MarshalJSON()
		require.NoError(f, err)
		f.Add([]byte(text))
		f.Add(data)
	}
	t := &testing.T{}
	for _, file := range []string{"syntax", "definition", "node", "transition", "group", "graph"} {
		datadriven.RunTestFromString(t, readFile(f, "testdata/bad/"+file+".txt"), func(_ *testing.T, d *datadriven.TestData) string {
			f.Add([]byte(d.Input))
			return d.Expected
		})
	}
}

// fuzzParse: nothing panics, every refusal has a place, and what parses is
// written and parses to the same definition.
func fuzzParse(t *testing.T, data []byte, parse func([]byte) (*Definition, error)) {
	d, err := parse(data)
	if err != nil {
		var e *DefinitionError
		require.True(t, errors.As(err, &e))
		for _, p := range e.Problems {
			require.Positive(t, p.Line, "%s", p)
			require.NotEmpty(t, p.Code)
		}
		return
	}
	text, err := d.MarshalJSON()
	require.NoError(t, err)
	again, err := ParseJSON(text)
	require.NoError(t, err, "%s", text)
	require.Equal(t, hashOfDefinition(t, d), hashOfDefinition(t, again))
	require.Equal(t, d.Validate() == nil, again.Validate() == nil)
}

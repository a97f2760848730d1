package workflow

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests outside of the package have these under other names.
var (
	ReadFile         = readFile
	GoodDefinitions  = goodDefinitions
	ProblemsOf       = problemsOf
	RequireRoundTrip = requireRoundTrip
	HashOfDefinition = hashOfDefinition
)

// MaxListed is how many problems the text of an error lists.
const MaxListed = maxListed

// Completed returns a definition with its defaults.
func (d *Definition) Completed() *Definition { return d.completed() }

func readFile(t testing.TB, path string) string {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

// goodDefinitions returns the texts of testdata/good by file name.
func goodDefinitions(t testing.TB) map[string]string {
	files, err := filepath.Glob("testdata/good/*")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	texts := map[string]string{}
	for _, f := range files {
		texts[f] = readFile(t, f)
	}
	return texts
}

func problemsOf(t *testing.T, format, text string) []Problem {
	parse := map[string]func([]byte) (*Definition, error){"json": ParseJSON, "yaml": ParseYAML}[format]
	require.NotNil(t, parse, "unknown command %s", format)
	d, err := parse([]byte(text))
	if err == nil {
		require.Equal(t, invalidOf(d), d.Validate() != nil)
		return d.Check()
	}
	var e *DefinitionError
	require.True(t, errors.As(err, &e))
	return e.Problems
}

func invalidOf(d *Definition) bool {
	for _, p := range d.Check() {
		if !p.Warning {
			return true
		}
	}
	return false
}

// requireRoundTrip writes d and reads it again, as JSON and as the YAML that
// JSON is.
func requireRoundTrip(t require.TestingT, d *Definition) {
	data, err := d.MarshalJSON()
	require.NoError(t, err)
	for _, parse := range []func([]byte) (*Definition, error){ParseJSON, ParseYAML} {
		again, err := parse(data)
		require.NoError(t, err, "%s", data)
		twice, err := again.MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, string(data), string(twice))
		require.Equal(t, hashOfDefinition(t, d), hashOfDefinition(t, again))
	}
}

func hashOfDefinition(t require.TestingT, d *Definition) string {
	hash, err := d.Hash()
	require.NoError(t, err)
	return hash
}

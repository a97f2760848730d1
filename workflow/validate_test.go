package workflow

import (
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

// TestBadDefinitions plays testdata/bad: each case is a definition, and below
// it every problem that is found, warnings as well. Run it with -rewrite to
// write what is found now.
func TestBadDefinitions(t *testing.T) {
	codes := map[string]int{}
	cases := 0
	datadriven.Walk(t, "testdata/bad", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			problems := problemsOf(t, d.Cmd, d.Input)
			cases++
			var b strings.Builder
			for _, p := range problems {
				codes[p.Code]++
				require.Positive(t, p.Line, "%s", p)
				b.WriteString(p.String() + "\n")
			}
			if len(problems) == 0 {
				return "sound\n"
			}
			return b.String()
		})
	})
	require.GreaterOrEqual(t, cases, 90)
	for _, code := range problemCodes(t) {
		require.Contains(t, codes, code, "no case in testdata/bad has this code")
	}
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

// problemCodes reads the constants of package problem.
func problemCodes(t *testing.T) []string {
	var codes []string
	for _, m := range regexp.MustCompile(`(?m)^\t\w+ += "(\w+)"`).FindAllStringSubmatch(readFile(t, filepath.Join("..", "internal", "problem", "problem.go")), -1) {
		codes = append(codes, m[1])
	}
	require.NotEmpty(t, codes)
	return codes
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

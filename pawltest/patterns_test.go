package pawltest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/problem"
)

// patterns is how many control-flow patterns there are.
const patterns = 43

// Each pattern has one file of scenarios, named by its number.
func TestEveryPatternHasScenarios(t *testing.T) {
	folder := filepath.Join("..", "testdata", "patterns")
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	found := map[string]string{}
	for _, file := range files {
		number, _, _ := strings.Cut(file.Name(), "_")
		assert.Empty(t, found[number], "%s: a second file of that number", file.Name())
		found[number] = file.Name()
	}
	for n := 1; n <= patterns; n++ {
		number := fmt.Sprintf("wcp%02d", n)
		if !assert.Contains(t, found, number, "no file for it in %s", folder) {
			continue
		}
		scenarios, err := Load(filepath.Join(folder, found[number]))
		assert.NoError(t, err)
		assert.NotEmpty(t, scenarios, found[number])
		for _, s := range scenarios {
			for _, p := range s.definition.definition.Check() {
				assert.NotContains(t, []string{problem.MayMatchNothing, problem.Unreachable}, p.Code, "%s: %s", found[number], p)
			}
		}
	}
	assert.Len(t, files, patterns)
}

// The documentation has a row for each pattern, in order, which links to that
// pattern's file; and no link on that page leads nowhere.
func TestPatternsAreDocumented(t *testing.T) {
	docs := filepath.Join("..", "docs")
	page, err := os.ReadFile(filepath.Join(docs, "patterns.md"))
	require.NoError(t, err)
	link := regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)
	for _, m := range link.FindAllStringSubmatch(string(page), -1) {
		if !strings.Contains(m[1], "://") {
			_, err := os.Stat(filepath.Join(docs, filepath.FromSlash(m[1])))
			assert.NoError(t, err)
		}
	}
	row := regexp.MustCompile(`(?m)^\| *(\d+) *\|.*\|$`)
	rows := row.FindAllStringSubmatch(string(page), -1)
	assert.Len(t, rows, patterns)
	for i, m := range rows {
		n := i + 1
		assert.Equal(t, strconv.Itoa(n), m[1], "the number of row %d", n)
		assert.Contains(t, m[0], fmt.Sprintf("(../testdata/patterns/wcp%02d_", n), "the link of row %d", n)
	}
}

package pawltest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

// yamlBlock is a block of a page in YAML.
var yamlBlock = regexp.MustCompile("(?s)(?:^|\n)```yaml\n(.*?\n)```\n")

// Every definition in the pages is sound, and every scenario there comes out as it says.
func TestBlocksOfPages(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*.md"} {
		found, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(pattern)))
		require.NoError(t, err)
		pages = append(pages, found...)
	}
	definitions, scenarios := 0, 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range yamlBlock.FindAllStringSubmatchIndex(string(text), -1) {
			switch block := string(text[m[2]:m[3]]); {
			case strings.HasPrefix(block, "scenario:"):
				scenarios += playBlock(t, page, block)
			case strings.HasPrefix(block, "schedules:"): // TestPage of package schedule reads it
			case strings.Contains(block, "\nnodes:"):
				definitions++
				def, err := workflow.ParseYAML([]byte(block))
				if assert.NoError(t, err, "%s:\n%s", page, block) {
					assert.NoError(t, def.Validate(), "%s:\n%s", page, block)
				}
			default: // a part of a file, which TestQuotedFiles of internal/lint finds there
				assert.True(t, strings.HasSuffix(string(text[:m[0]]), " -->"), "%s: neither a scenario nor a definition nor quoted:\n%s", page, block)
			}
		}
	}
	require.Positive(t, definitions)
	require.Positive(t, scenarios)
	t.Logf("%d definitions, %d scenarios", definitions, scenarios)
}

// playBlock plays the scenarios of a block and returns how many there were: none if their
// definition is in a file, where the test of that folder plays them.
func playBlock(t *testing.T, page, block string) int {
	if strings.Contains(block, "\nfile: ") {
		return 0
	}
	path := filepath.Join(t.TempDir(), "block.yaml")
	require.NoError(t, os.WriteFile(path, []byte(block), 0o600))
	scenarios, err := Load(path)
	require.NoError(t, err, "%s:\n%s", page, block)
	for _, s := range scenarios {
		r := Play(t, s, Options{})
		assert.True(t, r.Passed, "%s: %s: %v", page, s.Name, r)
	}
	return len(scenarios)
}

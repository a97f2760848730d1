package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// quoted finds a block of a page that stands below the name of a file, in a comment.
var quoted = regexp.MustCompile("(?s)<!-- ([^ ]+) -->\n```[a-z]*\n(.*?)\n```\n")

// A quotation on a page is in the file that it names.
func TestQuotedFiles(t *testing.T) {
	root := filepath.Join("..", "..")
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	quotes := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
			quotes++
			file, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m[1])))
			require.NoError(t, err, page)
			require.True(t, strings.Contains(string(file), m[2]), "%s: %s has other lines than are quoted", page, m[1])
		}
	}
	require.Positive(t, quotes)
}

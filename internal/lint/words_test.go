package lint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// maxWords bounds the words of the pages that users read, so that a new page replaces an old one.
const maxWords = 40_000

// TestWordsOfPages counts the words of docs and of the pages at the top. A word has a letter or a digit: the bars of
// tables and the signs of code are none.
func TestWordsOfPages(t *testing.T) {
	root := filepath.Join("..", "..")
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	for _, page := range []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"} {
		pages = append(pages, filepath.Join(root, page))
	}
	sum := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		n := countWords(string(text))
		t.Logf("%6d %s", n, filepath.Base(page))
		sum += n
	}
	t.Logf("%6d words on %d pages", sum, len(pages))
	require.LessOrEqual(t, sum, maxWords, "cut what a page says twice, or move what owners need beside the code")
	require.Equal(t, 4, countWords("| a `b` | -- 1,000 |\n~~~ d_e"))
}

func countWords(text string) (n int) {
	for word := range strings.FieldsSeq(text) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

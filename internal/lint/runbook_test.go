package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	messageRow = regexp.MustCompile(`(?m)^\| ((?:note: )?` + "`" + `[^|]*) \|`) // the first column of a table of messages
	// variable is what a program puts into a message, and the name of the file in front of it.
	variable = regexp.MustCompile(`\.\.\.|"ID"|\bN\b|KEY|NAME|\b[0-9]\b|(pawl\.db|pawl\.db-wal|pawl\.db-redo|LOCK):|the status|;`)
)

// Every message that the runbook explains stands in the source of a package that verifies, repairs or stores.
func TestRunbookKnowsTheMessages(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "runbook.md"))
	require.NoError(t, err)
	_, tables, found := strings.Cut(string(page), "\n## Messages of pawl verify\n")
	require.True(t, found)
	var source strings.Builder
	for _, folder := range []string{"rescue", "store", "internal/index", "internal/redo", "internal/sqlite", "blob"} {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				source.Write(text)
			}
		}
	}
	parts := 0
	for _, row := range messageRow.FindAllStringSubmatch(tables, -1) {
		for _, span := range codeSpan.FindAllString(row[1], -1) {
			for _, part := range variable.Split(strings.Trim(span, "`"), -1) {
				if part = strings.Trim(part, " :,"); len(part) > 3 {
					parts++
					assert.True(t, strings.Contains(source.String(), part), "docs/runbook.md explains %s, which no program says", span)
				}
			}
		}
	}
	require.Greater(t, parts, 40)
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs/operations.md shows what the commands print: the files of the scripts whose names
// end in .doc are there, word for word.
func TestOperationsShowsOutput(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	scripts, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	shown := 0
	for _, path := range scripts {
		script, err := txtar.ParseFile(path)
		require.NoError(t, err)
		for _, f := range script.Files {
			if strings.HasSuffix(f.Name, ".doc") {
				shown++
				there := strings.Contains(string(page), "\n"+string(f.Data)+"```\n")
				assert.True(t, there, "docs/operations.md lacks %s of %s:\n%s", f.Name, path, f.Data)
			}
		}
	}
	assert.NotZero(t, shown)
	assert.Contains(t, string(page), "```text\n"+importLines+"```\n")
}

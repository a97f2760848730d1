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

// The pages show what the commands print: the files of the scripts whose names
// end in .doc are there, word for word. docs/command.md has all commands, and the
// exit statuses as the help has them.
func TestPagesShowOutput(t *testing.T) {
	paths, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	var pages strings.Builder
	for _, path := range paths {
		page, err := os.ReadFile(path)
		require.NoError(t, err)
		pages.Write(page)
	}
	scripts, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	shown := 0
	for _, path := range scripts {
		script, err := txtar.ParseFile(path)
		require.NoError(t, err)
		for _, f := range script.Files {
			if strings.HasSuffix(f.Name, ".doc") {
				shown++
				there := strings.Contains(pages.String(), "\n"+string(f.Data)+"```\n")
				assert.True(t, there, "the pages lack %s of %s:\n%s", f.Name, path, f.Data)
			}
		}
	}
	assert.NotZero(t, shown)
	assert.Contains(t, pages.String(), "```text\n"+importLines+"```\n")

	page, err := os.ReadFile("../../docs/command.md")
	require.NoError(t, err)
	for _, group := range verbGroups() {
		for _, v := range group.verbs {
			assert.True(t, v.hidden || strings.Contains(string(page), "`"+v.name+"`"), "docs/command.md lacks %s", v.name)
		}
	}
	help, err := txtar.ParseFile("testdata/help.txt")
	require.NoError(t, err)
	_, statuses, found := strings.Cut(string(help.Files[0].Data), "\nExit statuses:\n")
	require.True(t, found)
	assert.Contains(t, string(page), "```text\nExit statuses:\n"+statuses+"```\n")
}

package handler_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

// The definitions of docs/handlers.md are valid.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "handlers.md"))
	require.NoError(t, err)
	blocks := strings.Split(string(text), "```yaml\n")[1:]
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		source, _, closed := strings.Cut(block, "```\n")
		require.True(t, closed)
		def, err := workflow.ParseYAML([]byte(source))
		require.NoError(t, err)
		assert.Empty(t, def.Check())
	}
}

package index_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/workflow"
)

// The file of any id is below runs, under a name that is safe on every file
// system, and two ids have two names, also where case does not count.
func FuzzRunID(f *testing.F) {
	for _, seed := range [][2]string{
		{"", "."}, {"..", "../x"}, {"Run", "run"}, {"e\u0301", "\u00e9"}, {"a\x00", "a"}, {"CON", "con"}, {"x.", "x"}, {"x ", "x"},
		{"\xff", "\xfe"}, {"a/1.1", "a/1.2"}, {"%2e", "."}, {"x.db", "x.db-wal"}, {"\u212a", "K"},
	} {
		f.Add(seed[0], seed[1], uint64(1))
	}
	safe := regexp.MustCompile(`^runs/[0-9a-f]{2}/[0-9a-f]{32}-[0-9a-f]{16}[ab]\.db$`)
	f.Fuzz(func(t *testing.T, a, b string, nonce uint64) {
		one, two := index.FileName(workflow.RunID(a), nonce, 1), index.FileName(workflow.RunID(b), nonce, 1)
		require.Regexp(t, safe, filepath.ToSlash(one))
		require.True(t, filepath.IsLocal(one))
		require.Equal(t, a == b, strings.EqualFold(one, two))
		require.NotEqual(t, one, index.FileName(workflow.RunID(a), nonce, 2))
		require.NotEqual(t, one, index.FileName(workflow.RunID(a), nonce+1, 1))
	})
}

package store

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// tailOf returns a tail in a directory of its own, and an entry of about the size of a step's.
func tailOf(tb testing.TB) (*logTail, []byte) {
	root, err := os.OpenRoot(tb.TempDir())
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = root.Close() })
	e := logEntry{kind: entryCommit, changes: [][]byte{bytes.Repeat([]byte("0123456789abcdef"), 20)}}
	return &logTail{dir: &Dir{path: root.Name(), root: root}}, append(e.encode(), make([]byte, 300)...)
}

// BenchmarkTailKeep measures the cost of the tail for a commit.
func BenchmarkTailKeep(b *testing.B) {
	t, entry := tailOf(b)
	b.SetBytes(int64(len(entry)))
	for b.Loop() {
		t.keepEntry(entry, tailMine)
	}
	require.False(b, t.off)
	require.NoError(b, t.closeFile())
}

// BenchmarkTailOpen measures the cost of a file full of small entries for an opening.
func BenchmarkTailOpen(b *testing.B) {
	t, entry := tailOf(b)
	entry = entry[:len(entry)-300]
	for t.size < tailBytes-1000 {
		t.keepEntry(entry, tailMine)
	}
	full := t.size
	for b.Loop() {
		require.NoError(b, t.closeFile())
		require.NoError(b, t.openNewer())
	}
	require.Equal(b, full, t.size)
	require.NoError(b, t.closeFile())
}

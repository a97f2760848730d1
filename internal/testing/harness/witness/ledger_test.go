package witness

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Part of a last line counts for nothing, and the next life writes whole lines.
func TestPartOfALastLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	for life, part := range []string{`{"Life":0,"Wh`, "", `{`} {
		l, err := OpenLedger(path, life)
		require.NoError(t, err)
		l.Write(Entry{What: Closed})
		_, err = l.file.WriteString(part)
		require.NoError(t, err)
		require.NoError(t, l.Close())
		lines, err := ReadLedger(path)
		require.NoError(t, err)
		require.Len(t, lines, life+1)
		require.Equal(t, Entry{Life: life, What: Closed}, lines[life])
	}
	require.NoError(t, os.WriteFile(path, []byte("{\n"), 0o600))
	_, err := ReadLedger(path)
	require.Error(t, err, "a whole line that is none")
}

// A text that is no definition panics.
func TestMustParse(t *testing.T) {
	require.Equal(t, "x", MustParse("{name: x, start: a, nodes: [{id: a}]}").Name)
	require.Panics(t, func() { MustParse("none") })
}

package folderlog

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// A listing that begins too late, as the first entries were made while it was, does not make a reader skip them.
func TestListingWithoutTheFirst(t *testing.T) {
	l := &Log{dir: t.TempDir()}
	for _, seq := range []uint64{3, 4, 5} {
		require.NoError(t, os.WriteFile(l.pathOf(seq), nil, 0o600))
	}
	for _, listed := range []uint64{3, 4, 5} {
		first, err := l.firstBefore(listed)
		require.NoError(t, err)
		require.Equal(t, uint64(3), first)
	}
}

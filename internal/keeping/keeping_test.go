package keeping

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// While backups are made, no blob is collected: what is purged meanwhile is in
// them.
func TestNothingIsCollectedDuringABackup(t *testing.T) {
	k := Of(nil, nil)
	removed := 0
	remove := func() (bool, error) { removed++; return true, nil }
	one, two := k.Freeze(), k.Freeze()
	for _, thaw := range []func(){one, two} {
		gone, err := k.collectBlob("h", remove)
		require.NoError(t, err)
		require.False(t, gone)
		thaw()
	}
	gone, err := k.collectBlob("h", remove)
	require.NoError(t, err)
	require.True(t, gone)
	require.Equal(t, 1, removed)
}

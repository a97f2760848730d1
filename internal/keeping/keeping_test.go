package keeping

import (
	"context"
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

// A store that takes long to remove a blob keeps no commit of other runs, and whoever holds that blob waits for the end.
func TestARemovalThatTakesLongKeepsNobodyElse(t *testing.T) {
	k, begun, end, gone := Of(nil, nil), make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = k.collectBlob("old", func() (bool, error) {
			close(begun)
			<-end
			return true, nil
		})
	}()
	<-begun
	release, err := k.PutMerged(t.Context(), nil)
	require.NoError(t, err)
	release()
	k.Pin("old", "other")
	k.Unpin("old", "other")
	release, err = k.Hold(t.Context(), "other")
	require.NoError(t, err)
	release()
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = k.Hold(impatient, "old")
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, k.held)

	held := make(chan struct{})
	go func() {
		defer close(held)
		defer k.Freeze()()
		release, err := k.Hold(context.Background(), "old")
		if err == nil {
			release()
		}
	}()
	select {
	case <-held:
		t.Error("it did not wait")
	default:
	}
	close(end)
	<-held
	<-gone
	require.Empty(t, k.removing)
}

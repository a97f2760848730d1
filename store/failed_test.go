package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

// A lock record that was written in part says nothing, wherever it was cut.
func TestTornMark(t *testing.T) {
	path := t.TempDir()
	d, err := Open(path, Options{})
	require.NoError(t, err)
	require.NoError(t, d.Close())
	lockPath := filepath.Join(path, lockName)
	whole, err := os.ReadFile(lockPath)
	require.NoError(t, err)
	var lengths []int
	for n := range len(whole) {
		lengths = append(lengths, n)
	}
	for _, n := range harness.SampleOfDay(t, harness.Figure(8, 2, 1), lengths) {
		require.NoError(t, os.WriteFile(lockPath, whole[:n], 0o600))
		d, err := Open(path, Options{})
		require.NoError(t, err, "%q", whole[:n])
		require.NoError(t, d.Close())
	}
}

// A directory that failed under its engine opens again after Close: the log stays,
// as the lock record says, and everything that was committed is there.
func TestOpenAfterAFailure(t *testing.T) {
	path := t.TempDir()
	d, err := Open(path, Options{})
	require.NoError(t, err)
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil))
	seq := o.run.Head().Seq
	d.mu.Lock()
	require.ErrorIs(t, d.commitFailed(os.ErrInvalid), ErrFailed)
	d.mu.Unlock()
	<-d.Failed()
	require.ErrorIs(t, d.Err(), ErrFailed)
	require.ErrorIs(t, d.Err(), ErrUnknown)
	_, err = d.Head("r1")
	require.ErrorIs(t, err, ErrFailed)
	require.NoError(t, d.Close())

	d, err = Open(path, Options{})
	require.NoError(t, err)
	h, err := d.Head("r1")
	require.NoError(t, err)
	require.Equal(t, seq, h.Seq)
	require.NoError(t, d.Close())
}

// Closing a directory in order leaves no log behind.
func TestCloseRemovesTheLog(t *testing.T) {
	path := t.TempDir()
	d, err := Open(path, Options{})
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(path, indexWAL))
	require.NoError(t, d.Close())
	require.NoFileExists(t, filepath.Join(path, indexWAL))
}

package folderlog_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/store/folderlog"
	"github.com/pawl-run/pawl/store/logtest"
)

func openLog(t *testing.T, dir string) *folderlog.Log {
	l, err := folderlog.Open(dir)
	require.NoError(t, err)
	return l
}

func TestLog(t *testing.T) {
	logtest.Run(t, func(t *testing.T) func() store.Log {
		dir := filepath.Join(t.TempDir(), "of", "log")
		return func() store.Log { return openLog(t, dir) }
	})
}

// The log in memory, with which other packages test, does what this one does.
func TestMemory(t *testing.T) {
	logtest.Run(t, func(*testing.T) func() store.Log {
		m := &logtest.Memory{}
		return func() store.Log { return m.Writer(nil) }
	})
}

// nameOf returns the name of an entry.
func nameOf(dir string, seq int) string { return filepath.Join(dir, fmt.Sprintf("%020d", seq)) }

// fillLog takes a log and appends, so that it has so many entries, each of its number.
func fillLog(t *testing.T, dir string, entries int) *folderlog.Log {
	l := openLog(t, dir)
	_, err := l.Take(t.Context(), func(store.Position) []byte { return []byte("1") })
	require.NoError(t, err)
	for i := range entries - 1 {
		_, err = l.Append(t.Context(), fmt.Append(nil, i+2))
		require.NoError(t, err)
	}
	return l
}

// readLog returns the entries that can be read, and calls between with the number of each. The error is what the reading ended with.
func readLog(t *testing.T, l *folderlog.Log, after uint64, between func(seq uint64)) (read []string, err error) {
	for e, err := range l.Read(t.Context(), store.Position{Seq: after}) {
		if err != nil {
			return read, err
		}
		read = append(read, string(e.Data))
		between(e.Seq)
	}
	return read, nil
}

// An entry that the listing lacks, though it has later ones, is there all the same: a listing is not made at one instant.
func TestListingWithAGap(t *testing.T) {
	dir := t.TempDir()
	l := fillLog(t, dir, 4)
	aside := filepath.Join(dir, "aside")
	require.NoError(t, os.Rename(nameOf(dir, 3), aside)) // until the listing is made
	read, err := readLog(t, l, 0, func(seq uint64) {
		if seq == 2 {
			require.NoError(t, os.Rename(aside, nameOf(dir, 3)))
		}
	})
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2", "3", "4"}, read)
}

// Entries that are dropped, or lost with the end of the log, while somebody reads are no damage: reading again tells.
func TestEntriesThatGoMeanwhile(t *testing.T) {
	for name, remove := range map[string]func(dir string, l *folderlog.Log) error{
		"dropped": func(_ string, l *folderlog.Log) error { return l.Drop(t.Context(), store.Position{Seq: 3}) },
		"the end": func(dir string, _ *folderlog.Log) error {
			return errors.Join(os.Remove(nameOf(dir, 3)), os.Remove(nameOf(dir, 4)))
		},
	} {
		dir := t.TempDir()
		l := fillLog(t, dir, 4)
		read, err := readLog(t, l, 0, func(seq uint64) {
			if seq == 2 {
				require.NoError(t, remove(dir, l))
			}
		})
		require.ErrorContains(t, err, "read again", name)
		require.NotErrorIs(t, err, store.ErrCorrupt, name)
		require.Equal(t, []string{"1", "2"}, read, name)
		read, err = readLog(t, l, 0, func(uint64) {})
		require.NoError(t, err, name)
		require.Len(t, read, map[string]int{"dropped": 1, "the end": 2}[name])
	}
	dir := t.TempDir()
	l := fillLog(t, dir, 4)
	require.NoError(t, l.Drop(t.Context(), store.Position{Seq: 3}))
	_, err := readLog(t, l, 1, func(uint64) {})
	require.ErrorIs(t, err, store.ErrCorrupt, "the entry behind the one that the reader has is gone for good")
}

// A reader beside a writer sees a log without gaps.
func TestReadBesideAWriter(t *testing.T) {
	dir := t.TempDir()
	l := fillLog(t, dir, 200)
	var writing sync.WaitGroup
	defer writing.Wait()
	ended := make(chan struct{})
	writing.Go(func() { // until it has appended all
		defer close(ended)
		for i := range harness.Figure(100, 1000, 30000) {
			_, err := l.Append(t.Context(), fmt.Append(nil, i+201))
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	reader, last := openLog(t, dir), uint64(0)
	for going := true; going; {
		select {
		case <-ended:
			going = false
		default:
		}
		_, err := readLog(t, reader, last, func(seq uint64) {
			require.Equal(t, last+1, seq)
			last = seq
		})
		require.NoError(t, err)
	}
}

// A missing entry is told, and nothing behind it is read; other files are left alone.
func TestGap(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README"), nil, 0o600))
	l := fillLog(t, dir, 3)
	require.NoError(t, os.Remove(nameOf(dir, 2)))
	for after, want := range [][]string{{"1"}, nil} {
		read, err := readLog(t, l, uint64(after), func(uint64) {}) //nolint:gosec // 0 and 1
		damage := (*store.CorruptError)(nil)
		require.True(t, errors.As(err, &damage))
		require.Equal(t, nameOf(dir, 2), damage.File)
		require.Equal(t, want, read)
	}
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, names, 3, "nothing temporary is left")
}

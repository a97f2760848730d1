package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// temporary returns the names of what is under construction.
func temporary(t testing.TB, d *Dir) (names []string) {
	entries, err := os.ReadDir(filepath.Join(d.path, tmpDir))
	require.NoError(t, err)
	for _, e := range entries {
		if path.Join(tmpDir, e.Name()) != reserveFile {
			names = append(names, e.Name())
		}
	}
	return names
}

// A large file is built on the disk, from nothing or from the one before, and is
// read like any other.
func TestLargeFiles(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	path := t.TempDir()
	d := open(t, path)
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	require.NoError(t, o.file()) // a small one
	var seen []string
	defer d.hook.OnHit(func(point string) {
		if point == "file.fill" {
			seen = temporary(t, d)
		}
	})()
	for n := range 3 {
		o.do(state.Heartbeat{Token: 1}, large(2*largeFile+n))
		require.NoError(t, o.file())
		require.Len(t, seen, 1, "it grows on the disk, with no journal beside it")
		require.True(t, strings.HasSuffix(seen[0], ".db"), seen)
		require.Empty(t, temporary(t, d))
		require.Zero(t, logged(t, d))
		require.Equal(t, o.state.AllRows(), load(t, d, "r1").state.AllRows())
		o.same(d)
	}
	o.do(state.TaskCompleted{Token: 1, Attempt: 1}, decision.CompleteToken{Token: 1}, decision.CompleteRun{At: at(9)})
	require.NoError(t, o.file())
	require.NoError(t, d.Close())
	report, err := Verify(path)
	require.NoError(t, err)
	require.Empty(t, report.Findings)
	o.same(open(t, path))
}

// Damage of a large file is refused before it is built upon, and what cannot be
// built leaves nothing behind.
func TestLargeFilesThatFail(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	grown := func() (*Dir, *owner, string) {
		d := open(t, t.TempDir())
		o := start(t, d, "r1")
		o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1), large(2*largeFile))
		require.NoError(t, o.file())
		o.do(state.Heartbeat{Token: 1}, large(1000))
		return d, o, filepath.Join(d.path, load(t, d, "r1").run.Head().File)
	}
	refused := func(d *Dir, o *owner, what string) {
		err := o.file()
		var corrupt *CorruptError
		require.ErrorAs(t, err, &corrupt)
		require.Equal(t, workflow.RunID("r1"), corrupt.Run)
		require.Contains(t, corrupt.What, what)
		require.Empty(t, temporary(t, d))
		require.Equal(t, 1, logged(t, d))
	}
	damage := map[string]func(file string) error{
		"it is damaged": func(file string) error {
			data, err := os.ReadFile(file)
			data[len(data)/2] ^= 1
			return errors.Join(err, os.WriteFile(file, data, 0o600))
		},
		"the file is cut short": func(file string) error { return os.Truncate(file, largeFile) },
		"another file":          func(file string) error { return os.Truncate(file, 256<<20) },
		"it is not a database":  func(file string) error { return os.Truncate(file, 50) },
		"it is empty":           func(file string) error { return os.Truncate(file, 0) },
		"the file is missing":   os.Remove,
		"it is not a regular file": func(file string) error {
			return errors.Join(os.Remove(file), os.Symlink("/dev/zero", file))
		},
	}
	for what, spoil := range damage {
		t.Run(what, func(t *testing.T) {
			d, o, file := grown()
			require.NoError(t, spoil(file))
			copies := 0
			defer d.hook.OnHit(func(point string) {
				if point == "disk.write" {
					copies++
				}
			})()
			refused(d, o, what)
			require.Zero(t, copies, "nothing is written before it is proven")
		})
	}

	d, o, _ := grown()
	require.NoError(t, os.RemoveAll(filepath.Join(d.path, tmpDir)))
	require.NoError(t, os.WriteFile(filepath.Join(d.path, tmpDir), nil, 0o600))
	require.Error(t, o.file())
	require.NoError(t, os.Remove(filepath.Join(d.path, tmpDir))) // which the next file makes again
	again := load(t, d, "r1")
	require.NoError(t, again.file())
	again.same(d)
}

// A large file is built where the directory is, wherever the process is by then.
func TestLargeFilesAfterChdir(t *testing.T) {
	t.Chdir(t.TempDir())
	d := open(t, "data")
	o := start(t, d, "r1")
	t.Chdir(t.TempDir())
	o.do(state.Start{}, startRun(nil), large(2*largeFile))
	require.NoError(t, o.file())
	o.same(d)
}

// While a large file is built another one waits, and small ones do not.
func TestLargeFilesLeaveAWorker(t *testing.T) {
	d := open(t, t.TempDir())
	begun, goOn := make(chan struct{}, 1), make(chan struct{})
	var held atomic.Bool
	defer d.hook.OnHit(func(point string) {
		if point == "file.fill" && !held.Swap(true) {
			begun <- struct{}{}
			<-goOn
		}
	})()
	file := func(id workflow.RunID, bytes int) chan error {
		o := start(t, d, id)
		o.do(state.Start{}, startRun(nil), large(bytes))
		done := make(chan error, 1)
		o.run.Flush(o.state.TakeChanges(), nil, func(err error) { done <- err })
		return done
	}
	first := file("large", 2*largeFile)
	<-begun
	second := file("second", 2*largeFile)
	for i := range 10 {
		require.NoError(t, <-file(workflow.RunID(fmt.Sprint("small", i)), 10))
	}
	require.Empty(t, second, "large files are built one at a time")
	close(goOn)
	require.NoError(t, <-first)
	require.NoError(t, <-second)
}

// A large file that the system cannot read is not damaged: who comes again may find it in
// order.
func TestALargeFileThatCannotBeRead(t *testing.T) {
	d := open(t, t.TempDir())
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1), large(2*largeFile))
	require.NoError(t, o.file())
	snap, err := d.openSnapshot(t.Context(), "r1")
	require.NoError(t, err)
	defer snap.Close()
	require.NoError(t, snap.large.File.Close())
	_, err = snap.Replay(func([]decision.Event) {})
	require.ErrorIs(t, err, fs.ErrClosed)
	require.ErrorContains(t, err, "could not be read just now")
	require.NotErrorIs(t, err, ErrCorrupt)
	o.same(d)
}

// A file is taken to grow by the bytes of the records that go into it, and by a row for each token, branch and event.
func TestSizeIsEstimatedOfAllThatIsAdded(t *testing.T) {
	size := &atomic.Int64{}
	size.Store(1000)
	first := &flushRequest{size: size, told: [][]decision.Told{make([]decision.Told, 4), make([]decision.Told, 1)}}
	first.changes = state.Changes{Tokens: make([]*state.Token, 2), Branches: make([]state.BranchChange, 3)}
	second := &flushRequest{size: size}
	first.estimateAdded(500)
	second.estimateAdded(7)
	require.EqualValues(t, 1000+500+7+64*(2+3+4+1), estimateSize([]*flushRequest{first, second}))
}

//go:build unix

package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// Open waits while somebody else has the directory, for a second unless it is told otherwise, and
// until its context ends.
func TestOpenWaitsForTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir()
		first, err := Open(path, Options{})
		require.NoError(t, err)
		before := harness.Contents(t, path)
		for _, c := range []struct{ wait, want time.Duration }{{0, time.Second}, {-1, 0}, {time.Minute, time.Minute}} {
			begin := time.Now()
			_, err = Open(path, Options{LockWait: c.wait})
			require.ErrorIs(t, err, ErrLocked)
			require.InDelta(t, c.want, time.Since(begin), float64(maxLockPause))
		}
		ctx, stop := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		time.AfterFunc(time.Minute, func() { stop(enough) })
		_, err = OpenContext(ctx, path, Options{LockWait: 2 * time.Minute})
		require.ErrorIs(t, err, enough)
		require.ErrorIs(t, err, ErrLocked)
		require.Equal(t, before, harness.Contents(t, path), "who waits in vain changes nothing")
		time.AfterFunc(30*time.Second, func() { _ = first.Close() }) // the opening tells
		second, err := Open(path, Options{LockWait: time.Minute})
		require.NoError(t, err)
		require.NoError(t, second.Close())
		require.NoError(t, first.Close())
	})
}

// An engine that waits goes before those that give way, who hear of it; one that does not wait stands in nobody's way.
func TestEnginesGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir()
		looking, err := Open(path, Options{GivesWay: true})
		require.NoError(t, err)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, err = Open(path, Options{LockWait: -1})
		require.ErrorIs(t, err, ErrLocked)
		_, err = Open(path, Options{GivesWay: true, LockWait: time.Minute})
		require.ErrorIs(t, err, ErrLocked)
		require.ErrorIs(t, AwaitEngine(ctx, path), context.DeadlineExceeded, "no engine waits")
		opened := make(chan *Dir)
		go func() {
			d, err := Open(path, Options{LockWait: time.Minute})
			if err != nil {
				t.Error(err)
			}
			opened <- d
		}()
		hour, enough := context.WithTimeout(t.Context(), time.Hour)
		defer enough()
		require.NoError(t, AwaitEngine(hour, path))
		later := make(chan error)
		go func() {
			d, err := Open(path, Options{GivesWay: true, LockWait: time.Hour})
			if err == nil {
				err = d.Close()
			}
			later <- err
		}()
		synctest.Wait()
		require.NoError(t, looking.Close())
		d := <-opened
		_, err = Open(path, Options{GivesWay: true, LockWait: -1})
		require.ErrorIs(t, err, ErrLocked)
		require.NoError(t, d.Close())
		require.NoError(t, <-later)
	})
}

// Commands are told by what they were called with; of that nothing is told but the name of the command.
func TestCommandOf(t *testing.T) {
	for _, c := range []struct {
		arguments []string
		want      string
	}{
		{nil, ""},
		{[]string{"/usr/bin/pawl", "ls", "--where", "secret"}, "pawl ls"},
		{[]string{"pawl", "--key-file", "secret"}, "pawl"},
		{[]string{"pawl"}, "pawl"},
		{[]string{"/srv/orders", "ls"}, ""},
		{[]string{""}, ""},
	} {
		require.Equal(t, c.want, commandOf(c.arguments), "%q", c.arguments)
	}
}

// The error says who has the directory, where the system tells.
func TestLockedSaysWho(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	_, err := Open(path, Options{LockWait: -1})
	var held *LockedError
	require.ErrorAs(t, err, &held)
	if runtime.GOOS == "linux" && held.Process != 0 { // not on every file system
		require.Equal(t, os.Getpid(), held.Process)
	}
	require.Empty(t, held.Command)
	require.NoError(t, d.Close())
	require.Equal(t, "the directory is in use by another engine, of this process: close that one", (&LockedError{os.Getpid(), ""}).Error())
	require.Equal(t, `the directory is in use by the command "pawl ls", process 7: wait until it has ended, or end it`, (&LockedError{7, "pawl ls"}).Error())
	require.Equal(t, "the directory is in use by another engine, of process 7: close that one", (&LockedError{7, ""}).Error())
	require.Equal(t, "the directory is in use by another engine: close that one", (&LockedError{}).Error())
	require.False(t, (&lockGate{dir: filepath.Join(path, "none")}).isShut())
}

// Package replays lets the runs that a test has left behind be planned again: the planner
// decides what it decided before. It is for tests only.
package replays

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/store"
)

// most bounds the runs of one directory that are planned again: tests that start
// thousands start them alike.
const most = 100

// Dir returns an empty directory, as t.TempDir does. When the test is over, and what it opened there later is closed, the
// runs of all engine directories in it are planned again.
func Dir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		if _, err := CheckBelow(dir); err != nil {
			t.Errorf("the runs that the test has left behind: %v", err)
		}
	})
	return dir
}

// CheckBelow is Check for all engine directories in a folder. It returns how many runs there were in all.
func CheckBelow(folder string) (runs int, differences error) {
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() != index {
			return err
		}
		n, differs := Check(filepath.Dir(path))
		runs, differences = runs+n, errors.Join(differences, differs)
		return nil
	})
	return runs, errors.Join(differences, err)
}

// index is a file that every engine directory has.
const index = "pawl.db"

// Check plans the runs of an engine directory again, the first hundred of them. It returns
// how many there were, and an error for those that decide something else. It passes over
// everything that cannot be read because an engine has the directory open, a test has damaged
// it or it is sealed: other checks look after that.
func Check(dir string) (runs int, differences error) {
	for rec, err := range replay.All(replay.Options{}, dir) {
		if err == nil {
			err = checkRecording(rec)
			runs++
		}
		if !isUnreadable(err) {
			differences = errors.Join(differences, err)
		}
		if runs == most {
			break
		}
	}
	return runs, differences
}

func checkRecording(rec *replay.Recording) error {
	report, err := replay.Check(rec)
	if err == nil && report.Difference != nil {
		err = fmt.Errorf("run %q replays differently: %v", string(rec.Run), report.Difference)
	}
	return err
}

func isUnreadable(err error) bool {
	for _, known := range []error{store.ErrLocked, store.ErrCorrupt, store.ErrVersion, store.ErrNotOurs, store.ErrSealed, fs.ErrNotExist} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

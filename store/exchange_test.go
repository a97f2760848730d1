package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// checkpoint moves the log of an open directory into its pawl.db.
func checkpoint(t *testing.T, d *Dir) {
	require.NoError(t, d.readIndex(func(db *sqlite.Conn) error { return db.Script(`PRAGMA wal_checkpoint(TRUNCATE)`) }))
}

// exchanged returns a directory with commits before and after its pawl.db was put back
// to an earlier moment, by a rename, while it was open.
func exchanged(t *testing.T) *Dir {
	d := open(t, t.TempDir())
	run := func(id workflow.RunID) {
		o := start(t, d, id)
		o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
		o.do(state.Heartbeat{Token: 1}, decision.SetData{Path: []string{"state", "n"}, Value: int64(1)})
	}
	run("early")
	checkpoint(t, d)
	older, name := filepath.Join(d.path, "older"), d.pathOf(indexFile)
	require.NoError(t, copyFile(name, older))
	run("late")
	checkpoint(t, d)
	require.NoError(t, os.Rename(older, name))
	run("last")
	return d
}

// Close does not seal a file that it had not open, and keeps the one that it had.
func TestCloseSealsTheFileThatIsOpen(t *testing.T) {
	d := exchanged(t)
	var damage *CorruptError
	require.ErrorAs(t, d.Close(), &damage)
	require.Equal(t, d.pathOf(indexFile), damage.File)
	require.ErrorContains(t, damage, "rename that one to pawl.db")

	_, err := Open(d.path, Options{})
	require.ErrorIs(t, err, ErrCorrupt, "nothing that was acknowledged may vanish")
	in, err := Inspect(d.path, nil)
	require.NoError(t, err)
	require.False(t, in.Trusted)
	require.NoError(t, in.Close())

	require.NoError(t, os.Rename(d.pathOf(savedIndex), d.pathOf(indexFile)))
	again := open(t, d.path)
	for _, id := range []workflow.RunID{"early", "late", "last"} {
		load(t, again, id)
	}
}

// A pawl.db that is gone when Close seals it is kept as well.
func TestCloseKeepsAnIndexWithoutAName(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"nothing": func(string) error { return nil },
		"folder":  func(path string) error { return os.Mkdir(path, 0o700) },
		"link":    func(path string) error { return os.Symlink("LOCK", path) },
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, t.TempDir())
			twoRuns(t, d)
			require.NoError(t, os.Remove(d.pathOf(indexFile)))
			require.NoError(t, put(d.pathOf(indexFile)))
			require.ErrorIs(t, d.Close(), ErrCorrupt)
			_, err := Open(d.path, Options{})
			require.ErrorIs(t, err, ErrCorrupt)
			require.NoError(t, os.RemoveAll(d.pathOf(indexFile)))
			require.NoError(t, os.Rename(d.pathOf(savedIndex), d.pathOf(indexFile)))
			load(t, open(t, d.path), "r2")
		})
	}
}

// Open compares the runs with those that there were, also where the hash fits.
func TestOpenComparesTheFingerprint(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	twoRuns(t, d)
	require.NoError(t, d.Close())
	text, err := os.ReadFile(d.pathOf(lockName))
	require.NoError(t, err)
	m := parseLockRecord(string(text))
	require.Equal(t, "2-8", m.fingerprint)
	m.fingerprint = "3-12"
	require.NoError(t, os.WriteFile(d.pathOf(lockName), []byte(m.String()), 0o600))
	_, err = Open(path, Options{})
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "its runs and records are 2-8, not 3-12")
}

package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/tables"
	"github.com/pawl-run/pawl/workflow"
)

// twoRuns makes a directory with a run that is filed in part, and another, and
// returns where the file of the first is.
func twoRuns(t *testing.T, d *Dir) string {
	for _, id := range []workflow.RunID{"r1", "r2"} {
		o := start(t, d, id)
		o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
		o.do(state.Heartbeat{Token: 1}, decision.SetData{Path: []string{"state", "n"}, Value: int64(1)})
		require.NoError(t, o.file())
		o.do(state.Heartbeat{Token: 1}, decision.SetData{Path: []string{"state", "n"}, Value: int64(2)})
		o.do(state.Heartbeat{Token: 1}, decision.SetData{Path: []string{"state", "n"}, Value: int64(3)})
	}
	h, err := d.Head("r1")
	require.NoError(t, err)
	return filepath.Join(d.path, h.File)
}

func TestDamagedFile(t *testing.T) {
	edit := func(f func([]byte) []byte) func(*testing.T, *Dir, string) {
		return func(t *testing.T, _ *Dir, path string) {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, f(data), 0o600))
		}
	}
	replace := func(f func(path string) error) func(*testing.T, *Dir, string) {
		return func(t *testing.T, _ *Dir, path string) {
			require.NoError(t, os.Rename(path, path+".moved"))
			require.NoError(t, f(path))
		}
	}
	tests := []struct {
		name string
		do   func(t *testing.T, d *Dir, path string)
		want error
		says string
	}{
		{"missing", replace(func(string) error { return nil }), ErrCorrupt, "missing"},
		{"empty", edit(func([]byte) []byte { return nil }), ErrCorrupt, "empty"},
		{"text", edit(func([]byte) []byte { return []byte("hello") }), ErrCorrupt, "not a database"},
		{"cut short", edit(func(b []byte) []byte { return b[:len(b)-1024] }), ErrCorrupt, "damaged"},
		{"flipped bit", edit(func(b []byte) []byte { b[len(b)-300] ^= 4; return b }), ErrCorrupt, "damaged"},
		{"appended", edit(func(b []byte) []byte { return append(b, make([]byte, 1024)...) }), ErrCorrupt, "damaged"},
		{"foreign", edit(func(b []byte) []byte { b[70] ^= 1; return b }), ErrCorrupt, "another program"},
		{"newer", edit(func(b []byte) []byte { b[63] = 9; return b }), ErrVersion, "version 9"},
		{"no version", edit(func(b []byte) []byte { b[63] = 0; return b }), ErrCorrupt, "format 0"},
		{"of another run", func(t *testing.T, d *Dir, path string) {
			h, err := d.Head("r2")
			require.NoError(t, err)
			require.NoError(t, copyFile(filepath.Join(d.path, h.File), path))
		}, ErrCorrupt, "another file"},
		{"directory", replace(func(p string) error { return os.Mkdir(p, 0o700) }), ErrCorrupt, "regular"},
		{"symlink", replace(func(p string) error { return os.Symlink(p+".moved", p) }), ErrCorrupt, "regular"},
		{"pipe", replace(makePipe), ErrCorrupt, "regular"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := open(t, t.TempDir())
			path := twoRuns(t, d)
			tt.do(t, d, path)
			before := contents(path)
			refused(t, d, tt.want, tt.says)
			require.Equal(t, before, contents(path))
			other := load(t, d, "r2")
			other.do(state.Heartbeat{Token: 1})
			require.NoError(t, other.file())
		})
	}
}

// contents returns what is at a path, as far as it can be read without harm.
func contents(path string) any {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return err == nil
	}
	data, _ := os.ReadFile(path)
	return string(data)
}

// refused checks that every way to run r1 fails with an error that names it.
func refused(t *testing.T, d *Dir, want error, says string) {
	_, _, _, err := d.Load("r1")
	require.ErrorIs(t, err, want)
	require.ErrorContains(t, err, says)
	if c := (*CorruptError)(nil); errors.As(err, &c) {
		require.EqualValues(t, "r1", c.Run)
	}
	_, err = d.State("r1")
	require.ErrorIs(t, err, want)
	for _, err = range d.History("r1") {
	}
	require.ErrorIs(t, err, want)
	for _, err = range d.Events("r1", 0) {
	}
	require.ErrorIs(t, err, want)
}

func TestOlderFile(t *testing.T) {
	d := open(t, t.TempDir())
	older := twoRuns(t, d)
	copied := filepath.Join(t.TempDir(), "older.db")
	require.NoError(t, copyFile(older, copied))
	require.NoError(t, load(t, d, "r1").file())
	h, err := d.Head("r1")
	require.NoError(t, err)
	require.NoError(t, copyFile(copied, filepath.Join(d.path, h.File)))
	refused(t, d, ErrCorrupt, "another file")
	require.NoError(t, load(t, d, "r2").file())
}

func TestDamagedIndex(t *testing.T) {
	tests := []struct{ name, sql, says string }{
		{"gap", `DELETE FROM log WHERE key = 1 << 32 | 3`, "record 4 follows record 2"},
		{"end is missing", `DELETE FROM log WHERE key = 1 << 32 | 4`, "ends with record 3"},
		{"all is missing", `DELETE FROM log WHERE key >> 32 = 1`, "ends with record 2"},
		{"message", `UPDATE log SET message = CAST(replace(message, '1', '2') AS BLOB) WHERE key = 1 << 32 | 3`, "checksum"},
		{"time", `UPDATE log SET at = at + 1 WHERE key = 1 << 32 | 3`, "checksum"},
		{"epoch", `UPDATE log SET epoch = epoch + 1 WHERE key = 1 << 32 | 4`, "checksum"},
		{"sum", `UPDATE log SET sum = x'00' WHERE key = 1 << 32 | 3`, "its checksum has the wrong size"},
		{"swapped", `UPDATE log SET decisions = (SELECT decisions FROM log WHERE key = 1 << 32 | 3) WHERE key = 1 << 32 | 4`, "checksum"},
		{"another run's", `UPDATE log SET sum = (SELECT sum FROM log WHERE key = 2 << 32 | 3) WHERE key = 1 << 32 | 3`, "checksum"},
		{"row's checksum", `UPDATE runs SET sum = x'00' WHERE num = 1`, "row"},
		{"row's sequence", `UPDATE runs SET seq = 7 WHERE num = 1`, "ends with record 4"},
		{"row's failure", `UPDATE runs SET failure = '{' WHERE num = 1`, "row"},
		{"row's output", `UPDATE runs SET output = '[]' WHERE num = 1`, "row"},
		{"row's status", `UPDATE runs SET status = 99 WHERE num = 1`, "row"},
		{"row behind the file", `UPDATE runs SET seq = 1 WHERE num = 1`, "log of the run"},
		{"definition", `UPDATE runs SET definition = 'x' WHERE num = 1`, "lacks the definition"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := withoutRedo(t, open(t, t.TempDir()))
			twoRuns(t, d)
			require.NoError(t, d.readIndex(func(db *sqlite.Conn) error {
				err := db.Script(tt.sql)
				tables.SumAgain(t, db)
				return err
			}))
			_, _, _, err := d.Load("r1")
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorContains(t, err, tt.says)
			load(t, d, "r2").do(state.Heartbeat{Token: 1})
		})
	}
}

func TestDamagedLargeValue(t *testing.T) {
	d := open(t, t.TempDir())
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(map[string]any{"x": strings.Repeat("x", 3000)}))
	require.NoError(t, d.readIndex(func(db *sqlite.Conn) error {
		return db.Script(`UPDATE log SET vals = CAST(replace(vals, 'xxx', 'xyx') AS BLOB)`)
	}))
	refused(t, d, ErrCorrupt, "no value with the hash")
	require.NoError(t, d.readIndex(func(db *sqlite.Conn) error { return db.Script(`UPDATE log SET vals = x'ff'`) }))
	refused(t, d, ErrCorrupt, "large values")
}

// TestImpossibleRecord commits what no planner would.
func TestImpossibleRecord(t *testing.T) {
	d := open(t, t.TempDir())
	o := start(t, d, "r1")
	require.NoError(t, o.run.Commit(o.state, []decision.Record{o.record(state.Start{}, decision.CompleteToken{Token: 5})}))
	_, _, _, err := d.Load("r1")
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "record 1")
}

func TestDamagedDirectory(t *testing.T) {
	write := func(name string, data []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(filepath.Join(path, name), data, 0o600))
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, path string) { require.NoError(t, os.Remove(filepath.Join(path, name))) }
	}
	header := func(at int, b byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			data, err := os.ReadFile(filepath.Join(path, indexFile))
			require.NoError(t, err)
			data[at] = b
			write(indexFile, data)(t, path)
		}
	}
	tests := []struct {
		name string
		do   func(*testing.T, string)
		want error
		says string
	}{
		{"index is missing", remove(indexFile), ErrCorrupt, "missing"},
		{"index is empty", write(indexFile, nil), ErrCorrupt, "empty"},
		{"index is text", write(indexFile, []byte("SQLite")), ErrCorrupt, "not a database"},
		{"index has a schema of another format", header(47, 9), ErrCorrupt, "not a database"},
		{"index has a schema without a format", header(47, 0), ErrCorrupt, "not a database"},
		{"index has texts in another encoding", header(59, 4), ErrCorrupt, "not a database"},
		{"log was deleted", remove(indexWAL), ErrCorrupt, "did not close"},
		{"index is a directory", func(t *testing.T, path string) {
			require.NoError(t, os.Remove(filepath.Join(path, indexFile)))
			require.NoError(t, os.Mkdir(filepath.Join(path, indexFile), 0o700))
		}, ErrCorrupt, "regular"},
		{"log is damaged", func(t *testing.T, path string) {
			data, err := os.ReadFile(filepath.Join(path, indexWAL))
			require.NoError(t, err)
			data[len(data)/2] ^= 1
			require.NoError(t, os.WriteFile(filepath.Join(path, indexWAL), data, 0o600))
		}, ErrCorrupt, "commits would be lost"},
		{"log lost its epoch", func(t *testing.T, path string) {
			data, err := os.ReadFile(filepath.Join(path, indexWAL))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(path, indexWAL), data[:100], 0o600))
		}, ErrCorrupt, "another time"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := open(t, t.TempDir())
			twoRuns(t, d)
			path := crashed(t, d.path)
			tt.do(t, path)
			index, log := contents(filepath.Join(path, indexFile)), contents(filepath.Join(path, indexWAL))
			for range 2 {
				_, err := Open(path, Options{})
				require.ErrorIs(t, err, tt.want)
				require.ErrorContains(t, err, tt.says)
				require.Equal(t, index, contents(filepath.Join(path, indexFile)))
				require.Equal(t, log, contents(filepath.Join(path, indexWAL)))
			}
		})
	}
}

func TestNewerDirectory(t *testing.T) {
	d := open(t, t.TempDir())
	twoRuns(t, d)
	require.NoError(t, d.Close())
	path := filepath.Join(d.path, indexFile)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[63] = index.Version + 1
	require.NoError(t, os.WriteFile(path, data, 0o600))
	_, err = Open(d.path, Options{})
	var v *VersionError
	require.ErrorAs(t, err, &v)
	require.ErrorIs(t, err, ErrVersion)
	require.Equal(t, VersionError{File: path, Version: index.Version + 1, Known: index.Version}, *v)
	require.Equal(t, string(data), contents(path))
}

// Anything under the name of the folder for files that are being built is removed
// before anything is written there: a link may lead to pawl.db itself.
func TestNewFilesGoIntoOurOwnFolder(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"link to the directory": func(path string) error { return os.Symlink(".", path) },
		"file":                  func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, t.TempDir())
			twoRuns(t, d)
			path := crashed(t, d.path)
			require.NoError(t, os.Remove(filepath.Join(path, lockName)))
			require.NoError(t, os.RemoveAll(filepath.Join(path, tmpDir)))
			require.NoError(t, make(filepath.Join(path, tmpDir)))
			d = open(t, path)
			load(t, d, "r1").do(state.Heartbeat{Token: 1})
			require.NoError(t, d.Close())
		})
	}
}

// A log beside a pawl.db that was closed may be the last one, whose removal a loss
// of power has undone. A log that would change pawl.db is refused: commits that
// were acknowledged since it was written would be gone without a word.
func TestClosedWithALog(t *testing.T) {
	d := withoutRedo(t, open(t, t.TempDir()))
	wal := d.pathOf(indexWAL)
	twoRuns(t, d)
	older := contents(wal)
	o := start(t, d, "later")
	o.do(state.Start{}, startRun(nil))
	o.do(state.Heartbeat{})
	last := contents(wal)
	require.NoError(t, d.Close())

	require.NoError(t, os.WriteFile(wal, []byte(older.(string)), 0o600))
	index := contents(d.pathOf(indexFile))
	for range 2 {
		_, err := Open(d.path, Options{})
		require.ErrorIs(t, err, ErrCorrupt)
		require.ErrorContains(t, err, "would change it")
		require.Equal(t, index, contents(d.pathOf(indexFile)))
		require.Equal(t, older, contents(wal))
	}
	r, err := Verify(d.path)
	require.NoError(t, err)
	require.Equal(t, 1, r.Damage, r.Findings)
	require.Contains(t, r.Findings[0], ": "+indexWAL+": ")

	require.NoError(t, os.WriteFile(wal, []byte(last.(string)), 0o600))
	d = open(t, d.path)
	h, err := d.Head("later")
	require.NoError(t, err)
	require.EqualValues(t, 2, h.Seq)
	require.NoError(t, d.Close())
}

// TestOlderIndex restores pawl.db alone from an older copy.
func TestOlderIndex(t *testing.T) {
	d := open(t, t.TempDir())
	twoRuns(t, d)
	require.NoError(t, d.Close())
	path := filepath.Join(d.path, indexFile)
	copied := filepath.Join(t.TempDir(), "older.db")
	require.NoError(t, copyFile(path, copied))
	d = open(t, d.path)
	load(t, d, "r1").do(state.Heartbeat{Token: 1})
	require.NoError(t, d.Close())
	require.NoError(t, copyFile(copied, path))
	_, err := Open(d.path, Options{})
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "another time")
	require.Equal(t, contents(copied), contents(path))
	require.NoFileExists(t, path+"-wal")
	require.NoFileExists(t, path+"-shm")
}

// Changes of the schema that SQLite would believe, in a directory that no engine has
// closed: names, defaults, which rows an index has. Comments may change.
func TestDamagedSchema(t *testing.T) {
	d := open(t, t.TempDir())
	twoRuns(t, d)
	for _, tt := range []struct {
		was, is string
		sound   bool
		says    string
	}{
		{"key   TEXT PRIMARY KEY", "kex   TEXT PRIMARY KEY", false, "table meta"},
		{"filed_sum  BLOB", "filed_sun  BLOB", false, "table runs"},
		{"attempts  INTEGER NOT NULL", "attemptt  INTEGER NOT NULL", false, "table dead_letters"},
		{"ON runs (alarm) WHERE alarm", "ON runs (alarn) WHERE alarm", false, ""}, // SQLite cannot read that
		{"ON runs (status)", "ON runs (output)", false, "index runs_status"},
		{"1: only an artifact does", "1; only an artifact does", true, ""},
	} {
		t.Run(tt.is, func(t *testing.T) {
			path := crashed(t, d.path)
			file := filepath.Join(path, indexFile)
			was := contents(file).(string)
			is := strings.ReplaceAll(was, tt.was, tt.is) // also where SQLite has left it behind
			require.NotEqual(t, was, is)
			require.NoError(t, os.WriteFile(file, []byte(is), 0o600))
			before := harness.Contents(t, path)
			c, err := Open(path, Options{})
			if !tt.sound {
				require.ErrorIs(t, err, ErrCorrupt)
				require.ErrorContains(t, err, tt.says)
				require.Equal(t, before, harness.Contents(t, path))
				var r Checked
				r, err = Verify(path)
				require.NoError(t, err)
				require.Positive(t, r.Damage)
				require.Contains(t, r.Findings[0], ": "+indexFile+": ")
				to := filepath.Join(t.TempDir(), "repaired")
				_, err = Repair(path, to)
				require.NoError(t, err)
				c, err = Open(to, Options{})
				require.NoError(t, err)
			}
			require.NoError(t, err)
			for _, id := range []workflow.RunID{"r1", "r2"} {
				h, err := c.Head(id)
				require.NoError(t, err)
				require.Positive(t, h.Seq)
			}
			require.NoError(t, c.Close())
		})
	}
	require.NoError(t, d.Close())
}

// A directory from before the first release is refused with an error that says
// so.
func TestOlderDirectory(t *testing.T) {
	path := t.TempDir()
	data, err := index.NewDatabase()
	require.NoError(t, err)
	data[63] = index.Version - 1
	require.NoError(t, os.WriteFile(filepath.Join(path, indexFile), data, 0o600))
	_, err = Open(path, Options{})
	require.ErrorIs(t, err, ErrVersion)
	require.ErrorContains(t, err, "from before the first release")
}

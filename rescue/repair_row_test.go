package rescue

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// alter runs a statement on pawl.db of a directory that nobody has open, whose log
// stays.
func alter(t testing.TB, dir, text string) {
	db, err := sqlite.OpenKeeping(filepath.Join(dir, index.File), `PRAGMA journal_mode=WAL`)
	require.NoError(t, err)
	n, err := db.Exec(text)
	require.NoError(t, err)
	require.Positive(t, n)
	require.NoError(t, db.Close())
}

// repairedRow repairs a copy of a directory, in which something is changed in the rows
// of all runs, and returns what the row of one says then.
func repairedRow(t *testing.T, sound string, id workflow.RunID, set string) (*store.Dir, store.Head) {
	dir := crashed(t, sound)
	alter(t, dir, "UPDATE runs SET "+set)
	into := filepath.Join(t.TempDir(), "repaired")
	_, err := Repair(t.Context(), dir, into, Options{})
	require.NoError(t, err)
	to := open(t, into)
	h, err := to.Head(id)
	require.NoError(t, err)
	return to, h
}

// A run that goes on and whose row has changed is whole after a repair, and goes on,
// but if it is the row that told which its last record is.
func TestRepairOfChangedRows(t *testing.T) {
	path := t.TempDir()
	d, files := furnished(t, path)
	sound := crashed(t, path)
	want := all(t, d.History("parts"))
	require.NoError(t, d.Close())
	require.NoError(t, files.Close())
	suspended := []string{"seq = seq + 1", "sum = zeroblob(32)", "at = at + 1", "last_crc = 1"}
	for i, set := range append([]string{
		"workflow = 'x'", "version = 9", "input_hash = 'x'", "parent = 'x'", "root = 'x'", "labels = 'x'", "nonce = 7", "started_at = 7", "forked_from = 'x'", "forked_record = 7", "start_crc = 1",
		"room = 7", "room_crc = 1", "status = 4", "alarm = 7", "ended_at = 7", "output = '{}'", "failure = 'x'", "artifacts = '[]'", "state_crc = 1",
		"slot = 3 - slot", "filed = 3", "filed_sum = zeroblob(32)", "file_hash = x'00'", "file_size = 7", "file_crc = 1",
	}, suspended...) {
		if harness.CurrentLevel() == harness.Quick && i%5 > 0 {
			continue
		}
		t.Run(set, func(t *testing.T) {
			dir := crashed(t, sound)
			alter(t, dir, "UPDATE runs SET "+set+" WHERE id = 'parts'")
			to, r := repaired(t, dir)
			head, err := to.Head("parts")
			require.NoError(t, err)
			if slices.Contains(suspended, set) {
				require.Equal(t, workflow.RunSuspended, head.Status)
				require.Equal(t, 1, r.Damage, lines(r))
				require.Equal(t, want, all(t, to.History("parts"))[:3])
				return
			}
			require.Zero(t, r.Damage, lines(r))
			require.Contains(t, lines(r), `run "parts": it is whole again`)
			require.Equal(t, workflow.RunRunning, head.Status)
			require.Equal(t, want, all(t, to.History("parts")))
			started, err := to.Head("fresh")
			require.NoError(t, err)
			require.Equal(t, started.Definition, head.Definition)
			require.Equal(t, started.Room, head.Room)
			require.Empty(t, head.Parent)
		})
	}
}

// A failed run still refers to its kept artifacts after a repair, whatever has changed
// in its row.
func TestRepairKeepsArtifacts(t *testing.T) {
	path := t.TempDir()
	d := openWith(t, path, store.Options{KeepArtifacts: true})
	o := start(t, d, "r1")
	kept := workflow.Artifact{Name: "report", Hash: "sha256:" + strings.Repeat("ab", 32), Size: 3}
	o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	o.do(state.TaskCompleted{Token: 1, Attempt: 1, Artifacts: []workflow.Artifact{kept}},
		decision.StageArtifacts{Token: 1, Artifacts: []workflow.Artifact{kept}}, decision.CompleteToken{Token: 1})
	r := o.record(state.Heartbeat{}, decision.FailRun{Failure: workflow.Failure{Code: "x"}, At: at(9)})
	require.NoError(t, runfile.ApplyRecord(o.state, &r, func([]decision.Event) {}))
	require.NoError(t, o.run.Commit(o.state, []decision.Record{r}))
	sound := crashed(t, path)
	for _, set := range []string{"room = 7", "artifacts = NULL", "status = 1", "file_size = 7"} {
		to, h := repairedRow(t, sound, "r1", set)
		require.Equal(t, []workflow.Artifact{kept}, h.Artifacts, set)
		refers, err := to.Refers(t.Context(), kept.Hash)
		require.NoError(t, err)
		require.True(t, refers, set)
	}
}

// A run is found by a look at all rows where the index over ids has changed.
func TestRepairWithoutTheIndexOfIDs(t *testing.T) {
	path := t.TempDir()
	d, files := furnished(t, path)
	want := all(t, d.History("fresh"))
	require.NoError(t, d.Close())
	require.NoError(t, files.Close())
	rewrite(t, filepath.Join(path, index.File), func(b []byte) []byte {
		at := bytes.LastIndex(b, []byte("fresh")) // the index is behind its table
		require.NotEqual(t, bytes.Index(b, []byte("fresh")), at)
		b[at] ^= 1
		return b
	})
	to, _ := repaired(t, path)
	require.Equal(t, want, all(t, to.History("fresh"))[:len(want)])
}

// A table that is not ours may hold what the driver makes a time of: it is damaged.
func TestRowsOfAnotherSchema(t *testing.T) {
	path := settled(t)
	db, err := sqlite.Open(filepath.Join(path, index.File), `DROP TABLE outcomes;
		CREATE TABLE outcomes (id INTEGER PRIMARY KEY, key DATETIME NOT NULL UNIQUE, value TEXT NOT NULL, at INTEGER NOT NULL, crc INTEGER NOT NULL);
		INSERT INTO outcomes VALUES (1, '2024-01-01 00:00:00', '{}', 1, 1)`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	require.Positive(t, verified(t, path).Damage)
	_, r := repaired(t, path)
	require.Positive(t, r.Damage)
}

// A file that the crash of a purge has left is not taken for that of the run that has
// its id now, whatever has changed in the row of that.
func TestRepairBesideAPurgedRun(t *testing.T) {
	for _, filed := range []bool{false, true} {
		path := t.TempDir()
		d := open(t, path)
		o := start(t, d, "r")
		o.five(nil)
		require.NoError(t, o.file())
		h, err := d.Head("r")
		require.NoError(t, err)
		left, err := os.ReadFile(filepath.Join(path, h.File))
		require.NoError(t, err)
		require.NoError(t, o.run.Close())
		require.NoError(t, d.Purge("r", ""))
		require.NoError(t, os.WriteFile(filepath.Join(path, h.File), left, 0o600))
		next := start(t, d, "r")
		next.do(state.Start{Input: map[string]any{"new": true}}, startRun(map[string]any{"new": true}), createToken(1, "start"), dispatch(1))
		if filed {
			require.NoError(t, next.file())
		}
		next.do(state.Heartbeat{Token: 1})
		want := all(t, d.History("r"))
		sound := crashed(t, path)
		for _, nonce := range []uint64{0, 1<<64 - 1} { // before and behind the run's own
			require.NoError(t, os.WriteFile(filepath.Join(sound, index.FileName("r", nonce, 1)), left, 0o600))
		}
		for _, set := range []string{"at = at", "file_size = 7", "workflow = 'x'", "room = 7", "nonce = 7", "slot = 3 - slot", "seq = 7"} {
			to, h := repairedRow(t, sound, "r", set)
			status := workflow.RunRunning
			if set == "seq = 7" {
				status = workflow.RunSuspended
			}
			require.Equal(t, status, h.Status, set)
			require.Equal(t, want, all(t, to.History("r"))[:2], set)
		}
	}
}

// Nor is it if nothing else is left.
func TestRepairOfNothingButAPurgedRun(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	o := start(t, d, "r")
	o.five(nil)
	require.NoError(t, o.file())
	left, err := os.ReadFile(filepath.Join(path, fileIn(t, d, "r")))
	require.NoError(t, err)
	require.NoError(t, o.run.Close())
	require.NoError(t, d.Purge("r", ""))
	next := start(t, d, "r")
	next.do(state.Start{Input: map[string]any{"new": true}}, startRun(map[string]any{"new": true}), createToken(1, "start"), dispatch(1))
	require.NoError(t, next.file())
	sound := crashed(t, path)
	require.NoError(t, os.WriteFile(filepath.Join(sound, fileIn(t, d, "r")), left, 0o600))
	alter(t, sound, "UPDATE runs SET workflow = 'x'")
	to, r := repaired(t, sound)
	require.Contains(t, lines(r), `run "r": nothing is left of it`)
	_, err = to.Head("r")
	require.ErrorIs(t, err, store.ErrRunNotFound)
}

// fileIn returns where the file of a run is, below an open directory.
func fileIn(t *testing.T, d *store.Dir, id workflow.RunID) string {
	h, err := d.Head(id)
	require.NoError(t, err)
	return h.File
}

// A pawl.db of an earlier moment of the same life is not taken for one in which a
// byte has changed: what its runs did since is lost, so they do not go on.
func TestRepairOfAnEarlierMoment(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	o := start(t, d, "r")
	o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	old := crashed(t, path)
	alter(t, old, "UPDATE runs SET at = at") // moves the log into pawl.db
	o.do(state.Heartbeat{Token: 1})
	require.NoError(t, o.run.Close())
	require.NoError(t, d.Close())
	earlier, err := os.ReadFile(filepath.Join(old, index.File))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(path, index.File), earlier, 0o600))
	to, r := repaired(t, path)
	require.Contains(t, lines(r), "it is of another moment: its runs and records are 1-1, not 1-2")
	h, err := to.Head("r")
	require.NoError(t, err)
	require.Equal(t, workflow.RunSuspended, h.Status)
}

// Runs are found, with the records in the log, when the index over ids cannot be read.
func TestRepairWithoutAPageOfTheIndexOfIDs(t *testing.T) {
	path := settled(t)
	page := int64(0)
	db, err := sqlite.Open(filepath.Join(path, index.File), ``)
	require.NoError(t, err)
	_, err = db.One(`SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_runs_1'`, func(r *sqlite.Row) error { page = r.Int64(0); return nil })
	require.NoError(t, err)
	require.NoError(t, db.Close())
	rewrite(t, filepath.Join(path, index.File), func(b []byte) []byte {
		clear(b[(page-1)*index.PageSize : page*index.PageSize])
		return b
	})
	to, r := repaired(t, path)
	require.Equal(t, 4, r.Runs, lines(r))
	require.NotContains(t, lines(r), "nothing is left")
	require.Len(t, all(t, to.AllHeads(store.RunFilter{})), 4)
}

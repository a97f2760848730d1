package rescue

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/tables"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// hashes returns the SHA-256 of every file below a directory, by path, and what
// is no file by what it is.
func hashes(t testing.TB, dir string) map[string]string {
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || !e.Type().IsRegular() {
			out[name] = e.Type().String()
			return err
		}
		data, err := os.ReadFile(path)
		sum := sha256.Sum256(data)
		out[name] = hex.EncodeToString(sum[:])
		return err
	})
	require.NoError(t, err)
	return out
}

// verified verifies a directory and checks that it is as it was afterwards.
func verified(t testing.TB, path string) *Report {
	before := hashes(t, path)
	r, err := Verify(t.Context(), path, Options{})
	require.NoError(t, err)
	require.Equal(t, before, hashes(t, path))
	require.Len(t, r.Findings, r.Damage+r.Notes)
	return r
}

// settled makes a furnished directory that was closed.
func settled(t *testing.T) string {
	path := harness.Workspace(t)
	d, files := furnished(t, path)
	require.NoError(t, files.Close())
	require.NoError(t, d.Close())
	return path
}

func TestVerifyOfSoundDirectories(t *testing.T) {
	path := t.TempDir()
	d, files := furnished(t, path)
	_, err := Verify(t.Context(), path, Options{})
	require.ErrorIs(t, err, store.ErrLocked)
	require.NotContains(t, err.Error(), "already closed")
	dead := crashed(t, path)
	into := filepath.Join(t.TempDir(), "backup")
	_, err = d.Backup(t.Context(), into, files)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	for name, dir := range map[string]string{"closed": path, "crashed": dead, "backup": into} {
		r := verified(t, dir)
		require.Empty(t, r.Findings, name)
		require.Equal(t, "4 runs, 16 records, 2 files and 2 blobs: 0 damaged, 0 notes", r.String(), name)
	}
	again := open(t, path)
	require.NoError(t, again.Close(), "it was given back")
}

func TestVerifyOfWhatIsNone(t *testing.T) {
	_, err := Verify(t.Context(), filepath.Join(t.TempDir(), "no"), Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Verify(t.Context(), t.TempDir(), Options{})
	require.ErrorIs(t, err, store.ErrNotOurs)
	path := settled(t)
	data, err := os.ReadFile(filepath.Join(path, index.File))
	require.NoError(t, err)
	data[63] = 9
	require.NoError(t, os.WriteFile(filepath.Join(path, index.File), data, 0o600))
	_, err = Verify(t.Context(), path, Options{})
	require.ErrorIs(t, err, store.ErrVersion)
}

// rewrite changes the bytes of a file.
func rewrite(t testing.TB, path string, f func([]byte) []byte) {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, f(data), 0o600))
}

// sql runs statements on pawl.db of a directory that nobody has open, and makes the
// checksums of rows fit: what is wrong then is for other checks to find.
func sql(t testing.TB, dir, text string) {
	db, err := sqlite.Open(filepath.Join(dir, index.File), text)
	require.NoError(t, err)
	tables.SumAgain(t, db)
	require.NoError(t, db.Close())
}

// fileOf returns where the file of a run is, in a directory that nobody has open.
func fileOf(t testing.TB, dir string, id workflow.RunID) string {
	db, err := sqlite.Open(filepath.Join(dir, index.File), "")
	require.NoError(t, err)
	var r index.Row
	require.NoError(t, db.Each(`SELECT * FROM (`+index.RunColumns+`) WHERE id = ?`, func(x *sqlite.Row) error { r = index.ScanRow(x); return nil }, string(id)))
	require.NoError(t, db.Close())
	return filepath.Join(dir, r.File)
}

// writeOther writes something under the name that the file of a run has not now but may have next, and returns the name.
func writeOther(t testing.TB, dir string, id workflow.RunID) string {
	now := fileOf(t, dir, id)
	ends := map[string]string{"a.db": "b.db", "b.db": "a.db"}
	next := now[:len(now)-4] + ends[now[len(now)-4:]]
	require.NoError(t, os.RemoveAll(next)) // it may be another name of the file
	require.NoError(t, os.WriteFile(next, []byte("x"), 0o600))
	name, err := filepath.Rel(dir, next)
	require.NoError(t, err)
	return filepath.ToSlash(name)
}

// reseal makes the index accept what stands in a run's file now.
func reseal(t testing.TB, dir string, id workflow.RunID) {
	data, err := os.ReadFile(fileOf(t, dir, id))
	require.NoError(t, err)
	sum := sha256.Sum256(data)
	sql(t, dir, `UPDATE runs SET file_hash = x'`+hex.EncodeToString(sum[:])+`' WHERE id = '`+string(id)+`'`)
}

// inFile changes the tables of a run's file so that nothing but the journal tells.
func inFile(text string) func(testing.TB, string) {
	return func(t testing.TB, dir string) {
		db, err := sqlite.Open(fileOf(t, dir, "ended"), text)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		reseal(t, dir, "ended")
	}
}

func inIndex(text string) func(testing.TB, string) {
	return func(t testing.TB, dir string) { sql(t, dir, text) }
}

// A harm is one way to damage a settled directory, and what Verify says of it.
type harm struct {
	name string
	do   func(testing.TB, string)
	says string
}

func harms() []harm {
	flip := func(b []byte) []byte { b[len(b)/2] ^= 4; return b }
	aBlob := func(t testing.TB, dir string) string {
		found, err := filepath.Glob(filepath.Join(dir, index.BlobsDir, "??", "*"))
		require.NoError(t, err)
		require.Len(t, found, 2)
		return found[0]
	}
	return []harm{
		{"file is gone", func(t testing.TB, dir string) { require.NoError(t, os.Remove(fileOf(t, dir, "ended"))) }, `db: run "ended": the file is missing`},
		{"file has a flipped bit", func(t testing.TB, dir string) { rewrite(t, fileOf(t, dir, "ended"), flip) }, "damaged, changed or another file"},
		{"file is cut short", func(t testing.TB, dir string) {
			rewrite(t, fileOf(t, dir, "ended"), func(b []byte) []byte { return b[:len(b)/2] })
		}, `run "ended"`},
		{"files are swapped", func(t testing.TB, dir string) {
			a, b := fileOf(t, dir, "ended"), fileOf(t, dir, "parts")
			require.NoError(t, os.Rename(a, a+"x"))
			require.NoError(t, os.Rename(b, a))
			require.NoError(t, os.Rename(a+"x", b))
		}, `run "parts": it is damaged, changed or another file`},
		{"state", inFile(`UPDATE tokens SET status = 'failed' WHERE id = 3`), "not what its journal tells: tokens"},
		{"data", inFile(`UPDATE data SET value = '7'`), "not what its journal tells: data"},
		{"events", inFile(`UPDATE events SET type = 'x' WHERE seq = 4`), "event 4 is not what"},
		{"a gap in the events", inFile(`DELETE FROM events WHERE seq = 4`), "event 4 is not what"},
		{"the last event", inFile(`DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)`), "lacks events from"},
		{"journal", inFile(`UPDATE journal SET at = at + 1 WHERE seq = 2`), "record 2 does not have its checksum"},
		{"a gap in the journal", inFile(`DELETE FROM journal WHERE seq = 2`), "record 3 follows record 1"},
		{"values", inFile(`DELETE FROM vals`), "no value with the hash"},
		{"log", inIndex(`DELETE FROM log WHERE key & 4294967295 = 3`), "the log of the run is damaged"},
		{"log of nobody", inIndex(`UPDATE log SET key = key + (99 << 32) WHERE key = (SELECT max(key) FROM log)`), "does not know: 1"},
		{"row", inIndex(`UPDATE runs SET slot = 9 WHERE id = 'ended'`), "its row in the index is damaged"},
		{"status", inIndex(`UPDATE runs SET status = 2 WHERE id = 'parts'`), "the status in its row"},
		{"alarm", inIndex(`UPDATE runs SET alarm = NULL WHERE id = 'parts'`), "the alarm in its row"},
		{"output", inIndex(`UPDATE runs SET output = '{}' WHERE id = 'ended'`), "the output in its row"},
		{"parent", inIndex(`UPDATE runs SET parent = 'x' WHERE id = 'ended'`), "the parent in its row"},
		{"labels", inIndex(`UPDATE runs SET labels = '{"a":"b"}' WHERE id = 'ended'`), "the labels in its row"},
		{"labels of no JSON", inIndex(`UPDATE runs SET labels = '{' WHERE id = 'ended'`), "its row in the index is damaged"},
		{"list of labels", inIndex(`INSERT INTO labels VALUES (1, 'a', 'b', 0)`), "the list of labels is not what"},
		{"approval", inIndex(`INSERT INTO approvals VALUES (1, 1, 'start', '', 'null', 0, 0, NULL, 0)`), "wrong approval of token 1"},
		{"dead letter of nobody", inIndex(`INSERT INTO dead_letters VALUES (99, 1, 'start', 't', 1, '{}', 'null', 0, 0)`), "the lists have rows"},
		{"definition", inIndex(`UPDATE definitions SET doc = replace(doc, 'start', 'stort')`), "pawl.db: definition "},
		{"published", inIndex(`UPDATE published SET hash = 'x'`), "published as fan version 3"},
		{"outcome", inIndex(`UPDATE outcomes SET value = '{'`), `kept under "paid" is damaged`},
		{"secret", inIndex(`UPDATE meta SET value = zeroblob(36) WHERE key = 'secret'`), "the secret in its table meta is damaged"},
		{"reference", inIndex(`DELETE FROM blob_refs WHERE num > 0`), "the list of references lacks"},
		{"reference of an outcome", inIndex(`DELETE FROM blob_refs WHERE num < 0`), "of a kept outcome"},
		{"blob is gone", func(t testing.TB, dir string) { require.NoError(t, os.Remove(aBlob(t, dir))) }, ": missing"},
		{"blob is damaged", func(t testing.TB, dir string) { rewrite(t, aBlob(t, dir), flip) }, ": damaged"},
		{"mark of a restore", func(t testing.TB, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, index.RestoredFile), []byte(`{"asOf":7}`), 0o600))
		}, "RESTORED: it marks a directory that was restored, and no engine opens it: "},
		{"mark that has no end", func(t testing.TB, dir string) {
			path := filepath.Join(dir, index.RestoredFile)
			require.NoError(t, os.WriteFile(path, nil, 0o600))
			require.NoError(t, os.Truncate(path, 64<<20))
		}, "no engine opens it: it is no regular file of at most 4 KiB"},
		{"index", func(t testing.TB, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, index.File))) }, "pawl.db: it is missing"},
		{"index is text", func(t testing.TB, dir string) {
			rewrite(t, filepath.Join(dir, index.File), func([]byte) []byte { return []byte("hello") })
		}, "pawl.db: it is not a database"},
		{"index of another time", inIndex(`UPDATE meta SET value = 7`), "of another time"},
		{"index has wrong pages", func(t testing.TB, dir string) {
			rewrite(t, filepath.Join(dir, index.File), func(b []byte) []byte { clear(b[8192:16384]); return b })
		}, "pawl.db: "},
	}
}

func TestVerifyFinds(t *testing.T) {
	sound := settled(t)
	for _, tt := range harms() {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(harness.Workspace(t), "copy")
			require.NoError(t, os.CopyFS(path, os.DirFS(sound)))
			tt.do(t, path)
			r := verified(t, path)
			require.Positive(t, r.Damage)
			var lines []string
			for _, f := range r.Findings {
				lines = append(lines, f.String())
				require.NotContains(t, f.String(), "\n")
				require.True(t, !f.Damage || f.Do != "", f.String())
			}
			require.Contains(t, strings.Join(lines, "\n"), tt.says)
		})
	}
}

// A log that was deleted, cut or changed after a crash is noticed.
func TestVerifyFindsDamageOfTheLog(t *testing.T) {
	tests := map[string]struct {
		do   func(testing.TB, string)
		says string
	}{
		"gone":    {func(t testing.TB, wal string) { require.NoError(t, os.Remove(wal)) }, "the last engine did not close"},
		"flipped": {func(t testing.TB, wal string) { rewrite(t, wal, func(b []byte) []byte { b[len(b)/2] ^= 1; return b }) }, "commits would be lost"},
		"cut":     {func(t testing.TB, wal string) { rewrite(t, wal, func(b []byte) []byte { return b[:100] }) }, "of another time"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			furnished(t, path)
			dead := crashed(t, path)
			tt.do(t, filepath.Join(dead, index.WALFile))
			r := verified(t, dead)
			require.Positive(t, r.Damage)
			require.Contains(t, r.Findings[0].String(), tt.says)
		})
	}
}

// Files that are only left over are no damage.
func TestVerifyNotes(t *testing.T) {
	path := settled(t)
	for _, name := range []string{"runs/00/left.db", "tmp/x.db", "notes.txt", "socket", "blobs/ab/" + strings.Repeat("0", 62)} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(path, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(path, name), []byte("x"), 0o600))
	}
	require.NoError(t, os.Remove(filepath.Join(path, index.LockFile)))
	cut := writeOther(t, path, "parts") // as a flush that was cut off; the next one overwrites it
	kept := writeOther(t, path, "ended")
	r := verified(t, path)
	require.Zero(t, r.Damage, "%v", r.Findings)
	var lines []string
	for _, f := range r.Findings {
		lines = append(lines, strings.SplitN(f.String(), ": ", 3)[1])
	}
	require.ElementsMatch(t, []string{"runs/00/left.db", cut, kept, "tmp", "notes.txt", index.BlobsDir, index.LockFile}, lines)
	require.NoError(t, os.RemoveAll(filepath.Join(path, index.BlobsDir)))
	require.Zero(t, verified(t, path).Damage, "the host may keep the blobs elsewhere")
}

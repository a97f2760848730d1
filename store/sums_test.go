package store

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// sinceMark returns the pages of the log of a directory that no engine has open, and whether
// nothing else has changed since the last mark.
func sinceMark(t testing.TB, path string) (changed map[uint32][]byte, marked bool) {
	root, err := os.OpenRoot(path)
	require.NoError(t, err)
	defer root.Close()
	d := &Dir{path: path, root: root}
	sums, err := d.sumIndex(new(pageSummer))
	require.NoError(t, err)
	changed, marked, err = d.changedSince(sums)
	require.NoError(t, err)
	return changed, marked
}

// markedDir makes a directory with runs behind and after a mark.
func markedDir(t testing.TB, o Options) *Dir {
	d := openWith(t, t.TempDir(), o)
	for i := range 20 {
		start(t, d, workflow.RunID(fmt.Sprintf("run-%d", i))).five(nil)
	}
	require.NoError(t, d.checkpointNow())
	start(t, d, "late").five(nil)
	return d
}

func (d *Dir) checkpointNow() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.makeCheckpoint(&logSums{})
	return d.dead
}

// Wherever a process dies, the next finds with the sums that only the pages in the log have
// changed.
func TestTheMarkHoldsAfterACrash(t *testing.T) {
	for _, durability := range []Durability{PowerLoss, ProcessCrash} {
		path := t.TempDir()
		for life := range 3 {
			d := openWith(t, path, Options{Durability: durability})
			for i := range 40 {
				o := start(t, d, workflow.RunID(fmt.Sprintf("run-%d-%d", life, i)))
				o.five(nil)
				if i%7 == 6 {
					require.NoError(t, d.checkpointNow())
				}
				if i == 20 {
					d.eraseNextTime() // the next checkpoint empties it
				}
				if i%5 == 0 {
					_, marked := sinceMark(t, crashed(t, path))
					require.True(t, marked, "life %d, run %d", life, i)
				}
			}
			if path = crashed(t, path); life == 1 { // this one is closed
				require.NoError(t, d.Close())
				require.NoFileExists(t, d.pathOf(sumsFile))
				path = d.path
			}
		}
		d := open(t, path)
		require.Len(t, all(t, d.AllHeads(RunFilter{})), 120)
	}
}

// The sums are a help: without them, and with any that do not fit, an Open finds the same.
func TestOpenWithOtherSums(t *testing.T) {
	d := markedDir(t, Options{})
	older := contents(d.pathOf(sumsFile)).(string)
	start(t, d, "later").five(nil)
	require.NoError(t, d.checkpointNow())
	start(t, d, "last").five(nil)
	for name, text := range map[string]string{"empty": "", "older": older, "torn": older[:50], "longer": older + "xxxx", "other": string(make([]byte, 4096))} {
		path := crashed(t, d.path)
		require.NoError(t, os.WriteFile(filepath.Join(path, sumsFile), []byte(text), 0o600))
		_, marked := sinceMark(t, path)
		require.False(t, marked, name)
		require.Len(t, all(t, open(t, path).AllHeads(RunFilter{})), 23)
	}
	path := crashed(t, d.path)
	require.NoError(t, os.Remove(filepath.Join(path, sumsFile)))
	require.Len(t, all(t, open(t, path).AllHeads(RunFilter{})), 23)
	require.NoError(t, d.Close())
}

// A page that has changed on the disk is found by its sum, and a row that somebody has
// changed through SQLite since by its own.
func TestAnOpenByTheMarkRefusesWhatHasChanged(t *testing.T) {
	d := markedDir(t, Options{})
	for at := int64(index.PageSize); ; at += index.PageSize {
		path := crashed(t, d.path)
		file := filepath.Join(path, indexFile)
		text := []byte(contents(file).(string))
		if at >= int64(len(text)) {
			break
		}
		text[at+100] ^= 1
		require.NoError(t, os.WriteFile(file, text, 0o600))
		logged, marked := sinceMark(t, path)
		require.Equal(t, logged[uint32(at/index.PageSize+1)] != nil, marked, "page %d", at/index.PageSize+1)
	}
	for _, change := range []string{
		`UPDATE runs SET workflow = 'x' WHERE id = 'run-7'`,
		`UPDATE runs SET seq = seq + 1 WHERE id = 'run-3'`,
		`INSERT INTO outcomes VALUES (7, 'k', 'v', 1, 0)`,
		`INSERT INTO published VALUES ('k', 1, 'v', 0)`,
		`INSERT INTO labels SELECT num, 'k', 'v', 0 FROM runs WHERE id = 'late'`,
		`INSERT INTO blob_refs SELECT 'sha256:x', num, 0, 0 FROM runs WHERE id = 'late'`,
	} {
		path := crashed(t, d.path)
		db, err := sqlite.OpenKeeping(filepath.Join(path, indexFile), `PRAGMA locking_mode=EXCLUSIVE; PRAGMA wal_autocheckpoint=0`)
		require.NoError(t, err)
		require.NoError(t, db.Script(change))
		broken := crashed(t, path)
		require.NoError(t, db.Close())
		_, marked := sinceMark(t, broken)
		require.True(t, marked)
		_, err = Open(broken, Options{})
		require.ErrorIs(t, err, ErrCorrupt, change)
	}
	require.NoError(t, d.Close())
}

// A log of an earlier mark does not belong to the sums.
func TestAnOlderLogIsNotThatOfTheMark(t *testing.T) {
	d := markedDir(t, Options{Durability: ProcessCrash})
	log := contents(d.pathOf(indexWAL)).(string)
	withoutRedo(t, d)
	for range 2 {
		require.NoError(t, d.checkpointNow())
		load(t, d, "late").do(state.Heartbeat{Token: 1})
	}
	path := crashed(t, d.path)
	require.NoError(t, os.WriteFile(filepath.Join(path, indexWAL), []byte(log), 0o600))
	_, marked := sinceMark(t, path)
	require.False(t, marked)
	require.NoError(t, d.Close())
}

// If the sums cannot be written the engine goes on without.
func TestSumsThatCannotBeWritten(t *testing.T) {
	d := markedDir(t, Options{})
	require.NoError(t, d.sums.Close())
	require.NoError(t, d.checkpointNow())
	require.Nil(t, d.sums)
	start(t, d, "more").five(nil)
	path := crashed(t, d.path)
	require.NoError(t, d.Close())
	require.Len(t, all(t, open(t, path).AllHeads(RunFilter{})), 22)
}

// The rows on the pages of pawl.db are those that a query finds.
func TestLeafRowsAreTheRows(t *testing.T) {
	d := markedDir(t, Options{})
	require.NoError(t, d.Close())
	text := []byte(contents(d.pathOf(indexFile)).(string))
	found := map[int64]int{}
	for at := index.PageSize; at < len(text); at += index.PageSize {
		for _, r := range sqlite.LeafRows(text[at : at+index.PageSize]) {
			found[r.Key] = max(found[r.Key], r.Columns)
		}
	}
	db, err := sqlite.OpenReadOnly(d.pathOf(indexFile), ``)
	require.NoError(t, err)
	n := 0
	require.NoError(t, db.Each(index.RunColumns, func(r *sqlite.Row) error {
		n++
		require.Equal(t, len(r.Values()), found[r.Int64(0)])
		return nil
	}))
	require.Equal(t, 21, n)
	require.NoError(t, db.Close())
}

func FuzzLeafRows(f *testing.F) {
	f.Add([]byte{0x0d, 0, 0, 0, 1, 0, 10, 0, 0, 10, 3, 7, 3, 1, 1})
	f.Fuzz(func(t *testing.T, page []byte) {
		require.LessOrEqual(t, len(sqlite.LeafRows(page)), min(math.MaxUint16, len(page)/2+1))
	})
}

// endOfLog returns where the last frame of the log ends.
func endOfLog(log []byte) int {
	end := 32
	for end+24 <= len(log) && bytes.Equal(log[end+8:end+16], log[16:24]) {
		end += 24 + index.PageSize
	}
	return end
}

// A log that pawl.db has as a whole, and whose last transaction is damaged, would be laid over
// newer pages as far as it is sound: that is told.
func TestADamagedLogThatWasMoved(t *testing.T) {
	d := openWith(t, t.TempDir(), Options{})
	for i := range 500 {
		start(t, d, workflow.RunID(fmt.Sprintf("run-%d", i))).five(nil)
	}
	require.NoError(t, d.checkpointNow())
	for _, id := range []workflow.RunID{"zz", "aa"} {
		start(t, d, id).do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	}
	require.NoError(t, d.checkpointNow())
	path := crashed(t, d.path)
	log := []byte(contents(filepath.Join(path, indexWAL)).(string))
	log[endOfLog(log)-100] ^= 1
	require.NoError(t, os.WriteFile(filepath.Join(path, indexWAL), log, 0o600))
	_, err := Open(path, Options{})
	require.ErrorIs(t, err, ErrCorrupt)
	require.NoError(t, d.Close())
}

// A page that is damaged in the log before a checkpoint moves it has no sum that fits: the
// Open after a crash checks everything, and tells of it.
func TestALogThatIsDamagedBeforeItIsMoved(t *testing.T) {
	d := openWith(t, t.TempDir(), Options{})
	for i := range 20 {
		start(t, d, workflow.RunID(fmt.Sprintf("run-%d", i))).five(nil)
	}
	log := []byte(contents(d.pathOf(indexWAL)).(string))
	at := -1
	for o := 32; o < endOfLog(log); o += 24 + index.PageSize { // the last one that holds the row of a run
		page := log[o+24 : o+24+index.PageSize]
		if i := bytes.Index(page, []byte("run-7")); page[0] == 0x0d && i >= 0 {
			for _, row := range sqlite.LeafRows(page) {
				if row.Columns > 20 {
					at = o + 24 + i + len("run-7")
				}
			}
		}
	}
	require.Positive(t, at)
	f, err := os.OpenFile(d.pathOf(indexWAL), os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{log[at] ^ 1}, int64(at))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, d.checkpointNow())
	start(t, d, "later").five(nil)
	_, err = Open(crashed(t, d.path), Options{})
	require.ErrorIs(t, err, ErrCorrupt)
	_ = d.Close() // it finds the damage as well, or not
}

package store

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// secretOf is what must be nowhere once the run is purged.
const secretOf = "SECRET-OF-A-CUSTOMER"

// where returns the files of a directory in which a text stands.
func where(t *testing.T, path, text string) (files []string) {
	require.NoError(t, filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if bytes.Contains(data, []byte(text)) {
			files = append(files, name)
		}
		return err
	}))
	return files
}

// defined returns the graph of a definition that no other test has.
func defined(t *testing.T, name, text string) *compiled.Graph {
	def, err := workflow.ParseJSON([]byte(`{"name": "` + name + `", "start": "start", "nodes": [{"id": "start", "task": "t", "input": {"k": "'` + text + `'"}}]}`))
	require.NoError(t, err)
	g, err := compiled.Compile(workflow.Bounds{}, def)
	require.NoError(t, err)
	return g
}

// startOf is start for a run of another definition.
func startOf(t *testing.T, d *Dir, id workflow.RunID, g *compiled.Graph) *owner {
	return &owner{t: t, run: d.New(Head{Run: id, InputHash: "in"}, g), state: state.NewState(id, g)}
}

func hasDefinition(t *testing.T, d *Dir, hash string) (has bool) {
	require.NoError(t, d.readIndex(func(db *sqlite.Conn) error {
		return db.Each(`SELECT 1 FROM definitions WHERE hash = ?`, func(*sqlite.Row) error { has = true; return nil }, hash)
	}))
	return has
}

// Purge erases: nothing of a run stands in the log after the next checkpoint, nor in any
// file after Close, whether its values were small, took pages of their own, or were put aside in parts.
func TestPurgeErases(t *testing.T) {
	for name, size := range map[string]int{"small": 1, "pages": 500, "parts": 40_000} {
		t.Run(name, func(t *testing.T) {
			d := open(t, t.TempDir())
			d.hook.SetPartBytes(64 << 10)
			secret := map[string]any{"card": strings.Repeat(secretOf, size)}
			var owners []*owner
			for _, id := range []workflow.RunID{"a", "b", "c", "d"} { // the pages of a and c are moved about
				input := map[string]any{"card": strings.Repeat("public", size)}
				if id == "b" || id == "d" {
					input = secret
				}
				o := startOf(t, d, id, defined(t, "of-"+string(id), string(id)+secretOf))
				o.five(input)
				owners = append(owners, o)
			}
			require.NoError(t, owners[0].file())
			require.NoError(t, owners[1].file()) // d is purged while it is in the log alone
			for _, id := range []workflow.RunID{"b", "d", "a", "c"} {
				require.NoError(t, d.Purge(id, ""))
			}
			require.NoError(t, d.checkpointNow())
			require.NotContains(t, where(t, d.path, secretOf), d.pathOf(indexWAL))
			require.NoError(t, d.Close())
			require.Empty(t, where(t, d.path, secretOf))
		})
	}
}

// A definition stays while a run has it, or while it is published, and may come back.
func TestUnusedDefinitionsAreCollected(t *testing.T) {
	d := open(t, t.TempDir())
	shared, lone, published := defined(t, "shared", ""), defined(t, "lone", ""), defined(t, "published", "")
	require.NoError(t, d.Publish(published))
	begin := func(id workflow.RunID, g *compiled.Graph) {
		o := startOf(t, d, id, g)
		o.five(nil)
		require.NoError(t, o.file())
	}
	begin("s1", shared)
	begin("s2", shared)
	begin("l", lone)
	begin("p", published)
	for _, id := range []workflow.RunID{"s1", "l", "p"} {
		require.NoError(t, d.Purge(id, ""))
	}
	require.True(t, hasDefinition(t, d, shared.Hash))
	require.False(t, hasDefinition(t, d, lone.Hash))
	require.False(t, d.definitions.unused.waiting[lone.Hash], "what was deleted is not looked for again among all runs")
	require.True(t, hasDefinition(t, d, published.Hash))
	begin("l", lone)
	require.True(t, hasDefinition(t, d, lone.Hash), "it is written down once more")
	load(t, d, "l")
	require.NoError(t, d.Purge("s2", ""))
	require.False(t, hasDefinition(t, d, shared.Hash))
	require.NoError(t, d.readIndex(func(db *sqlite.Conn) error {
		return db.Each(getPurged, func(r *sqlite.Row) error { return fmt.Errorf("%s is still asked about", r.Text(0)) })
	}))
}

// A purge does not look at every run each time: Close, or the next life, collects the rest.
func TestCollectingIsPaidByPurges(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	g := defined(t, "late", "")
	o := startOf(t, d, "late", g)
	o.five(nil)
	d.definitions.unused.runs = 1000 // so many were looked at last
	require.NoError(t, d.Purge("late", ""))
	require.True(t, hasDefinition(t, d, g.Hash))
	crash := crashed(t, path)
	for _, path := range []string{path, crash} {
		if path == crash {
			d = open(t, crash) // it finds what the crash has left
		}
		require.True(t, hasDefinition(t, d, g.Hash))
		require.NoError(t, d.Close())
		next := open(t, path)
		require.False(t, hasDefinition(t, next, g.Hash))
		require.NoError(t, next.Close())
	}
}

// A run that begins while definitions are collected keeps its own.
func TestARunThatBeginsDuringACollectionKeepsItsDefinition(t *testing.T) {
	d := open(t, t.TempDir())
	g := defined(t, "again", "")
	begin := func(id workflow.RunID) {
		o := startOf(t, d, id, g)
		o.five(nil)
	}
	begin("r1")
	d.definitions.unused.runs = 1000
	require.NoError(t, d.Purge("r1", ""))
	require.True(t, d.definitions.beginCollecting(true))
	begin("r2") // behind the look at the runs
	require.NoError(t, d.updateIndex(d.dropUnused))
	d.definitions.endCollecting(nil)
	require.True(t, hasDefinition(t, d, g.Hash))
	load(t, d, "r2")
}

// Every free page is overwritten to its last byte, however many there are.
func TestFreePagesAreOverwritten(t *testing.T) {
	for _, pages := range []int{1, 2, 3, 4, 7, 50, 249, 250, 251, 260, 777} {
		d := open(t, t.TempDir())
		rest := strings.Repeat(secretOf, pages*index.PageSize/len(secretOf))
		require.NoError(t, d.updateIndex(func(db *sqlite.Conn) error {
			_, err := db.Exec(putPart, int64(7)<<partBits, []byte(rest))
			return err
		}))
		require.NoError(t, d.updateIndex(func(db *sqlite.Conn) error {
			_, err := db.Exec(`DELETE FROM parts`)
			return err
		}))
		d.eraseNextTime()
		require.NoError(t, d.Close())
		require.Emptyf(t, where(t, d.path, secretOf), "%d pages", pages)
	}
}

// Data that were purged in a life that ended with a crash are erased when the next one ends.
func TestACrashDefersErasing(t *testing.T) {
	hook := &testhook.Hook{}
	hook.SetEraseAfter(time.Hour) // the crash comes before
	d := openWith(t, t.TempDir(), Options{Hook: hook})
	o := start(t, d, "r1")
	o.five(map[string]any{"card": strings.Repeat(secretOf, 2000)})
	require.NoError(t, o.file())
	require.NoError(t, d.Purge("r1", ""))
	crash := crashed(t, d.path)
	require.NotEmpty(t, where(t, crash, secretOf))
	require.NoError(t, open(t, crash).Close())
	require.Empty(t, where(t, crash, secretOf))
}

// eraseNextTime has what is deleted erased, as a purge does.
func (d *Dir) eraseNextTime() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.eraseSoon()
}

// A purge erases while the directory stays open, in a bounded time: nothing of the run stands in any file, neither in the logs nor in free
// pages, also where pages cannot be given back.
func TestPurgeErasesWhileTheDirectoryIsOpen(t *testing.T) {
	for _, old := range []bool{false, true} {
		for name, size := range map[string]int{"small": 1, "pages": 500, "parts": 40_000} {
			t.Run(fmt.Sprintf("%s, old %v", name, old), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					path := t.TempDir()
					if old {
						makeOldIndex(t, path)
					}
					d := open(t, path)
					if !old { // as the next life of a directory that Close has rebuilt
						require.NoError(t, d.rebuildIndex())
						d.vacuums = true
					}
					defer func() { require.NoError(t, d.Close()) }()
					for i := range 6 {
						text := "public"
						if i%2 == 1 {
							text = secretOf
						}
						o := startOf(t, d, workflow.RunID(fmt.Sprint("r", i)), defined(t, fmt.Sprint("of-", i), text))
						o.five(map[string]any{"card": strings.Repeat(text, size)})
						if i < 4 {
							require.NoError(t, o.file())
						}
					}
					require.NotEmpty(t, where(t, path, secretOf))
					for _, id := range []workflow.RunID{"r1", "r3", "r5"} {
						require.NoError(t, d.Purge(id, ""))
					}
					require.NotEmpty(t, where(t, path, secretOf))
					<-time.After(eraseAfter)
					synctest.Wait()
					require.Empty(t, where(t, path, secretOf))
					require.False(t, d.hasDeleted())
					load(t, d, "r4")
					require.NoError(t, d.Purge("r0", ""))
					<-time.After(eraseAfter / 2)
					require.True(t, d.hasDeleted(), "not at once")
					<-time.After(eraseAfter)
					synctest.Wait()
					require.False(t, d.hasDeleted(), "each purge has its turn")
				})
			})
		}
	}
}

// makeOldIndex makes a pawl.db as it was made before pages could be given back.
func makeOldIndex(t *testing.T, path string) {
	require.NoError(t, open(t, path).Close())
	db, err := sqlite.Open(filepath.Join(path, indexFile), `PRAGMA auto_vacuum=NONE; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	require.NoError(t, os.Remove(filepath.Join(path, lockName)))
}

// Close gives back the pages of many runs that were purged: a pawl.db without a map of its pages, whoever made it, is rebuilt, and has
// one from then on, by which the next Close does it.
func TestCloseMakesTheIndexSmall(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	for _, old := range []bool{false, true} {
		t.Run(fmt.Sprintf("old %v", old), func(t *testing.T) {
			if old && harness.Raced {
				t.Skip("one goroutine does it all")
			}
			synctest.Test(t, func(t *testing.T) { // in which erasing at Close takes no time
				path := t.TempDir()
				if old {
					makeOldIndex(t, path)
				}
				for _, mapped := range []bool{false, true} {
					last := purgeMostRuns(t, path, mapped)
					d := openWith(t, path, Options{})
					require.True(t, d.vacuums)
					load(t, d, last)
					found := ""
					require.NoError(t, d.readIndex(func(db *sqlite.Conn) error {
						return db.Each(`PRAGMA integrity_check`, func(r *sqlite.Row) error { found += r.Text(0); return nil })
					}))
					require.Equal(t, "ok", found)
					require.NoError(t, d.Close())
				}
			})
		})
	}
}

// purgeMostRuns makes runs in a directory and purges all but five, which makes pawl.db small, and returns one that stays. mapped says
// whether pawl.db has a map of its pages before.
func purgeMostRuns(t *testing.T, path string, mapped bool) workflow.RunID {
	d := openWith(t, path, Options{Durability: ProcessCrash})
	require.Equal(t, mapped, d.vacuums)
	var ids []workflow.RunID
	for i := range 600 {
		id := workflow.RunID(fmt.Sprint("r", mapped, i))
		o := start(t, d, id)
		o.five(map[string]any{"card": strings.Repeat("x", 2000)})
		ids = append(ids, id)
	}
	require.NoError(t, d.Close())
	before := sizeOfIndex(t, path)
	require.Greater(t, before, int64(2<<20))
	d = openWith(t, path, Options{Durability: ProcessCrash})
	require.Equal(t, mapped, d.vacuums)
	families, err := d.Families(t.Context(), ids[:len(ids)-5])
	require.NoError(t, err)
	require.NoError(t, d.PurgeAll(slices.Concat(families...), func(workflow.RunID) string { return "" }))
	require.NoError(t, d.Close())
	require.Less(t, sizeOfIndex(t, path), before/8)
	return ids[len(ids)-1]
}

func sizeOfIndex(t *testing.T, path string) int64 {
	info, err := os.Stat(filepath.Join(path, indexFile))
	require.NoError(t, err)
	return info.Size()
}

// A backup is whole although pages are given back while it copies pawl.db.
func TestABackupWhilePagesAreGivenBack(t *testing.T) {
	d := openWith(t, t.TempDir(), Options{Durability: ProcessCrash})
	for i := range 300 {
		start(t, d, workflow.RunID(fmt.Sprint("r", i))).five(map[string]any{"card": strings.Repeat("x", 2000)})
	}
	copying, erased := 0, false
	reset := d.hook.OnHit(func(point string) {
		if point != "backup.pages" {
			return
		}
		if copying++; copying != 2 {
			return
		}
		var ids []workflow.RunID
		for i := range 290 {
			ids = append(ids, workflow.RunID(fmt.Sprint("r", i)))
		}
		families, err := d.Families(t.Context(), ids)
		require.NoError(t, err)
		require.NoError(t, d.PurgeAll(slices.Concat(families...), func(workflow.RunID) string { return "" }))
		require.NoError(t, d.eraseDeleted())
		erased = true
	})
	defer reset()
	into := filepath.Join(t.TempDir(), "copy")
	_, err := d.Backup(t.Context(), into, nil)
	require.NoError(t, err)
	require.True(t, erased)
	require.NoError(t, d.Close())
	c := open(t, into)
	load(t, c, "r299")
	require.NoError(t, c.readIndex(func(db *sqlite.Conn) error {
		wrong, err := index.CheckIntegrity(db)
		require.Empty(t, wrong)
		return err
	}))
	require.NoError(t, c.Close())
}

// TestRemoveFiles removes files by their names in folders below an open one, but neither a folder nor what a link leads to.
func TestRemoveFiles(t *testing.T) {
	path, elsewhere := t.TempDir(), t.TempDir()
	kept, inside := filepath.Join(elsewhere, "kept"), filepath.Join(path, "inside")
	require.NoError(t, os.WriteFile(kept, nil, 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(inside, "folder"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(inside, "file"), nil, 0o600))
	require.NoError(t, os.Symlink(kept, filepath.Join(inside, "link")))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(path, "link")))
	folders, err := os.Open(path)
	require.NoError(t, err)
	defer folders.Close()
	require.NoError(t, removeFiles(folders, "inside", []string{"file", "missing", "link"}))
	require.NoFileExists(t, filepath.Join(inside, "file"))
	require.NoFileExists(t, filepath.Join(inside, "link"))
	require.NoError(t, removeFiles(folders, "missing", []string{"file"}))
	require.Error(t, removeFiles(folders, "inside", []string{"folder"}))
	require.Error(t, removeFiles(folders, "link", []string{"kept"}))
	require.FileExists(t, kept)
	require.DirExists(t, filepath.Join(inside, "folder"))
}

package store

import (
	"bytes"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// behind returns how many runs and records pawl.db lacks.
func behind(d *Dir) (runs, records int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.redo.behind {
		records += len(r.entries)
	}
	return len(d.redo.behind), records
}

// inTables returns how many records the log in pawl.db has, and the sequence that its row of a run names.
func inTables(t *testing.T, d *Dir, id workflow.RunID) (records int, seq int64) {
	require.NoError(t, d.readIndex(func(db *sqlite.Conn) error {
		_, err := db.One(`SELECT count(*) FROM log`, func(r *sqlite.Row) error { records = r.Int(0); return nil })
		if err == nil {
			_, err = db.One(`SELECT seq FROM runs WHERE id = ?`, func(r *sqlite.Row) error { seq = r.Int64(0); return nil }, string(id))
		}
		return err
	}))
	return records, seq
}

// ahead returns a directory whose redo log has the records 2 to 5 of r1; the last one paused it.
func ahead(t *testing.T, o Options) (*Dir, *owner) {
	d := openWith(t, t.TempDir(), o)
	r := start(t, d, "r1")
	r.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	for n := range 3 {
		r.do(state.Heartbeat{Token: 1}, decision.SetData{Path: []string{"state", "n"}, Value: int64(n)})
	}
	r.do(state.Pause{}, decision.PauseRun{})
	return d, r
}

// TestReadersSeeTheRedoLog: who reads one run finds what pawl.db lacks in memory; who reads the rows of several has
// it moved into pawl.db first. No row says something else than the run's owner.
func TestReadersSeeTheRedoLog(t *testing.T) {
	d, o := ahead(t, Options{})
	records, seq := inTables(t, d, "r1")
	require.Equal(t, 1, records)
	require.EqualValues(t, 1, seq)
	head, err := d.Head("r1")
	require.NoError(t, err)
	require.Equal(t, o.run.Head(), head)
	require.Equal(t, workflow.RunPaused, head.Status)
	o.same(d)
	counts, err := d.Counts(context.Background())
	require.NoError(t, err)
	require.Equal(t, []RunCount{{"fan", workflow.RunPaused, 1}}, counts)
	runs, left := behind(d)
	require.Equal(t, 1, runs, "nothing has moved")
	require.Equal(t, 4, left)

	ids := 0
	for h, err := range d.HeadsUntil(context.Background(), RunFilter{Status: []workflow.RunStatus{workflow.RunPaused}}) {
		require.NoError(t, err)
		require.Equal(t, o.run.Head(), h)
		ids++
	}
	require.Equal(t, 1, ids)
	runs, left = behind(d)
	require.Zero(t, runs+left)
	records, seq = inTables(t, d, "r1")
	require.Equal(t, 5, records)
	require.EqualValues(t, 5, seq)
	o.same(d)
	counts, err = d.Counts(context.Background())
	require.NoError(t, err)
	require.Equal(t, []RunCount{{"fan", workflow.RunPaused, 1}}, counts)
	o.do(state.Resume{}, decision.ResumeRun{})
	o.same(d)
}

// TestFiledRecordsNeverStandInTheLog: what the file of a run has by then need not.
func TestFiledRecordsNeverStandInTheLog(t *testing.T) {
	d, o := ahead(t, Options{})
	require.NoError(t, o.file())
	records, seq := inTables(t, d, "r1")
	require.Zero(t, records)
	require.EqualValues(t, 5, seq)
	runs, left := behind(d)
	require.Zero(t, runs+left)
	o.same(d)
	o.do(state.Resume{}, decision.ResumeRun{})
	o.same(d)
	o.same(open(t, crashed(t, d.path)))
}

// TestACrashWithARedoLog: the next engine has everything; what verifies or repairs a directory that no engine
// has open sees it too, and neither changes anything.
func TestACrashWithARedoLog(t *testing.T) {
	for _, durability := range []Durability{PowerLoss, ProcessCrash} {
		d, o := ahead(t, Options{Durability: durability})
		path := crashed(t, d.path)
		before := harness.Contents(t, path)
		report, err := Verify(path)
		require.NoError(t, err)
		require.Zero(t, report.Damage, report.Findings)
		require.Equal(t, before, harness.Contents(t, path))
		repaired := filepath.Join(t.TempDir(), "repaired")
		_, err = Repair(path, repaired)
		require.NoError(t, err)
		for _, p := range []string{path, repaired} {
			again := open(t, p)
			o.same(again)
			counts, err := again.Counts(context.Background())
			require.NoError(t, err)
			require.Equal(t, []RunCount{{"fan", workflow.RunPaused, 1}}, counts)
			require.NoError(t, again.Close())
			require.NoFileExists(t, filepath.Join(p, redoFile))
			o.same(open(t, p))
		}
	}
}

// TestRedoLogsThatAreRefused: a redo log that is missing, of another time or damaged is not passed over, and
// the directory stays as it is. Verify names the file, and Repair takes what can be read.
func TestRedoLogsThatAreRefused(t *testing.T) {
	other, _ := ahead(t, Options{})
	foreign, err := os.ReadFile(other.pathOf(redoFile))
	require.NoError(t, err)
	for says, spoil := range map[string]func(path string) error{
		"it is missing":                      os.Remove,
		"of another time":                    func(path string) error { return os.WriteFile(path, foreign, 0o600) },
		"does not begin":                     func(path string) error { return os.Truncate(path, 0) },
		"what was written":                   func(path string) error { return flipAt(path, 4096+30) },
		"header has changed":                 func(path string) error { return flipAt(path, 14) },
		"sector of its region 1 has changed": func(path string) error { return flipAt(path, 1536) },
		"not a regular file":                 func(path string) error { return os.Rename(path, path+"-away") },
	} {
		d, o := ahead(t, Options{})
		path := crashed(t, d.path)
		file := filepath.Join(path, redoFile)
		require.NoError(t, spoil(file))
		if says == "not a regular file" {
			require.NoError(t, os.Symlink(file+"-away", file))
		}
		before := harness.Contents(t, path)
		for range 2 {
			_, err := Open(path, Options{})
			require.ErrorIs(t, err, ErrCorrupt, says)
			require.ErrorContains(t, err, says)
			require.ErrorContains(t, err, redoFile)
		}
		require.Equal(t, before, harness.Contents(t, path))
		report, err := Verify(path)
		require.NoError(t, err)
		require.Positive(t, report.Damage)
		require.Contains(t, fmt.Sprint(report.Findings), redoFile)
		repaired := filepath.Join(t.TempDir(), "repaired")
		_, err = Repair(path, repaired)
		require.NoError(t, err)
		seq := int64(0)
		for _, err := range open(t, repaired).History("r1") {
			require.NoError(t, err)
			seq++
		}
		require.LessOrEqual(t, seq, o.run.Head().Seq)
		require.Positive(t, seq)
	}
}

func flipAt(path string, at int) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	data[at] ^= 1
	return os.WriteFile(path, data, 0o600)
}

// TestARedoLogBesideAClosedDirectory changes nothing: pawl.db has everything.
func TestARedoLogBesideAClosedDirectory(t *testing.T) {
	d, o := ahead(t, Options{})
	older, err := os.ReadFile(d.pathOf(redoFile))
	require.NoError(t, err)
	o.do(state.Resume{}, decision.ResumeRun{})
	require.NoError(t, d.Close())
	require.NoError(t, os.WriteFile(d.pathOf(redoFile), older, 0o600))
	report, err := Verify(d.path)
	require.NoError(t, err)
	require.Zero(t, report.Damage, report.Findings)
	o.same(open(t, d.path))
}

// TestRegionsTakeTurns: with small regions, and runs that go on side by side, nothing is lost, whenever the process dies;
// and the file does not grow.
func TestRegionsTakeTurns(t *testing.T) {
	for _, durability := range []Durability{PowerLoss, ProcessCrash} {
		hook := &testhook.Hook{}
		hook.SetRedoBytes(3000)
		recycled := 0
		hook.OnHit(func(point string) {
			if point == "redo.recycled" {
				recycled++
			}
		})
		d := openWith(t, t.TempDir(), Options{Durability: durability, Hook: hook})
		var owners []*owner
		for n := range 3 {
			o := start(t, d, workflow.RunID(fmt.Sprint("r", n)))
			o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
			owners = append(owners, o)
		}
		for n := range 120 {
			o := owners[n%7%3]
			o.do(state.Heartbeat{Token: 1}, decision.SetData{Path: []string{"state", "n"}, Value: int64(n)})
			if n%40 == 5 {
				require.NoError(t, o.file())
			}
			if n%10 == 0 {
				d.redo.running.Wait()
				again := open(t, crashed(t, d.path))
				for _, o := range owners {
					o.same(again)
				}
				require.NoError(t, again.Close())
			}
		}
		d.redo.running.Wait()
		require.Greater(t, recycled, 3)
		info, err := os.Stat(d.pathOf(redoFile))
		require.NoError(t, err)
		require.Less(t, info.Size(), int64(4096+2*3000+1))
		for _, o := range owners {
			o.same(d)
		}
	}
}

// TestTwoHandlesOfTheRedoLog: of two handles that commit in one batch the first goes on, and a handle that is behind is
// refused.
func TestTwoHandlesOfTheRedoLog(t *testing.T) {
	d, o := ahead(t, Options{})
	other := load(t, d, "r1")
	o.do(state.Resume{}, decision.ResumeRun{})
	require.ErrorIs(t, other.try(state.Resume{}, decision.ResumeRun{}), ErrFenced)
	one, two := load(t, d, "r1"), load(t, d, "r1")
	d.mu.Lock() // while it is held, both come
	errs := make(chan error, 2)
	for _, o := range []*owner{one, two} {
		r := o.record(state.Heartbeat{Token: 1})
		go func() { errs <- o.run.Commit(o.state, []decision.Record{r}) }()
	}
	for d.committer.waiting.Load() < 2 {
		runtime.Gosched()
	}
	d.mu.Unlock()
	a, b := <-errs, <-errs
	if a != nil {
		a, b = b, a
	}
	require.NoError(t, a)
	require.ErrorIs(t, b, ErrFenced)
}

// TestAFlushAndACommitInOneBatch: what both of them move into pawl.db is moved once, and counted once, also if the
// batch is rolled back before.
func TestAFlushAndACommitInOneBatch(t *testing.T) {
	for _, broken := range []bool{false, true} {
		flushAndCommit(t, broken, 0)
		flushAndCommit(t, broken, 5)
	}
}

// beats is how many records come behind the file before that.
func flushAndCommit(t *testing.T, broken bool, beats int) {
	d, o := ahead(t, Options{})
	d.hook.SetTrimRecords(3)
	r := o.record(state.Resume{}, decision.ResumeRun{})
	last := func(*sqlite.Conn) error {
		if broken {
			return errors.New("broken")
		}
		return nil
	}
	reset := onStage(d, func(now flushStage) error {
		if now != synced {
			return nil
		}
		_ = o.beats(beats)
		r.Seq += int64(beats)
		d.mu.Lock()       // until the commit of the run, that of the flush and another one wait
		d.redo.paused = 1 // so the commit of the run goes into pawl.db
		require.NoError(t, runfile.ApplyRecord(o.state, &r, func([]decision.Event) {}))
		go func() { _ = o.run.Commit(o.state, []decision.Record{r}) }()
		go func() { _ = d.updateIndex(last) }()
		go func() {
			for d.committer.waiting.Load() < 3 {
				runtime.Gosched()
			}
			d.mu.Unlock()
		}()
		return nil
	})
	require.NoError(t, o.file())
	reset()
	o = load(t, d, "r1")
	require.Equal(t, workflow.RunRunning, o.run.Head().Status)
	o.same(d)
	want := []RunCount{{"fan", workflow.RunRunning, 1}}
	counts, err := d.Counts(context.Background())
	require.NoError(t, err)
	require.Equal(t, want, counts)
	again := open(t, crashed(t, d.path))
	counts, err = again.Counts(context.Background())
	require.NoError(t, err)
	require.Equal(t, want, counts)
}

// TestALossOfPowerWithoutSync: of each run the first of its records are left, wherever the redo log ends, whatever of
// pawl.db is ahead of it, and if commits of a run are missing in pawl.db.
func TestALossOfPowerWithoutSync(t *testing.T) {
	d, o := ahead(t, Options{Durability: ProcessCrash})
	full, err := os.ReadFile(d.pathOf(redoFile))
	require.NoError(t, err)
	const begin = 4096 // of the first frame
	require.Greater(t, len(full), begin)
	var sizes []int
	for size := begin; size <= len(full); size += harness.Stride(7) {
		sizes = append(sizes, size)
	}
	for _, size := range halfOfDay(t, sizes) {
		path := crashed(t, d.path)
		require.NoError(t, os.WriteFile(filepath.Join(path, redoFile), full[:size], 0o600))
		again := open(t, path)
		seq := int64(0)
		for _, err := range again.History("r1") {
			require.NoError(t, err)
			seq++
		}
		require.LessOrEqual(t, seq, o.run.Head().Seq)
		head, err := again.Head("r1")
		require.NoError(t, err)
		require.Equal(t, seq, head.Seq)
		require.NoError(t, again.Close())
	}

	// A commit in pawl.db that is lost, and one behind it that the redo log has.
	d = openWith(t, t.TempDir(), Options{Durability: ProcessCrash})
	o = start(t, d, "r1")
	o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	o.do(state.Heartbeat{Token: 1})
	before := contents(d.pathOf(indexWAL)).(string)
	o.do(state.Heartbeat{Token: 1}, decision.SetData{Path: []string{"state", "x"}, Value: string(bytes.Repeat([]byte("x"), 2*maxLarge))}) // too large
	o.do(state.Heartbeat{Token: 1})
	path := crashed(t, d.path)
	require.NoError(t, os.WriteFile(filepath.Join(path, indexWAL), []byte(before), 0o600))
	again := open(t, path)
	head, err := again.Head("r1")
	require.NoError(t, err)
	require.EqualValues(t, 2, head.Seq)
	require.Len(t, all(t, again.History("r1")), 2)
}

// TestASyncOfTheRedoLogFails the directory: nobody can know what is on the disk.
func TestASyncOfTheRedoLogFails(t *testing.T) {
	d, o := ahead(t, Options{})
	require.NoError(t, d.redo.file.Close())
	require.Error(t, o.try(state.Resume{}, decision.ResumeRun{}))
	require.Error(t, d.Close())
}

// TestPurgedFromTheRedoLog: behind a purge and the next checkpoint, the redo log has nothing of the run.
func TestPurgedFromTheRedoLog(t *testing.T) {
	hook := &testhook.Hook{}
	hook.SetLogFrames(20)
	d := openWith(t, t.TempDir(), Options{Hook: hook})
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil))
	o.do(state.Heartbeat{}, decision.SetData{Path: []string{"state", "x"}, Value: secretOf})
	o.do(state.Heartbeat{}, decision.CompleteRun{At: at(3)})
	require.Contains(t, where(t, d.path, secretOf), d.pathOf(redoFile))
	require.NoError(t, d.Purge("r1", ""))
	for n := 0; len(where(t, d.path, secretOf)) > 0; n++ {
		require.Less(t, n, 200)
		start(t, d, workflow.RunID(fmt.Sprint("n", n))).do(state.Start{}, startRun(nil))
		_, err := d.Head(workflow.RunID(fmt.Sprint("n", n))) // the caller has its answer before a checkpoint begins, with the lock
		require.NoError(t, err)
		d.checkpoints.running.Wait()
	}
	o = start(t, d, "later")
	o.do(state.Start{}, startRun(nil))
	o.do(state.Heartbeat{})
	o.same(open(t, crashed(t, d.path)))
}

// TestNothingIsAppendedWhileACopyIsMade: a copy of pawl.db has everything, and names no redo log.
func TestNothingIsAppendedWhileACopyIsMade(t *testing.T) {
	d, o := ahead(t, Options{})
	resume, err := d.pauseRedo(context.Background())
	require.NoError(t, err)
	o.do(state.Resume{}, decision.ResumeRun{})
	runs, left := behind(d)
	require.Zero(t, runs+left)
	mark, err := d.redoMark(d.db)
	require.NoError(t, err)
	require.Zero(t, mark)
	resume()
	o.do(state.Pause{}, decision.PauseRun{}) // in pawl.db, which names the redo log again
	o.do(state.Resume{}, decision.ResumeRun{})
	runs, _ = behind(d)
	require.Equal(t, 1, runs)
	o.same(open(t, crashed(t, d.path)))
	copied := filepath.Join(t.TempDir(), "copy")
	_, err = d.Backup(context.Background(), copied, nil)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(copied, lockName))) // who opens it knows nothing of it
	o.same(open(t, copied))
}

// FuzzAdvance: what is written is read, and no bytes are read as something that was not written.
func FuzzAdvance(f *testing.F) {
	d, o := func() (*Dir, *owner) {
		d, err := Open(f.TempDir(), Options{})
		require.NoError(f, err)
		return d, start(f, d, "r1")
	}()
	o.do(state.Start{}, startRun(nil))
	o.do(state.Pause{}, decision.PauseRun{})
	paused := o.record(state.Resume{}, decision.ResumeRun{})
	encoded, err := paused.Encode()
	require.NoError(f, err)
	for _, part := range [][]driver.Value{nil, index.WithCRC(int64(1), int64(2), nil, int64(5), "{}", nil, nil)} {
		a := index.Advance{Num: 1, State: part, Entries: []*runfile.Entry{{Encoded: encoded}}}
		data, err := a.Append(nil)
		require.NoError(f, err)
		f.Add(data)
	}
	require.NoError(f, d.Close())
	f.Add(binary.AppendUvarint(nil, 1<<60))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, rest, err := index.CutAdvance(data)
		if err != nil {
			return
		}
		again, err := a.Append(nil)
		require.NoError(t, err)
		b, left, err := index.CutAdvance(again)
		require.NoError(t, err)
		require.Empty(t, left)
		twice, err := b.Append(nil)
		require.NoError(t, err)
		require.Equal(t, again, twice)
		require.LessOrEqual(t, len(rest), len(data))
	})
}

// TestARedoLogThatNothingNames: where the transaction is damaged that named it, which looks like one that a loss of power
// has cut, what was committed later shows that it was whole.
func TestARedoLogThatNothingNames(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	start(t, d, "r1").do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	require.NoError(t, d.Close())
	for durability, refused := range map[Durability]bool{PowerLoss: true, ProcessCrash: false} {
		d = openWith(t, crashed(t, path), Options{Durability: durability})
		o := load(t, d, "r1")
		before := contents(d.pathOf(indexWAL)).(string)
		for range 3 {
			o.do(state.Heartbeat{Token: 1})
		}
		copied := crashed(t, d.path)
		require.NoError(t, os.WriteFile(filepath.Join(copied, indexWAL), []byte(before), 0o600))
		was := harness.Contents(t, copied)
		if !refused {
			o := load(t, open(t, copied), "r1")
			require.EqualValues(t, 1, o.run.Head().Seq)
			continue
		}
		_, err := Open(copied, Options{})
		require.ErrorIs(t, err, ErrCorrupt)
		require.ErrorContains(t, err, "does not name pawl.db-redo")
		require.Equal(t, was, harness.Contents(t, copied))
		report, err := Verify(copied)
		require.NoError(t, err)
		require.Contains(t, fmt.Sprint(report.Findings), redoFile)

		resume, err := d.pauseRedo(context.Background()) // what is not named because it has moved is no damage
		require.NoError(t, err)
		again := open(t, crashed(t, d.path))
		o.same(again)
		resume()
	}
}

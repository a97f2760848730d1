package store

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/tables"
	"github.com/pawl-run/pawl/workflow"
)

// long starts a run with so many records.
func long(t testing.TB, d *Dir, id workflow.RunID, records int) *owner {
	o := start(t, d, id)
	o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	for n := range records - 1 {
		o.do(state.Heartbeat{Token: 1}, decision.SetData{Path: []string{"state", "n"}, Value: int64(n)})
	}
	return o
}

// dropped observes how many records each transaction drops, until the end of the
// test.
func dropped(t testing.TB, d *Dir) *[]int {
	out, had := &[]int{}, logged(t, d)
	t.Cleanup(d.hook.OnHit(func(name string) {
		if name != "commit.inside" {
			return
		}
		n := 0 // in the transaction, by its goroutine
		err := d.db.Each(`SELECT count(*) FROM log`, func(r *sqlite.Row) error { n = r.Int(0); return nil })
		if err != nil {
			t.Error(err)
		}
		if n < had {
			*out = append(*out, had-n)
		}
		had = n
	}))
	return out
}

// A long run is flushed, and no commit is long: others go on in between.
func TestALongRunIsTrimmedInPieces(t *testing.T) {
	const records = 2000
	d := withoutRedo(t, openWith(t, t.TempDir(), Options{Durability: ProcessCrash}))
	o := long(t, d, "r1", records)
	other := start(t, d, "r2")
	other.do(state.Start{}, startRun(nil), createToken(1, "start"))
	sizes := dropped(t, d)
	between := 0
	onStage(d, func(now flushStage) error {
		if now == trimming {
			between++
			o.do(state.Heartbeat{Token: 1}, decision.SetData{Path: []string{"state", "n"}, Value: int64(between)})
			other.do(state.Heartbeat{}, decision.SetData{Path: []string{"state", "n"}, Value: int64(between)})
		}
		return nil
	})
	require.NoError(t, o.file())
	require.Equal(t, records/trimOnce, between)
	total := 0
	for _, n := range *sizes {
		require.LessOrEqual(t, n, trimOnce)
		total += n
	}
	require.Equal(t, records, total)
	require.Equal(t, 1+2*between, logged(t, d), "what came in between stays")
	o.same(d)
	other.same(d)
}

// The records of several runs go together, as many as one transaction may drop; and
// fewer if they are large.
func TestPiecesOfTheLog(t *testing.T) {
	d := withoutRedo(t, openWith(t, t.TempDir(), Options{Durability: ProcessCrash}))
	for n, records := range []int{3, 4, 2, 1} {
		long(t, d, workflow.RunID(fmt.Sprint(n+1)), records)
	}
	o := start(t, d, "large")
	o.do(state.Start{}, startRun(nil))
	for range 4 {
		o.do(state.Heartbeat{}, large(partBytes/2-1000))
	}
	o.do(state.Heartbeat{}, large(2*partBytes))
	trim := func(spans []span) (left []span, parts []int64) {
		require.NoError(t, d.updateIndex(func(db *sqlite.Conn) (err error) { left, parts, err = d.trimSome(db, spans); return err }))
		return left, parts
	}
	d.hook.SetTrimRecords(5)
	left, _ := trim([]span{{1, 1, 3}, {2, 1, 4}, {3, 1, 2}, {4, 2, 1}, {4, 1, 1}})
	require.Equal(t, []span{{2, 3, 4}, {3, 1, 2}, {4, 2, 1}, {4, 1, 1}}, left)
	left, _ = trim(left)
	require.Empty(t, left, "exactly as many as there are")
	require.Equal(t, 6, logged(t, d))
	left, parts := trim([]span{{5, 1, 6}})
	require.Equal(t, []span{{5, 5, 6}}, left, "as large as one transaction may be")
	require.Empty(t, parts)
	left, parts = trim(left)
	require.Empty(t, left)
	require.Equal(t, []int64{1}, parts)
	require.Zero(t, logged(t, d))
}

// A transaction is charged only for records that pawl.db has: most records of a run that is filed never stood there.
func TestRecordsThatTheLogLacks(t *testing.T) {
	d := open(t, t.TempDir())
	o := long(t, d, "r1", 7)
	num := o.run.row.Num
	first := func() int64 {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.redo.firstLacking(num)
	}
	require.EqualValues(t, 2, first(), "all but the start")
	require.NoError(t, d.updateIndex(func(db *sqlite.Conn) error {
		if _, _, err := d.moveRun(db, d.redo.runs[num], 0, 3); err != nil {
			return err
		}
		if n := d.redo.firstLacking(num); n != 5 {
			return fmt.Errorf("%d comes behind the three that moved", n)
		}
		if err := d.moveRunOf(db, num, 0); err != nil {
			return err
		}
		if n := d.redo.firstLacking(num); n <= 7 {
			return fmt.Errorf("%d was moved by this transaction", n)
		}
		return nil
	}))
	require.Greater(t, first(), int64(7))
	require.NoError(t, o.file())
	require.Zero(t, logged(t, d))
}

// One transaction drops no more bytes than it may, however many records there are that pawl.db does not have.
func TestLargeRecordsBeforeManySmallOnes(t *testing.T) {
	d := open(t, t.TempDir())
	resume, err := d.pauseRedo(t.Context())
	require.NoError(t, err)
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil))
	for range 40 {
		o.do(state.Heartbeat{Token: 1}, large(64<<10))
	}
	resume()
	for range 1000 {
		o.do(state.Heartbeat{Token: 1})
	}
	size := func() (n int64) {
		_, err := d.db.One(`SELECT coalesce(sum(length(message) + length(decisions) + coalesce(length(vals), 0)), 0) FROM log`,
			func(r *sqlite.Row) error { n = r.Int64(0); return r.Err() })
		if err != nil {
			t.Error(err)
		}
		return n
	}
	d.mu.Lock()
	before := size()
	d.mu.Unlock()
	require.Greater(t, before, int64(2*maxBytes))
	most := int64(0)
	reset := d.hook.OnHit(func(point string) {
		if point == "commit.inside" {
			now := size()
			before, most = now, max(most, before-now)
		}
	})
	require.NoError(t, o.file())
	reset()
	require.Zero(t, logged(t, d))
	require.LessOrEqual(t, most, int64(maxBytes+64<<10+1000))
	require.Greater(t, most, int64(maxBytes/2))
}

// halfTrimmed returns what a crash leaves in the middle of trimming, in which the run
// r1 has dead records, one of them large; and its owner.
func halfTrimmed(t *testing.T, ds ...decision.Decision) (path string, o *owner) {
	from := t.TempDir()
	d := withoutRedo(t, openWith(t, from, Options{Durability: ProcessCrash}))
	d.hook.SetTrimRecords(3)
	o = long(t, d, "r1", 7)
	o.do(state.Heartbeat{Token: 1}, large(2*partBytes))
	o.do(state.Heartbeat{Token: 1}, ds...)
	onStage(d, func(now flushStage) error {
		if now == trimming && path == "" {
			path = crashed(t, from)
		}
		return nil
	})
	require.NoError(t, o.file())
	require.Zero(t, logged(t, d))
	require.NotEmpty(t, path)
	return path, o
}

// A crash in the middle of trimming leaves records that nobody reads, and that the
// next Open drops.
func TestACrashWhileTheLogIsTrimmed(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	for name, ds := range map[string][]decision.Decision{
		"running": nil, "ended": {decision.CompleteToken{Token: 1}, decision.CompleteRun{At: at(9)}},
	} {
		t.Run(name, func(t *testing.T) {
			path, o := halfTrimmed(t, ds...)
			report, err := Verify(path)
			require.NoError(t, err)
			require.Zero(t, report.Damage, report.Findings)
			require.Contains(t, fmt.Sprint(report.Findings), "6 records that files of runs hold already")
			restored := filepath.Join(t.TempDir(), "restored")
			report, err = Repair(path, restored)
			require.NoError(t, err)
			require.Empty(t, report.Findings)
			o.same(open(t, restored))

			d := open(t, path)
			require.Zero(t, logged(t, d))
			parts, _ := partsOf(t, d)
			require.Zero(t, parts)
			leftover, err := d.Leftover()
			require.NoError(t, err)
			require.Empty(t, leftover)
			o.same(d)
			again := load(t, d, "r1")
			require.Empty(t, again.run.unflushed)
			require.Equal(t, o.run.Head().Seq, again.run.Head().Seq)
			if ds == nil {
				again.do(state.Heartbeat{Token: 1}, large(10))
				again.same(d)
			}
			require.NoError(t, d.Close())
			report, err = Verify(path)
			require.NoError(t, err)
			require.Empty(t, report.Findings)
		})
	}
}

// Records that cannot be dropped do not fail the flush. They harm nobody, and go with
// the records that are flushed later.
func TestRecordsThatStayInTheLog(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	var log strings.Builder
	path := t.TempDir()
	d := openWith(t, path, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	d.hook.SetTrimRecords(3)
	o := long(t, d, "r1", 7)
	o.do(state.Heartbeat{Token: 1}, large(3*partBytes), decision.CompleteToken{Token: 1}, decision.CompleteRun{At: at(9)})
	gone := long(t, d, "r2", 5)
	gone.do(state.Heartbeat{}, large(3*partBytes), decision.CompleteToken{Token: 1}, decision.CompleteRun{At: at(9)})
	var fails atomic.Bool
	fails.Store(true)
	onStage(d, func(now flushStage) error {
		if now == trimming && fails.Load() {
			return errors.New("no")
		}
		return nil
	})
	require.NoError(t, o.file())
	require.NoError(t, gone.file())
	require.Contains(t, log.String(), "not dropped from the log yet")
	require.Equal(t, 2+6, logged(t, d), "those of the first flush go first")
	_, records := partsOf(t, d)
	require.Equal(t, 2, records, "they are named")

	o.same(d)
	require.Empty(t, load(t, d, "r1").run.unflushed)
	leftover, err := d.Leftover()
	require.NoError(t, err)
	require.Empty(t, leftover, "both are flushed")
	into := filepath.Join(t.TempDir(), "copy")
	_, err = d.Backup(t.Context(), into, nil)
	require.NoError(t, err)
	report, err := Verify(into)
	require.NoError(t, err)
	require.Zero(t, report.Damage)
	copied := open(t, into)
	require.Zero(t, logged(t, copied))
	o.same(copied)
	require.NoError(t, d.Purge("r2", ""))
	require.Equal(t, 2, logged(t, d))

	fails.Store(false)
	next := long(t, d, "r3", 2)
	require.NoError(t, next.file())
	require.Zero(t, logged(t, d))
	_, records = partsOf(t, d)
	require.Zero(t, records)
	o.same(d)
	next.same(d)
}

// Dead records are not forgotten if the commit fails that was to drop them with those
// of the next flush.
func TestDeadRecordsOutliveAFailedFiling(t *testing.T) {
	d := withoutRedo(t, openWith(t, t.TempDir(), Options{Durability: ProcessCrash}))
	d.hook.SetTrimRecords(3)
	o, next := long(t, d, "r1", 7), long(t, d, "r2", 2)
	rename := func(from, to string) error {
		return d.readIndex(func(db *sqlite.Conn) error { return db.Script(`ALTER TABLE ` + from + ` RENAME TO ` + to) })
	}
	onStage(d, func(now flushStage) error {
		if now == trimming {
			return errors.New("no")
		}
		return nil
	})
	require.NoError(t, o.file())
	require.Equal(t, 4+2, logged(t, d))
	reset := onStage(d, func(now flushStage) error {
		if now == synced {
			return rename("log", "elsewhere")
		}
		return nil
	})
	require.ErrorContains(t, next.file(), "no such table")
	reset()
	require.NoError(t, rename("elsewhere", "log"))
	require.Equal(t, 4+2, logged(t, d))
	require.NoError(t, next.file())
	require.Zero(t, logged(t, d))
	o.same(d)
	next.same(d)
}

// A damaged row that says what is flushed is believed only if the log proves it: Open
// drops no record that Repair could restore.
func TestOpenDropsNoLiveRecords(t *testing.T) {
	from := t.TempDir()
	d := open(t, from)
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil), createToken(1, "start"))
	o.do(state.Heartbeat{}, dispatch(1))
	require.NoError(t, o.file())
	for n := range 4 {
		o.do(state.Heartbeat{Token: 1}, decision.SetData{Path: []string{"state", "n"}, Value: int64(n)})
	}
	require.NoError(t, d.readIndex(func(db *sqlite.Conn) error {
		err := db.Script(`UPDATE runs SET filed = 3`)
		tables.SumAgain(t, db)
		return err
	}))
	dead := crashed(t, from)
	again, err := Open(dead, Options{})
	require.NoError(t, err)
	require.Equal(t, 4, logged(t, again))
	require.NoError(t, again.Close())
	into := filepath.Join(t.TempDir(), "repaired")
	_, err = Repair(dead, into)
	require.NoError(t, err)
	require.Len(t, all(t, open(t, into).History("r1")), 6)
}

package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

// large returns a decision whose record takes about n bytes, some of them in the
// record and most in values that stand apart.
func large(n int) decision.Decision {
	text := harness.RandomLetters(n)
	return decision.SetData{Path: []string{"state", "x"}, Value: []any{text[:n/2], text[n/2:]}}
}

// partsOf returns how many parts there are, and of how many records.
func partsOf(t testing.TB, d *Dir) (parts, records int) {
	const count = `SELECT count(*), count(DISTINCT key >> 20) FROM parts`
	err := d.readIndex(func(db *sqlite.Conn) error {
		return db.Each(count, func(r *sqlite.Row) error { parts, records = r.Int(0), r.Int(1); return nil })
	})
	require.NoError(t, err)
	return parts, records
}

// same checks that a run is read as it was written.
func (o *owner) same(d *Dir) {
	s, err := d.State(o.run.Head().Run)
	require.NoError(o.t, err)
	s.Epoch = o.state.Epoch
	require.Equal(o.t, o.state.AllRows(), s.AllRows())
	seq := int64(0)
	for r, err := range d.History(o.run.Head().Run) {
		require.NoError(o.t, err)
		seq++
		require.Equal(o.t, seq, r.Seq)
	}
	require.Equal(o.t, o.run.Head().Seq, seq)
}

func TestLargeRecordsArePutAside(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	path := t.TempDir()
	d := open(t, path)
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil), large(partBytes-10_000))
	_, records := partsOf(t, d)
	require.Zero(t, records, "a record of at most that size stands in the log")
	o.do(state.Heartbeat{}, large(maxLarge+10))
	o.do(state.Heartbeat{}, large(5*partBytes), large(4*partBytes))
	o.do(state.Heartbeat{}, createToken(1, "start"))
	parts, records := partsOf(t, d)
	require.Equal(t, 2, records)
	require.Equal(t, 3+10, parts)
	o.same(d)

	copied := open(t, crashed(t, path))
	after := load(t, copied, "r1")
	require.Equal(t, o.run.Head().Seq, after.run.Head().Seq)
	after.same(copied)
	after.do(state.Heartbeat{}, large(3*partBytes))
	_, records = partsOf(t, copied)
	require.Equal(t, 3, records, "numbers are not given twice")
	after.same(copied)

	require.NoError(t, o.file())
	_, records = partsOf(t, d)
	require.Zero(t, records)
	require.Zero(t, logged(t, d))
	o.same(d)
	require.NoError(t, d.Close())
	report, err := Verify(path)
	require.NoError(t, err)
	require.Empty(t, report.Findings)
}

// A record that says much the same again and again takes a fraction of its text in the log, and is read as it was.
func TestLargeRecordsAreCompressed(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	if harness.Raced {
		t.Skip("one goroutine compresses for a quarter of a minute")
	}
	path := t.TempDir()
	d := openWith(t, path, Options{CountTenants: true})
	o := startFor(t, d, "a", "a")
	var tokens strings.Builder
	for n := range 160_000 {
		fmt.Fprintf(&tokens, "token %d is at node work, in branch %d of group 1; ", n, n)
	}
	same := decision.SetData{Path: []string{"state", "x"}, Value: tokens.String()}
	o.do(state.Start{}, startRun(nil), same)
	o.do(state.Heartbeat{}, same, large(3*partBytes))
	parts, records := partsOf(t, d)
	require.Equal(t, 2, records)
	require.Less(t, parts, 2+4+2, "9 times the bytes of a part take at most two, and letters in no order as many as they are")
	require.Greater(t, o.run.Bytes(), int64(18*partBytes))
	require.Less(t, d.TenantBytes("a"), int64(5*partBytes))
	requireTenantBytes(t, d)
	o.same(d)
	again := openWith(t, crashed(t, path), Options{CountTenants: true})
	loaded := load(t, again, "a")
	loaded.same(again)
	require.NoError(t, loaded.file())
	requireTenantBytes(t, again)
	require.NoError(t, o.file())
	requireTenantBytes(t, d)
	o.same(d)
}

// The spill of a record that never came goes, at the next Open or when
// the commit is refused.
func TestPartsOfNothing(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil), large(2*partBytes))
	for n := range 5 {
		require.NoError(t, d.writeParts(d.lastSpill.Add(1), make([]byte, 1+n*partBytes)))
	}
	_, records := partsOf(t, d)
	require.Equal(t, 6, records)
	report, err := Verify(crashed(t, path))
	require.NoError(t, err)
	require.Zero(t, report.Damage)
	require.Contains(t, fmt.Sprint(report.Findings), "15 parts of large records that the log does not have")
	d = open(t, crashed(t, path))
	parts, records := partsOf(t, d)
	require.Equal(t, 1, records)
	require.Equal(t, 3, parts)

	again := start(t, d, "r1")
	require.ErrorIs(t, again.try(state.Start{}, startRun(nil), large(3*partBytes)), state.ErrRunExists)
	_, records = partsOf(t, d)
	require.Equal(t, 1, records)
	o = load(t, d, "r1")
	o.same(d)
	o.do(state.Heartbeat{}, decision.CompleteRun{At: at(9)})
	require.NoError(t, d.Purge("r1", ""))
	_, records = partsOf(t, d)
	require.Zero(t, records)
}

// A disk on which there is no room for a large record is not filled up by trying.
func TestPartsOnAFullDisk(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir())
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil))
	limit := func(pages int) {
		require.NoError(t, d.readIndex(func(db *sqlite.Conn) error { return db.Script(fmt.Sprintf(`PRAGMA max_page_count=%d`, pages)) }))
	}
	limit(60 + 4*partBytes/index.PageSize)
	for range 3 {
		require.ErrorIs(t, o.try(state.Heartbeat{}, large(6*partBytes)), ErrNoSpace)
		_, records := partsOf(t, d)
		require.Zero(t, records)
		o = load(t, d, "r1")
	}
	o.do(state.Heartbeat{}, large(3*partBytes))
	limit(1 << 30)
	o.do(state.Heartbeat{}, large(6*partBytes))
	o.same(d)
}

// Parts that could not be dropped are dropped before more is spilled.
func TestPartsThatStay(t *testing.T) {
	d := open(t, t.TempDir())
	require.NoError(t, d.writeParts(d.lastSpill.Add(1), make([]byte, 3*partBytes)))
	d.garbage.addSpills(1)
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil), large(partBytes))
	parts, records := partsOf(t, d)
	require.Equal(t, 1, records)
	require.Equal(t, 2, parts)
	o.same(d)
}

func TestDamagedParts(t *testing.T) {
	for _, c := range []struct{ name, sql, want string }{
		{"the last is missing", `DELETE FROM parts WHERE key = (SELECT max(key) FROM parts)`, "large values do not end"},
		{"one is missing", `DELETE FROM parts WHERE key & 1048575 = 1`, "record 2 lacks a part"},
		{"the first is missing", `DELETE FROM parts WHERE key & 1048575 = 0`, "record 2 lacks a part"},
		{"all are missing", `DELETE FROM parts`, "large values do not end"},
		{"more", `INSERT INTO parts SELECT key + 1, data FROM parts ORDER BY key DESC LIMIT 1`, "large values do not end"},
		{"cut", `UPDATE parts SET data = substr(data, 1, 100) WHERE key & 1048575 = 1`, "large values do not end"},
		{"changed at the beginning", `UPDATE parts SET data = CAST(CAST(X'7F' AS TEXT) || CAST(substr(data, 2) AS TEXT) AS BLOB) WHERE key & 1048575 = 0`, "record 2"},
		{"changed in a value", `UPDATE parts SET data = CAST(replace(CAST(data AS TEXT), 'A', 'B') AS BLOB) WHERE key & 1048575 = 2`, "no value"},
		{"another record's", `UPDATE log SET parts = 99 WHERE parts IS NOT NULL`, "large values do not end"},
		{"none named", `UPDATE log SET parts = NULL`, "record 2 does not have its checksum"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := open(t, t.TempDir())
			o := start(t, d, "r1")
			o.do(state.Start{}, startRun(nil))
			o.do(state.Heartbeat{}, large(4*partBytes))
			other := start(t, d, "r2")
			other.do(state.Start{}, startRun(nil))
			require.NoError(t, d.updateIndex(func(db *sqlite.Conn) error { _, err := db.Exec(c.sql); return err }))
			_, err := d.State("r1")
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorContains(t, err, c.want)
			other.same(d)
		})
	}
}

// One commit does not hold all others up, however much it brings.
func TestGroupsAreBoundedInBytes(t *testing.T) {
	c := committer{queue: make(chan *commitRequest, 10)}
	for range 5 {
		c.queue <- &commitRequest{bytes: maxBytes/2 - 1}
	}
	require.Len(t, c.gatherBatch([]*commitRequest{{}}), 4)
	require.Len(t, c.gatherBatch([]*commitRequest{{bytes: maxBytes}}), 1)
	require.Len(t, c.gatherBatch(nil), 2)
}

// encoded starts a run and encodes the large record that is to come next.
func encoded(t testing.TB, d *Dir) (*owner, decision.Encoded) {
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil))
	r := o.record(state.Heartbeat{}, large(3*partBytes))
	e, err := r.Encode()
	require.NoError(t, err)
	return o, e
}

// The spill of a record goes after a commit with an unknown outcome, unless pawl.db
// says that the record is there.
func TestPartsOfAnUnknownCommit(t *testing.T) {
	d := open(t, t.TempDir())
	o, e := encoded(t, d)
	batch := []*runfile.Entry{{Encoded: e}}
	require.NoError(t, d.spillLarge(batch))
	_, records := partsOf(t, d)
	require.Equal(t, 1, records)
	unknown := fmt.Errorf("%w: %w", ErrUnknown, ErrNoSpace)
	d.unspillFailed(o.run.row.Num, batch, unknown)
	_, records = partsOf(t, d)
	require.Zero(t, records)

	o.do(state.Heartbeat{}, large(3*partBytes))
	d.unspillFailed(o.run.row.Num, o.run.unflushed[1:], unknown)
	o.same(d)
}

// If several large records are committed together and one cannot be spilled, none of
// them leaves parts behind.
func TestPartsOfSeveralRecords(t *testing.T) {
	d := open(t, t.TempDir())
	_, e := encoded(t, d)
	pages := int64(0)
	count := func(db *sqlite.Conn) error {
		return db.Each(`PRAGMA page_count`, func(r *sqlite.Row) error { pages = r.Int64(0); return nil })
	}
	require.NoError(t, d.readIndex(count))
	require.NoError(t, d.readIndex(func(db *sqlite.Conn) error {
		return db.Script(fmt.Sprintf(`PRAGMA max_page_count=%d`, pages+4*partBytes/index.PageSize))
	}))
	require.ErrorIs(t, d.spillLarge([]*runfile.Entry{{Encoded: e}, {Encoded: e}}), ErrNoSpace)
	_, records := partsOf(t, d)
	require.Zero(t, records)
}

// A large record is read in several steps. If it is flushed, and its parts are dropped,
// in between, it is read from the file; and if its run is purged, there is no record.
func TestPartsAreDroppedWhileTheyAreRead(t *testing.T) {
	d := open(t, t.TempDir())
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil))
	for n := range 3 {
		o.do(state.Heartbeat{}, large(4*partBytes))
		steps := 0
		d.hook.OnReadParts(func() {
			if steps++; steps == n+1 {
				require.NoError(t, o.file())
			}
		})
		o.same(d)
		require.Greater(t, steps, n)
	}
	o.do(state.Heartbeat{}, large(4*partBytes), decision.CompleteRun{At: at(9)})
	var reset func()
	reset = d.hook.OnReadParts(func() {
		reset()
		require.NoError(t, d.Purge("r1", ""))
	})
	_, err := d.State("r1")
	require.ErrorIs(t, err, ErrRunNotFound)
}

// Nothing that takes long for what is large is done with the lock, for which all
// commits wait.
func TestLargeThingsAreDecodedWithoutTheLock(t *testing.T) {
	d := open(t, t.TempDir())
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil), large(partBytes/2))
	o.do(state.Heartbeat{}, decision.CompleteRun{At: at(3), Output: map[string]any{"x": largeText}})
	var r index.Row
	var entries []*runfile.Entry
	require.NoError(t, d.readIndex(func(db *sqlite.Conn) (err error) {
		if r, err = d.queryRow(db, "r1"); err == nil {
			entries, _, err = index.ReadLog(db, r.Num, 0)
		}
		return err
	}))
	require.Nil(t, r.Output)
	require.Nil(t, entries[0].Values)
	require.NoError(t, d.decodeRow(&r))
	require.Equal(t, map[string]any{"x": largeText}, r.Output)
	entries, damage, err := d.completeEntries(entries, nil)
	require.NoError(t, errors.Join(damage, err))
	require.Positive(t, entries[0].Values.Len())

	other := start(t, d, "r2")
	other.do(state.Start{}, startRun(nil))
}

// A directory whose log is elsewhere keeps parts that no record names: the record may be in the log already.
func TestPartsOfADirectoryWithALog(t *testing.T) {
	for _, away := range []bool{true, false} {
		path := t.TempDir()
		d, err := Open(path, Options{})
		require.NoError(t, err)
		require.NoError(t, d.updateLocally(func(db *sqlite.Conn) error {
			if _, err := db.Exec(putPart, int64(7)<<partBits, []byte("part")); err != nil || !away {
				return err
			}
			return index.KeepLogPlace(db, index.LogPlace{Seq: 3, Based: true})
		}))
		require.NoError(t, d.Close())
		d, err = Open(path, Options{LogAway: true})
		require.NoError(t, err)
		parts, _ := partsOf(t, d)
		require.Equal(t, away, parts == 1)
		require.NoError(t, d.Close())
	}
}

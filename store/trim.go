package store

import (
	"slices"
	"sync"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// The records of a long run are dropped from the log in pieces: all at once would
// hold all other commits up. The first piece goes in the transaction that makes the
// index name the file, from when on the others are dead: whoever reads the log
// begins behind the record that the file ends with. Dead records that a crash leaves
// are dropped by the next Open.

// trimOnce is how many records one transaction drops from the log; fewer, if they
// take more than maxBytes.
const trimOnce = 256

// trimOnce keeps a transaction that drops records about as long as one that commits them.
const (
	sizeLog = `SELECT key, length(message) + length(decisions) + coalesce(length(vals), 0), parts FROM log
		WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?`
	deleteLog = `DELETE FROM log WHERE key BETWEEN ? AND ?`
	// A damaged row must not drop records that live. The last dead record goes last, so it is there, and its checksum
	// is that of the row.
	//
	// dropFlushed drops the dead records of all runs that a crash has left.
	dropFlushed = `DELETE FROM log WHERE key IN (SELECT log.key ` + index.DeadRecords + `
		AND EXISTS (SELECT 1 FROM log AS last WHERE last.key = num << 32 | filed AND last.sum = filed_sum))`
	flushRun = `UPDATE runs SET slot = ?, filed = ?, filed_sum = ?, file_hash = ?, file_size = ?, file_crc = ? WHERE num = ? AND filed = ?`
)

// trimFlushed makes the index name the new files and drops the records in them. It returns
// the spills of those records. If it fails the index is as it was.
//
// From the commit of this transaction on the runs are loaded from their new files. The files of
// all jobs are synced by then. The condition of each update is the record with which the old file
// ends: if a run was purged since the job began, nothing is updated, and nothing is dropped for
// it.
//
// The spans that were left before go first, whole, before anything newer of the same run is
// dropped: so the last dead record of a run is the last to go, and its checksum is there for as
// long as others are, by which the next Open knows that the row tells the truth about them.
func (d *Dir) trimFlushed(jobs []*flushJob) (spills []int64, err error) {
	var left []span
	before := d.garbage.takeSpans()
	err = d.updateLocally(func(db *sqlite.Conn) error {
		spans := slices.Clone(before) // first: the last record of a run goes last
		few := d.hook.TrimRecords(trimOnce)
		spills = nil
		for _, j := range jobs {
			if j.err != nil {
				continue
			}
			inLog := max(j.row.Flushed, min(j.lastRequest().seq, d.redo.firstLacking(j.row.Num)-1))
			if filed, err := d.nameFile(db, j); err != nil || !filed {
				if err != nil {
					return err
				}
				continue // purged in the meantime
			}
			// If a run has only a few records in pawl.db, their number and size need not be looked up.
			s := span{j.row.Num, j.row.Flushed + 1, j.lastRequest().seq}
			if n := inLog - j.row.Flushed; n <= few && len(spans) == 0 && j.bytesUpTo(inLog) <= maxBytes/trimOnce*n {
				few -= n
				if _, err := db.Exec(deleteLog, index.LogKey(s.num, s.first), index.LogKey(s.num, s.last)); err != nil {
					return err
				}
				spills = append(spills, j.spillsOf()...)
				continue
			}
			spans = append(spans, s)
		}
		rest, more, err := d.trimSome(db, spans)
		left, spills = rest, append(spills, more...)
		return err
	})
	if err != nil {
		d.garbage.addSpans(before)
		return nil, err // the records may be there still
	}
	for _, j := range jobs {
		if e := j.lastEntry(); j.err == nil && e != nil {
			d.unfiled.NoteFiled(j.row.Num, j.lastRequest().seq, e.At)
		}
	}
	return append(spills, d.trimRest(left)...), nil
}

// nameFile has the index name the new file of a run, with all that the redo log has of it. It reports false if the run
// was purged.
//
// While a large file is written, thousands of records may come. They stay where they are, for the next file: to move them
// would hold all other commits up.
func (d *Dir) nameFile(db *sqlite.Conn, j *flushJob) (filed bool, err error) {
	last := j.lastRequest()
	n, err := db.Exec(flushRun, append(index.WithCRC(j.row.Num, int64(j.row.Slot.Other()), last.seq, last.sum[:], j.hash[:], int64(j.size)), j.row.Num, j.row.Flushed)...)
	if err != nil || n == 0 {
		return false, err
	}
	if ahead := d.redo.behind[j.row.Num]; ahead.leavesBehind(j, d.hook.TrimRecords(trimOnce)) {
		err = d.moveFiledRow(db, ahead, j)
	} else if err = d.moveRunOf(db, j.row.Num, last.seq); err == nil {
		d.redo.noteFiled(j.row.Num)
	}
	if err != nil {
		return false, err
	}
	d.sizes.ChangeFile(j.row.Num, int64(j.size)-j.row.FileSize)
	d.tenants.countBytes(j.run.row.Tenant, int64(j.size)-j.row.FileSize-j.bytesUpTo(last.seq))
	d.hook.Hit("file.trim")
	return true, nil
}

// firstLacking returns the first record of a run that the log in pawl.db lacks, the transaction under way included; a
// number beyond all records if it lacks none. All behind that are lacking as well.
func (l *redoLog) firstLacking(num int64) int64 {
	if r := l.behind[num]; r != nil && r.movedEntries < len(r.entries) {
		return r.entries[r.movedEntries].Seq
	}
	return index.MaxSeq + 1
}

// trimRest drops dead records, also those that could not be dropped before, and
// returns their spills. Others commit in between. Records that cannot be dropped now
// are dropped after a later flush, or by the next Open.
//
// A failure is no error of the flush: the runs are flushed, and records that are dead are
// harmless.
func (d *Dir) trimRest(spans []span) (spills []int64) {
	for len(spans) > 0 {
		var left []span
		var some []int64
		err := d.hook.Stage(string(trimming))
		if err == nil {
			err = d.updateLocally(func(db *sqlite.Conn) (err error) {
				d.hook.Hit("file.trim")
				left, some, err = d.trimSome(db, spans)
				return err
			})
		}
		if err != nil {
			d.garbage.addSpans(spans)
			d.options.Logger.Warn("records that are flushed are not dropped from the log yet", "file", d.pathOf(indexFile), "error", err)
			return spills
		}
		spans, spills = left, append(spills, some...)
	}
	return spills
}

// trimSome drops the first records of some spans from the log, as many as one
// transaction may. It returns the spans that are left, and the spills of the records.
//
// For example, with room for 256 records: of spans of 200 and 100 records, the first goes and 56
// of the second, which has 44 left. The record at which the bytes run out still goes, so that
// one of any size comes to its end.
func (d *Dir) trimSome(db *sqlite.Conn, spans []span) (left []span, spills []int64, err error) {
	records, bytes := d.hook.TrimRecords(trimOnce), int64(maxBytes)
	for i, s := range spans {
		first, end := index.LogKey(s.num, s.first), index.LogKey(s.num, s.last)
		n := int64(0)
		last := end // of those that are dropped now
		err := db.Each(sizeLog, func(r *sqlite.Row) error {
			if bytes <= 0 {
				return nil
			}
			n++
			bytes -= r.Int64(1)
			last = r.Int64(0)
			if !r.Null(2) {
				spills = append(spills, r.Int64(2))
			}
			return nil
		}, first, end, records)
		if err == nil {
			_, err = db.Exec(deleteLog, first, last)
		}
		if err != nil {
			return nil, nil, err
		}
		if records -= n; records <= 0 || bytes <= 0 {
			if last < end {
				left = append(left, span{s.num, last + 1 - index.LogKey(s.num, 0), s.last})
			}
			return append(left, spans[i+1:]...), spills, nil
		}
	}
	return nil, spills, nil
}

// The garbage is everything in pawl.db that is still to be dropped.
//
// It is a list in memory of work that may be done at any time or never: the next Open finds the
// same in the tables. The zero value is empty. A caller that takes an entry and cannot drop it
// adds it again.
type garbage struct {
	mu     sync.Mutex
	spills []int64   // numbers of spills that no record names
	spans  []span    // of dead records
	gone   []*Member // purged runs whose files could not be removed; behind a Close nobody would find these
}

// addSpills remembers spills that nothing names any more, or never did.
func (g *garbage) addSpills(spills ...int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spills = append(g.spills, spills...)
}

// takeSpill gives one spill to the caller, who drops it.
func (g *garbage) takeSpill() (spill int64, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.spills) - 1
	if n < 0 {
		return 0, false
	}
	spill, g.spills = g.spills[n], g.spills[:n]
	return spill, true
}

// addSpans remembers dead records.
func (g *garbage) addSpans(spans []span) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spans = append(g.spans, spans...)
}

// takeSpans gives all spans to the caller, in the order in which they were added.
func (g *garbage) takeSpans() (spans []span) {
	g.mu.Lock()
	defer g.mu.Unlock()
	spans, g.spans = g.spans, nil
	return spans
}

// A span is the records of a run from one sequence to another that are in its file and
// still in the log: dead records.
type span struct{ num, first, last int64 }

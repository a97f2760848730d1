package store

import (
	"slices"

	"github.com/pawl-run/pawl/internal/failpoint"
	"github.com/pawl-run/pawl/internal/hook"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// The records of a long run are dropped from the log in pieces: all at once would
// hold all other commits up. The first piece goes in the transaction that makes the
// index name the file, from when on the others are dead: whoever reads the log
// begins behind what is filed. Dead records that a crash leaves are dropped by the
// next Open.

// trimOnce is how many records one transaction drops from the log; fewer, if they
// take more than maxBytes.
const trimOnce = 256

func init() { hook.TrimOnce.Store(trimOnce) }

const (
	sizeLog = `SELECT key, length(message) + length(decisions) + coalesce(length(vals), 0), parts FROM log
		WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?`
	areFiled = `FROM log CROSS JOIN runs ON num = log.key >> 32 WHERE log.key & 4294967295 <= filed`
	filedLog = `SELECT count(*) ` + areFiled
	// What a damaged row says must not drop records that live. The last dead record
	// goes last, so it is there, and its checksum is that of the row.
	dropFiled = `DELETE FROM log WHERE key IN (SELECT log.key ` + areFiled + `
		AND EXISTS (SELECT 1 FROM log AS last WHERE last.key = num << 32 | filed AND last.sum = filed_sum))`
	fileRun = `UPDATE runs SET slot = ?, filed = ?, filed_sum = ?, file_hash = ?, file_size = ?, file_crc = ? WHERE num = ? AND filed = ?`
)

// A span is the records of a run from one sequence to another, which are to be
// dropped.
type span struct{ num, first, last int64 }

// trim makes the index name the new files and drops the records in them. It returns
// what was put aside for those. If it fails the index is as it was.
func (d *Dir) trim(rounds []*round) (parts []int64, err error) {
	var left []span
	before := d.heap.takeSpans()
	err = d.update(func(db *sqlite.Conn) error {
		spans := slices.Clone(before) // first: the last record of a run goes last
		for _, r := range rounds {
			if r.err != nil {
				continue
			}
			last := r.filings[len(r.filings)-1]
			n, err := db.Exec(fileRun, append(checked(r.row.num, int64(r.row.slot.other()), last.seq, last.sum[:], r.hash[:], int64(r.size)), r.row.num, r.row.filed)...)
			if err != nil {
				return err
			}
			if n == 0 {
				continue // purged in the meantime
			}
			failpoint.Hit("file.trim")
			spans = append(spans, span{r.row.num, r.row.filed + 1, last.seq})
		}
		left, parts, err = trimSome(db, spans)
		return err
	})
	if err != nil {
		d.heap.addSpans(before)
		return nil, err // the records may be there still
	}
	return append(parts, d.trimRest(left)...), nil
}

// trimRest drops dead records, also those that could not be dropped before, and
// returns what was put aside for them. Others commit in between. What cannot be
// dropped is dropped after a later filing, or by the next Open.
func (d *Dir) trimRest(spans []span) (parts []int64) {
	for len(spans) > 0 {
		var left []span
		var some []int64
		err := d.filer.passes(trimming)
		if err == nil {
			err = d.update(func(db *sqlite.Conn) (err error) {
				failpoint.Hit("file.trim")
				left, some, err = trimSome(db, spans)
				return err
			})
		}
		if err != nil {
			d.heap.addSpans(spans)
			d.options.Logger.Warn("records that are filed are not dropped from the log yet", "file", d.at(indexFile), "error", err)
			return parts
		}
		spans, parts = left, append(parts, some...)
	}
	return parts
}

// trimSome drops the first records of some spans from the log, as many as one
// transaction may. It returns the spans that are left, and the numbers of what was
// put aside for the records.
func trimSome(db *sqlite.Conn, spans []span) (left []span, parts []int64, err error) {
	records, bytes := hook.TrimOnce.Load(), int64(maxBytes)
	for i, s := range spans {
		first, end := logKey(s.num, s.first), logKey(s.num, s.last)
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
				parts = append(parts, r.Int64(2))
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
				left = append(left, span{s.num, last + 1 - logKey(s.num, 0), s.last})
			}
			return append(left, spans[i+1:]...), parts, nil
		}
	}
	return nil, parts, nil
}

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// Purge erases a run that has ended, as PurgeAll does. It fails with ErrRunNotFound and ErrNotEnded, and with ErrCorrupt if its
// row does not tell whether it has ended, and which its files are.
func (d *Dir) Purge(id workflow.RunID, keys string) error {
	families, err := d.Families(context.Background(), []workflow.RunID{id})
	if err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	run := families[0][:1]
	if err := d.PurgeAll(run, func(workflow.RunID) string { return keys }); err != nil {
		return err
	}
	if run[0].Err != nil {
		return fmt.Errorf("purge: %w", run[0].Err)
	}
	return nil
}

// PurgeAll erases runs that have ended, and were found by Families: their rows, their records and their files, and the
// outcomes that are kept under keys that begin with what keys says of a run, unless that is "". A definition goes too, if no
// other run has it and it is not published; that may wait for later purges, or for Close. The logs, and pages of pawl.db that
// became free, keep what is erased for eraseAfter and as long as it takes to erase it, or until Close. PurgeAll waits for
// flushes of the runs.
//
// A run that stays has an Err behind it, ErrNotEnded also if it is not there any more, and so has one whose file could not be
// removed. An error of the call says that all stay, or that nobody knows.
//
// The rows of all go in one transaction, and from then on the runs are not there: a crash behind it leaves
// files that nothing names, under names that are never used again. They are removed last, when it
// is durable that nothing names them; before that, a loss of power could bring back a row whose
// file is gone. A caller with many runs purges a few at a time, since other commits wait for a transaction.
//
// A row that is damaged may be purged all the same, if it tells whether the run has ended, and which its files are, so that an
// operator can get rid of a run that cannot be read. Otherwise its Err, which is ErrCorrupt, keeps it.
func (d *Dir) PurgeAll(runs []Member, keys func(workflow.RunID) string) error {
	var going []*Member
	for i := range runs {
		m := &runs[i]
		damage := (*CorruptError)(nil)
		if errors.As(m.Err, &damage) && m.row.Sound[index.RowState] && m.row.Sound[index.RowStart] {
			m.Err = nil
		}
		if m.Err == nil {
			d.flusher.waitForRun(m.row.Run)
			going = append(going, m)
		}
	}
	if len(going) == 0 {
		return nil
	}
	p := purge{dir: d, runs: going, keys: keys}
	if err := d.updateIndex(p.dropRows); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	d.dropSpills(p.spills)
	if err := d.collectDefinitions(false); err != nil {
		d.options.Logger.Warn("unused definitions are not deleted yet", "file", d.pathOf(indexFile), "error", err)
	}
	if err := d.syncLog(); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	for _, m := range going {
		if m.Err == nil {
			m.Err = d.removeRunFiles(&m.row)
		}
	}
	return nil
}

// removeRunFiles removes whatever files a purged run may have.
func (d *Dir) removeRunFiles(r *index.Row) error {
	for _, s := range []index.Slot{1, 2} {
		if err := d.removeRunFile(index.FileName(r.Run, r.Nonce, s)); err != nil {
			return fmt.Errorf("purge run %q: %w", string(r.Run), err)
		}
	}
	return nil
}

// A purge is one transaction that purges runs.
type purge struct {
	dir    *Dir
	runs   []*Member
	keys   func(workflow.RunID) string
	spills []int64 // of the records that are gone
}

// A purge deletes many runs by one statement for each table. A list has numbers, or the bounds of keys.
const (
	deleteRuns = `DELETE FROM runs WHERE num IN (SELECT value FROM json_each(?)) AND status >= 4 RETURNING num, workflow, status, tenant, file_size, filed`
	dropRefs   = `DELETE FROM blob_refs WHERE num IN (SELECT value FROM json_each(?))`
	dropLabels = `DELETE FROM labels WHERE num IN (SELECT value FROM json_each(?))`

	keysWithin   = `SELECT o.id FROM json_each(?) AS bounds CROSS JOIN outcomes AS o WHERE o.key >= bounds.value ->> 0 AND o.key < bounds.value ->> 1`
	dropKeys     = `DELETE FROM outcomes WHERE id IN (` + keysWithin + `)`
	dropKeyRefs  = `DELETE FROM blob_refs WHERE num IN (SELECT -id FROM (` + keysWithin + `))`
	purgedLog    = `SELECT l.key, l.parts FROM json_each(?) AS run CROSS JOIN log AS l WHERE l.key BETWEEN run.value << 32 AND run.value << 32 | 4294967295`
	purgedSpills = `SELECT parts FROM (` + purgedLog + `) WHERE parts IS NOT NULL`
	dropPurged   = `DELETE FROM log WHERE key IN (SELECT key FROM (` + purgedLog + `))`
)

// dropRows deletes the rows of all runs, and what is theirs. It may be called twice.
//
// The statement itself looks whether a run has ended, within the transaction: what was read
// before may be old. It returns what the counts need of the rows that it deletes.
func (p *purge) dropRows(db *sqlite.Conn) error {
	d := p.dir
	nums := make([]int64, len(p.runs))
	for i, m := range p.runs {
		if nums[i] = m.row.Num; d.redo.runs[nums[i]] == nil {
			continue
		}
		if err := d.moveRunOf(db, nums[i], 0); err != nil {
			return err
		}
	}
	gone := map[int64]bool{}
	var filed []purgedFile
	err := db.ExecEach(deleteRuns, func(x *sqlite.Row) error {
		num := x.Int64(0)
		gone[num] = true
		d.counts.countRun(x.Text(1), workflow.RunStatus(x.Int64(2)), -1)
		filed = append(filed, purgedFile{num, x.Text(3), x.Int64(4), x.Int64(5)})
		return nil
	}, numberList(nums))
	if err != nil {
		return err
	}
	last := int64(0)
	for _, m := range p.runs {
		if m.Err = nil; !gone[m.row.Num] {
			m.Err = fmt.Errorf("%w: %q", ErrNotEnded, string(m.row.Run))
			continue
		}
		last = max(last, m.row.Num)
		d.redo.noteGone(m.row.Num)
	}
	if last == 0 {
		return nil
	}
	d.eraseSoon()
	if err := d.notePurgedRedo(db, last); err != nil {
		return err
	}
	for _, f := range filed {
		if err := d.tenants.countPurged(db, f.num, f.filed, f.tenant, f.size); err != nil {
			return err
		}
	}
	return p.dropRest(db, numberList(slices.Sorted(maps.Keys(gone))))
}

// A purgedFile is what the bytes of a tenant need of a row that is deleted.
type purgedFile struct {
	num         int64
	tenant      string
	size, filed int64
}

// dropRest deletes what is not in the rows of the runs, whose numbers are listed.
func (p *purge) dropRest(db *sqlite.Conn, nums string) error {
	definitions := map[string]int{}
	var bounds [][2]string
	for _, m := range p.runs {
		if m.Err != nil {
			continue
		}
		definitions[m.row.Definition]++
		if prefix := p.keys(m.row.Run); prefix != "" {
			bounds = append(bounds, [2]string{prefix, endOfPrefix(prefix)})
		}
	}
	keys, _ := json.Marshal(bounds) //nolint:errchkjson // texts
	for _, x := range []struct{ text, list string }{{dropRefs, nums}, {dropLabels, nums}, {dropKeyRefs, string(keys)}, {dropKeys, string(keys)}} {
		if _, err := db.Exec(x.text, x.list); err != nil {
			return err
		}
	}
	// If the process dies before the definitions were looked at, the next Open asks about them. They are noted before a
	// collection drops the rows that say so.
	for hash, n := range definitions {
		if _, err := db.Exec(putPurged, index.RowWithCRC(hash)...); err != nil {
			return err
		}
		p.dir.definitions.noteUnused(hash, n)
	}
	p.spills = nil
	if err := db.Each(purgedSpills, func(x *sqlite.Row) error { p.spills = append(p.spills, x.Int64(0)); return nil }, nums); err != nil {
		return err
	}
	_, err := db.Exec(dropPurged, nums)
	return err
}

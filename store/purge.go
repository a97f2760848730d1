package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/column"
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
	d.DropUnusedDefinitions()
	if run[0].Err != nil {
		return fmt.Errorf("purge: %w", run[0].Err)
	}
	return nil
}

// PurgeAll erases runs that have ended, and were found by Families: their rows, their records and their files, and the
// outcomes that are kept under keys that begin with what keys says of a run, unless that is "". The logs, and pages of pawl.db that
// became free, keep what is erased for eraseAfter and as long as it takes to erase it, or until Close. PurgeAll waits for
// flushes of the runs. DropUnusedDefinitions is to be called behind the last of several calls.
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
			d.flusher.waitForRun(m.row.Run, true)
			going = append(going, m)
		}
	}
	if len(going) == 0 {
		return nil
	}
	p := purge{dir: d, runs: going, keys: keys}
	defer func() {
		d.mu.Lock() // another purge may be given the reserve meanwhile
		defer d.mu.Unlock()
		d.restoreReserve()
	}()
	err := p.commitRows()
	if errors.Is(err, errDoubtful) {
		if err = p.readDoubtful(); err == nil && len(p.runs) > 0 {
			err = p.commitRows()
		}
	}
	if err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	d.dropSpills(p.spills)
	return d.removeFilesOf(p.runs)
}

// removeFilesOf removes the files of runs that are purged, when that is durable, and leaves with a run why its files stay. The
// eraser, and Close, try again.
func (d *Dir) removeFilesOf(gone []*Member) error {
	unsynced := d.syncLog()
	folders, err := d.root.Open(runsDir) // once, since each file would take it anew
	if err == nil {
		defer func() { _ = folders.Close() }() // nothing was written
	}
	for _, m := range gone {
		switch {
		case m.Err != nil || errors.Is(err, fs.ErrNotExist): // no run has had a file
			continue
		case unsynced != nil || err != nil:
			m.Err = fmt.Errorf("purge run %q: %w", string(m.row.Run), cmp.Or(unsynced, err))
		default:
			m.Err = d.removeRunFiles(folders, &m.row)
		}
		if m.Err != nil {
			d.garbage.mu.Lock()
			d.garbage.gone = append(d.garbage.gone, &Member{row: m.row})
			d.garbage.mu.Unlock()
			d.wakeEraser()
		}
	}
	if unsynced != nil {
		unsynced = fmt.Errorf("purge: %w", unsynced)
	}
	return unsynced
}

// removeLeft tries again to remove the files of purged runs that could not be removed.
func (d *Dir) removeLeft() (err error) {
	d.garbage.mu.Lock()
	left := d.garbage.gone
	d.garbage.gone = nil
	d.garbage.mu.Unlock()
	if len(left) == 0 {
		return nil
	}
	err = d.removeFilesOf(left)
	for _, m := range left {
		err = cmp.Or(err, m.Err)
	}
	return err
}

// DropUnusedDefinitions deletes definitions that purged runs had, if no other run has them and no name is published with them. It
// asks once for all runs that were purged since the last call, in a transaction of its own; that may wait for later calls, or for
// Close. A failure is logged: a definition that stays is in nobody's way.
func (d *Dir) DropUnusedDefinitions() {
	if err := d.collectDefinitions(false); err != nil {
		d.options.Logger.Warn("unused definitions are not deleted yet", "file", d.pathOf(indexFile), "error", err)
	}
}

// removeRunFiles removes whatever files a purged run may have, or leaves that to the backup that is under way.
func (d *Dir) removeRunFiles(folders *os.File, r *index.Row) error {
	hash := index.FileHash(r.Run)
	names := make([]string, 0, 2)
	for _, slot := range []index.Slot{1, 2} {
		if name := index.FileNameOf(hash, r.Nonce, slot); !d.flusher.holdBack(name, "") {
			names = append(names, path.Base(name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	folder := path.Base(path.Dir(index.FileNameOf(hash, r.Nonce, 1)))
	if err := removeFiles(folders, folder, names); err != nil {
		return fmt.Errorf("purge run %q: %w", string(r.Run), err)
	}
	return nil
}

// A purge is one transaction that purges runs.
type purge struct {
	dir    *Dir
	runs   []*Member
	keys   func(workflow.RunID) string
	spills []int64 // of the records that are gone
	gave   bool    // the reserve of the disk is given up for it

	doubtful []*Member // the last transaction found their rows not as was expected
}

// A purge deletes many runs by one statement for each table. A list has numbers, or the bounds of keys.
const (
	deleteListed = `DELETE FROM runs WHERE num IN (SELECT value FROM json_each(?))` // so begins the statement by which any program deletes many
	deleteRuns   = deleteListed + ` AND status >= 4 RETURNING ` + index.PurgedColumns
	dropRefs     = `DELETE FROM blob_refs WHERE num IN (SELECT value FROM json_each(?))`
	dropLabels   = `DELETE FROM labels WHERE num IN (SELECT value FROM json_each(?))`

	anyOutcome   = `SELECT 1 FROM outcomes LIMIT 1` // which spares most directories the look for keys
	keysWithin   = `SELECT o.id FROM json_each(?) AS bounds CROSS JOIN outcomes AS o WHERE o.key >= bounds.value ->> 0 AND o.key < bounds.value ->> 1`
	dropKeys     = `DELETE FROM outcomes WHERE id IN (SELECT value FROM json_each(?))`
	dropKeyRefs  = `DELETE FROM blob_refs WHERE num IN (SELECT -value FROM json_each(?))`
	purgedLog    = `SELECT l.key, l.parts FROM json_each(?) AS run CROSS JOIN log AS l WHERE l.key BETWEEN run.value << 32 AND run.value << 32 | 4294967295`
	purgedSpills = `SELECT parts FROM (` + purgedLog + `) WHERE parts IS NOT NULL`
	dropPurged   = `DELETE FROM log WHERE key IN (SELECT key FROM (` + purgedLog + `))`
)

// commitRows deletes the rows, on a full disk with the room of the reserve.
func (p *purge) commitRows() error {
	err := p.dir.updateIndex(p.dropRows)
	if !errors.Is(err, ErrNoSpace) {
		return err
	}
	return p.dir.updateIndex(func(db *sqlite.Conn) error { // with the lock: no other commit gets the room
		if !p.gave {
			if err := p.dir.dropReserve(); err != nil {
				return err
			}
			p.gave = true
		}
		return p.dropRows(db)
	})
}

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
	gone, err := p.deleteRows(db, nums)
	if err != nil || len(gone) == 0 {
		return err
	}
	last := int64(0)
	for _, m := range p.runs {
		if m.Err != nil {
			continue
		}
		d.counts.countRun(m.row.Workflow, m.row.Status, -1)
		d.sizes.ChangeFile(m.row.Num, -m.row.FileSize)
		d.redo.noteGone(m.row.Num)
		d.unfiled.NoteGone(m.row.Num)
		last = max(last, m.row.Num)
	}
	d.eraseSoon()
	if err := d.notePurgedRedo(db, last); err != nil {
		return err
	}
	for _, m := range p.runs {
		if m.Err != nil {
			continue
		}
		if err := d.tenants.countPurged(db, m.row.Num, m.row.Flushed, m.row.Tenant, m.row.FileSize); err != nil {
			return err
		}
	}
	return p.dropRest(db, gone)
}

// deleteRows deletes the rows of runs, keeps what was in them, and says of each why it stays, if it does. It returns the numbers
// of the others. It fails with errDoubtful, so that nothing is deleted, if a row is not what was expected.
func (p *purge) deleteRows(db *sqlite.Conn, nums []int64) (gone []int64, err error) {
	rows := make(map[int64]*Member, len(p.runs))
	for _, m := range p.runs {
		rows[m.row.Num] = m
		m.Err = fmt.Errorf("%w: %q", ErrNotEnded, string(m.row.Run))
	}
	p.doubtful = nil
	err = db.ExecEach(deleteRuns, func(x *sqlite.Row) error {
		row, sound := index.ScanPurged(x)
		m := rows[row.Num]
		switch {
		case m.unread && (!sound || !m.isFoundAgain(&row.Head)):
			p.doubtful = append(p.doubtful, m)
		case m.unread:
			m.Head = row.Head
		}
		m.row, m.Err = row, nil
		gone = append(gone, row.Num)
		return nil
	}, numberList(nums))
	if err == nil && len(p.doubtful) > 0 {
		err = errDoubtful
	}
	return gone, err
}

// errDoubtful says that the rows of some runs have to be read before they are deleted.
var errDoubtful = errors.New("a row is not as it was expected")

// readDoubtful reads the rows of runs that a transaction found doubtful, so that the next one need not look at them. A run whose
// row cannot be read, or is of another run than was found, has an Err, and is not purged.
func (p *purge) readDoubtful() error {
	ids := make([]workflow.RunID, len(p.doubtful))
	for i, m := range p.doubtful {
		ids[i] = m.Head.Run
	}
	families, err := p.dir.Families(context.Background(), ids)
	if err != nil {
		return err
	}
	for i, m := range p.doubtful {
		now := &families[i][0]
		if m.Err = now.Err; now.Err == nil && !m.isFoundAgain(&now.Head) {
			m.Err = fmt.Errorf("%w: %q", ErrRunNotFound, string(m.Head.Run))
		}
		m.row, m.unread = now.row, false
		if m.Err == nil {
			m.Head = now.Head
		}
	}
	p.runs = slices.DeleteFunc(p.runs, func(m *Member) bool { return m.Err != nil })
	return nil
}

// isFoundAgain reports whether a head is that of the run that was found.
func (m *Member) isFoundAgain(h *Head) bool {
	return h.Run == m.Head.Run && h.Workflow == m.Head.Workflow && h.Status == m.Head.Status && h.EndedAt.Equal(m.Head.EndedAt) && h.Parent == ""
}

// dropRest deletes what is not in the rows of the runs, whose numbers are listed.
func (p *purge) dropRest(db *sqlite.Conn, gone []int64) error {
	definitions := map[string]int{}
	for _, m := range p.runs {
		if m.Err == nil {
			definitions[m.row.Definition]++
		}
	}
	outcomes, err := p.findOutcomes(db)
	if err != nil {
		return err
	}
	nums := numberList(gone)
	for _, x := range []struct{ text, list string }{{dropRefs, nums}, {dropLabels, nums}, {dropKeyRefs, outcomes}, {dropKeys, outcomes}} {
		if x.list == "" {
			continue
		}
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
	_, err = db.Exec(dropPurged, nums)
	return err
}

// findOutcomes returns the numbers of the outcomes that are kept under keys of the runs, "" for none.
func (p *purge) findOutcomes(db *sqlite.Conn) (list string, err error) {
	if has, err := db.One(anyOutcome, func(*sqlite.Row) error { return nil }); err != nil || !has {
		return "", err
	}
	var bounds [][2]string
	for _, m := range p.runs {
		if prefix := p.keys(m.row.Run); m.Err == nil && prefix != "" {
			bounds = append(bounds, [2]string{prefix, endOfPrefix(prefix)})
		}
	}
	text, _ := json.Marshal(bounds) //nolint:errchkjson // texts
	var ids []int64
	err = db.Each(keysWithin, func(x *sqlite.Row) error { ids = append(ids, x.Int64(0)); return nil }, string(text))
	if err != nil || len(ids) == 0 {
		return "", err
	}
	return numberList(ids), nil
}

// A Member is a run that is about to be purged, as its row was found.
type Member struct {
	Head Head  // without output and artifacts; of a damaged row as far as it can be read
	Err  error // why the row cannot be read: ErrRunNotFound, ErrSealed or ErrCorrupt; of Purge, why the run stays
	row  index.Row

	unread bool // the row has not been read: it has to say what Head says of run, workflow, status and end
}

// FileSize returns how many bytes the file of the run has, 0 if there is no file yet.
func (m *Member) FileSize() int64 { return m.row.FileSize }

// FamiliesOf returns runs that Ended has yielded, each with all that are below it, as Families does. The row of a run that has
// nothing below it is read by PurgeAll alone, as it deletes it: only id, workflow, status and end are in its Head before. If they
// are not in the row any more, that run stays, with an Err.
func (d *Dir) FamiliesOf(ctx context.Context, runs []EndedRun) ([]Family, error) {
	r := familyReader{d: d}
	out, all := make([]Family, len(runs)), make([]Member, len(runs))
	for i, run := range runs {
		r.asked = append(r.asked, kin{family: i, run: run.Run})
		head := Head{Run: run.Run, Workflow: run.Workflow, Status: run.Status, EndedAt: run.At}
		all[i] = Member{Head: head, row: index.Row{Num: run.num, Head: head}, unread: true}
		out[i] = all[i : i+1 : i+1]
	}
	for len(r.asked) > 0 {
		err := r.d.readIndexUntil(ctx, func(db *sqlite.Conn) error { _, err := r.findParents(db, listRows); return err })
		if err != nil {
			return nil, err
		}
	}
	roots := make([]workflow.RunID, len(r.parents))
	for i, k := range r.parents {
		roots[i] = k.run
	}
	families, err := d.Families(ctx, roots)
	for i, k := range r.parents[:len(families)] {
		out[k.family] = families[i]
	}
	return out, err
}

// A Family is a run with all runs below it: the run itself comes first, and each other behind its parent.
type Family []Member

// One statement answers each question of a purge for many runs. The index over parents has children in the order of their
// numbers; a scalar subquery keeps SQLite from compiling the statement anew for each parent, since the index is a partial one.
const (
	getRunsOf = index.RunColumns + `WHERE id IN (SELECT value FROM json_each(?))`
	areParent = `SELECT key FROM json_each(?) AS given WHERE EXISTS
		(SELECT 1 FROM runs INDEXED BY runs_parent WHERE parent <> '' AND parent = given.value)`
	getChildren = index.RunColumns + `INDEXED BY runs_parent WHERE parent <> '' AND parent = (SELECT ?) AND num > ? ORDER BY num LIMIT ?`
)

// Families returns some runs, each with all that are below it, as a purge asks for them. A run that is not there, or cannot be
// read, has an Err. The runs below a given run are found also if that run cannot be read.
//
// Many families are read with one turn at the lock: a turn ends when it has looked at so many rows and parents as a page
// of a list has, so that no commit waits for a large family.
func (d *Dir) Families(ctx context.Context, roots []workflow.RunID) ([]Family, error) {
	r := familyReader{d: d, families: make([]Family, len(roots)), roots: map[workflow.RunID]int{}}
	for i, id := range roots {
		r.roots[id] = i
	}
	for len(r.roots)+len(r.asked)+len(r.parents) > 0 {
		if err := r.readTurn(ctx); err != nil {
			return nil, err
		}
	}
	return r.families, nil
}

// A familyReader reads families. The runs that it has still to look at are in roots, asked and parents.
type familyReader struct {
	d        *Dir
	families []Family
	roots    map[workflow.RunID]int // the families of roots that are still to be read
	asked    []kin                  // who may have children
	parents  []kin                  // who have some
	found    []foundMember          // by the turn under way
	bytes    int                    // of the texts of those
}

// A kin is a run of a family.
type kin struct {
	family int
	run    workflow.RunID
	after  int64 // the number of its last child that was read
}

// A foundMember is a row that is still to be decoded, which is done without the lock.
type foundMember struct {
	family int
	m      Member
}

// readTurn reads what one turn at the lock may.
func (r *familyReader) readTurn(ctx context.Context) error {
	r.found, r.bytes = slices.Grow(r.found[:0], len(r.roots)), 0
	err := r.d.readIndexUntil(ctx, func(db *sqlite.Conn) error {
		for left := listRows; left > 0; {
			looked, err := r.readSome(db, left)
			if errors.Is(err, errPageFull) || err == nil && looked == 0 {
				return nil
			}
			if err != nil {
				return err
			}
			left -= looked
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range r.found {
		f := &r.found[i]
		m := &f.m
		if m.Err == nil {
			m.Err = r.d.decodeRow(&m.row)
		}
		m.row.Output, m.row.Artifacts = nil, nil // of many runs they would take much memory
		m.Head = m.row.Head
		r.families[f.family] = append(r.families[f.family], *m)
	}
	return nil
}

// readSome reads the roots, or children, or who has any, and returns how many rows it has looked at: 0 if there is nothing left
// to be read. It fails with errPageFull if the rows are large.
func (r *familyReader) readSome(db *sqlite.Conn, most int) (looked int, err error) {
	switch {
	case len(r.roots) > 0:
		return r.readRoots(db)
	case len(r.parents) > 0:
		return r.readChildren(db, most)
	case len(r.asked) > 0:
		return r.findParents(db, most)
	}
	return 0, nil
}

// readRoots reads the roots.
func (r *familyReader) readRoots(db *sqlite.Conn) (looked int, err error) {
	list, _ := json.Marshal(slices.Sorted(maps.Keys(r.roots))) //nolint:errchkjson // texts
	err = db.Each(getRunsOf, func(x *sqlite.Row) error {
		looked++
		row := index.ScanRow(r.d.patchRow(x))
		family, ok := r.roots[row.Run]
		if !ok {
			return nil
		}
		delete(r.roots, row.Run)
		r.asked = append(r.asked, kin{family: family, run: row.Run})
		return r.addFound(family, row)
	}, string(list))
	if err != nil {
		return looked, err
	}
	for id, family := range r.roots { // it is not there, or its row has another id by now
		row, err := r.d.queryRow(db, id)
		if err != nil && !errors.Is(err, ErrRunNotFound) {
			return looked, err
		}
		row.Run = id
		r.found = append(r.found, foundMember{family, Member{Err: err, row: row}})
		r.asked = append(r.asked, kin{family: family, run: id})
		looked++
	}
	clear(r.roots)
	return looked, nil
}

// findParents finds which of the first runs that may have children have some.
func (r *familyReader) findParents(db *sqlite.Conn, most int) (looked int, err error) {
	some := r.asked[:min(most, len(r.asked))]
	ids := make([]workflow.RunID, len(some))
	for i := range some {
		ids[i] = some[i].run
	}
	list, _ := json.Marshal(ids) //nolint:errchkjson // texts
	err = db.Each(areParent, func(x *sqlite.Row) error {
		r.parents = append(r.parents, some[x.Int(0)])
		return nil
	}, string(list))
	r.asked = r.asked[len(some):]
	return len(some), err
}

// readChildren reads children of the first who has some.
func (r *familyReader) readChildren(db *sqlite.Conn, most int) (looked int, err error) {
	k := &r.parents[0]
	err = db.Each(getChildren, func(x *sqlite.Row) error {
		looked++
		row := index.ScanRow(r.d.patchRow(x))
		k.after = row.Num
		if !row.IsDamaged() { // of one that is, nobody knows its id, nor its parent, which might be itself
			r.asked = append(r.asked, kin{family: k.family, run: row.Run})
		}
		return r.addFound(k.family, row)
	}, string(k.run), k.after, int64(most))
	if err == nil && looked < most {
		r.parents = r.parents[1:]
	}
	return max(looked, 1), err
}

// addFound adds a row, and fails with errPageFull if that was the last one of the turn.
func (r *familyReader) addFound(family int, row index.Row) error {
	r.found = append(r.found, foundMember{family, Member{row: row}})
	if r.bytes += row.TextBytes(); r.bytes > listBytes {
		return errPageFull
	}
	return nil
}

// An EndedRun is a run without a parent that has ended, as far as a purge asks for it.
type EndedRun struct {
	Run      workflow.RunID
	Workflow string // name of the definition
	Status   workflow.RunStatus
	At       time.Time // of its end
	num      int64
}

const (
	endedUp = `SELECT ended_at, num, id, workflow, status, parent FROM runs INDEXED BY runs_ended
		WHERE ended_at IS NOT NULL AND ended_at >= ?1 AND (ended_at, num) > (?1, ?2) ORDER BY ended_at, num LIMIT ?3`
	endedDown = `SELECT ended_at, num, id, workflow, status, parent FROM runs INDEXED BY runs_ended
		WHERE ended_at IS NOT NULL AND ended_at <= ?1 AND (ended_at, num) < (?1, ?2) ORDER BY ended_at DESC, num DESC LIMIT ?3`
)

// Ended yields the runs without a parent that have ended, in the order of their ends, or
// with newest in the opposite one, in pages: commits go on in between. The rows are not
// compared with their checksums: look at the head of a run before you act on it.
//
// Retention and purges go through it, page by page, and purge what they have read: the next page
// goes on behind an instant and a number, whether or not those runs are there still.
func (d *Dir) Ended(newest bool) iter.Seq2[EndedRun, error] {
	query, at, num := endedUp, int64(math.MinInt64), int64(math.MinInt64)
	if newest {
		query, at, num = endedDown, math.MaxInt64, math.MaxInt64
	}
	return func(yield func(EndedRun, error) bool) {
		for looked := listRows; looked == listRows; {
			var page []EndedRun
			looked = 0
			err := d.readMovedRuns(context.Background(), (*redoRun).hasEnded, func(db *sqlite.Conn) error {
				return db.Each(query, func(r *sqlite.Row) error {
					looked++
					at, num = r.Int64(0), r.Int64(1)
					if r.Text(5) == "" {
						page = append(page, EndedRun{workflow.RunID(r.Text(2)), r.Text(3), workflow.RunStatus(r.Int64(4)), column.TimeAt(r, 0), num})
					}
					return nil
				}, at, num, int64(listRows))
			})
			for _, run := range page {
				if !yield(run, nil) {
					return
				}
			}
			if err != nil {
				yield(EndedRun{}, err)
				return
			}
		}
	}
}

package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// moveOnce is the weight of the records that one transaction moves from the redo log into pawl.db; between them others commit.
const moveOnce = 256

// weightOf returns 1 for a record of a usual size, and more for a large one, in proportion to the time that it takes.
func weightOf(e *runfile.Entry) int { return 1 + int(e.ByteSize()/(8<<10)) }

// weighRecords returns the weight of some records.
func weighRecords(entries []*runfile.Entry) (n int) {
	for _, e := range entries {
		n += weightOf(e)
	}
	return n
}

// cutWeight returns the first of some records that have a weight of limit at most, or the first one, and their weight.
func cutWeight(entries []*runfile.Entry, limit int) (some []*runfile.Entry, weight int) {
	for i, e := range entries {
		n := weightOf(e)
		if i > 0 && weight+n > limit {
			return entries[:i], weight
		}
		weight += n
	}
	return entries, weight
}

// moveRun moves what pawl.db lacks of a run there, within a transaction, but for the records up to filed, which its
// file has: the records, of a weight up to limit, and if these are all, the row. It returns the weight of what was
// moved, and whether the row was.
//
// Without the row, pawl.db has records behind the one that the row names. They must be durable in the redo log then,
// whence the next Open takes the row.
func (d *Dir) moveRun(db *sqlite.Conn, r *redoRun, filed int64, limit int) (n int, whole bool, err error) {
	l := &d.redo
	if l.behind[r.num] != r || r.movedRow {
		return 0, true, nil
	}
	first := r.movedEntries
	for first < len(r.entries) && r.entries[first].Seq <= filed {
		first++
	}
	a := index.Advance{Num: r.num}
	a.Entries, n = cutWeight(r.entries[first:], limit)
	l.shunLarge(a.Entries)
	if whole = first+len(a.Entries) == len(r.entries); !whole {
		if err := d.syncRedo(); err != nil {
			return 0, false, err
		}
	}
	if err := a.PutRecords(db, filed); err != nil {
		return 0, false, err
	}
	if whole {
		if err := index.MoveRow(db, r.num, r.lastColumns(), r.state); err != nil {
			return 0, false, err
		}
		was := r.was
		if r.movedTo != 0 {
			was = r.movedStatus
		}
		d.countMoved(r, was, r.status)
	}
	r.movedEntries, r.movedRow = first+len(a.Entries), whole
	l.moved = append(l.moved, movedRun{run: r})
	return n, whole, nil
}

// shunLarge counts large records that are moved: they would have been better off in pawl.db from the start.
func (l *redoLog) shunLarge(entries []*runfile.Entry) {
	for _, e := range entries {
		if n := e.ByteSize(); n > maxAdvance {
			l.shunned += shunFactor * n
		}
	}
}

// countMoved counts a run, whose row is moved, by its status.
func (d *Dir) countMoved(r *redoRun, was, status workflow.RunStatus) {
	if status != was {
		d.counts.countRun(r.workflow, was, -1)
		d.counts.countRun(r.workflow, status, 1)
	}
}

// movePieces moves what pawl.db lacks of a run there, some records at a time, if they are many: the commit that
// follows would hold all others up if it had to.
//
// appended is their weight at most, so that the lock is spared nearly always.
func (d *Dir) movePieces(num int64, appended int) error {
	if !d.redo.on || appended <= moveOnce {
		return nil
	}
	return d.moveSelected(context.Background(), func(r *redoRun) bool { return r.num == num && weighRecords(r.entries) > moveOnce })
}

// moveRunOf moves what pawl.db lacks of the run with a number there, as moveRun does.
func (d *Dir) moveRunOf(db *sqlite.Conn, num, filed int64) error {
	r := d.redo.runs[num]
	if r == nil {
		return nil
	}
	_, _, err := d.moveRun(db, r, filed, math.MaxInt) // all
	return err
}

// moveFiledRow has the row of a run in pawl.db say what was so at the last record of its file, within the transaction that
// names the file, and leaves the records behind that where they are: pawl.db is then as it were without them.
func (d *Dir) moveFiledRow(db *sqlite.Conn, r *redoRun, j *flushJob) error {
	last := j.lastEntry()
	first := r.movedEntries
	for first < len(r.entries) && r.entries[first].Seq <= last.Seq {
		first++
	}
	if r.rowSeq < last.Seq {
		state, status := r.stateAt(j)
		if err := index.MoveRow(db, r.num, index.LastColumns(r.num, last), state); err != nil {
			return err
		}
		d.countMoved(r, r.was, status)
		r.movedTo, r.movedStatus = last.Seq, status
	}
	r.movedEntries = first
	d.redo.moved = append(d.redo.moved, movedRun{run: r})
	return nil
}

// stateAt returns the part RowState of the row at the last record of a file, nil if that is what pawl.db has, and the
// status then.
func (r *redoRun) stateAt(j *flushJob) ([]driver.Value, workflow.RunStatus) {
	switch last := j.lastEntry().Seq; {
	case r.state == nil || r.changed > last:
		return nil, r.was
	case r.stateSeq <= last:
		return r.state, r.status
	}
	f := j.lastRequest()
	return f.state, f.status
}

// leavesBehind reports whether the records behind the last one of a file stay in the redo log when the file is named: if they
// are many. Where the row has changed since, the handle that asked for the file must have told what it was.
func (r *redoRun) leavesBehind(j *flushJob, few int64) bool {
	last := j.lastEntry()
	if r == nil || last == nil || r.state != nil && r.changed <= last.Seq && r.stateSeq > last.Seq && j.lastRequest().state == nil {
		return false
	}
	weight := int64(0)
	for _, e := range slices.Backward(r.entries[r.movedEntries:]) {
		if weight > few || e.Seq <= last.Seq {
			break
		}
		weight += int64(weightOf(e))
	}
	return weight > few
}

// syncRedo makes what is in the redo log durable, if it may not be.
func (d *Dir) syncRedo() error {
	if l := &d.redo; l.unsynced {
		if err := l.file.Sync(); err != nil {
			return d.failForGood(syncFailed(d.pathOf(redoFile), err))
		}
		l.unsynced = false
	}
	return nil
}

// syncFailed says that a file could not be synced. No later sync would tell what was lost, so the directory fails for
// good, whatever the reason.
func syncFailed(path string, err error) error {
	return fmt.Errorf("sync %s: %w", path, errors.Join(errNoSync, typedError(err)))
}

var errNoSync = errors.New("it may not be on the disk")

// moveRuns moves what pawl.db lacks of some runs there, of a weight up to limit, in a transaction of its own, with
// what else is to be in it. It returns the runs that have records left. The lock is held.
//
// It is not synced before the next transaction comes: what moves is in the redo log still.
func (d *Dir) moveRuns(nums []int64, limit int, also func() error) (rest []int64, err error) {
	if d.dead != nil {
		return nil, d.dead
	}
	if err := d.checkOwner(); errors.Is(err, ErrFenced) {
		return nil, d.failForGood(err)
	} else if err != nil {
		return nil, err
	}
	if err := d.syncBefore(); err != nil {
		return nil, err
	}
	d.hook.Hit("redo.move")
	if _, err := d.db.Exec(begin); err != nil {
		return nil, d.indexError(err)
	}
	rest, err = d.moveWithin(nums, limit)
	if err == nil && also != nil {
		err = also()
	}
	if err == nil {
		err = d.hook.Stage(string(moving))
	}
	if err != nil {
		return nil, d.rollbackAfter(d.indexError(err))
	}
	if _, err := d.db.Exec(commit); err != nil {
		return nil, d.commitFailed(err)
	}
	d.log.unsynced = d.log.file != nil
	d.keepRuns()
	d.countFrames()
	d.hook.Hit("redo.moved")
	return rest, nil
}

func (d *Dir) moveWithin(nums []int64, limit int) (rest []int64, err error) {
	if err := d.checkFence(); err != nil {
		return nil, err
	}
	d.counts.clearChanges()
	d.redo.clearMoved()
	for i, num := range nums {
		if limit <= 0 {
			rest = nums[i:]
			break
		}
		r := d.redo.behind[num]
		if r == nil {
			continue
		}
		n, whole, err := d.moveRun(d.db, r, 0, limit)
		if err != nil {
			return nil, err
		}
		if limit -= max(n, 1); !whole {
			rest = nums[i:]
			break
		}
	}
	return rest, d.counts.writeChanges(d.db)
}

// moveBehind moves everything that pawl.db lacks when it is called there, some records at a time: others commit
// in between.
func (d *Dir) moveBehind(ctx context.Context) error { return d.moveSelected(ctx, (*redoRun).isBehind) }

// isBehind selects every run that is behind.
func (r *redoRun) isBehind() bool { return true }

// hasEnded selects the runs that have ended.
func (r *redoRun) hasEnded() bool { return r.status.Final() }

// moveSelected moves what pawl.db lacks of the runs that are behind, and selected, when it is called.
func (d *Dir) moveSelected(ctx context.Context, isSelected func(*redoRun) bool) error {
	if !d.redo.on {
		return nil
	}
	var nums []int64
	err := d.readIndexUntil(ctx, func(*sqlite.Conn) error {
		for num, r := range d.redo.behind {
			if isSelected(r) {
				nums = append(nums, num)
			}
		}
		return nil
	})
	slices.Sort(nums)
	for len(nums) > 0 && err == nil {
		err = d.readIndexUntil(ctx, func(*sqlite.Conn) (err error) { nums, err = d.moveRuns(nums, moveOnce, nil); return err })
	}
	return err
}

// readRuns is readIndexUntil for a caller who reads the rows of several runs, or rows by what they say: pawl.db has all
// that was committed before. Where the disk has no room for that it is there as long as f reads.
func (d *Dir) readRuns(ctx context.Context, f func(*sqlite.Conn) error) error {
	return d.readMovedRuns(ctx, (*redoRun).isBehind, f)
}

// readMovedRuns is readRuns for a caller who needs no more than what was committed of the selected runs.
func (d *Dir) readMovedRuns(ctx context.Context, isSelected func(*redoRun) bool, f func(*sqlite.Conn) error) error {
	err := d.moveSelected(ctx, isSelected)
	if errors.Is(err, ErrNoSpace) {
		return d.readIndexUntil(ctx, func(db *sqlite.Conn) error { return d.readMoved(func() error { return f(db) }) })
	}
	if err != nil {
		return err
	}
	return d.readIndexUntil(ctx, f)
}

// readMoved calls f within a transaction that has moved everything into pawl.db, and is undone. Nothing of it is
// written to the disk. The lock is held.
func (d *Dir) readMoved(f func() error) error {
	if err := d.db.Script(`PRAGMA cache_spill=OFF`); err != nil {
		return err
	}
	if _, err := d.db.Exec(begin); err != nil {
		return err
	}
	_, err := d.moveWithin(slices.Collect(maps.Keys(d.redo.behind)), math.MaxInt)
	if err == nil {
		err = f()
	}
	d.counts.clearChanges()
	d.redo.clearMoved()
	return errors.Join(d.rollbackAfter(err), d.db.Script(`PRAGMA cache_spill=ON`))
}

// recycleIfHalfFull has a region of the redo log freed when the other one is half full. The lock is held.
func (d *Dir) recycleIfHalfFull() {
	if l := &d.redo; !l.file.IsFree() && !l.recycling && l.file.Filled() >= 0.5 && time.Since(l.failed) >= recycleAgain {
		l.recycling = true
		l.running.Go(d.recycleRegion)
	}
}

// recycleAgain is for how long a region stays that could not be freed, because the disk is full.
const recycleAgain = time.Second

// recycleRegion moves everything of the older region into pawl.db, makes it durable there, and frees the region.
func (d *Dir) recycleRegion() {
	l := &d.redo
	err := d.emptyRegion()
	if err == nil {
		if err = l.file.Recycle(); err != nil { // nobody knows which generation the disk names
			err = syncFailed(d.pathOf(redoFile), err)
		}
	}
	d.hook.Hit("redo.recycled")
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.recycling = false; err == nil {
		l.file.Free()
		l.noteUsed()
		for num := range l.runs {
			if l.behind[num] == nil { // whoever commits it next is asked anew
				delete(l.runs, num)
			}
		}
	}
	if err == nil || d.dead != nil {
		return
	}
	l.failed = time.Now()
	err = fmt.Errorf("free the redo log: %w", typedError(err))
	d.options.Logger.Error("the redo log cannot be moved into the index", "file", d.pathOf(redoFile), "error", err)
	if !errors.Is(err, ErrNoSpace) || errors.Is(err, errNoSync) {
		_ = d.failForGood(err) // whoever comes next is told
	}
}

// emptyRegion makes everything of the older region durable in pawl.db.
func (d *Dir) emptyRegion() error {
	older := uint64(0)
	err := d.readIndex(func(*sqlite.Conn) error { older = d.redo.file.Generation() - 1; return nil })
	if err == nil && d.options.Durability == ProcessCrash {
		if err = d.redo.file.Sync(); err != nil { // before what may move in part
			return syncFailed(d.pathOf(redoFile), err)
		}
	}
	isOld := func(r *redoRun) bool { return len(r.regions) > 0 && r.regions[0].gen <= older }
	if err == nil {
		err = d.awaitLargeFiles(isOld)
	}
	if err == nil {
		err = d.moveSelected(context.Background(), isOld)
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	log := d.log.file
	d.mu.Unlock()
	if log == nil {
		err = d.syncFile(indexWAL)
	} else {
		err = syncData(log)
	}
	if err != nil {
		return syncFailed(d.pathOf(indexWAL), err)
	}
	return nil
}

// awaitLargeFiles waits for the files that workers write, or are about to write, of selected runs with large records: what the
// files have need not move. Where the other region is full before that, pawl.db takes commits.
func (d *Dir) awaitLargeFiles(isSelected func(*redoRun) bool) error {
	var ids []workflow.RunID
	isLarge := func(e *runfile.Entry) bool { return e.ByteSize() > maxAdvance }
	err := d.readIndex(func(*sqlite.Conn) error {
		for _, r := range d.redo.behind {
			if isSelected(r) && slices.ContainsFunc(r.entries, isLarge) {
				ids = append(ids, r.run)
			}
		}
		return nil
	})
	for _, id := range ids {
		d.flusher.waitForWorker(id)
	}
	return err
}

// patchRow returns a row of index.RunColumns as the redo log has it. The lock is held.
func (d *Dir) patchRow(r *sqlite.Row) *sqlite.Row {
	if num, ok := r.Values()[0].(int64); ok {
		if ahead := d.redo.behind[num]; ahead != nil {
			return index.PatchRow(r, ahead.lastColumns(), ahead.state)
		}
	}
	return r
}

// entriesBehind returns the records of a run that the log in pawl.db lacks; they are the caller's. The lock is held.
func (d *Dir) entriesBehind(num int64) []*runfile.Entry {
	if ahead := d.redo.behind[num]; ahead != nil {
		return cloneEntries(ahead.entries)
	}
	return nil
}

// A movedRun is a run that the transaction under way changes in pawl.db.
type movedRun struct {
	run  *redoRun
	gone bool // the run is purged, or needs not be known
}

// noteStored notes that the transaction under way commits a run in pawl.db, where all of it is then.
func (l *redoLog) noteStored(r *Run) {
	if l.on {
		end := r.pending[len(r.pending)-1]
		l.moved = append(l.moved, movedRun{run: &redoRun{
			num: r.row.Num, run: r.row.Run, workflow: r.next.Workflow, seq: end.Seq, rowSeq: end.Seq, status: r.next.Status, was: r.next.Status,
		}})
	}
}

// noteGone notes that the transaction under way deletes a run.
func (l *redoLog) noteGone(num int64) {
	if l.on {
		l.moved = append(l.moved, movedRun{run: &redoRun{num: num}, gone: true})
	}
}

// notePurgedRedo notes that the transaction under way deletes runs, up to one with a number, in the mark, which tells a row that was
// deleted from one that was lost.
func (d *Dir) notePurgedRedo(db *sqlite.Conn, last int64) error {
	l := &d.redo
	if !l.on {
		return nil
	}
	if l.purged = max(l.purged, last); !l.armed { // armRedo writes it
		return nil
	}
	return index.KeepRedoMark(db, index.RedoMark{Life: uint64(d.epoch), Purged: l.purged})
}

// noteFiled notes that the transaction under way names a file of a run, which may rest now.
func (l *redoLog) noteFiled(num int64) {
	if r := l.runs[num]; r != nil {
		l.moved = append(l.moved, movedRun{run: r, gone: true})
	}
}

// keepMoved takes over what the transaction has changed, which is committed now.
func (l *redoLog) keepMoved() {
	for _, m := range l.moved {
		switch r := l.runs[m.run.num]; {
		case m.gone:
			delete(l.runs, m.run.num)
			delete(l.behind, m.run.num)
		case r == m.run:
			l.keepMovedRun(r)
		case m.run.status.Final(): // it was committed in pawl.db
			delete(l.runs, m.run.num)
		default:
			l.runs[m.run.num] = m.run
		}
	}
	l.armed = l.armed || l.arming
	l.clearMoved()
}

// keepMovedRun takes over what the transaction has moved of a run.
func (l *redoLog) keepMovedRun(r *redoRun) {
	if r.entries = r.entries[r.movedEntries:]; len(r.entries) == 0 {
		r.entries = nil
	}
	if r.movedTo != 0 {
		l.rowMoved(r, r.movedTo, r.movedStatus)
		// Until then a region counts whose records were moved: it may have what the row lacks.
		for len(r.regions) > 1 && r.regions[1].seq <= r.movedTo+1 {
			r.regions = r.regions[1:]
		}
	}
	if r.movedRow {
		l.rowMoved(r, r.seq, r.status)
		r.regions = nil
		delete(l.behind, r.num)
		if r.status.Final() { // it has no further commits
			delete(l.runs, r.num)
		}
	}
	r.movedEntries, r.movedRow, r.movedTo = 0, false, 0
}

// rowMoved notes that pawl.db has the row of a run, as of a record, and with a status.
func (l *redoLog) rowMoved(r *redoRun, seq int64, status workflow.RunStatus) {
	if status != r.was {
		l.addAhead(countKey{r.workflow, r.was}, 1)
		l.addAhead(countKey{r.workflow, status}, -1)
	}
	r.was, r.rowSeq = status, seq
	if r.changed = max(r.changed, seq+1); r.stateSeq <= seq {
		r.state = nil
	}
}

func (l *redoLog) addAhead(key countKey, n int64) {
	if l.ahead[key] += n; l.ahead[key] == 0 {
		delete(l.ahead, key)
	}
	l.standing.addRun(key, n)
}

// clearMoved forgets what a transaction has changed.
func (l *redoLog) clearMoved() {
	for _, m := range l.moved {
		m.run.movedEntries, m.run.movedRow, m.run.movedTo = 0, false, 0
	}
	clear(l.moved)
	l.moved, l.arming = l.moved[:0], false
}

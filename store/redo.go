package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/redo"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// Most commits add records to a run and move its row on, and nothing else. They go into the redo
// log, pawl.db-redo: one write, and one sync, in place of a transaction of SQLite, which writes a page
// of each table. pawl.db lacks them then. They are in memory as well, and move there when somebody
// reads the rows of several runs, when the run has a commit of another kind, when its file is made, by
// which most of it need never stand in pawl.db, and when the log is half full.
//
// The invariants, whatever the engine dies of:
//
//   - A row of meta in pawl.db names the redo log, by its life, as long as that may have commits
//     which pawl.db lacks. The next Open executes them, in the transaction with its epoch.
//   - The commits of a run are in their order: what is in the redo log of it goes on from what is in
//     pawl.db. To execute one that pawl.db has changes nothing.
//   - When the file of a run is named, the records behind it may stay. The row in pawl.db then is as of the last record of
//     the file: it never names a record that neither the file nor the log in pawl.db has.
//   - A region of the redo log begins anew when all that was in it is durable in pawl.db.
//   - At ProcessCrash, where commits are not synced, a loss of power may leave pawl.db ahead of the
//     redo log or behind. A move takes all of a run up to its last record, or records that are synced
//     in the redo log before: so the first records of each run are left, and a row that fits them.
//
// A directory with a log outside has none, and nobody appends to it while a copy of pawl.db is made.

// A redoLog is the redo log of a life with what is in it and not in pawl.db. The lock of the directory
// guards it, but for on.
type redoLog struct {
	found     index.RedoMark // while the directory is opened: which one pawl.db names
	on        bool           // there is one; Open sets it, and nobody changes it
	file      *redo.Log
	used      atomic.Int64       // bytes of the file, for metrics
	most      atomic.Int64       // likewise
	armed     bool               // pawl.db names it
	arming    bool               // the transaction under way says so
	paused    int                // how many want nothing to be appended
	unsynced  bool               // something was appended that was not synced
	runs      map[int64]*redoRun // that may commit again before they have a file
	behind    map[int64]*redoRun // the runs for which pawl.db lacks records
	ahead     map[countKey]int64 // what run_counts in pawl.db lacks
	standing  *standingRuns      // of the directory
	moved     []movedRun         // by the transaction under way
	recycling bool               // a goroutine frees a region
	failed    time.Time          // when it could not
	purged    int64              // the highest number of a run that was purged in this life
	shunned   int64              // bytes of large commits that are to go into pawl.db at once
	stale     int                // bytes appended since something was deleted, less than a frame of the write-ahead log
	running   sync.WaitGroup     // that goroutine
	parts     [][]byte           // reused
}

// A redoRun is a run as its last commit left it, where that may be in the redo log.
type redoRun struct {
	num      int64
	run      workflow.RunID
	workflow string
	seq      int64            // of the last record
	sum      runfile.Checksum // of that
	at       time.Time        // likewise
	state    []driver.Value   // the part RowState of its row, if that is not what pawl.db has
	stateSeq int64            // of the record with which it became so
	changed  int64            // the first record with which it became another than pawl.db has
	status   workflow.RunStatus
	was      workflow.RunStatus // the status as pawl.db has it
	rowSeq   int64              // the last record as the row in pawl.db has it
	entries  []*runfile.Entry   // the records that the log in pawl.db lacks
	regions  []redoRegion       // that have them, in their order
	busy     bool               // a commit of it is being appended

	// The part that the transaction under way has moved into pawl.db.
	movedEntries int // the first of entries
	movedRow     bool
	movedTo      int64              // the row as of this record, which is not the last one; 0 if it was not
	movedStatus  workflow.RunStatus // then
}

// A redoRegion is a region that has records of a run, from one on.
type redoRegion struct {
	seq int64
	gen uint64
}

// changedAlarm returns the alarm of the run, in milliseconds, if pawl.db may have another one and there is one.
func (r *redoRun) changedAlarm() (at int64, ok bool) {
	if r.changesAlarm() {
		at, ok = r.state[index.StateAlarm].(int64)
	}
	return at, ok
}

// changesAlarm reports whether pawl.db may have another alarm of a run that is behind.
func (r *redoRun) changesAlarm() bool { return r != nil && r.state != nil }

// lastColumns returns the part RowLast of its row.
func (r *redoRun) lastColumns() []driver.Value {
	return index.LastColumns(r.num, &runfile.Entry{Encoded: decision.Encoded{Seq: r.seq, At: r.at}, Sum: r.sum})
}

// redoFile is the name of the redo log.
const redoFile = index.RedoFile

// beginRedo makes the redo log of this life, as one of the last steps of Open. A directory with a log
// outside has none.
//
// It takes the place of the one before, from which everything was taken, and is durable before
// anything names it.
func (d *Dir) beginRedo() error {
	if d.remote != nil || d.logAway {
		if err := d.root.Remove(redoFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	life, region := uint64(d.epoch), d.hook.RedoBytes(redo.RegionBytes)
	building := path.Join(tmpDir, fmt.Sprintf("%v-redo", d.epoch))
	if err := d.writeFile(building, redo.NewFile(life, region, d.options.Durability == PowerLoss), true); err != nil {
		return err
	}
	if err := d.root.Rename(building, redoFile); err != nil {
		return err
	}
	if err := d.syncDir("."); err != nil {
		return err
	}
	f, err := d.root.OpenFile(redoFile, os.O_RDWR|noFollow, 0)
	if err != nil {
		return err
	}
	l := &d.redo
	room := hasRoom
	if d.options.Durability == ProcessCrash { // nothing is synced, so nothing becomes cheaper
		room = nil
	}
	l.on, l.file = true, redo.NewLog(f, life, region, room, syncData)
	l.runs, l.behind, l.ahead = map[int64]*redoRun{}, map[int64]*redoRun{}, map[countKey]int64{}
	l.standing = &d.standing
	l.noteUsed()
	return nil
}

// noteUsed notes how full the file is, for readers without the lock. The lock is held.
func (l *redoLog) noteUsed() {
	used, most := l.file.Used()
	l.used.Store(used)
	l.most.Store(most)
}

// armRedo has pawl.db name the redo log, in the transaction under way, unless it does already. From its
// commit on, commits may go there.
func (d *Dir) armRedo(db *sqlite.Conn) error {
	l := &d.redo
	if l.arming = l.on && !l.armed && l.paused == 0; !l.arming {
		return nil
	}
	return index.KeepRedoMark(db, index.RedoMark{Life: uint64(d.epoch), Purged: l.purged})
}

// pauseRedo has all commits go into pawl.db, which has everything when it returns, until resume is called.
func (d *Dir) pauseRedo(ctx context.Context) (resume func(), err error) {
	l := &d.redo
	if !l.on {
		return func() {}, nil
	}
	count := func(n int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		l.paused += n
	}
	count(1)
	move := func() error {
		if err := d.moveBehind(ctx); err != nil {
			return err
		}
		return d.readIndexUntil(ctx, func(*sqlite.Conn) error { return d.disarmRedo() })
	}
	if err = move(); errors.Is(err, ErrNoSpace) { // a checkpoint may make room in the write-ahead log
		err = d.readIndexUntil(ctx, func(*sqlite.Conn) error { d.makeCheckpoint(&logSums{}); return d.dead })
		if err == nil {
			err = move()
		}
	}
	if err != nil {
		count(-1)
		return nil, err
	}
	return func() { count(-1) }, nil
}

// disarmRedo moves everything into pawl.db, which names no redo log then. Commits must be paused. The lock is held.
func (d *Dir) disarmRedo() error {
	l := &d.redo
	if !l.armed {
		return nil
	}
	_, err := d.moveRuns(slices.Collect(maps.Keys(l.behind)), math.MaxInt, func() error { return index.KeepRedoMark(d.db, index.RedoMark{}) })
	if err == nil {
		l.armed = false
	}
	return err
}

// restartRedo moves everything into pawl.db, has makeDurable make it durable there, and drops it from the
// file, so that nothing which was deleted is left in it. The lock is held.
func (d *Dir) restartRedo(makeDurable func() error) error {
	l := &d.redo
	if !l.on || l.recycling || l.file.IsEmpty() {
		return makeDurable()
	}
	if _, err := d.moveRuns(slices.Collect(maps.Keys(l.behind)), math.MaxInt, nil); err != nil {
		return err
	}
	if err := makeDurable(); err != nil {
		return err
	}
	d.hook.Hit("redo.restart")
	if err := l.file.Restart(); err != nil {
		return d.failForGood(syncFailed(d.pathOf(redoFile), err))
	}
	l.noteUsed()
	return nil
}

// closeRedo closes the file, and removes it if everything in it is in a pawl.db that was closed.
func (d *Dir) closeRedo(remove bool) error {
	l := &d.redo
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	if l.file = nil; remove && err == nil {
		err = d.root.Remove(redoFile)
	}
	return err
}

// maxAdvance is how many bytes a commit writes at most that goes into the redo log among others: a larger one leaves
// no room there for many of them. A larger one goes there as well if nearly all of it are large values, up to maxLarge:
// to write them once here, and once into the run's file, takes a third of the processor time that pawl.db takes for them, which
// writes each page twice and has to free it again.
const (
	maxAdvance = redo.LargePart
	maxLarge   = 5 << 19
)

// shunFactor is how many bytes of large commits go into pawl.db at once for each that had to be moved there from the redo log:
// runs that have no file in time, since there are many, would write everything once more.
const shunFactor = 4

// advances has the memory of commits that were encoded. A run that waits needs none.
var advances = sync.Pool{New: func() any { return new([]byte) }}

// mayAdvance reports whether a commit adds records and moves the row on, and changes nothing else in pawl.db.
func (r *Run) mayAdvance() bool {
	changesMore := r.fresh || r.dropped || len(r.listings) > 0 || len(r.refs) > 0 || len(r.told) > 0
	return r.dir.redo.on && !changesMore
}

// advancesLarge reports whether the redo log takes a commit that is a large one. Such a commit has no spills.
func (r *Run) advancesLarge() bool {
	all, texts := int64(r.request.bytes), int64(0)
	for _, e := range r.pending {
		all += e.ByteSize()
		texts += int64(len(e.Message) + len(e.Decisions))
	}
	if !r.mayAdvance() || all <= maxAdvance || all > maxLarge || texts > maxAdvance {
		return false
	}
	d := r.dir
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.redo.shunned > 0 {
		d.redo.shunned -= all
		return false
	}
	return d.redo.isTaking() && (d.redo.file.HasRoom(maxLarge, 0) || d.redo.file.IsFree() && d.redo.file.Fits(maxLarge))
}

// encodeAdvance encodes a commit for the redo log, if mayAdvance says that it may go there. The memory is to be given back, by
// dropAdvance.
//
// A commit that is a large one may go there if large says so.
func (r *Run) encodeAdvance(large bool) (err error) {
	r.request.run = nil
	if !r.mayAdvance() || r.request.bytes > maxAdvance && !large {
		return nil
	}
	for _, e := range r.pending {
		if e.Spill != 0 {
			return nil
		}
	}
	a := index.Advance{Num: r.row.Num, State: r.state, Entries: r.pending}
	r.advance = advances.Get().(*[]byte)
	if *r.advance, err = a.Append((*r.advance)[:0]); err == nil {
		r.request.run = r
	}
	return err
}

// dropAdvance gives back what encodeAdvance has taken.
func (r *Run) dropAdvance() {
	if r.advance != nil && cap(*r.advance) <= 2*maxLarge {
		advances.Put(r.advance)
	}
	r.advance = nil
}

// splitBatch returns the requests of a batch that may go into the redo log, and the others, each in
// their order. Both are answered by themselves.
func (l *redoLog) splitBatch(batch []*commitRequest) (advances, others []*commitRequest) {
	if !l.isTaking() {
		return nil, batch
	}
	n := 0
	for _, r := range batch {
		if r.run != nil {
			n++
		}
	}
	switch n {
	case 0:
		return nil, batch
	case len(batch):
		return batch, nil
	}
	advances, others = make([]*commitRequest, 0, n), make([]*commitRequest, 0, len(batch)-n)
	for _, r := range batch {
		if r.run != nil {
			advances = append(advances, r)
		} else {
			others = append(others, r)
		}
	}
	return advances, others
}

// isTaking reports whether commits go into the redo log.
func (l *redoLog) isTaking() bool { return l.armed && l.paused == 0 }

// takesBatch reports whether the redo log takes all requests of a batch. Where a region is full and the
// other one not free yet, pawl.db takes them.
func (l *redoLog) takesBatch(batch []*commitRequest) bool {
	if !l.isTaking() {
		return false
	}
	large, usual := 0, 0
	for _, r := range batch {
		if r.run == nil {
			return false
		}
		if n := len(*r.run.advance); n > redo.LargePart {
			large += n
		} else {
			usual += n
		}
	}
	if l.file.HasRoom(large, usual) {
		return true
	}
	if !l.file.IsFree() || !l.file.Fits(large+usual) {
		return false
	}
	l.file.Switch()
	return true
}

// appendBatch commits a batch in the redo log. It leaves the refusals with the requests and returns an
// error that concerns all of them.
//
// [Dir.runTransaction] does the same with other batches. After an error, a frame that was not written whole does
// not count, and the next one is written over it; behind that, nobody can know, and the error is ErrUnknown.
// Another engine that takes the directory over writes its epoch into the file before it reads that: an engine
// that does not find such an epoch behind the frame therefore knows that the frame is seen.
//
// The epoch in the file is looked at before the frame and behind it, the lock file behind it alone: a look before it
// would keep from nothing that the epoch lets pass. An engine that has taken the directory over has either
// written its epoch into this file, or has a copy of it, and then this one leads nowhere any more. A frame that comes before
// the epoch is read by that engine, and is not acknowledged here.
func (d *Dir) appendBatch(batch []*commitRequest) error {
	l := &d.redo
	taken, err := d.checkAdvances(batch)
	defer func() {
		for _, r := range taken {
			l.runs[r.run.row.Num].busy = false
		}
	}()
	if err != nil || len(taken) == 0 {
		return err
	}
	if err := d.checkRedoOwner(); errors.Is(err, ErrFenced) {
		return d.failForGood(err)
	} else if err != nil {
		return err
	}
	l.parts = l.parts[:0]
	for _, r := range taken {
		l.parts = append(l.parts, *r.run.advance)
	}
	defer clear(l.parts)
	d.hook.Hit("redo.append")
	if err := l.file.Append(l.parts...); err != nil {
		return d.appendFailedRedo(fmt.Errorf("write %s: %w", d.pathOf(redoFile), err))
	}
	l.noteUsed()
	d.hook.Hit("redo.appended")
	if l.unsynced = d.options.Durability == ProcessCrash; !l.unsynced {
		if err := l.file.Sync(); err != nil {
			return d.failForGood(fmt.Errorf("%w: sync %s: %w", ErrUnknown, d.pathOf(redoFile), typedError(err)))
		}
	}
	clear(d.tenants.changed)
	for _, r := range taken {
		d.noteAdvance(r.run)
	}
	d.tenants.keepBytes()
	d.commits.Add(1)
	d.hook.Hit("commit.done")
	err = d.checkOwner()
	if err == nil {
		err = d.checkRedoOwner()
	}
	if err != nil {
		return d.failForGood(fmt.Errorf("%w: %w", ErrUnknown, err))
	}
	d.countStale(l.parts)
	return nil
}

// countStale counts what was appended for the length of the write-ahead log, if something was deleted that both have:
// with the checkpoint that comes by that, the redo log is emptied too.
func (d *Dir) countStale(parts [][]byte) {
	if !d.stale {
		return
	}
	l := &d.redo
	for _, p := range parts {
		l.stale += len(p)
	}
	d.checkpoints.frames += l.stale / walFrame
	l.stale %= walFrame
}

// appendFailedRedo returns the error of a frame that could not be written. On a full disk the engine goes on.
func (d *Dir) appendFailedRedo(err error) error {
	if err = unknownAfter(err); errors.Is(err, ErrNoSpace) {
		return err
	}
	return d.failForGood(err)
}

// checkRedoOwner fails with ErrFenced if another engine has taken the redo log over.
func (d *Dir) checkRedoOwner() error {
	switch err := d.redo.file.CheckOwner(); {
	case errors.Is(err, redo.ErrOwned):
		return fmt.Errorf("%w: its epoch is in %s", ErrFenced, d.pathOf(redoFile))
	case err != nil:
		return fmt.Errorf("cannot tell who owns the directory: %w", err)
	}
	return nil
}

// checkAdvances returns the requests whose handles know the last record of their runs, and refuses the others.
//
// Two handles of one run may commit at the same moment: the first goes on.
func (d *Dir) checkAdvances(batch []*commitRequest) (taken []*commitRequest, err error) {
	taken = make([]*commitRequest, 0, len(batch))
	for _, r := range batch {
		known, err := d.findRedoRun(r.run)
		if err != nil {
			return taken, err
		}
		if known == nil || known.busy || known.seq != r.run.row.Seq {
			r.err = fmt.Errorf("%w: another handle has committed behind record %d", ErrFenced, r.run.row.Seq)
			continue
		}
		known.busy, r.err = true, nil
		taken = append(taken, r)
	}
	return taken, nil
}

const getSeq = `SELECT seq FROM runs WHERE num = ?`

// findRedoRun returns what is known of the last commit of a run; nil if it was purged.
//
// It is read from pawl.db at the first of several commits, and known from then on.
func (d *Dir) findRedoRun(r *Run) (*redoRun, error) {
	l := &d.redo
	if known := l.runs[r.row.Num]; known != nil {
		return known, nil
	}
	known := &redoRun{num: r.row.Num, run: r.row.Run, workflow: r.row.Workflow, status: r.row.Status, was: r.row.Status}
	found, err := d.db.One(getSeq, func(x *sqlite.Row) error { known.seq = x.Int64(0); return nil }, r.row.Num)
	known.rowSeq = known.seq
	if err != nil || !found {
		return nil, d.indexError(err)
	}
	if known.seq == r.row.Seq { // the status is that of the handle
		l.runs[r.row.Num] = known
	}
	return known, nil
}

// noteAdvance notes a commit that is in the redo log now.
func (d *Dir) noteAdvance(r *Run) {
	l, known := &d.redo, d.redo.runs[r.row.Num]
	if gen, n := l.file.Generation(), len(known.regions); n == 0 || known.regions[n-1].gen != gen {
		known.regions = append(known.regions, redoRegion{r.pending[0].Seq, gen})
	}
	l.behind[known.num] = known
	known.entries = append(known.entries, r.pending...)
	end := r.pending[len(r.pending)-1]
	known.seq, known.sum, known.at = end.Seq, end.Sum, end.At
	if r.state != nil {
		if known.state == nil {
			known.changed = end.Seq
		}
		known.state, known.stateSeq = r.state, end.Seq
	}
	if r.next.Status != known.status {
		l.addAhead(countKey{known.workflow, known.status}, -1)
		l.addAhead(countKey{known.workflow, r.next.Status}, 1)
		known.status = r.next.Status
	}
	if has := hasIncident(&r.next); has {
		d.counts.incidents[r.row.Num] = true
	} else {
		delete(d.counts.incidents, r.row.Num)
	}
	d.tenants.countBytes(r.next.Tenant, r.pendingLogBytes())
}

package store

import (
	"database/sql/driver"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Bounds of flushing.
//
// They bound what flushing takes from commits: processors, memory and the disk. maxBacklog is the
// only one by which commits are held up, and keeps the log from growing while the disk is slow.
//
// A file costs two or three syncs, and the transaction that names it another one, whether it
// comes alone or with others; the next commit waits for them. So a worker lets files of runs that
// have ended come together, unless somebody waits for one: that the log keeps their records for
// gatherFor longer harms nobody. A run that goes to sleep may be wanted at once, and does not wait.
// Where commits are synced, and come one at a time, few files are let come together: each batch holds the next
// commit up, and no other run uses that time.
const (
	flushWorkers  = 2    // files that are built at a time
	maxBacklog    = 2048 // runs that wait for their file; then commits wait
	maxFlushBatch = 64   // files that are synced together
	minSyncAll    = 4    // files from which on syncing the whole file system is quicker
	gatherRuns    = 64   // runs that have ended whose files come together at once
	gatherFew     = 12   // likewise, where the next commit would wait for them
	gatherFor     = 100 * time.Millisecond
	retryAfter    = time.Minute // a run that has ended, whose file could not be written
)

// A flushRequest is one call of [Run.Flush].
//
// The handle gives away what it has: nobody else uses changes, told and entries from then on.
// seq and sum are of the last record, also if there is no entry because an earlier request had
// it.
type flushRequest struct {
	changes state.Changes
	told    [][]decision.Told
	entries []*runfile.Entry
	seq     int64 // of the last record
	sum     runfile.Checksum
	state   []driver.Value     // the part RowState of the row then; nil if the handle has not changed it
	status  workflow.RunStatus // of the run then
	done    func(error)
	size    *atomic.Int64 // of the file, for the handle
	added   int64         // about how many bytes the file grows by
}

// A runFlushes holds the requests to flush one run, in order. While a worker
// has a job of the run, requests that come are kept for its next job.
//
// A run is in exactly one of three states: idle, with the requests that failed or are postponed, if
// any; queued, in queue; or busy, in the hands of a worker. Two workers never build files of the
// same run, which would both take the slot that is free.
type runFlushes struct {
	row       index.Row // its constant columns: the run and its definition
	requests  []*flushRequest
	lent      int64 // the number of the run, if borrowRun has made this for it; row is known with the first request
	busy      bool  // a worker flushes the run, or it is lent
	queued    bool
	postponed bool // it is queued again when the backup that is under way has ended
}

// A flusher brings the files of runs up to date, with some workers.
//
// mu guards all but the group, and is never held while a file is built or a commit waits.
type flusher struct {
	mu       sync.Mutex
	changed  *sync.Cond // whenever a run is queued or a job has ended
	runs     map[workflow.RunID]*runFlushes
	queue    []*runFlushes
	due      time.Time         // when a worker takes what is queued, however little it is
	timer    *time.Timer       // fires then
	gather   int               // runs for which a worker does not wait for more
	holdsUp  func() bool       // whether gatherFew are enough; nobody tells a worker when that changes, who then sees it by due
	held     map[string]string // files that a backup may still copy and nobody else needs, and what gets their names; nil without one
	large    bool              // a worker builds a large file
	retrying bool              // retryEnded comes
	stopped  bool
	workers  sync.WaitGroup
}

// A flushStage is a boundary of a flush at which a crash must do no harm.
type flushStage string

// The stages.
const (
	built   flushStage = "built"   // the bytes are under a temporary name
	renamed flushStage = "renamed" // under the name of the run
	synced  flushStage = "synced"  // and durable
	// The index names the files, but some records in them are still in the log; passed
	// once before each transaction that drops such records. A crash leaves them.
	trimming flushStage = "trimming"
	trimmed  flushStage = "trimmed" // the log is trimmed
	// The commits of the redo log are about to be in pawl.db; passed whenever they move there by themselves. A
	// crash leaves it in the redo log.
	moving flushStage = "moving"
	// The log is about to be synced, at ProcessCrash.
	syncing flushStage = "syncing"
)

// startWorkers begins the workers, as the last step of Open.
func (f *flusher) startWorkers(d *Dir) {
	f.changed = sync.NewCond(&f.mu)
	f.runs = map[workflow.RunID]*runFlushes{}
	f.timer = time.AfterFunc(time.Hour, f.timerFired)
	f.timer.Stop()
	f.gather = int(d.hook.GatherRuns(gatherRuns))
	f.holdsUp = func() bool { return d.options.Durability == PowerLoss && d.committer.isLone() }
	for range d.hook.FlushWorkers(flushWorkers) {
		f.workers.Go(func() { f.flushLoop(d) }) // until stopWorkers
	}
}

// stopWorkers ends the workers when everything is flushed.
//
// Close calls it while commits are still possible, which flushes end with, and when no backup is
// under way: then nothing is postponed any more, and the queue is all there is.
func (f *flusher) stopWorkers() {
	f.mu.Lock()
	f.stopped = true
	f.timer.Stop()
	f.changed.Broadcast()
	f.mu.Unlock()
	f.workers.Wait()
}

// addRequest queues a request of the run with a row. It fails with ErrClosed.
//
// A run that was purged and started again under its id has another number; requests that are left
// of the former one are not mixed with its own.
func (f *flusher) addRequest(row *index.Row, request *flushRequest) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return ErrClosed
	}
	r := f.runs[row.Run]
	if r == nil || r.row.Num != row.Num && r.lent != row.Num {
		r = &runFlushes{}
		f.runs[row.Run] = r
	}
	if r.row.Num == 0 {
		head := index.Head{Run: row.Run, Workflow: row.Workflow, Version: row.Version, Definition: row.Definition, Tenant: row.Tenant}
		r.row = index.Row{Head: head, Num: row.Num, Nonce: row.Nonce}
	}
	r.requests = append(r.requests, request)
	f.enqueueRun(r)
	f.changed.Broadcast()
	return nil
}

// enqueueRun queues a run unless it is queued or busy: a worker that has it queues it again if
// more has come meanwhile. The lock is held.
func (f *flusher) enqueueRun(r *runFlushes) {
	if r.busy || r.queued {
		return
	}
	if len(f.queue) == 0 {
		f.due = time.Now().Add(gatherFor)
		f.timer.Reset(gatherFor)
	}
	r.queued = true
	f.queue = append(f.queue, r)
	goesOn := func(q *flushRequest) bool { return !q.changes.Facts.Status.Final() }
	if slices.ContainsFunc(r.requests, goesOn) {
		f.due = time.Time{}
	}
}

// timerFired wakes a worker for what has come together.
func (f *flusher) timerFired() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed.Broadcast()
}

// isDue reports whether a worker begins with what is queued. The lock is held.
func (f *flusher) isDue() bool {
	n := len(f.queue)
	return f.stopped || n >= f.gather || n >= gatherFew && f.holdsUp() || !time.Now().Before(f.due)
}

// waitForRun returns when no flush of a run is under way or queued. With forget, requests that
// failed or are postponed are forgotten: their records are in the log.
//
// Load and Purge have them forgotten, which is right for both: Load takes the records from the log
// anew, and a purged run needs no file.
func (f *flusher) waitForRun(id workflow.RunID, forget bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		r := f.runs[id]
		if r == nil || !r.busy && !r.queued {
			if forget {
				delete(f.runs, id)
			}
			return
		}
		if r.queued && time.Now().Before(f.due) { // also if it is due because runs commit one at a time by now: no worker was told
			f.due = f.due.Add(-gatherFor)
			f.changed.Broadcast()
		}
		f.changed.Wait()
	}
}

// waitForWorker returns when no worker flushes a run, nor is about to. A flush that a backup holds back does not count.
func (f *flusher) waitForWorker(id workflow.RunID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for r := f.runs[id]; r != nil && f.runs[id] == r && (r.busy && r.lent == 0 || slices.Contains(f.queue, r)); {
		f.changed.Wait()
	}
}

// waitForBacklog returns when not too many runs wait for their files.
//
// Runs that a backup holds back do not count. It lets everybody pass once the flusher is stopped,
// since nobody would wake them.
func (f *flusher) waitForBacklog() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.queue) >= maxBacklog && !f.stopped {
		f.changed.Wait()
	}
}

// takeBatch returns the jobs that a worker does together, each with its requests; nil
// to stop.
//
// It blocks until there is something to do. The broadcast tells those who wait for the backlog
// that the queue is shorter.
func (f *flusher) takeBatch() []*flushJob {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*flushJob
	for {
		if f.isDue() {
			out = f.nextBatch()
		}
		if len(out) > 0 {
			break
		}
		if f.stopped && len(f.queue) == 0 {
			return nil
		}
		f.changed.Wait()
	}
	f.changed.Broadcast()
	return out
}

// nextBatch takes the runs of a batch out of the queue. A large file has a batch of its
// own, so that no other waits for it, and there is one at a time, so that a worker
// and a processor are left for the others. The lock is held.
func (f *flusher) nextBatch() (out []*flushJob) {
	alone := false
	rest := f.queue[:0]
	for _, r := range f.queue {
		large := len(r.requests) > 0 && estimateSize(r.requests) > largeFile
		if alone || len(out) == maxFlushBatch || large && (f.large || len(out) > 0) {
			rest = append(rest, r)
			continue
		}
		r.queued, r.busy, r.postponed = false, true, false
		out = append(out, &flushJob{run: r, requests: r.requests, large: large})
		r.requests = nil
		alone, f.large = large, f.large || large
	}
	clear(f.queue[len(rest):])
	f.queue = rest
	return out
}

// batchDone takes note of how the jobs of a batch went and returns the callbacks that
// are due.
//
// Failed jobs go in front of those that have come meanwhile, in the order of the records, and are
// tried again with the next request, or after retryAfter if the run has ended and gets none: an error such as that of a full disk would
// come again at once. The callbacks are called by the worker after that, without the lock, since they may ask
// for a flush.
func (f *flusher) batchDone(jobs []*flushJob) (due []func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range jobs {
		r := j.run
		r.busy = false
		f.large = f.large && !j.large
		if errors.Is(j.err, errPostponed) {
			due = append(due, f.postponeJob(j)...)
			continue
		}
		more := len(r.requests) > 0 // came in the meantime
		due = append(due, j.dueCallbacks()...)
		if j.err != nil {
			r.requests = append(j.requests, r.requests...)
			f.armRetry()
		}
		switch {
		case more:
			f.enqueueRun(r)
		case j.err == nil && f.runs[r.row.Run] == r:
			delete(f.runs, r.row.Run)
		}
	}
	f.changed.Broadcast()
	return due
}

// armRetry has retryEnded called. The lock is held.
func (f *flusher) armRetry() {
	if !f.retrying {
		f.retrying = true
		time.AfterFunc(retryAfter, f.retryEnded)
	}
}

// retryEnded queues runs that have ended whose jobs have failed, as many as hold no commit up.
func (f *flusher) retryEnded() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.retrying = false
	for _, r := range f.runs {
		switch n := len(r.requests); {
		case n == 0 || f.stopped || !r.requests[n-1].status.Final():
		case len(f.queue) < maxBacklog/2:
			f.enqueueRun(r)
		default:
			f.armRetry()
		}
	}
	f.changed.Broadcast()
}

// dueCallbacks returns the callbacks of a job's requests, each to be called once.
//
// A request that failed is told so once; when a later flush takes its records along, it is not
// told again.
func (j *flushJob) dueCallbacks() (out []func()) {
	err := j.err
	for _, request := range j.requests {
		if done := request.done; done != nil {
			out = append(out, func() { done(err) })
			request.done = nil
		}
	}
	return out
}

// flushLoop is one worker: it takes batches of jobs and brings their files up to date, until the flusher is stopped.
func (f *flusher) flushLoop(d *Dir) {
	var b runfile.Builder
	for {
		jobs := f.takeBatch()
		if jobs == nil {
			return
		}
		d.flushBatch(&b, jobs)
		d.warnUntold(jobs)
		for _, call := range f.batchDone(jobs) {
			call()
		}
	}
}

// warnUntold logs the errors of jobs of which nobody is told any more: they were told that a backup held the file back.
func (d *Dir) warnUntold(jobs []*flushJob) {
	isWaitedFor := func(q *flushRequest) bool { return q.done != nil }
	for _, j := range jobs {
		if j.err != nil && !errors.Is(j.err, errPostponed) && d.Err() == nil && !slices.ContainsFunc(j.requests, isWaitedFor) {
			d.options.Logger.Warn("the file of a run cannot be written yet", "run", string(j.run.row.Run), "error", j.err)
		}
	}
}

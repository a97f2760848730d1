package store

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/workflow"
)

// Bounds of filing.
const (
	maxBacklog = 2048 // runs that wait for their file; then commits wait
	maxRound   = 64   // files that are synced together
	minRound   = 4    // files for which syncing the whole file system is quicker
)

// A filing is one call of Materialize.
type filing struct {
	changes workflow.Changes
	events  []decision.Event
	entries []entry
	seq     int64 // of the last record
	sum     checksum
	done    func(error)
	size    *atomic.Int64 // of the file, for the handle
}

// A job is the filing of one run, in order. While a worker has it, filings that
// come are kept for the next round.
type job struct {
	id      workflow.RunID
	num     int64
	filings []*filing
	busy    bool // with a worker
	queued  bool
}

// A filer builds the files of runs with some workers.
type filer struct {
	mu      sync.Mutex
	changed *sync.Cond // whenever a job is queued or has ended
	jobs    map[workflow.RunID]*job
	queue   []*job
	later   []*job          // put off until the backup that is under way has ended
	kept    map[string]bool // files that it may still copy and nobody else needs; nil without one
	large   bool            // a worker builds a large file
	stopped bool
	workers sync.WaitGroup
	stage   func(stage) error // for tests: called at every boundary
}

// A stage is a boundary of filing at which a crash must do no harm.
type stage string

// The stages.
const (
	built   stage = "built"   // the bytes are under a temporary name
	renamed stage = "renamed" // under the name of the run
	synced  stage = "synced"  // and durable
	// The index names them, some records in them are still in the log; passed once
	// before each transaction that drops such. A crash leaves them.
	trimming stage = "trimming"
	trimmed  stage = "trimmed" // the log is trimmed
)

// passes calls the test's hook.
func (f *filer) passes(at stage) error {
	if f.stage == nil {
		return nil
	}
	return f.stage(at)
}

func (f *filer) start(d *Dir) {
	f.changed = sync.NewCond(&f.mu)
	f.jobs = map[workflow.RunID]*job{}
	for range d.options.Materializers {
		f.workers.Go(func() { f.work(d) }) // until stop
	}
}

// stop ends the workers when everything is filed.
func (f *filer) stop() {
	f.mu.Lock()
	f.stopped = true
	f.changed.Broadcast()
	f.mu.Unlock()
	f.workers.Wait()
}

// add queues a filing. It fails with ErrClosed.
func (f *filer) add(num int64, id workflow.RunID, fl *filing) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return ErrClosed
	}
	j := f.jobs[id]
	if j == nil || j.num != num {
		j = &job{id: id, num: num}
		f.jobs[id] = j
	}
	j.filings = append(j.filings, fl)
	f.enqueue(j)
	f.changed.Broadcast()
	return nil
}

func (f *filer) enqueue(j *job) {
	if !j.busy && !j.queued {
		j.queued = true
		f.queue = append(f.queue, j)
	}
}

// wait returns when a run is not being filed. What failed to be filed is
// forgotten: it is in the log.
func (f *filer) wait(id workflow.RunID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		j := f.jobs[id]
		if j == nil || !j.busy && !j.queued {
			delete(f.jobs, id)
			return
		}
		f.changed.Wait()
	}
}

// waitForRoom returns when not too many runs wait for their files.
func (f *filer) waitForRoom() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.queue)+len(f.later) >= maxBacklog && !f.stopped {
		f.changed.Wait()
	}
}

// take returns the jobs of a round, each with its filings; nil to stop.
func (f *filer) take() []*round {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*round
	for {
		if out = f.next(); len(out) > 0 {
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

// next takes the jobs of a round out of the queue. A large file has a round of its
// own, so that no other waits for it, and there is one at a time, so that a worker
// and a processor are left for the others. The lock is held.
func (f *filer) next() (out []*round) {
	alone := false
	rest := f.queue[:0]
	for _, j := range f.queue {
		large := len(j.filings) > 0 && sizeOf(j.filings) > largeFile
		if alone || len(out) == maxRound || large && (f.large || len(out) > 0) {
			rest = append(rest, j)
			continue
		}
		j.queued, j.busy = false, true
		out = append(out, &round{job: j, filings: j.filings, large: large})
		j.filings = nil
		alone, f.large = large, f.large || large
	}
	clear(f.queue[len(rest):])
	f.queue = rest
	return out
}

// end takes note of how a round went and returns whom to tell.
func (f *filer) end(rounds []*round) (tell []func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rounds {
		j := r.job
		j.busy = false
		f.large = f.large && !r.large
		if errors.Is(r.err, errPutOff) {
			f.putOff(r)
			continue
		}
		more := len(j.filings) > 0 // came in the meantime
		tell = append(tell, r.answers()...)
		if r.err != nil {
			j.filings = append(r.filings, j.filings...)
		}
		switch {
		case more:
			f.enqueue(j)
		case r.err == nil && f.jobs[j.id] == j:
			delete(f.jobs, j.id)
		}
	}
	f.changed.Broadcast()
	return tell
}

// answers returns the callbacks of a round, each to be called once.
func (r *round) answers() (out []func()) {
	err := r.err
	for _, fl := range r.filings {
		if done := fl.done; done != nil {
			out = append(out, func() { done(err) })
			fl.done = nil
		}
	}
	return out
}

func (f *filer) work(d *Dir) {
	var b builder
	defer b.close()
	for {
		rounds := f.take()
		if rounds == nil {
			return
		}
		d.file(&b, rounds)
		for _, tell := range f.end(rounds) {
			tell()
		}
	}
}

package store

import (
	"crypto/sha256"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/sqlite"
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
	trimmed stage = "trimmed" // the index names them, the log is trimmed
)

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
	for len(f.queue) >= maxBacklog && !f.stopped {
		f.changed.Wait()
	}
}

// take returns the jobs of a round, each with its filings; nil to stop.
func (f *filer) take() []*round {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.queue) == 0 {
		if f.stopped {
			return nil
		}
		f.changed.Wait()
	}
	n := min(len(f.queue), maxRound)
	out := make([]*round, n)
	for i, j := range f.queue[:n] {
		j.queued, j.busy = false, true
		out[i] = &round{job: j, filings: j.filings}
		j.filings = nil
	}
	f.queue = append(f.queue[:0], f.queue[n:]...)
	f.changed.Broadcast()
	return out
}

// end takes note of how a round went and returns whom to tell.
func (f *filer) end(rounds []*round) (tell []func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rounds {
		j := r.job
		j.busy = false
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

// A round is what one worker does for one run.
type round struct {
	job     *job
	filings []*filing
	row     row    // before
	name    string // of the new file
	hash    [sha256.Size]byte
	size    int
	err     error
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

// file brings the files of some runs up to date. What fails for one run is that
// run's.
func (d *Dir) file(b *builder, rounds []*round) {
	for _, r := range rounds {
		r.err = d.build(b, r)
	}
	d.step(rounds, built, func(r *round) error { return d.rename(r) })
	d.step(rounds, renamed, nil)
	if err := d.syncRounds(rounds); err != nil {
		fail(rounds, err)
	}
	d.step(rounds, synced, nil)
	if err := d.trim(rounds); err != nil {
		fail(rounds, err)
	}
	d.step(rounds, trimmed, func(r *round) error { return d.removeOld(r) })
}

// step passes a stage and does do with every round that has not failed.
func (d *Dir) step(rounds []*round, at stage, do func(*round) error) {
	if d.filer.stage != nil {
		if err := d.filer.stage(at); err != nil {
			fail(rounds, err)
		}
	}
	for _, r := range rounds {
		if r.err == nil && do != nil {
			r.err = do(r)
		}
	}
}

func fail(rounds []*round, err error) {
	for _, r := range rounds {
		if r.err == nil {
			r.err = err
		}
	}
}

// build writes the new file of a run under a temporary name.
func (d *Dir) build(b *builder, r *round) error {
	var err error
	if r.row, err = d.row(r.job.id); err != nil {
		return err
	}
	if r.row.num != r.job.num {
		return fmt.Errorf("%w: %q is another run by now", ErrRunNotFound, string(r.job.id))
	}
	var old []byte
	if r.row.slot != 0 {
		if old, err = d.readRunFile(&r.row); err != nil {
			return err
		}
	}
	data, err := b.build(old, func(c *sqlite.Conn) error { return d.fill(c, r) })
	if err != nil {
		return fmt.Errorf("build the file of run %q: %w", string(r.job.id), err)
	}
	r.hash, r.size = sha256.Sum256(data), len(data)
	r.name = fileName(r.row.Run, r.row.nonce, r.row.slot.other())
	return d.writeFile(r.tmp(), data, false)
}

func (r *round) tmp() string { return path.Join(tmpDir, path.Base(r.name)) }

// fill writes into a file what it lacks.
func (d *Dir) fill(c *sqlite.Conn, r *round) error {
	g, err := d.Graph(r.row.Definition)
	if err != nil {
		return err
	}
	doc, err := d.definitions.doc(g)
	if err != nil {
		return err
	}
	if err := definitionTable.insert(c, [][]driver.Value{{g.Hash, doc}}); err != nil {
		return err
	}
	last := r.filings[len(r.filings)-1]
	meta, err := metaRow(&r.row.Head, &last.changes.Facts, last.seq, last.sum)
	if err != nil {
		return err
	}
	if err := metaTable.insert(c, [][]driver.Value{meta}); err != nil {
		return err
	}
	next := r.row.filed + 1
	for _, f := range r.filings {
		if err := f.fill(c, next); err != nil {
			return err
		}
		next = f.seq + 1
	}
	return nil
}

func (f *filing) fill(c *sqlite.Conn, next int64) error {
	if len(f.entries) > 0 && f.entries[0].Seq != next || len(f.entries) == 0 && f.seq != next-1 {
		return fmt.Errorf("the file lacks record %d", next)
	}
	for _, b := range batches(&f.changes, f.entries, f.events) {
		if err := b.run(c); err != nil {
			return err
		}
	}
	return nil
}

// rename gives a new file its name, in the slot that is not in use.
func (d *Dir) rename(r *round) error {
	err := d.root.Rename(r.tmp(), r.name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = d.root.Mkdir(path.Dir(r.name), 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			err = d.root.Rename(r.tmp(), r.name)
		}
	}
	return err
}

// syncRounds makes new files durable, with their names.
func (d *Dir) syncRounds(rounds []*round) error {
	if canSyncAll && len(rounds) >= minRound {
		dir, err := d.root.Open(".")
		if err != nil {
			return err
		}
		err = syncAll(dir)
		_ = dir.Close() // it was only read
		return err
	}
	dirs := map[string]bool{".": false, runsDir: false}
	for _, r := range rounds {
		if r.err == nil {
			r.err = d.syncFile(r.name)
			dirs[path.Dir(r.name)], dirs[runsDir] = true, true
		}
	}
	for dir, touched := range dirs {
		if touched {
			if err := d.syncDir(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

const fileRun = `UPDATE runs SET slot = ?, filed = ?, filed_sum = ?, file_hash = ?, file_size = ? WHERE num = ? AND filed = ?`

// trim makes the index name the new files and drops the records in them, in one
// transaction.
func (d *Dir) trim(rounds []*round) error {
	return d.update(func(db *sqlite.Conn) error {
		for _, r := range rounds {
			if r.err != nil {
				continue
			}
			last := r.filings[len(r.filings)-1]
			n, err := db.Exec(fileRun, int64(r.row.slot.other()), last.seq, last.sum[:], r.hash[:], int64(r.size), r.row.num, r.row.filed)
			if err != nil {
				return err
			}
			if n == 0 {
				continue // purged in the meantime
			}
			if _, err := db.Exec(trimLog, logKey(r.row.num, 0), logKey(r.row.num, last.seq)); err != nil {
				return err
			}
		}
		return nil
	})
}

// removeOld removes the file that the new one replaces.
func (d *Dir) removeOld(r *round) error {
	if r.row.slot == 0 {
		return nil
	}
	if err := d.root.Remove(r.row.File); err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.options.Logger.Warn("a run's old file is left behind", "file", d.at(r.row.File), "error", err)
	}
	return nil
}

package store

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// A flushJob is what one worker does for one run.
//
// A job has all requests of a run that had come when a worker took it; their records follow each
// other, and the first one follows the last record of the file. err is the job's own: a run that
// cannot be flushed, say because its file is damaged, does not keep the others of the batch.
type flushJob struct {
	run      *runFlushes
	requests []*flushRequest
	row      index.Row // as it was before
	large    bool      // the file is: it has a batch of its own
	name     string    // of the new file
	tmp      string    // its name while it is built, which no other engine uses
	hash     [sha256.Size]byte
	size     int
	err      error
}

// flushBatch brings the files of some runs up to date. An error of one job does not
// concern the others.
//
// A file is never changed in place. The stages, and what a crash behind each of them leaves:
//
//  1. built under a temporary name: tmp/ is emptied by the next Open.
//  2. renamed to the slot that the index does not name: nobody reads it.
//  3. synced, contents and names: likewise, but it would survive.
//  4. the index names it, in one transaction with the first records that are dropped: from now on
//     the run is loaded from the new file.
//  5. the old file is removed, or its name becomes a second one of the new file: what a crash leaves of
//     it is put right by the next Open, and overwritten by the next flush, which writes to that slot.
//
// If 4 came before 3, a loss of power could leave an index that names a file which is empty, and
// the log without its records. If 5 came before 4 is durable, it could leave one that names a
// file which is gone.
//
// Between the stages it is asked whether the directory is still ours: another engine may have
// opened it, and its files of runs have the same names.
func (d *Dir) flushBatch(b *runfile.Builder, jobs []*flushJob) {
	var disk *os.File // for which the files are synced together; nil for each by itself
	if canSyncAll && len(jobs) >= minSyncAll {
		// The system tells of an error whoever has opened something before it, and others only if nobody was told. So this comes
		// before the files are written.
		if folder, err := d.root.Open("."); err == nil {
			disk = folder
			defer func() { _ = disk.Close() }() // it is only read
		}
	}
	for some := range slices.Chunk(jobs, rowsOnce) {
		d.readFileRows(some)
	}
	for _, j := range jobs {
		if j.err == nil {
			j.err = typedError(d.buildFile(b, j))
		}
	}
	d.hook.Hit("file.built")
	d.passStage(jobs, built, func(j *flushJob) error { return d.renameFile(j) })
	d.hook.Hit("file.renamed")
	d.passStage(jobs, renamed, nil)
	if err := d.syncFiles(jobs, disk); err != nil {
		failJobs(jobs, err)
	}
	d.hook.Hit("file.synced")
	d.passStage(jobs, synced, nil)
	spills, err := d.trimFlushed(jobs)
	if err != nil {
		failJobs(jobs, err)
	}
	d.hook.Hit("file.trimmed")
	hard := d.syncLogIfReplaced(jobs)
	d.passStage(jobs, trimmed, func(j *flushJob) error { return d.removeOldFile(j, hard) })
	d.dropSpills(spills)
	d.hook.Hit("file.end")
}

// rowsOnce is how many rows are read while no commit can begin.
const rowsOnce = 16

// readFileRows reads which files runs have now: the index says it, whatever a handle knows.
//
// The handle that asked may be of an earlier flush, or gone. Few rows are read at a time, since a
// commit cannot begin meanwhile.
func (d *Dir) readFileRows(jobs []*flushJob) {
	err := d.readIndex(func(db *sqlite.Conn) error {
		for _, j := range jobs {
			j.row = j.run.row
			sound := false
			found, err := db.One(index.FileColumns, func(x *sqlite.Row) error { sound = index.ScanFile(&j.row, x); return nil }, j.row.Num)
			switch {
			case err != nil:
				return err
			case !found:
				j.err = fmt.Errorf("%w: %q was purged", ErrRunNotFound, string(j.row.Run))
			case !sound:
				j.err = &CorruptError{Run: j.row.Run, File: d.pathOf(indexFile), What: "its row in the index is damaged"}
			}
		}
		return nil
	})
	if err != nil {
		failJobs(jobs, err)
	}
}

// passStage passes a stage and calls do with every job that has not failed, if the
// directory is still ours.
//
// The hook is that of tests, which stop an engine at each stage, or let it fail there.
func (d *Dir) passStage(jobs []*flushJob, at flushStage, do func(*flushJob) error) {
	if err := d.checkOwner(); err != nil {
		failJobs(jobs, err)
	}
	if err := d.hook.Stage(string(at)); err != nil {
		failJobs(jobs, err)
	}
	for _, j := range jobs {
		if j.err == nil && do != nil {
			j.err = do(j)
		}
	}
}

// failJobs gives an error to all jobs that have none yet.
func failJobs(jobs []*flushJob, err error) {
	for _, j := range jobs {
		if j.err == nil {
			j.err = err
		}
	}
}

// buildFile writes the new file of a run under a temporary name.
//
// The name in tmp/ begins with the epoch: an earlier owner that was stopped in the middle of a
// flush, and goes on, writes to another one.
func (d *Dir) buildFile(b *runfile.Builder, j *flushJob) error {
	j.name = index.FileName(j.row.Run, j.row.Nonce, j.row.Slot.Other())
	if d.flusher.isHeld(j.name) {
		return errPostponed
	}
	j.tmp = path.Join(tmpDir, fmt.Sprintf("%v-%s", d.epoch, path.Base(j.name)))
	var err error
	// The disk must not see pages that are not sealed.
	if estimateSize(j.requests) > maxInMemory && !d.sealer.IsOn() {
		err = d.buildOnDisk(j)
	} else {
		err = d.buildInMemory(b, j)
	}
	if err != nil {
		_ = d.root.Remove(j.tmp) // if it is there; the next Open removes it otherwise
		return fmt.Errorf("build the file of run %q: %w", string(j.row.Run), err)
	}
	return nil
}

// buildInMemory writes a small file, which is made in memory.
//
// The old file is proven by its hash before anything is built on it: damage must not be copied
// into a file with a new hash, which would look whole.
func (d *Dir) buildInMemory(b *runfile.Builder, j *flushJob) error {
	var old []byte
	if j.row.Slot != 0 {
		var err error
		if old, err = d.plainRunFile(&j.row); err != nil {
			return err
		}
	}
	d.hook.Hit("file.begin")
	data, err := b.Build(old, func(to runfile.Target) error { return d.fillFile(to, j) })
	if err == nil {
		data, err = d.sealer.SealBytes(index.FilePlace(j.name), data)
	}
	if err != nil {
		return err
	}
	j.hash, j.size = pace.Sum256(data), len(data)
	return d.writeFile(j.tmp, data, false)
}

// estimateSize returns about how large the file is after some requests, which decides whether it is built in memory.
func estimateSize(requests []*flushRequest) int64 {
	n := requests[0].size.Load()
	for _, f := range requests {
		n += f.added
	}
	return n
}

// estimateAdded sets about how many bytes a request adds to the file, with those of its entries: once, since each batch looks at all requests.
func (f *flushRequest) estimateAdded(entries int64) {
	const row = 64
	f.added = entries + row*int64(len(f.changes.Tokens)+len(f.changes.Branches))
	for _, told := range f.told {
		f.added += row * int64(len(told))
	}
}

// bytesUpTo returns about how many bytes the records take in the log that the file is to hold, up to one.
func (j *flushJob) bytesUpTo(last int64) (n int64) {
	for _, f := range j.requests {
		for _, e := range f.entries {
			if e.Seq > last {
				return n
			}
			n += e.LogSize()
		}
	}
	return n
}

// lastEntry returns the last record that the file is to hold; nil if the file before it had all of them.
func (j *flushJob) lastEntry() *runfile.Entry {
	for _, f := range slices.Backward(j.requests) {
		if n := len(f.entries); n > 0 {
			return f.entries[n-1]
		}
	}
	return nil
}

// lastRequest returns the request with the last record that the file is to hold.
func (j *flushJob) lastRequest() *flushRequest { return j.requests[len(j.requests)-1] }

// spillsOf returns the numbers of the spills of the records that the file is to hold.
func (j *flushJob) spillsOf() (out []int64) {
	for _, f := range j.requests {
		for _, e := range f.entries {
			if n := e.Spill; n != 0 {
				out = append(out, n)
			}
		}
	}
	return out
}

// fillFile writes everything that a file lacks.
//
// The definition, the facts and the sequence are those of the last request; tokens, branches,
// records and events are added request by request. The file then says the same as the log does up
// to that record, which [Snapshot.Replay] depends on.
func (d *Dir) fillFile(to runfile.Target, j *flushJob) error {
	g, err := d.Graph(j.row.Definition)
	if err != nil {
		return err
	}
	if err := runfile.WriteDefinition(to, g.Hash, g.JSON); err != nil {
		return err
	}
	last := j.lastRequest()
	h := &j.row.Head
	err = runfile.WriteMeta(to, &runfile.Meta{
		Run: h.Run, Workflow: h.Workflow, Version: h.Version, Definition: h.Definition,
		Facts: &last.changes.Facts, Seq: last.seq, Sum: last.sum,
	})
	if err != nil {
		return err
	}
	d.hook.Hit("file.fill")
	next := j.row.Flushed + 1
	for _, f := range j.requests {
		if err := f.writeInto(to, next); err != nil {
			return err
		}
		next = f.seq + 1
	}
	return nil
}

// writeInto adds what a request has. It refuses records that do not go on from those before: a
// file with a gap would have a run loaded that never was like that.
func (f *flushRequest) writeInto(to runfile.Target, next int64) error {
	if len(f.entries) > 0 && f.entries[0].Seq != next || len(f.entries) == 0 && f.seq != next-1 {
		return fmt.Errorf("the file lacks record %d", next)
	}
	return runfile.WriteChanges(to, &f.changes, f.entries, f.told)
}

// renameFile gives a new file its name, in the slot that is not in use.
//
// A folder has the runs whose ids hash alike, and is made when it is first needed.
func (d *Dir) renameFile(j *flushJob) error {
	err := d.root.Rename(j.tmp, j.name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = d.root.Mkdir(path.Dir(j.name), 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			err = d.root.Rename(j.tmp, j.name)
		}
	}
	return err
}

// syncFiles makes new files durable, with their names.
//
// A file needs three syncs: of its contents, of the folder that has its name, and of the one
// above, in which that folder may be new. Where there are several files one call for the file
// system is quicker; it also syncs what others have written there. disk is a folder of it that
// was opened before the files were written, or nil.
func (d *Dir) syncFiles(jobs []*flushJob, disk *os.File) error {
	if disk != nil {
		return syncAll(disk)
	}
	dirs := map[string]bool{".": false, runsDir: false}
	for _, j := range jobs {
		if j.err == nil {
			j.err = d.syncFile(j.name)
			dirs[path.Dir(j.name)], dirs[runsDir] = true, true
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

// syncLogIfReplaced syncs the log, which names the new files, if old ones are to be
// removed.
//
// At ProcessCrash the transaction that names the new files may still be lost with the power. Were
// the old ones gone by then, the index would name files that are not there. At PowerLoss the
// transaction is synced already, and nothing is done.
func (d *Dir) syncLogIfReplaced(jobs []*flushJob) error {
	for _, j := range jobs {
		if j.err == nil && j.row.Slot != 0 {
			return d.syncLog()
		}
	}
	return nil
}

// removeOldFile removes the file that the new one replaces, unless an error says that
// a loss of power might bring it back. See [Dir.replaceRunFile].
//
// An old file that is left costs space until the run is flushed or purged, and nothing else: so
// this is no error of the job.
func (d *Dir) removeOldFile(j *flushJob, err error) error {
	j.requests[0].size.Store(int64(j.size))
	if j.row.Slot == 0 {
		return nil
	}
	if err == nil {
		err = d.replaceRunFile(j.row.File, j.name)
	}
	if err != nil {
		d.options.Logger.Warn("a run's old file is left behind", "file", d.pathOf(j.row.File), "error", err)
	}
	return nil
}

// Sizes of files in bytes.
const (
	// maxInMemory is that up to which a file is laid out in memory, which a worker keeps for the next. A larger one is
	// written to the disk row by row: fresh memory for all of it costs more than to lay it out, and the old one is
	// read a few pages at a time.
	maxInMemory = 256 << 10
	// largeFile is that from which on a file has a batch of its own.
	largeFile = 1 << 20
)

// buildOnDisk writes a file row by row, without having it in memory.
//
// There is no sync: after a crash the file is one in tmp/, which the next Open removes. It is
// hashed by reading it once more, since its first page is written last: that is what the index
// will name, whatever was written.
func (d *Dir) buildOnDisk(j *flushJob) error {
	d.hook.Hit("file.begin")
	var old *runfile.File
	if j.row.Slot != 0 {
		// Damage must not be copied into a file with a new hash, which would look whole.
		from, err := d.proveRunFile(&j.row)
		if err != nil {
			return err
		}
		defer func() { _ = from.Close() }() // it is only read
		if old, err = runfile.OpenAt(from, j.row.FileSize); err != nil {
			return err
		}
	}
	to, err := d.createFile(j.tmp, os.O_TRUNC)
	if err != nil {
		return err
	}
	d.hook.Hit("disk.write")
	err = runfile.WriteFile(to, old, func(to runfile.Target) error { return d.fillFile(to, j) })
	if closed := to.Close(); err == nil {
		err = closed
	}
	if err == nil {
		j.hash, j.size, err = d.sumFile(j.tmp)
	}
	return err
}

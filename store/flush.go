package store

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// A flushJob is what one worker does for one run.
type flushJob struct {
	run      *runFlushes
	requests []*flushRequest
	row      index.Row // as it was before
	large    bool      // the file is: it is built on the disk, in a batch of its own
	name     string    // of the new file
	tmp      string    // its name while it is built, which no other engine uses
	hash     [sha256.Size]byte
	size     int
	err      error
}

// flushBatch brings the files of some runs up to date. An error of one job does not
// concern the others.
func (d *Dir) flushBatch(b *runfile.Builder, jobs []*flushJob) {
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
	if err := d.syncFiles(jobs); err != nil {
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

func failJobs(jobs []*flushJob, err error) {
	for _, j := range jobs {
		if j.err == nil {
			j.err = err
		}
	}
}

// buildFile writes the new file of a run under a temporary name.
func (d *Dir) buildFile(b *runfile.Builder, j *flushJob) error {
	j.name = index.FileName(j.row.Run, j.row.Nonce, j.row.Slot.Other())
	if d.flusher.isHeld(j.name) {
		return errPostponed
	}
	j.tmp = path.Join(tmpDir, fmt.Sprintf("%v-%s", d.epoch, path.Base(j.name)))
	var err error
	if j.large && !d.sealer.IsOn() { // the disk must not see pages that are not sealed
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

// estimateSize returns about how large the file is after some requests.
func estimateSize(requests []*flushRequest) int64 {
	const row = 64
	n := requests[0].size.Load()
	for _, f := range requests {
		n += int64(len(f.changes.Tokens)+len(f.changes.Branches)+len(f.events)) * row
		for i := range f.entries {
			n += f.entries[i].ByteSize()
		}
	}
	return n
}

// loggedBytes returns about how many bytes of the log the records take that the file is to hold.
func (j *flushJob) loggedBytes() (n int64) {
	for _, f := range j.requests {
		for i := range f.entries {
			n += f.entries[i].ByteSize()
		}
	}
	return n
}

// fillFile writes everything that a file lacks.
func (d *Dir) fillFile(to runfile.Target, j *flushJob) error {
	g, err := d.Graph(j.row.Definition)
	if err != nil {
		return err
	}
	if err := runfile.WriteDefinition(to, g.Hash, g.JSON); err != nil {
		return err
	}
	last := j.requests[len(j.requests)-1]
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

func (f *flushRequest) writeInto(to runfile.Target, next int64) error {
	if len(f.entries) > 0 && f.entries[0].Seq != next || len(f.entries) == 0 && f.seq != next-1 {
		return fmt.Errorf("the file lacks record %d", next)
	}
	return runfile.WriteChanges(to, &f.changes, f.entries, f.events)
}

// renameFile gives a new file its name, in the slot that is not in use.
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
func (d *Dir) syncFiles(jobs []*flushJob) error {
	if canSyncAll && len(jobs) >= minSyncAll {
		dir, err := d.root.Open(".")
		if err != nil {
			return err
		}
		err = syncAll(dir)
		_ = dir.Close() // it was only read
		return err
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
func (d *Dir) syncLogIfReplaced(jobs []*flushJob) error {
	for _, j := range jobs {
		if j.err == nil && j.row.Slot != 0 {
			return d.syncLog()
		}
	}
	return nil
}

// removeOldFile removes the file that the new one replaces, unless an error says that
// a loss of power might bring it back.
func (d *Dir) removeOldFile(j *flushJob, err error) error {
	j.requests[0].size.Store(int64(j.size))
	if j.row.Slot == 0 {
		return nil
	}
	if err == nil {
		err = d.removeRunFile(j.row.File)
	}
	if err != nil {
		d.options.Logger.Warn("a run's old file is left behind", "file", d.pathOf(j.row.File), "error", err)
	}
	return nil
}

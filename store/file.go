package store

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/seal"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// readRunFile returns the bytes of the file that a row names as they are stored, proven to
// be what was written.
//
// The hash is compared before anybody reads a byte of the content: SQLite never sees a file that
// is not what was written.
func (d *Dir) readRunFile(r *index.Row) ([]byte, error) {
	data, err := d.readFile(r.File)
	if err == nil && !seal.IsSealed(data) {
		err = d.checkHeader(data, r.File, runfile.ID, runfile.Version)
	}
	if err != nil {
		return nil, d.fileError(r, err)
	}
	if sum := pace.Sum256(data); string(sum[:]) != string(r.FileHash) {
		return nil, d.fileError(r, errChanged)
	}
	return data, nil
}

// openRunFile opens the file that a row names, if it looks like what was written: nothing
// is copied of another.
//
// The header and the size are looked at, which tells most files that are not the right one at
// once; whoever reads on compares the hash.
func (d *Dir) openRunFile(r *index.Row) (*os.File, error) {
	f, err := d.openRegular(r.File)
	if err != nil {
		return nil, d.fileError(r, err)
	}
	head, err := io.ReadAll(io.NewSectionReader(f, 0, sqlite.HeaderSize))
	if err == nil && !seal.IsSealed(head) {
		err = d.checkHeader(head, r.File, runfile.ID, runfile.Version)
	}
	var info fs.FileInfo
	if err == nil {
		info, err = f.Stat()
	}
	switch {
	case err != nil:
	case info.Size() < r.FileSize:
		err = io.ErrUnexpectedEOF
	case info.Size() > r.FileSize:
		err = errChanged
	}
	if err != nil {
		_ = f.Close() // it was only read
		return nil, d.fileError(r, err)
	}
	return f, nil
}

// copyContent copies the file that a row names, from its beginning, and proves that it is
// what was written.
//
// If it fails, the copy is of no use: the caller removes it.
func (d *Dir) copyContent(to io.Writer, from *os.File, r *index.Row) error {
	sum := sha256.New()
	_, err := pace.Copy(io.MultiWriter(sum, to), from)
	if err == nil && string(sum.Sum(nil)) != string(r.FileHash) {
		err = d.fileError(r, errChanged)
	}
	return err
}

// copyRunFile copies the file that a row names into the one that create makes, and proves
// that it is what was written.
func (d *Dir) copyRunFile(r *index.Row, create func() (*os.File, error)) error {
	from, err := d.openRunFile(r)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // it is only read
	to, err := create()
	if err != nil {
		return err
	}
	err = d.copyContent(to, from, r)
	if closed := to.Close(); err == nil {
		err = closed
	}
	return err
}

// A runReader is the file of a run that SQLite reads. It remembers why it could not.
//
// SQLite says of a failed read that the database is malformed. By what is remembered here, a disk
// that does not answer is told from a file that is damaged.
type runReader struct {
	*os.File
	failed error
}

// Read implements io.Reader.
func (f *runReader) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		f.failed = err
	}
	return n, err
}

// Seek implements io.Seeker.
func (f *runReader) Seek(offset int64, whence int) (int64, error) {
	n, err := f.File.Seek(offset, whence)
	if err != nil {
		f.failed = err
	}
	return n, err
}

// proveRunFile opens the file that a row names for a database, proven to be what was
// written.
func (d *Dir) proveRunFile(r *index.Row) (*runReader, error) {
	f, err := d.openRunFile(r)
	if err != nil {
		return nil, err
	}
	if err := d.copyContent(io.Discard, f, r); err != nil {
		_ = f.Close() // it was only read
		return nil, err
	}
	return &runReader{File: f}, nil
}

// errChanged says that a file is whole, but not what was written.
var errChanged = errors.New("it is damaged, changed or another file")

// fileError returns the error of a file that could not be read.
//
// That a file is missing or cut short is damage of the run. Any other error of the system says
// nothing about the file, and stays what it is: it may be gone the next time.
func (d *Dir) fileError(r *index.Row, err error) error {
	damaged := func(what string) error { return &CorruptError{Run: r.Run, File: d.pathOf(r.File), What: what} }
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return damaged("the file is missing")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return damaged("the file is cut short")
	case errors.Is(err, errChanged):
		return damaged(errChanged.Error())
	default:
		return withRun(err, r.Run)
	}
}

// withRun adds the run to an error about its file.
func withRun(err error, id workflow.RunID) error {
	if c := (*CorruptError)(nil); errors.As(err, &c) {
		c.Run = id
	}
	return err
}

// While a backup is under way, the files that its copy of the index names must
// stay as they are. Runs are flushed meanwhile, for a new file has another name. Only
// the removal of the old file is postponed, and so the next flush of the same run, whose
// new file would take the name of one that is held. Nobody waits for that: a backup takes
// as long as the place for it does, which may be a store far away that does not answer.

// errPostponed says that a job has to wait for the end of a backup.
var errPostponed = errors.New("postponed until the backup has ended")

// holdFiles holds all files that are there until releaseFiles.
//
// It is called before pawl.db is copied, so that no file which the copy names is gone when it is
// to be copied.
func (f *flusher) holdFiles() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = map[string]string{}
}

// releaseFiles removes the files that were to be removed meanwhile, and queues the
// flushes that were postponed. A name is free again only when its file is gone.
//
// The files are removed without the lock, since that may take a while, and files may be added
// meanwhile, so it looks again until there are none.
func (f *flusher) releaseFiles(remove func(name, by string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.held) > 0 {
		held := maps.Clone(f.held)
		f.mu.Unlock()
		for name, by := range held {
			remove(name, by)
		}
		f.mu.Lock()
		for name, by := range held {
			if f.held[name] == by { // else the run was purged meanwhile
				delete(f.held, name)
			}
		}
	}
	f.held = nil
	for _, r := range f.runs {
		if r.postponed {
			f.enqueueRun(r)
		}
	}
	f.changed.Broadcast()
}

// isHeld reports whether a file is there only because a backup may still copy it.
//
// A flush may not write to such a name, under which the copy expects the former content.
func (f *flusher) isHeld(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, is := f.held[name]
	return is
}

// holdBack reports whether a backup keeps a file from being removed now. If so,
// releaseFiles removes it, or gives its name to another one.
func (f *flusher) holdBack(name, by string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held == nil {
		return false
	}
	f.held[name] = by
	return true
}

// postponeJob gives a job's requests back until the backup has ended, and returns the callbacks that are due: the flusher does the
// rest by itself, and until then the log has the records. The lock is held. The job has built nothing yet.
func (f *flusher) postponeJob(j *flushJob) (due []func()) {
	r := j.run
	r.requests = append(j.requests, r.requests...)
	j.requests = r.requests                        // those that came meanwhile are held back as well
	if r.postponed = f.held != nil; !r.postponed { // the backup has ended meanwhile
		f.enqueueRun(r)
	}
	j.err = nil
	return j.dueCallbacks()
}

// removeRunFile removes a file of a run that nothing names any more, or leaves that to
// the backup that is under way.
func (d *Dir) removeRunFile(name string) error { return d.replaceRunFile(name, "") }

// borrowRun keeps workers from the files of a run until returnRun. It returns nil if one has them, or is to.
func (f *flusher) borrowRun(row *index.Row) *runFlushes {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.runs[row.Run] != nil {
		return nil
	}
	r := &runFlushes{lent: row.Num, busy: true}
	f.runs[row.Run] = r
	return r
}

// returnRun lets workers have a run again. Requests that have come meanwhile are queued.
func (f *flusher) returnRun(id workflow.RunID, r *runFlushes) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.busy = false
	switch {
	case len(r.requests) > 0:
		f.enqueueRun(r)
	case f.runs[id] == r:
		delete(f.runs, id)
	}
	f.changed.Broadcast()
}

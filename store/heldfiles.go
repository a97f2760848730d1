package store

import (
	"errors"
	"maps"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/workflow"
)

// While a backup is under way, the files that its copy of the index names must
// stay as they are. Runs are flushed meanwhile, for a new file has another name. Only
// the removal of the old file is postponed, and so the next flush of the same run, whose
// new file would take the name of one that is held.

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
	f.queue = append(f.queue, f.postponed...)
	f.postponed = nil
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

// postponeJob gives a job's requests back until the backup has ended. The lock is held.
//
// The job has built nothing yet. Its callbacks are not called: it is neither done nor has it
// failed.
func (f *flusher) postponeJob(j *flushJob) {
	r := j.run
	r.requests = append(j.requests, r.requests...)
	r.queued = true
	if f.held != nil {
		f.postponed = append(f.postponed, r)
	} else {
		f.queue = append(f.queue, r) // the backup has ended meanwhile
	}
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

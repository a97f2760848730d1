package store

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
)

// While a backup is under way, the files that its copy of the index names must
// stay as they are. Filing goes on: a new file has another name. What is put off
// is to remove the old one, and so the filing of a run that is filed a second
// time, whose new file would take the name of one that is kept.

// errPutOff says that a round has to wait for the end of a backup.
var errPutOff = errors.New("put off until the backup has ended")

// keep keeps all files that are there until letGo.
func (f *filer) keep() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = map[string]bool{}
}

// letGo removes what was to be removed meanwhile, and lets the filing go on that
// was put off. A name is free again only when its file is gone.
func (f *filer) letGo(remove func(name string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.kept) > 0 {
		names := slices.Collect(maps.Keys(f.kept))
		f.mu.Unlock()
		for _, name := range names {
			remove(name)
		}
		f.mu.Lock()
		for _, name := range names {
			delete(f.kept, name)
		}
	}
	f.kept = nil
	f.queue = append(f.queue, f.later...)
	f.later = nil
	f.changed.Broadcast()
}

// keeps reports whether a file is kept that would be gone otherwise.
func (f *filer) keeps(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kept[name]
}

// keepsFrom reports whether a backup keeps a file from being removed now.
func (f *filer) keepsFrom(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kept == nil {
		return false
	}
	f.kept[name] = true
	return true
}

// putOff keeps what a round was to file. The lock is held.
func (f *filer) putOff(r *round) {
	j := r.job
	j.filings = append(r.filings, j.filings...)
	j.queued = true
	if f.kept != nil {
		f.later = append(f.later, j)
	} else {
		f.queue = append(f.queue, j) // the backup has ended meanwhile
	}
}

// discard removes a file of a run that nothing names any more, or lets the backup
// that is under way do so.
func (d *Dir) discard(name string) error {
	if d.filer.keepsFrom(name) {
		return nil
	}
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

package store

import (
	"maps"
	"slices"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// A definition is unused if no run has it and none is published with it. The names are looked at first, since they are few.
// The runs take a look at each of them, so it is asked about definitions of purged runs only, and seldom enough that
// a purge pays for a few runs. Nobody waits for the look: it takes some runs at a time, and
// a run that begins meanwhile takes its definition off the list.

const (
	unusedFirst  = 16  // runs that are looked at first: a definition that is in use is seen among few of them
	unusedOnce   = 256 // runs that are looked at without a commit in between
	runsPerPurge = 16  // that the purge of one run pays for

	getPurged = `SELECT hash FROM purged_definitions`
	putPurged = `INSERT INTO purged_definitions (hash, crc) VALUES (?, ?) ON CONFLICT DO NOTHING`
	dropAsked = `DELETE FROM purged_definitions WHERE hash = ?`
	getRunsBy = index.StartColumns + `WHERE num > ? ORDER BY num LIMIT ?`
	allNames  = `SELECT name, version, hash, crc FROM published`
	dropOne   = `DELETE FROM definitions WHERE hash = ?`
)

// An unusedList is the definitions that may be unused. The lock of definitions guards it.
//
// A hash that a collection asks about is in asked until a run or a publication is found that has
// it. The hashes that are left at the end are deleted, in one transaction that looks at the
// publications once more. A run that begins meanwhile commits before or after that transaction:
// before, it takes its definition off the list; after, it writes the definition again, since it
// is marked as missing.
type unusedList struct {
	waiting map[string]bool // hashes, for the next collection
	asked   map[string]bool // likewise, of the collection that is under way; nil if none is
	settled []string        // hashes whose row of purged_definitions is to go with that
	purges  int             // since the last collection
	runs    int             // that it looked at
}

// noteUnused remembers that so many runs with a definition were purged.
func (ds *definitions) noteUnused(hash string, runs int) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.unused.waiting == nil {
		ds.unused.waiting = map[string]bool{}
	}
	ds.unused.waiting[hash] = true
	ds.unused.purges += runs
}

// noteUsed takes a definition that is used off the list.
func (ds *definitions) noteUsed(hash string) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	delete(ds.unused.waiting, hash)
	delete(ds.unused.asked, hash)
}

// beginCollecting reports whether a collection is to be made, and begins it: all says that
// it is due whatever it costs.
//
// A collection may look at every run there is, so the next one waits until the purges since have
// paid for as many runs as this one looked at: a purge pays for runsPerPurge of them.
func (ds *definitions) beginCollecting(all bool) bool {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	s := &ds.unused
	if s.asked != nil || len(s.waiting) == 0 || !all && s.purges*runsPerPurge < s.runs {
		return false
	}
	s.asked, s.waiting, s.purges, s.runs = s.waiting, nil, 0, 0
	s.settled = slices.Collect(maps.Keys(s.asked))
	return true
}

// endCollecting ends a collection. If it failed, what may still be unused is asked about again; otherwise that is deleted.
func (ds *definitions) endCollecting(err error) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	s := &ds.unused
	if err == nil {
		s.asked = nil
		return
	}
	if s.waiting == nil {
		s.waiting = map[string]bool{}
	}
	maps.Copy(s.waiting, s.asked)
	s.asked = nil
}

// unusedHashes returns the definitions without a use found yet.
func (ds *definitions) unusedHashes() []string {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return slices.Collect(maps.Keys(ds.unused.asked))
}

// countLooked counts rows that the collection under way has looked at, and reports whether it asks about any definition still.
func (ds *definitions) countLooked(rows int) (asks bool) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.unused.runs += rows
	return len(ds.unused.asked) > 0
}

// settledHashes returns the definitions that the collection has decided about, and that no purged run has had since
// it began.
//
// The row of a definition that another purge has touched meanwhile stays, for the next collection.
func (ds *definitions) settledHashes() []string {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return slices.DeleteFunc(ds.unused.settled, func(hash string) bool { return ds.unused.waiting[hash] })
}

// collectDefinitions deletes the definitions of purged runs that are unused.
//
// Purge calls it, and Close with all. A run whose row is damaged might have any definition, so
// that nothing is deleted then.
func (d *Dir) collectDefinitions(all bool) (err error) {
	if !d.definitions.beginCollecting(all) {
		return nil
	}
	defer func() { d.definitions.endCollecting(err) }()
	if err := d.readIndex(d.notePublished); err != nil {
		return err
	}
	after, looked, most := int64(0), 0, 0
	for asks := d.definitions.countLooked(0); asks && looked == most; asks = d.definitions.countLooked(looked) {
		looked, most = 0, min(max(4*most, unusedFirst), unusedOnce)
		err := d.readIndex(func(db *sqlite.Conn) error {
			return db.Each(getRunsBy, func(r *sqlite.Row) error {
				num, id, hash, sound := index.ScanDefinition(r)
				if !sound {
					return &CorruptError{Run: id, File: d.pathOf(indexFile), What: "its row in the index is damaged"}
				}
				looked++
				after = num
				d.definitions.noteUsed(hash)
				return nil
			}, after, int64(most))
		})
		if err != nil {
			return err
		}
	}
	return d.updateIndex(d.dropUnused)
}

// notePublished takes the definitions off the list with which a name is published.
func (d *Dir) notePublished(db *sqlite.Conn) error {
	hash := ""
	take := d.publishedHash(&hash)
	return db.Each(allNames, func(r *sqlite.Row) error {
		err := take(r)
		d.definitions.noteUsed(hash)
		d.definitions.countLooked(1)
		return err
	})
}

// dropUnused deletes the definitions that no run has, unless they are published.
//
// It is executed within a transaction, so that no run can begin between the look and the
// deletion.
func (d *Dir) dropUnused(db *sqlite.Conn) error {
	if err := d.notePublished(db); err != nil {
		return &refusal{err}
	}
	for _, hash := range d.definitions.unusedHashes() {
		d.definitions.markMissing(hash)
		if _, err := db.Exec(dropOne, hash); err != nil {
			return err
		}
	}
	for _, hash := range d.definitions.settledHashes() {
		if _, err := db.Exec(dropAsked, hash); err != nil {
			return err
		}
	}
	return nil
}

// findUnusedAtOpen remembers the definitions that a crash may have left unused.
func (d *Dir) findUnusedAtOpen() error {
	return d.db.Each(getPurged, func(r *sqlite.Row) error { d.definitions.noteUnused(r.Text(0), 1); return nil })
}

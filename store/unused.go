package store

import (
	"maps"
	"slices"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// A definition is unused if no run has it and none is published with it. That takes a look
// at every run, so it is asked about those of purged runs only, and often enough only that
// a purge pays for a few runs. Nobody waits for the look: it takes some runs at a time, and
// a run that begins meanwhile takes its definition off the list.

const (
	unusedOnce   = 256 // runs that are looked at without a commit in between
	runsPerPurge = 64  // that one purge pays for

	getPurged = `SELECT hash FROM purged_definitions`
	putPurged = `INSERT INTO purged_definitions (hash, crc) VALUES (?, ?) ON CONFLICT DO NOTHING`
	dropAsked = `DELETE FROM purged_definitions WHERE hash = ?`
	getRunsBy = index.RunColumns + `WHERE num > ? ORDER BY num LIMIT ?`
	allNames  = `SELECT name, version, hash, crc FROM published`
	dropOne   = `DELETE FROM definitions WHERE hash = ?`
)

// An unusedList is the definitions that may be unused. The lock of definitions guards it.
//
// A hash that a collection asks about is in asked until a run or a publication is found that has
// it. What is left at the end is deleted, in one transaction that looks at what is published once
// more. A run that begins meanwhile commits before or after that transaction: before, it takes
// its definition off the list; after, it writes the definition again, since it is marked as
// missing.
type unusedList struct {
	waiting map[string]bool // hashes, for the next collection
	asked   map[string]bool // likewise, of the collection that is under way; nil if none is
	settled []string        // hashes whose row of purged_definitions is to go with that
	purges  int             // since the last collection
	runs    int             // that it looked at
}

// noteUnused remembers that a run with a definition was purged.
func (ds *definitions) noteUnused(hash string) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.unused.waiting == nil {
		ds.unused.waiting = map[string]bool{}
	}
	ds.unused.waiting[hash] = true
	ds.unused.purges++
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

// endCollecting ends a collection. What may still be unused is asked about again.
func (ds *definitions) endCollecting() {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	s := &ds.unused
	if s.waiting == nil {
		s.waiting = map[string]bool{}
	}
	maps.Copy(s.waiting, s.asked)
	s.asked = nil
}

// unusedHashes returns the definitions of which no use has been found yet.
func (ds *definitions) unusedHashes(looked int) []string {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.unused.runs += looked
	out := make([]string, 0, len(ds.unused.asked))
	for hash := range ds.unused.asked {
		out = append(out, hash)
	}
	return out
}

// settledHashes returns the definitions of which the collection tells whether they are
// used, and that no run was purged of since it began.
//
// Of another purge that came meanwhile the row stays, for the next collection.
func (ds *definitions) settledHashes() []string {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return slices.DeleteFunc(ds.unused.settled, func(hash string) bool { return ds.unused.waiting[hash] })
}

// collectDefinitions deletes the definitions of purged runs that are unused.
//
// Purge calls it, and Close with all. A run whose row is damaged might have any definition, so
// that nothing is deleted then.
func (d *Dir) collectDefinitions(all bool) error {
	if !d.definitions.beginCollecting(all) {
		return nil
	}
	defer d.definitions.endCollecting()
	after := int64(0)
	for looked := unusedOnce; looked == unusedOnce; {
		looked = 0
		err := d.readIndex(func(db *sqlite.Conn) error {
			return db.Each(getRunsBy, func(r *sqlite.Row) error {
				row := index.ScanRow(r)
				if !row.Sound[index.RowStart] {
					return &CorruptError{Run: row.Run, File: d.pathOf(indexFile), What: "its row in the index is damaged"}
				}
				looked++
				after = row.Num
				d.definitions.noteUsed(row.Definition)
				return nil
			}, after, int64(unusedOnce))
		})
		if err != nil {
			return err
		}
		if len(d.definitions.unusedHashes(looked)) == 0 {
			break
		}
	}
	return d.updateIndex(d.dropUnused)
}

// dropUnused deletes the definitions that no run has, unless they are published.
//
// It is executed within a transaction, so that no run can begin between the look and the
// deletion.
func (d *Dir) dropUnused(db *sqlite.Conn) error {
	hash := ""
	take := d.publishedHash(&hash)
	err := db.Each(allNames, func(r *sqlite.Row) error {
		err := take(r)
		d.definitions.noteUsed(hash)
		return err
	})
	if err != nil {
		return &refusal{err}
	}
	for _, hash := range d.definitions.unusedHashes(0) {
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
	return d.db.Each(getPurged, func(r *sqlite.Row) error { d.definitions.noteUnused(r.Text(0)); return nil })
}

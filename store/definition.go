package store

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/memo"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// definitions are the compiled definitions that were asked for.
//
// Everything about a definition goes by the hash of its content, so an entry never becomes
// untrue. stored may lack hashes that pawl.db has, which costs a statement that changes nothing;
// a hash in it that pawl.db lacks would have a run without a definition.
type definitions struct {
	mu     sync.Mutex
	graphs memo.Table[string, *compiled.Graph] // by hash
	stored memo.Table[string, struct{}]        // hashes that pawl.db has

	unused unusedList
}

const (
	getDefinition = `SELECT doc FROM definitions WHERE hash = ?`
	putDefinition = `INSERT OR IGNORE INTO definitions (hash, doc) VALUES (?, ?)`
	getPublished  = `SELECT name, version, hash, crc FROM published WHERE name = ? AND version = ?`
	getLatest     = `SELECT name, version, hash, crc FROM published WHERE name = ? ORDER BY version DESC LIMIT 1`
	putPublished  = `INSERT INTO published (name, version, hash, crc) VALUES (?, ?, ?, ?)`
)

// AddDefinition remembers a compiled definition, and returns the one to share:
// g, or an equal one that came before. The first commit of a run that needs it
// writes it down.
func (d *Dir) AddDefinition(g *compiled.Graph) *compiled.Graph { return d.definitions.addGraph(g) }

// Known returns the compiled definition with a hash if it is remembered; nil if
// it is not.
func (d *Dir) Known(hash string) *compiled.Graph { return d.definitions.graphOf(hash) }

// maxKnown bounds how many definitions are remembered, and how large they are together as JSON; in
// memory they may be 40 times as large. Runs that are active hold their own. maxStored bounds the
// hashes that are remembered as being in pawl.db: 200 bytes each.
var (
	maxKnown  = memo.Bounds{Entries: 1024, Bytes: 8 << 20}
	maxStored = memo.Bounds{Entries: 1 << 14}
)

// addGraph remembers a compiled definition and returns the one to use: that which is remembered under the same hash
// already, if there is one.
func (ds *definitions) addGraph(g *compiled.Graph) *compiled.Graph {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if known, ok := ds.graphs.Get(g.Hash); ok {
		return known
	}
	ds.graphs.Put(g.Hash, g, len(g.JSON), maxKnown)
	return g
}

func (ds *definitions) graphOf(hash string) *compiled.Graph {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	g, _ := ds.graphs.Get(hash)
	return g
}

// storedDocument returns a definition as it is stored.
func (d *Dir) storedDocument(g *compiled.Graph) (string, error) {
	return d.sealer.SealText(index.DefinitionPlace(g.Hash), g.JSON)
}

// isStored reports whether pawl.db has a definition; markStored says that it does, and
// markMissing that it has not.
func (ds *definitions) isStored(hash string) bool {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return ds.stored.Has(hash)
}

func (ds *definitions) markStored(hash string) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if !ds.stored.Has(hash) {
		ds.stored.Put(hash, struct{}{}, 0, maxStored)
	}
}

func (ds *definitions) markMissing(hash string) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.stored.Delete(hash)
}

// Graph returns the compiled definition with a hash. It is compiled once.
//
// The compilation is made without a lock: two callers may compile the same, and share one of the
// two.
func (d *Dir) Graph(hash string) (*compiled.Graph, error) {
	return d.GraphUntil(context.Background(), hash)
}

// GraphUntil is Graph until ctx is done, with whose error it fails then.
func (d *Dir) GraphUntil(ctx context.Context, hash string) (*compiled.Graph, error) {
	if g := d.definitions.graphOf(hash); g != nil {
		return g, nil
	}
	var doc string
	err := d.readIndexUntil(ctx, func(db *sqlite.Conn) error {
		err := db.Each(getDefinition, func(r *sqlite.Row) error { doc = r.Text(0); return nil }, hash)
		if err == nil && doc != "" {
			d.definitions.markStored(hash) // here, where nobody deletes it meanwhile
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if doc == "" {
		return nil, &CorruptError{File: d.pathOf(indexFile), What: "it lacks the definition " + hash}
	}
	if doc, err = d.sealer.OpenText(index.DefinitionPlace(hash), doc); err != nil {
		return nil, err
	}
	g, err := runfile.CompileDefinition(doc, hash)
	if err != nil {
		return nil, &CorruptError{File: d.pathOf(indexFile), What: "definition " + hash, Err: err}
	}
	return d.definitions.addGraph(g), nil
}

// storeDefinition writes a definition that is used from now on and that pawl.db lacks, as
// part of a commit.
//
// It also keeps a collection, which may be under way, from deleting it.
func (d *Dir) storeDefinition(db *sqlite.Conn, hash, doc string) error {
	d.definitions.noteUsed(hash)
	if d.definitions.isStored(hash) {
		return nil
	}
	_, err := db.Exec(putDefinition, hash, doc)
	return err
}

// Publish stores a definition under its name and version, for good. The same
// again is no error; another content is ErrPublished.
//
// A name and version mean the same for good, so that whoever starts a run by them knows what it
// gets.
func (d *Dir) Publish(g *compiled.Graph) error {
	d.definitions.addGraph(g)
	doc, err := d.storedDocument(g)
	if err != nil {
		return fmt.Errorf("publish %s: %w", g.Definition.Name, err)
	}
	err = d.updateIndex(func(db *sqlite.Conn) error { return d.publishGraph(db, g, doc) })
	if err == nil {
		d.definitions.markStored(g.Hash)
	}
	return err
}

// publishGraph writes a definition under its name and version. To publish the same again changes nothing; another
// definition under that name and version is refused.
func (d *Dir) publishGraph(db *sqlite.Conn, g *compiled.Graph, doc string) error {
	name, version := g.Definition.Name, int64(runfile.VersionOf(g))
	if known, err := d.checkPublish(db, g); known || err != nil {
		return err
	}
	if err := d.storeDefinition(db, g.Hash, doc); err != nil {
		return err
	}
	_, err := db.Exec(putPublished, index.RowWithCRC(name, version, g.Hash)...)
	return err
}

// CheckPublish reports whether the same definition is published already, and changes nothing. It fails as Publish would, and with the error of ctx.
func (d *Dir) CheckPublish(ctx context.Context, g *compiled.Graph) (known bool, err error) {
	err = d.readIndexUntil(ctx, func(db *sqlite.Conn) (err error) { known, err = d.checkPublish(db, g); return err })
	return known, err
}

// checkPublish reports whether a definition is published under its name and version: the error is ErrPublished if another one is.
//
// It is asked within the transaction that publishes: of two that publish at once one is refused.
func (d *Dir) checkPublish(db *sqlite.Conn, g *compiled.Graph) (known bool, err error) {
	name, version := g.Definition.Name, int64(runfile.VersionOf(g))
	var have string
	if err := db.Each(getPublished, d.publishedHash(&have), name, version); err != nil {
		return false, err
	}
	if have != "" && have != g.Hash {
		return false, refuseRequest("publish %s version %d: %w: raise its version", name, version, ErrPublished)
	}
	return have != "", nil
}

// publishedHash returns a function that reads the hash of a row of the table published.
func (d *Dir) publishedHash(hash *string) func(*sqlite.Row) error {
	return func(r *sqlite.Row) error {
		*hash = r.Text(2)
		if !index.CRCMatches(r, 1, 3) {
			return &CorruptError{File: d.pathOf(indexFile), What: fmt.Sprintf("the row of %s version %d, which is published, has changed", r.Text(0), r.Int64(1))}
		}
		return nil
	}
}

// Published returns the hash of a published definition; version 0 is the
// latest. It fails with ErrNotPublished, and with the error of ctx.
func (d *Dir) Published(ctx context.Context, name string, version int) (hash string, err error) {
	err = d.readIndexUntil(ctx, func(db *sqlite.Conn) error {
		take := d.publishedHash(&hash)
		if version == 0 {
			return db.Each(getLatest, take, name)
		}
		return db.Each(getPublished, take, name, int64(version))
	})
	switch {
	case err != nil || hash != "":
		return hash, err
	case version == 0:
		return "", fmt.Errorf("%w: no version of %s is published", ErrNotPublished, name)
	}
	return "", fmt.Errorf("%w: %s version %d", ErrNotPublished, name, version)
}

// A Published names a definition that is published.
type Published struct {
	Name    string
	Version int
	Hash    string
}

const getPublishedAfter = `SELECT name, version, hash, crc FROM published WHERE (name, version) > (?1, ?2) ORDER BY name, version LIMIT 256`

// AllPublished yields the published definitions of this name, of every name if it is "", by name and version,
// page by page. An error ends the list: of a damaged row ErrCorrupt, of ctx its own.
//
// A page begins behind the last name and version, so what is published meanwhile may be listed or
// not.
func (d *Dir) AllPublished(ctx context.Context, name string) iter.Seq2[Published, error] {
	return func(yield func(Published, error) bool) {
		last := Published{Name: name}
		for {
			var page []Published
			err := d.readIndexUntil(ctx, func(db *sqlite.Conn) error {
				return db.Each(getPublishedAfter, func(r *sqlite.Row) error {
					if !index.CRCMatches(r, 1, 3) {
						return &CorruptError{File: d.pathOf(indexFile), What: fmt.Sprintf("the row of %s version %d, which is published, has changed", r.Text(0), r.Int64(1))}
					}
					page = append(page, Published{r.Text(0), r.Int(1), r.Text(2)})
					return nil
				}, last.Name, int64(last.Version))
			})
			if err != nil {
				yield(Published{}, err)
				return
			}
			for _, p := range page {
				if name != "" && p.Name != name || !yield(p, nil) {
					return
				}
			}
			if len(page) == 0 {
				return
			}
			last = page[len(page)-1]
		}
	}
}

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

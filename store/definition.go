package store

import (
	"context"
	"fmt"
	"sync"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/memo"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// definitions are the compiled definitions that were asked for.
//
// Everything about a definition goes by the hash of its content, so an entry never becomes
// untrue. stored may lack hashes that pawl.db has, which costs a statement that changes nothing;
// a hash in it that pawl.db lacks would have a run without a definition.
type definitions struct {
	mu     sync.Mutex
	graphs memo.Table[string, *workflow.Graph] // by hash
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
func (d *Dir) AddDefinition(g *workflow.Graph) *workflow.Graph { return d.definitions.addGraph(g) }

// Known returns the compiled definition with a hash if it is remembered; nil if
// it is not.
func (d *Dir) Known(hash string) *workflow.Graph { return d.definitions.graphOf(hash) }

// maxKnown bounds how many definitions are remembered, and how large they are together as JSON; in
// memory they may be 40 times as large. Runs that are active hold their own. maxStored bounds the
// hashes that are remembered as being in pawl.db: 200 bytes each.
var (
	maxKnown  = memo.Bounds{Entries: 1024, Bytes: 8 << 20}
	maxStored = memo.Bounds{Entries: 1 << 14}
)

// addGraph remembers a compiled definition and returns the one to use: that which is remembered under the same hash
// already, if there is one.
func (ds *definitions) addGraph(g *workflow.Graph) *workflow.Graph {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if known, ok := ds.graphs.Get(g.Hash); ok {
		return known
	}
	ds.graphs.Put(g.Hash, g, len(g.JSON), maxKnown)
	return g
}

func (ds *definitions) graphOf(hash string) *workflow.Graph {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	g, _ := ds.graphs.Get(hash)
	return g
}

// storedDocument returns a definition as it is stored.
func (d *Dir) storedDocument(g *workflow.Graph) (string, error) {
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
func (d *Dir) Graph(hash string) (*workflow.Graph, error) {
	return d.GraphUntil(context.Background(), hash)
}

// GraphUntil is Graph until ctx is done, with whose error it fails then.
func (d *Dir) GraphUntil(ctx context.Context, hash string) (*workflow.Graph, error) {
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
func (d *Dir) Publish(g *workflow.Graph) error {
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
func (d *Dir) publishGraph(db *sqlite.Conn, g *workflow.Graph, doc string) error {
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
func (d *Dir) CheckPublish(ctx context.Context, g *workflow.Graph) (known bool, err error) {
	err = d.readIndexUntil(ctx, func(db *sqlite.Conn) (err error) { known, err = d.checkPublish(db, g); return err })
	return known, err
}

// checkPublish reports whether a definition is published under its name and version: the error is ErrPublished if another one is.
//
// It is asked within the transaction that publishes: of two that publish at once one is refused.
func (d *Dir) checkPublish(db *sqlite.Conn, g *workflow.Graph) (known bool, err error) {
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

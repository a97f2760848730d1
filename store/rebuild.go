package store

import (
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Rebuild makes a new directory at into, whole and durable or not at all. The caller's fill
// writes the content into to, which lies at path until it is complete. Rebuild fails with
// ErrNotEmpty if into is anything but a missing or an empty directory, or lies in the
// directory that is inspected.
//
// A repair never changes what is damaged: it makes a directory of what is left, beside it, and
// the old one stays for whoever wants to look again.
func (in *Inspection) Rebuild(into string, fill func(to *Dir, path string) error) error {
	if err := in.dir.CheckOutside(into); err != nil {
		return err
	}
	return newDirectory(nil, into, func(path string) error {
		to, err := Open(path, Options{building: true, Codec: in.dir.options.Codec})
		if err != nil {
			return err
		}
		err = in.keepSecret(to)
		if err == nil {
			err = fill(to, path)
		}
		return errors.Join(err, to.Close())
	})
}

// keepSecret gives the new directory the secret of the inspected one, if that can be read, so
// that the keys of tasks which executors hold stay valid.
func (in *Inspection) keepSecret(to *Dir) error {
	if !in.HasIndex() {
		return nil
	}
	var secret []byte
	err := in.dir.readIndex(func(db *sqlite.Conn) (err error) { secret, err = index.ReadSecret(db); return err })
	if err != nil || secret == nil {
		return nil //nolint:nilerr // it has one of its own
	}
	return to.updateIndex(func(db *sqlite.Conn) error { return index.KeepSecret(db, secret) })
}

// StoreDefinitions stores definitions, as JSON by their hashes.
func (d *Dir) StoreDefinitions(docs map[string]string) error {
	sealed := map[string]string{}
	for hash, doc := range docs {
		text, err := d.sealer.SealText(index.DefinitionPlace(hash), doc)
		if err != nil {
			return err
		}
		sealed[hash] = text
	}
	return d.updateIndex(func(db *sqlite.Conn) error {
		for hash, doc := range sealed {
			if _, err := db.Exec(putDefinition, hash, doc); err != nil {
				return err
			}
		}
		return nil
	})
}

// An Adoption is a run that another directory has kept.
//
// All fields are of the same run, after its last record; whoever repairs has replayed the records
// to get there.
type Adoption struct {
	Entries   []*runfile.Entry  // all of its records, with their large values
	Records   []decision.Record // the same, decoded
	State     *state.State      // after them
	Artifacts []workflow.Artifact
	Listings  Listings // of all records
}

// Adopt commits the records of a run that another directory has kept: without a codec, their
// text and their checksums stay as they are; with one, all are sealed under its key. A child run finds room, whatever its root says. It fails
// as Commit does, and may panic if the fields of a are not of one run.
//
// It is the first commit of r, a handle of Dir.New.
func (r *Run) Adopt(a Adoption) error {
	r.pending, r.adopted = cloneEntries(a.Entries), true
	r.setNext(a.State, a.Records)
	r.next.Artifacts, r.dropped = a.Artifacts, a.State.Status.Final() && len(a.Artifacts) == 0
	r.listings = a.Listings.sorted()
	var err error
	if r.dir.sealer.IsOn() {
		err = r.dir.resealEntries(r.row.Run, r.pending)
	}
	if err == nil {
		err = r.encodeNext()
	}
	if err == nil {
		err = r.commitPending()
	}
	if err != nil {
		return fmt.Errorf("restore run %q: %w", string(r.row.Run), err)
	}
	r.advanceHandle()
	return nil
}

const allReferences = `SELECT hash, coalesce(min(id), '') FROM blob_refs LEFT JOIN runs USING (num) GROUP BY hash`

// References returns the blobs that runs and kept outcomes refer to, by hash, each with a
// run that does, "" if none does.
//
// A repair names those of them that it could not copy.
func (d *Dir) References() (map[string]workflow.RunID, error) {
	out := map[string]workflow.RunID{}
	err := d.readIndex(func(db *sqlite.Conn) error {
		return db.Each(allReferences, func(r *sqlite.Row) error { out[r.Text(0)] = workflow.RunID(r.Text(1)); return nil })
	})
	return out, err
}

// cloneEntries returns records that may be changed without changing others.
func cloneEntries(entries []*runfile.Entry) []*runfile.Entry {
	own, out := make([]runfile.Entry, len(entries)), make([]*runfile.Entry, len(entries))
	for i, e := range entries {
		own[i] = *e
		out[i] = &own[i]
	}
	return out
}

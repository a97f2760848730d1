package store

import (
	"context"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

const (
	putRef = `INSERT INTO blob_refs (hash, num, artifact, crc) VALUES (?, ?, ?, ?)
		ON CONFLICT (hash, num) DO UPDATE SET artifact = excluded.artifact, crc = excluded.crc WHERE excluded.artifact < artifact`
	getRef        = `SELECT 1 FROM blob_refs WHERE hash = ? LIMIT 1`
	dropArtifacts = `DELETE FROM blob_refs WHERE num = ? AND artifact = 1`
)

// findRefs finds the blobs that records refer to.
//
// The references are committed with the records, so that whoever collects blobs knows of them
// from then on. Until then the engine holds those that it has put.
func (r *Run) findRefs(records []decision.Record) {
	r.refs = r.refs[:0]
	for i := range records {
		r.refs = index.AppendRefs(r.refs, &records[i], r.graph)
	}
}

// writeRefs writes down what the commit refers to, and forgets the artifacts of
// a run that has failed.
//
// A blob that is a value as well as an artifact is kept as a value: the statement only ever
// lowers the column artifact.
func (r *Run) writeRefs(db *sqlite.Conn) error {
	for _, ref := range r.refs {
		artifact := int64(0)
		if ref.Artifact {
			artifact = 1
		}
		if _, err := db.Exec(putRef, index.RowWithCRC(ref.Hash, r.row.Num, artifact)...); err != nil {
			return err
		}
	}
	if !r.dropped {
		return nil
	}
	_, err := db.Exec(dropArtifacts, r.row.Num)
	return err
}

// Refers reports whether a run or a kept outcome refers to a blob.
//
// A collection of blobs asks it for each blob, and deletes those that nothing refers to. ctx bounds how long it waits for the commit of a log
// that does not answer.
func (d *Dir) Refers(ctx context.Context, hash string) (bool, error) {
	var found bool
	err := d.readIndexUntil(ctx, func(db *sqlite.Conn) (err error) {
		found, err = db.One(getRef, func(*sqlite.Row) error { return nil }, hash)
		return err
	})
	return found, err
}

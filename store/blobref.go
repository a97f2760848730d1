package store

import (
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
)

// A blobRef is a blob that a run refers to from now on.
type blobRef struct {
	hash     string
	artifact bool // only as an artifact
}

const (
	putRef = `INSERT INTO blob_refs (hash, num, artifact, crc) VALUES (?, ?, ?, ?)
		ON CONFLICT (hash, num) DO UPDATE SET artifact = excluded.artifact, crc = excluded.crc WHERE excluded.artifact < artifact`
	getRef        = `SELECT 1 FROM blob_refs WHERE hash = ? LIMIT 1`
	dropRefs      = `DELETE FROM blob_refs WHERE num = ?`
	dropArtifacts = `DELETE FROM blob_refs WHERE num = ? AND artifact = 1`
)

// findRefs finds the blobs that records refer to. All of them come in by
// messages, but for those in the first state: what is decided only passes them
// on.
func (r *Run) findRefs(records []decision.Record) {
	r.refs = r.refs[:0]
	for i := range records {
		r.refs = appendRefs(r.refs, records[i].Message)
		if _, ok := records[i].Message.(state.Start); ok {
			r.refs = appendRefsOf(r.refs, r.graph.Definition.State.Initial)
		}
	}
}

// appendRefs appends the blobs that a message refers to.
func appendRefs(out []blobRef, m state.Message) []blobRef {
	if done, ok := m.(state.TaskCompleted); ok {
		out = appendRefsOf(out, done.Metadata)
		for _, a := range done.Artifacts {
			out = append(out, blobRef{a.Hash, true})
		}
		if done.Measure != (value.Measure{}) && !done.Measure.Refs {
			return out // it was measured, and has none
		}
	}
	return appendRefsOf(out, messagePayload(m))
}

// appendRefsOf appends the references in a value. What only looks like one, as
// an expression may make it, is passed over: who reads it will say so.
func appendRefsOf(out []blobRef, v any) []blobRef {
	refs, err := blob.Refs(v)
	if err == nil {
		for _, ref := range refs {
			out = append(out, blobRef{ref.Hash, false})
		}
		return out
	}
	if ref, err := blob.ParseRef(v); err == nil {
		return append(out, blobRef{ref.Hash, false})
	}
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			out = appendRefsOf(out, x)
		}
	case []any:
		for _, x := range v {
			out = appendRefsOf(out, x)
		}
	}
	return out
}

// messagePayload returns the value that a message brings, nil if it brings none.
func messagePayload(m state.Message) any {
	switch m := m.(type) {
	case state.Start:
		return m.Input
	case state.TaskCompleted:
		return m.Output
	case state.ChildEnded:
		return m.Output
	case state.Skip:
		return m.Output
	case state.Signal:
		return m.Payload
	case state.Ballot:
		return m.Data
	case state.AddBranch:
		return m.Item
	case state.Patch:
		return m.Ops
	default:
		return nil
	}
}

// writeRefs writes down what the commit refers to, and forgets the artifacts of
// a run that has failed.
func (r *Run) writeRefs(db *sqlite.Conn) error {
	for _, ref := range r.refs {
		artifact := int64(0)
		if ref.artifact {
			artifact = 1
		}
		if _, err := db.Exec(putRef, rowWithCRC(ref.hash, r.row.num, artifact)...); err != nil {
			return err
		}
	}
	if !r.dropped {
		return nil
	}
	_, err := db.Exec(dropArtifacts, r.row.num)
	return err
}

// Refers reports whether a run or a kept outcome refers to a blob.
func (d *Dir) Refers(hash string) (bool, error) {
	var found bool
	err := d.readIndex(func(db *sqlite.Conn) (err error) {
		found, err = db.One(getRef, func(*sqlite.Row) error { return nil }, hash)
		return err
	})
	return found, err
}

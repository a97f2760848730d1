package index

import (
	_ "embed" // the schema
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// The numbers in the header of a pawl.db, and the size of its pages.
const (
	ID       = 0x7061776c // "pawl"
	Version  = 8
	PageSize = 2048 // a commit writes whole pages, for a record of a few hundred bytes
)

//go:embed index.sql
var schema string

// built is what is made of the schema, the same every time, by the first who needs it.
var built struct {
	database atomic.Pointer[[]byte]            // by NewDatabase
	schema   atomic.Pointer[map[string]string] // by builtSchema
}

// NewDatabase returns the bytes of an empty pawl.db, which is ready for a write-ahead log.
func NewDatabase() ([]byte, error) {
	if data := built.database.Load(); data != nil {
		return slices.Clone(*data), nil
	}
	data, err := sqlite.NewDatabase(schema, PageSize, ID, Version)
	if err != nil {
		return nil, err
	}
	sqlite.StampWAL(data) // no journal is needed to get there
	built.database.Store(&data)
	return slices.Clone(data), nil
}

const (
	getEpoch       = `SELECT value FROM meta WHERE key = 'epoch'`
	getEmpty       = `SELECT EXISTS (SELECT 1 FROM runs) OR EXISTS (SELECT 1 FROM definitions) OR EXISTS (SELECT 1 FROM published) OR EXISTS (SELECT 1 FROM outcomes) OR EXISTS (SELECT 1 FROM outbox)`
	getFingerprint = `SELECT count(*), coalesce(sum(seq), 0) FROM runs`
)

// ReadEpoch returns the epoch of the engine that opened a pawl.db last, 0 if none has.
func ReadEpoch(db *sqlite.Conn) (epoch workflow.Epoch, err error) {
	err = db.Each(getEpoch, func(r *sqlite.Row) error { epoch = workflow.Epoch(r.Int64(0)); return nil })
	return epoch, err
}

// IsEmpty reports whether nothing that anybody did is in a pawl.db: no run, no definition, no outcome of a call.
func IsEmpty(db *sqlite.Conn) (empty bool, err error) {
	_, err = db.One(getEmpty, func(r *sqlite.Row) error { empty = r.Int64(0) == 0; return nil })
	return empty, err
}

// FingerprintOf returns how many runs a pawl.db has, and how many records those have had.
// It tells a pawl.db that is damaged from one of an earlier moment.
func FingerprintOf(db *sqlite.Conn) (fingerprint string, err error) {
	_, err = db.One(getFingerprint, func(r *sqlite.Row) error {
		fingerprint = fmt.Sprintf("%d-%d", r.Int64(0), r.Int64(1))
		return nil
	})
	return fingerprint, err
}

package index

import (
	"crypto/sha256"
	_ "embed" // the schema
	_ "embed" // the table
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
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
func ReadEpoch(db *sqlite.Conn) (epoch state.Epoch, err error) {
	err = db.Each(getEpoch, func(r *sqlite.Row) error { epoch = state.Epoch(r.Int64(0)); return nil })
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

//go:embed outbox.sql
var outboxSchema string

const outboxTable = "outbox"

const hasTable = `SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?`

// HasOutbox reports whether a pawl.db has the table of the events that are to be published:
// directories whose engines had no feed are without.
func HasOutbox(db *sqlite.Conn) (bool, error) {
	return db.One(hasTable, func(*sqlite.Row) error { return nil }, outboxTable)
}

// MakeOutbox makes the table of the outbox, unless pawl.db has it.
func MakeOutbox(db *sqlite.Conn) error {
	has, err := HasOutbox(db)
	if err == nil && !has {
		err = db.Script(outboxSchema)
	}
	return err
}

// OutboxPlace returns the place of events of a run; first is the number of the first one.
func OutboxPlace(id workflow.RunID, first int64) string {
	return fmt.Sprintf("events from %d of %s", first, id)
}

// The names below an engine directory.
const (
	File           = "pawl.db"
	WALFile        = "pawl.db-wal"
	SumsFile       = "pawl.db-sums" // of the pages of pawl.db, while an engine has it open
	RedoFile       = "pawl.db-redo" // commits that pawl.db lacks yet, likewise
	TailFile       = "pawl.db-tail" // the last entries of the log outside of the directory, if it has one
	OldTailFile    = "pawl.db-tail.old"
	LockFile       = "LOCK"
	RunsDir        = "runs"    // of the files of runs
	TmpDir         = "tmp"     // of files that are being built
	ReserveFile    = "reserve" // there: room to open the directory on a full disk
	BlobsDir       = "blobs"
	UnfinishedFile = "UNFINISHED" // in a copy, until all else is in it
	RestoredFile   = "RESTORED"   // in a directory that was restored, until it is opened to go on
)

// A Slot is one of the two names between which a run's file alternates, so that
// a file in use is never written over. While the second is in use, the first is another name of
// the same file, for whoever reads files of runs.
type Slot uint8

// Other returns the slot of the next file.
func (s Slot) Other() Slot {
	if s == 1 {
		return 2
	}
	return 1
}

// FileName returns where a run's file is below the directory. Nothing of the id
// but its hash is in it, so any id is safe. The nonce is never used twice: a
// run that is purged and started again has other names.
func FileName(id workflow.RunID, nonce uint64, s Slot) string {
	return FileNameOf(FileHash(id), nonce, s)
}

// FileHash returns what the name of a run's file has of the hash of its id.
func FileHash(id workflow.RunID) [16]byte {
	sum := sha256.Sum256([]byte(id))
	return [16]byte(sum[:16])
}

// FileNameOf is FileName for the hash of an id.
func FileNameOf(hash [16]byte, nonce uint64, s Slot) string {
	var buffer [len(RunsDir) + len("/00/") + 32 + len("-0000000000000000a.db")]byte
	out := append(append(buffer[:0], RunsDir...), '/')
	out = append(hex.AppendEncode(out, hash[:1]), '/')
	out = append(hex.AppendEncode(out, hash[:]), '-')
	out = hex.AppendEncode(out, binary.BigEndian.AppendUint64(nil, nonce))
	return string(append(append(out, " ab"[s]), ".db"...))
}

package index

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"

	"github.com/pawl-run/pawl/workflow"
)

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
	ReserveFile    = "reserve" // there: room for who opens the directory on a disk that is full
	BlobsDir       = "blobs"
	UnfinishedFile = "UNFINISHED" // in a copy, until all else is in it
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
	text := hex.EncodeToString(hash[:])
	return path.Join(RunsDir, text[:2], fmt.Sprintf("%s-%016x%c.db", text, nonce, " ab"[s]))
}

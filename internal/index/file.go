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
	RunsDir        = "runs" // of the files of runs
	TmpDir         = "tmp"  // of files that are being built
	BlobsDir       = "blobs"
	UnfinishedFile = "UNFINISHED" // in a copy, until all else is in it
)

// A Slot is one of the two names between which a run's file alternates, so that
// a file in use is never written over.
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
	sum := sha256.Sum256([]byte(id))
	hash := hex.EncodeToString(sum[:16])
	return path.Join(RunsDir, hash[:2], fmt.Sprintf("%s-%016x%c.db", hash, nonce, " ab"[s]))
}

package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/pawl-run/pawl/workflow"
)

// A lockRecord is the text of the lock file: it says how the last engine has left
// pawl.db. SQLite believes a write-ahead log that is lost or of an older time; the
// lock record shows that it is.
//
// It is written at four moments, each time before what it says can become untrue, or after it has
// become true: when an engine begins to change pawl.db, or migrates it (closed, nothing known),
// when its epoch is durable there (open or synced), when Close has moved the log into pawl.db
// (closed, with the epoch), and when pawl.db is closed (with hash and fingerprint). The zero hash
// and the zero epoch stand for what is not known, which is checked and not compared.
type lockRecord struct {
	state       closingState
	epoch       workflow.Epoch // in pawl.db; 0 if it is not known
	hash        string         // SHA-256 of pawl.db, if it was closed; "" if it is not known
	fingerprint string         // of the runs in it, likewise
}

// A closingState says whether the last engine has closed pawl.db.
//
// The text is a part of the format of a directory.
type closingState string

const (
	// stateClosed also stands for a new directory, about which nothing is known: then there is no
	// epoch.
	stateClosed closingState = "closed"
	stateOpen   closingState = "open"   // an engine has it, or died with it
	stateSynced closingState = "synced" // likewise, and syncs every commit
)

// String returns the text of the lock file.
//
// A record is whole if it parses to one that has the same text: see isLockRecord. So the length
// of the epoch is fixed, and the line ends with a newline.
func (m lockRecord) String() string {
	text := fmt.Sprintf("%s %016x", m.state, uint64(m.epoch))
	if m.hash != "" {
		text += " " + m.hash
	}
	if m.fingerprint != "" {
		text += " " + m.fingerprint
	}
	return text + "\n"
}

// writeLockRecord writes m to the lock file, durably.
//
// It is written in place, since the lock is of the file and not of its name: a new file under the
// name would be one that nobody has locked. A crash in the middle leaves a text that is no
// record, which is read as one that knows nothing, and costs the next Open a full check.
func (d *Dir) writeLockRecord(m lockRecord) error {
	if err := d.lock.Truncate(0); err != nil {
		return err
	}
	d.hook.Hit("mark.torn")
	if _, err := d.lock.WriteAt([]byte(m.String()), 0); err != nil {
		return err
	}
	return d.lock.Sync()
}

// maxLockRecord bounds what is read of the lock file.
const maxLockRecord = 256

// isLockRecord reports whether a text is a whole lock record.
func isLockRecord(text string) bool { return parseLockRecord(text).String() == text }

// readLockRecord reads the lock file. A text that was not written whole, as after a
// crash, is read as that of a new directory.
//
// It is called with the lock, and before anything is written.
func (d *Dir) readLockRecord() (lockRecord, error) {
	text, err := io.ReadAll(io.NewSectionReader(d.lock, 0, maxLockRecord))
	if err != nil {
		return lockRecord{}, err
	}
	return parseLockRecord(string(text)), nil
}

// parseLockRecord parses the text of the lock file. A text that is not a whole lock record
// gives the one of a new directory, about which nothing is known.
//
// The number of an epoch without its last digits would be another epoch, and a whole directory
// would be refused for it. Therefore a text that is cut short is not believed at all.
func parseLockRecord(text string) (m lockRecord) {
	defer func() {
		known := m.state == stateClosed || m.state == stateOpen || m.state == stateSynced
		if !known || m.String() != text { // a part of an epoch is another one
			m = lockRecord{state: stateClosed}
		}
	}()
	var epoch uint64
	_, _ = fmt.Sscanf(text, "%s %x %s %s\n", &m.state, &epoch, &m.hash, &m.fingerprint) // the last may be missing
	m.epoch = workflow.Epoch(epoch)
	if len(m.hash) != hex.EncodedLen(sha256.Size) {
		m.hash = ""
	}
	return m
}

// checkIndexHash fails if pawl.db has changed since it was closed.
//
// Nothing may change a pawl.db that an engine has closed: no editor, no synchronization of files,
// no disk. The sums of the pages are made on the same way through the file, for the mark of this
// life.
func (d *Dir) checkIndexHash(m lockRecord) error {
	if m.state != stateClosed || m.hash == "" {
		return nil
	}
	h := sha256.New()
	var err error
	if d.found, err = d.sumIndex(h); err == nil && hex.EncodeToString(h.Sum(nil)) != m.hash {
		err = &CorruptError{File: d.pathOf(indexFile), What: "it has changed since it was closed"}
	}
	return err
}

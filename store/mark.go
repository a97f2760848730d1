package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/pawl-run/pawl/internal/failpoint"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/workflow"
)

// A mark is what the lock file says about pawl.db. SQLite takes a lost or an
// older write-ahead log for the truth; the mark tells.
type mark struct {
	state markState
	epoch workflow.Epoch // in pawl.db; 0: nothing is said
	hash  string         // SHA-256 of pawl.db, of one that was closed; "": nothing is said
	tally string         // of what is in it, likewise
}

// A markState says how the last engine has left pawl.db.
type markState string

const (
	markClosed markState = "closed"
	markOpen   markState = "open"   // an engine has it, or died with it
	markSynced markState = "synced" // likewise, and syncs every commit
)

// String returns the mark as it stands in the lock file.
func (m mark) String() string {
	text := fmt.Sprintf("%s %016x", m.state, uint64(m.epoch))
	if m.hash != "" {
		text += " " + m.hash
	}
	if m.tally != "" {
		text += " " + m.tally
	}
	return text + "\n"
}

// mark writes m to the lock file, for good.
func (d *Dir) mark(m mark) error {
	if err := d.lock.Truncate(0); err != nil {
		return err
	}
	failpoint.Hit("mark.torn")
	if _, err := d.lock.WriteAt([]byte(m.String()), 0); err != nil {
		return err
	}
	return d.lock.Sync()
}

// readMark reads the lock file. What is not a mark, as after a crash while one
// was written, says nothing.
func (d *Dir) readMark() (mark, error) {
	text, err := io.ReadAll(io.NewSectionReader(d.lock, 0, 256))
	if err != nil {
		return mark{}, err
	}
	return parseMark(string(text)), nil
}

// parseMark reads a mark. What is none, or only a part of one, is as that of a new
// directory.
func parseMark(text string) (m mark) {
	defer func() {
		known := m.state == markClosed || m.state == markOpen || m.state == markSynced
		if !known || m.String() != text { // a part of an epoch is another one
			m = mark{state: markClosed}
		}
	}()
	var epoch uint64
	_, _ = fmt.Sscanf(text, "%s %x %s %s\n", &m.state, &epoch, &m.hash, &m.tally) // the last may be missing
	m.epoch = workflow.Epoch(epoch)
	if len(m.hash) != hex.EncodedLen(sha256.Size) {
		m.hash = ""
	}
	return m
}

// tallyOf returns what tells a pawl.db in which bytes have changed from one of an
// earlier moment: how many runs it has, and how many records those have had.
func tallyOf(db *sqlite.Conn) (tally string, err error) {
	_, err = db.One(tallyRuns, func(r *sqlite.Row) error { tally = fmt.Sprintf("%d-%d", r.Int64(0), r.Int64(1)); return nil })
	return tally, err
}

const tallyRuns = `SELECT count(*), coalesce(sum(seq), 0) FROM runs`

// checkHash finds that pawl.db has changed since it was closed.
func (d *Dir) checkHash(m mark) error {
	if m.state != markClosed || m.hash == "" {
		return nil
	}
	hash, err := d.hashFile(indexFile)
	if err == nil && hash != m.hash {
		err = &CorruptError{File: d.at(indexFile), What: "it has changed since it was closed"}
	}
	return err
}

// checkSpent finds a write-ahead log beside a pawl.db that was closed, and so has
// everything in it, that would change it: an older one, or another program's. The
// last log itself may be back: that it was removed need not be durable.
func (d *Dir) checkSpent(m mark) error {
	if m.state != markClosed || m.hash == "" {
		return nil
	}
	log, err := d.readFile(indexWAL)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	db, err := d.openRegular(indexFile)
	if err != nil {
		return err
	}
	changes := false
	info, err := db.Stat()
	if err == nil {
		changes, err = sqlite.WALChanges(log, db, info.Size())
	}
	_ = db.Close() // it was only read
	if changes {
		return &CorruptError{File: d.at(indexWAL), What: "it is not the log of the pawl.db that was closed, and would change it"}
	}
	return err
}

// hashFile returns the SHA-256 of a file, in hexadecimal.
func (d *Dir) hashFile(name string) (string, error) {
	sum, _, err := d.sumFile(name)
	return hex.EncodeToString(sum[:]), err
}

// sumFile returns the SHA-256 of a file, and its size.
func (d *Dir) sumFile(name string) (sum [sha256.Size]byte, size int, err error) {
	f, err := d.openRegular(name)
	if err != nil {
		return sum, 0, err
	}
	h := sha256.New()
	n, err := pace.Copy(h, f)
	_ = f.Close() // it was only read
	h.Sum(sum[:0])
	return sum, int(n), err
}

func hashOf(r io.Reader) (string, error) {
	h := sha256.New()
	_, err := pace.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), err
}

// checkLog finds that the write-ahead log was deleted or damaged: one is there
// from the first commit of an engine until it closes.
func (d *Dir) checkLog(m mark) error {
	if m.state == markClosed {
		return nil
	}
	log, err := d.readFile(indexWAL)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &CorruptError{File: d.at(indexWAL), What: "it is missing, but the last engine did not close"}
	case err != nil:
		return err
	case m.state != markSynced:
		return nil // the order of its frames on disk tells nothing
	}
	if err := sqlite.CheckWAL(log); err != nil {
		return &CorruptError{File: d.at(indexWAL), What: "commits would be lost", Err: err}
	}
	return nil
}

// checkEpoch finds that pawl.db, or its write-ahead log, is an older one, or,
// where no hash tells, that its pages do not agree. It changes neither.
func (d *Dir) checkEpoch(m mark) error {
	unsealed := m.hash == ""
	if m.epoch == 0 && !unsealed {
		return nil
	}
	found, wrong, err := d.probeEpoch(unsealed)
	switch {
	case err != nil:
	case wrong != "":
		err = &CorruptError{File: d.at(indexFile), What: wrong}
	case m.epoch != 0 && found != m.epoch:
		err = &CorruptError{File: d.at(indexFile), What: fmt.Sprintf("it is of another time: its epoch is %v, not %v", found, m.epoch)}
	}
	return d.indexError(err)
}

// probeEpoch is readEpoch, and fails with SQLite's own error if somebody has
// locked pawl.db. It changes neither pawl.db nor its write-ahead log.
func (d *Dir) probeEpoch(check bool) (found workflow.Epoch, wrong string, err error) {
	log, err := d.has(indexWAL)
	if err != nil {
		return 0, "", err // the log may be there
	}
	found, wrong, err = d.readEpoch(check)
	// A reader leaves shared memory behind, and an empty log if there was none.
	litter := []string{indexFile + "-shm"}
	if !log {
		litter = append(litter, indexWAL)
	}
	for _, name := range litter {
		if gone := d.root.Remove(name); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return found, wrong, err
}

// readEpoch returns the epoch in pawl.db, 0 if there is none, and, if it is asked
// for, what is wrong with it.
func (d *Dir) readEpoch(check bool) (found workflow.Epoch, wrong string, err error) {
	db, err := sqlite.OpenReadOnly(d.at(indexFile), `PRAGMA busy_timeout=0; PRAGMA cell_size_check=ON;`)
	if err != nil {
		return 0, "", err
	}
	if check {
		wrong, err = indexIntegrity(db)
		if err == nil && wrong == "" {
			wrong, err = changedRow(db)
		}
	}
	if err == nil && wrong == "" {
		err = db.Each(getEpoch, func(r *sqlite.Row) error {
			found = workflow.Epoch(r.Int64(0))
			return nil
		})
	}
	if closed := db.Close(); err == nil {
		err = closed
	}
	return found, wrong, err
}

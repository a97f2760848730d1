package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// ErrNoBase says that nothing can be restored: the log names no base that is old enough.
var ErrNoBase = errors.New("there is no base to begin with")

// errNoPlace says that a nil was given.
var errNoPlace = errors.New("the context, the log or the store of bases is nil")

// RestoreOptions say what to restore.
type RestoreOptions struct {
	Log   Log        // that Follow wrote
	Bases blob.Store // likewise
	At    time.Time  // as of when; zero: the last moment there is
	Codec Codec      // of the directory's blobs; nil without one
}

// A RestoreInfo says what was restored.
type RestoreInfo struct {
	Position Position  `json:"position"` // of the last entry that is in it
	At       time.Time `json:"at"`       // as of when the directory is
	Base     time.Time `json:"base"`     // when the base was made
	Runs     int       `json:"runs"`
	Files    int       `json:"files"` // of runs
	Blobs    int       `json:"blobs"`
	Changes  int       `json:"changes"` // transactions that came after the base
	// Damaged names the files, rows and blobs that the restored directory lacks: those that were
	// damaged in the original when the base was made, and those whose copies are damaged now.
	Damaged []string `json:"damaged,omitempty"`
}

// Restore makes an engine directory of what [Dir.Follow] has kept, as of a moment, in a new
// directory: into must not exist, or be an empty one, or it fails with ErrNotEmpty. If it
// fails nothing is there under that name. It fails with ErrNoBase, and with ErrCorrupt if
// the base that it begins with is damaged, or an entry of the log that may be needed: one
// that stands before what the base goes on from is not, nor is one behind entries of later than At.
//
// The runs go on from that moment when the directory is opened: what was done later is done
// again. Open it only when the original is not open any more.
func Restore(ctx context.Context, into string, o RestoreOptions) (RestoreInfo, error) {
	r := &restorer{o: o}
	err := errNoPlace
	if ctx != nil && o.Log != nil && o.Bases != nil {
		err = r.plan(ctx)
	}
	if err == nil {
		err = newDirectory(nil, into, func(building string) error { return r.fill(ctx, building) })
	}
	if err != nil {
		return RestoreInfo{}, fmt.Errorf("restore into %s: %w", into, typedError(err))
	}
	return r.info, nil
}

// A restorer is a restoration under way.
//
// plan fills base, after, until and manifest, and fill uses them. With stay only the base is
// written, and the directory goes on with its log when it is opened.
type restorer struct {
	o        RestoreOptions
	base     *logEntry // that it begins with
	after    Position  // the last entry before those that it needs
	until    int64     // number of the last transaction that is restored
	manifest *manifest
	info     RestoreInfo
	stay     bool // the directory goes on with the log that it comes from

	damage    error  // an entry that may be needed cannot be read
	damagedAt uint64 // its number
}

// plan finds the last base that is old enough, and the entries with what came after it.
//
// It reads the log twice: to find the base, and then, behind that, how far the entries go on
// without a gap. Damage counts if it stands behind the entry that the base goes on from, and
// before the moment to restore.
func (r *restorer) plan(ctx context.Context) error {
	mark := Position{} // as keptBase.before
	past := false      // what comes now is of later than what is restored
	err := readLog(ctx, r.o.Log, Position{}, func(p Position, e *logEntry) error {
		if e.kind != entryDamaged && !r.o.At.IsZero() && e.at.After(r.o.At) {
			if past = true; e.kind == entryBase {
				return nil
			}
		}
		switch e.kind {
		case entryOpen, entryAnew:
			mark = p
		case entryBase:
			if r.base, r.after = e, mark; r.damagedAt <= mark.Seq {
				r.damage = nil // that served to go back further
			}
			mark = p
		case entryDamaged:
			if !past {
				r.damagedAt, r.damage = p.Seq, e.damage
			}
		case entryChanges, entryCommit:
		}
		return nil
	})
	if err == nil {
		err = r.damage
	}
	if err == nil && r.base == nil {
		err = ErrNoBase
	}
	if err != nil {
		return err
	}
	next := r.base.number + 1
	err = readLog(ctx, r.o.Log, r.after, func(p Position, e *logEntry) error {
		switch {
		case e.kind == entryBase && e.base == r.base.base:
			r.info.Position = p
		case r.isNeeded(e, next):
			next = e.number + int64(len(e.changes))
			r.info.Position, r.info.At = p, e.at
		}
		return nil
	})
	r.until = next - 1
	r.info.Changes, r.info.Base = int(r.until-r.base.number), r.base.at
	if r.info.At.Before(r.base.at) {
		r.info.At = r.base.at
	}
	if err == nil {
		r.manifest, err = readManifest(ctx, r.o.Bases, r.base.base)
	}
	return err
}

// isNeeded reports whether an entry has the next transaction.
//
// An entry may overlap with the base, which was made while the entry waited: only its later
// transactions are executed then. Transactions of another life have numbers of their own.
func (r *restorer) isNeeded(e *logEntry, next int64) bool {
	return e.kind == entryChanges && e.epoch == r.base.epoch && (r.o.At.IsZero() || !e.at.After(r.o.At)) &&
		e.number <= next && e.number+int64(len(e.changes)) > next
}

// fill makes the directory.
//
// The order is that pawl.db comes first, and is brought to its moment; then it says which files
// and blobs are to be there. The lock record comes last and is that of a directory which was
// closed, so that Open compares pawl.db with its hash.
func (r *restorer) fill(ctx context.Context, building string) error {
	r.info.Damaged = append(r.info.Damaged, r.manifest.Broken...)
	path := filepath.Join(building, indexFile)
	if err := r.writeIndex(ctx, path); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(building, runsDir), 0o700); err != nil {
		return err
	}
	db, err := sqlite.Open(path, restorePragmas)
	if err != nil {
		return err
	}
	if err = r.replayAll(ctx, db); err == nil {
		err = r.writeFiles(ctx, db, building)
	}
	if err == nil {
		err = r.writeBlobs(ctx, db, building)
	}
	if err == nil {
		err = db.Script(`PRAGMA wal_checkpoint(TRUNCATE)`)
	}
	if err == nil {
		err = writeClosedRecord(db, building)
	}
	if closed := db.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = syncPath(path)
	}
	return err
}

// restorePragmas prepare a database that nobody trusts before it is synced and named.
const restorePragmas = `PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE; PRAGMA temp_store=MEMORY;
PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON;`

// noteBased notes in the pawl.db of a base that its log has one, which it was made before.
func noteBased(db *sqlite.Conn) error {
	place, has, err := index.ReadLogPlace(db)
	if err != nil || !has {
		return err
	}
	place.Based = true
	return index.KeepLogPlace(db, place)
}

// replayAll executes what came after the base, of a directory that had a follower or was a remote
// one.
//
// A remote directory says by its place what it has; one that was followed counts transactions.
func (r *restorer) replayAll(ctx context.Context, db *sqlite.Conn) error {
	switch {
	case r.stay: // Open executes the rest
		return noteBased(db)
	case !r.manifest.Remote:
		return errors.Join(r.replayChanges(ctx, db), index.DropLogPlace(db))
	}
	place, _, err := index.ReadLogPlace(db)
	if err != nil {
		return err
	}
	if err := index.MakeOutbox(db); err != nil {
		return err
	}
	c := replayer{db: db, place: place, former: r.base.epoch, removed: map[string]bool{}}
	if err := c.replayLog(ctx, r.o.Log, r.o.At); err != nil && !errors.Is(err, errAnew) {
		return err
	}
	r.info.Position, r.info.Changes = Position{c.place.Seq, c.place.Sum}, c.count
	if c.at.After(r.info.At) {
		r.info.At = c.at
	}
	return index.DropLogPlace(db)
}

// replayChanges executes what came after the base.
func (r *restorer) replayChanges(ctx context.Context, db *sqlite.Conn) error {
	next := r.base.number + 1
	return readLog(ctx, r.o.Log, r.after, func(p Position, e *logEntry) error {
		if next > r.until || !r.isNeeded(e, next) {
			return nil
		}
		for i, tape := range e.changes {
			if e.number+int64(i) != next {
				continue // the base has it
			}
			if err := replayTape(db, tape); err != nil {
				return &CorruptError{File: nameOfEntry(p.Seq), What: "it does not fit the base", Err: err}
			}
			next++
		}
		return nil
	})
}

// replayTape executes the statements of one transaction.
//
// replayTape leaves the transaction open if it fails: its caller gives the directory up.
func replayTape(db *sqlite.Conn, tape []byte) error {
	if _, err := db.Exec(begin); err != nil {
		return err
	}
	if err := db.PlayTape(tape, isTrim); err != nil {
		return err
	}
	_, err := db.Exec(commit)
	return err
}

// isTrim reports whether a statement deletes records: the copy may have more of them,
// because the original has brought files up to date since.
func isTrim(text string) bool { return text == deleteLog || text == dropPurged }

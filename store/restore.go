package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// ErrNoBase says that nothing can be restored: the log names no base that is old enough.
var ErrNoBase = errors.New("there is no base to begin with")

// errNoPlace says that a nil was given.
var errNoPlace = errors.New("the context, the log or the store of bases is nil")

// RestoreOptions say what to restore.
type RestoreOptions struct {
	Log   Log
	Bases blob.Store
	At    time.Time
	Codec Codec
}

// A RestoreInfo says what was restored.
type RestoreInfo struct {
	Position Position
	At       time.Time
	Base     time.Time
	Runs     int
	Files    int
	Blobs    int
	Changes  int
	Damaged  []string
}

// Restore makes an engine directory of what [Dir.Follow] has kept, as of a moment, in a new directory, which has the mark of one that was restored
// before it has its name: into must not exist, or be an empty one, or it fails with ErrNotEmpty. If it fails nothing is there under that name. It
// fails with ErrNoBase, and with ErrCorrupt if the base that it begins with is damaged, or an entry of the log that may be needed: one that stands
// before what the base goes on from is not, nor is one behind entries of later than At.
//
// The runs go on from that moment when the directory is opened: what was done later is done again. Open it only when the original is not open any more.
func Restore(ctx context.Context, into string, o RestoreOptions) (RestoreInfo, error) {
	r := &restorer{o: o}
	err := errNoPlace
	if ctx != nil && o.Log != nil && o.Bases != nil {
		err = r.plan(ctx)
	}
	if err == nil {
		err = newDirectory(nil, into, func(building string) error {
			return errors.Join(r.fill(ctx, building), index.WriteMark(building, r.info.At))
		})
	}
	if err != nil {
		return RestoreInfo{}, fmt.Errorf("restore into %s: %w", into, typedError(err))
	}
	return r.info, nil
}

// A restorer is a restoration under way.
//
// plan fills base, after, until and manifest, and fill uses them. With stay only the base is written, and the directory goes on with its log when it is opened.
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
// It reads the log twice: to find the base, and then, behind that, how far the entries go on without a gap. Damage counts if it stands behind the
// entry that the base goes on from, and before the moment to restore.
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
// The order is that pawl.db comes first, and is brought to its moment; then it says which files and blobs are to be there. The lock record comes last
// and is that of a directory which was closed, so that Open compares pawl.db with its hash.
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

// replayAll executes what came after the base, of a directory that had a follower or was a remote one.
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
	r.info.Position, r.info.Changes = Position{Seq: c.place.Seq, Sum: c.place.Sum}, c.count
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

// isTrim reports whether a statement deletes records: the copy may have more of them, because the original has brought files up to date since.
func isTrim(text string) bool { return text == deleteLog || text == dropPurged }

// RestoreBackup makes an engine directory of one that Backup has made, which is only read: a copy of all of its files, in a new directory as
// Restore has it. No engine may have the backup open: it fails with ErrLocked then. It fails with ErrNotEmpty too if into is in the backup,
// and with ErrCorrupt if that was not finished; a symbolic link in it is refused. The contents of the files are for a verification to look at.
func RestoreBackup(ctx context.Context, from, into string, c Codec) (info RestoreInfo, err error) {
	in, err := Inspect(from, c) // which keeps engines away from it
	if err != nil {
		return info, fmt.Errorf("restore %s: %w", from, err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	// A copy that is built inside of what it is made of would be copied into itself without end.
	if err := errors.Join(in.dir.checkFinished(), in.dir.CheckOutside(into)); err != nil {
		return info, fmt.Errorf("restore %s: %w", from, err)
	}
	err = newDirectory(nil, into, func(building string) error {
		to, err := os.OpenRoot(building)
		if err != nil {
			return err
		}
		defer func() { _ = to.Close() }()
		return errors.Join(copyBackup(ctx, in.dir.root, to, &info), index.WriteMark(building, time.Time{}))
	})
	if err != nil {
		return RestoreInfo{}, fmt.Errorf("restore into %s: %w", into, typedError(err))
	}
	ids, _ := in.RunIDs() // an index that is damaged is for a verification to look at
	info.Runs = len(ids)
	return info, nil
}

// copyBackup copies all files of a directory, and counts those of runs and the blobs. The names are synced by newDirectory.
func copyBackup(ctx context.Context, from, to *os.Root, info *RestoreInfo) error {
	return fs.WalkDir(from.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return late.Cause(ctx)
		case name == ".":
			return nil
		case e.IsDir():
			return to.Mkdir(name, 0o700)
		case e.Type()&fs.ModeSymlink != 0: // it may lead to the blobs
			return fmt.Errorf("%s is a symbolic link, and nothing behind it would be restored: put there what it leads to", name)
		case !e.Type().IsRegular(): // such as the socket of an engine that has ended
			return nil
		}
		switch first, _, _ := strings.Cut(filepath.ToSlash(name), "/"); first {
		case runsDir:
			info.Files++
		case "blobs":
			info.Blobs++
		}
		return copySyncedFile(from, to, name)
	})
}

// copySyncedFile copies one file to the same name, durably.
func copySyncedFile(from, to *os.Root, name string) error {
	r, err := from.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was only read
	w, err := to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return fillSynced(w, r)
}

// writeIndex writes pawl.db as the base has it.
//
// The chunks are read by their hashes, so what is put together is what the base had, or fails.
func (r *restorer) writeIndex(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	for _, hash := range r.manifest.Index {
		data, err := readBlob(ctx, r.o.Bases, hash)
		if err == nil {
			_, err = f.Write(data)
		}
		if err != nil {
			_ = f.Close() // err is what the caller has to know
			return damagedBase(hash, err)
		}
	}
	return f.Close()
}

// damagedBase returns the error of a part of a base that cannot be read.
func damagedBase(hash string, err error) error {
	if errors.Is(err, blob.ErrMissing) || errors.Is(err, blob.ErrDamaged) {
		return &CorruptError{File: hash, What: "a part of the base", Err: err}
	}
	return err
}

// writeFiles writes the files of runs that the index names.
//
// A run whose file cannot be had is restored without: it is told in RestoreInfo.Damaged, and the
// run is found damaged when it is loaded. All others are as they were.
func (r *restorer) writeFiles(ctx context.Context, db *sqlite.Conn, building string) error {
	hashes := make(map[string]string, len(r.manifest.Files))
	for _, f := range r.manifest.Files {
		hashes[f.Name] = f.Hash
	}
	return db.Each(allRows, func(x *sqlite.Row) error {
		row := index.ScanRow(x)
		r.info.Runs++
		hash, ok := hashes[row.File]
		if !ok { // it has none, or one that was damaged
			return nil
		}
		err := r.writeFile(ctx, hash, filepath.Join(building, filepath.FromSlash(row.File)))
		if errors.Is(err, blob.ErrMissing) || errors.Is(err, blob.ErrDamaged) {
			r.info.Damaged = append(r.info.Damaged, fmt.Sprintf("the file of run %q: %v", string(row.Run), err))
			return nil
		}
		r.info.Files++
		return err
	})
}

// writeFile copies the base's file with this hash to path, durably. If that fails, there is no file at path.
func (r *restorer) writeFile(ctx context.Context, hash, path string) error {
	from, err := r.o.Bases.Open(ctx, hash)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // it is only read
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = fillSynced(to, from); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// writeBlobs writes the blobs that the index refers to.
//
// Each blob is written once, however many runs refer to it: the rows come in the order of their hashes.
func (r *restorer) writeBlobs(ctx context.Context, db *sqlite.Conn, building string) error {
	if !r.manifest.Whole {
		return nil
	}
	to, err := blob.OpenFiles(filepath.Join(building, blobsDir), blob.Options{Codec: r.o.Codec})
	if err != nil {
		return err
	}
	last := ""
	err = db.Each(allRefRows, func(x *sqlite.Row) error {
		hash := x.Text(0)
		if hash == last {
			return nil
		}
		last = hash
		err := copyBlob(ctx, r.o.Bases, to, hash)
		if errors.Is(err, blob.ErrMissing) || errors.Is(err, blob.ErrDamaged) {
			r.info.Damaged = append(r.info.Damaged, err.Error())
			return nil
		}
		r.info.Blobs++
		return err
	})
	return errors.Join(err, to.Close())
}

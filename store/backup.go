package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// ErrNotEmpty says that a new directory cannot be made where something is.
var ErrNotEmpty = errors.New("there is something already")

// A BackupInfo says what is in a backup.
type BackupInfo struct {
	Path  string
	Runs  int   // in the index
	Files int   // of runs; a run has none before it was flushed first
	Blobs int   // that the index refers to, if the directory keeps them
	Bytes int64 // of all of it
	// Damaged says what could not be copied because it is damaged or missing
	// where it was copied from: of type *CorruptError, *VersionError or
	// *blob.Error. The backup is like the original there, and whole otherwise.
	Damaged []error
}

// stepPages is how many pages of pawl.db are copied between two commits.
const stepPages = 128 << 10 / index.PageSize

// Backup makes a copy of the directory as it is at one moment, between two
// commits, in a new directory: into must not exist, or be an empty one, or it
// fails with ErrNotEmpty; it may not lie below this one. Commits and flushes go
// on meanwhile; only a run that is flushed for the second time waits for its file,
// and commits wait if there are thousands of those. From blobs, which may be nil, the backup copies
// those that the copy refers to; the caller keeps them from being deleted. Backups are made one at a
// time. A backup that fails, or ends early because ctx does or with ErrClosed, leaves nothing under
// the name; a crash leaves a folder beside it with the name and .partial- in it, which Open refuses:
// it holds a file UNFINISHED until everything else is there and durable. The next backup takes nothing
// over from that folder.
//
// The backup has every commit up to the moment at which the copy of pawl.db is complete; each
// file that the copy names is held until it is copied. A backup of a remote directory has no
// log: it is a directory of its own.
func (d *Dir) Backup(ctx context.Context, into string, blobs blob.Store) (BackupInfo, error) {
	if ctx == nil {
		return BackupInfo{}, errors.New("back up: the context is nil")
	}
	select {
	case d.backing <- struct{}{}:
		defer func() { <-d.backing }()
	case <-d.closing:
		return BackupInfo{}, ErrClosed
	case <-ctx.Done():
		return BackupInfo{}, context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // until the backup has ended
		select {
		case <-d.closing:
			cancel(ErrClosed)
		case <-ctx.Done():
		}
	}()
	if err := d.CheckOutside(into); err != nil {
		return BackupInfo{}, fmt.Errorf("back up: %w", err)
	}
	d.hook.Hit("backup.begin")
	b := &backup{dir: d, blobs: blobs, info: BackupInfo{Path: into}}
	if err := newDirectory(d.hook, into, func(building string) error { return b.copyDirectory(ctx, building) }); err != nil {
		return BackupInfo{}, fmt.Errorf("back up into %s: %w", into, typedError(err))
	}
	return b.info, nil
}

// CheckOutside fails with ErrNotEmpty if a path is the directory itself or lies in it: whoever lost the
// directory would lose a copy there as well. It fails with ErrClosed once the directory is closed.
func (d *Dir) CheckOutside(into string) error {
	abs, err := filepath.Abs(into)
	if err != nil {
		return err
	}
	ours, err := d.root.Stat(".")
	if errors.Is(err, fs.ErrClosed) {
		return ErrClosed
	}
	if err != nil {
		return err
	}
	for at := abs; ; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil && os.SameFile(info, ours) {
			return fmt.Errorf("%w: %s is in the directory itself", ErrNotEmpty, into)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// A backup is the state of one call of Backup: what it copies from, and what it has copied so far.
type backup struct {
	dir   *Dir
	blobs blob.Store
	info  BackupInfo
}

// copyDirectory fills the folder building: first pawl.db, then whatever the rows in that copy name, so that the
// backup is as of one moment although commits go on. Meanwhile the flusher removes no file of a run that the copy
// may still name.
func (b *backup) copyDirectory(ctx context.Context, building string) error {
	d := b.dir
	d.flusher.holdFiles()
	defer d.flusher.releaseFiles(d.removeReleased)
	if err := d.copyIndex(ctx, filepath.Join(building, indexFile), func() {}); err != nil {
		return err
	}
	d.hook.Hit("backup.index")
	if d.remote != nil {
		if err := detachIndex(filepath.Join(building, indexFile)); err != nil {
			return err
		}
	}
	copied, err := sqlite.OpenReadOnly(filepath.Join(building, indexFile), `PRAGMA trusted_schema=OFF`)
	if err != nil {
		return err
	}
	err = b.copyAll(ctx, copied, building)
	if closed := copied.Close(); err == nil {
		err = closed
	}
	for _, litter := range []string{indexWAL, indexFile + "-shm"} { // SQLite leaves them behind when it reads the copy
		if gone := os.Remove(filepath.Join(building, litter)); err == nil && !errors.Is(gone, fs.ErrNotExist) {
			err = gone
		}
	}
	if err != nil {
		return err
	}
	if err := syncPath(filepath.Join(building, indexFile)); err != nil {
		return err
	}
	d.hook.Hit("backup.filled")
	return b.sumBytes(building)
}

// copyIndex copies pawl.db, some pages at a time: commits go on in between. It calls copied
// when the copy is complete, before the next commit.
//
// SQLite copies through the connection of the engine, so a commit in between is taken up by the
// copy, and the copying need not begin anew. The file is made before, since SQLite would make it
// readable for others.
func (d *Dir) copyIndex(ctx context.Context, to string, copied func()) error {
	err := writeSynced(to, nil) // SQLite would let others read it
	if err != nil {
		return err
	}
	resume, err := d.pauseRedo(ctx)
	if err != nil {
		return err
	}
	defer resume()
	var copying *sqlite.Backup
	err = d.readIndex(func(db *sqlite.Conn) (err error) { copying, err = db.Backup(to); return err })
	if err != nil {
		return err
	}
	for more := true; more && err == nil; {
		d.hook.Hit("backup.pages")
		if err = context.Cause(ctx); err == nil {
			err = d.readIndex(func(*sqlite.Conn) (err error) {
				if more, err = copying.Step(stepPages); err == nil && !more {
					copied()
				}
				return err
			})
		}
	}
	d.mu.Lock() // also if nothing works any more
	defer d.mu.Unlock()
	if finished := copying.Finish(); err == nil {
		err = finished
	}
	return err
}

// detachIndex makes a pawl.db that nobody has open one without a log.
func detachIndex(path string) error {
	db, err := sqlite.Open(path, restorePragmas)
	if err != nil {
		return err
	}
	if err = index.DropLogPlace(db); err == nil {
		err = db.Script(`PRAGMA wal_checkpoint(TRUNCATE)`)
	}
	return errors.Join(err, db.Close())
}

// copyAll copies the files and blobs that a copy of the index names, and writes the lock
// record.
func (b *backup) copyAll(ctx context.Context, copied *sqlite.Conn, building string) error {
	if err := b.copyFiles(ctx, copied, building); err != nil {
		return err
	}
	if err := b.checkTables(copied); err != nil {
		return err
	}
	if err := b.copyBlobs(ctx, copied, building); err != nil {
		return err
	}
	b.dir.hook.Hit("backup.mark")
	return writeClosedRecord(copied, building)
}

// writeClosedRecord writes the lock record of a directory that was closed, for the pawl.db
// in a folder, which c has open and nobody changes any more.
//
// So the copy is opened like a directory that was closed, and every change of it is noticed.
func writeClosedRecord(c *sqlite.Conn, folder string) error {
	epoch, err := index.ReadEpoch(c)
	if err != nil {
		return err
	}
	fingerprint, err := index.FingerprintOf(c)
	if err != nil {
		return err
	}
	data, err := os.Open(filepath.Join(folder, indexFile))
	if err != nil {
		return err
	}
	hash, err := hashOf(data)
	_ = data.Close() // it was only read
	if err != nil {
		return err
	}
	return writeSynced(filepath.Join(folder, lockName), []byte(lockRecord{stateClosed, epoch, hash, fingerprint}.String()))
}

const allRows = index.RunColumns + `ORDER BY num`

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
// and commits wait if there are thousands of those. Of blobs, which may be nil, the
// backup copies those that the copy refers to; the caller keeps them from being
// deleted. Backups are made one at a time. A backup that fails, or ends early because
// ctx does or with ErrClosed, leaves nothing under the name; a crash leaves a folder
// beside it with the name and .partial- in it, which Open refuses: it holds a file
// UNFINISHED until everything else is there and durable.
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
func (d *Dir) copyIndex(ctx context.Context, to string, copied func()) error {
	err := writeSynced(to, nil) // SQLite would let others read it
	if err != nil {
		return err
	}
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

// copyFiles copies the file of each run in the copied index. Damage of a row or of a file is noted in the report,
// and does not keep the others from being backed up; a damaged file is left out.
func (b *backup) copyFiles(ctx context.Context, copied *sqlite.Conn, building string) error {
	if err := os.Mkdir(filepath.Join(building, runsDir), 0o700); err != nil {
		return err
	}
	return copied.Each(allRows, func(r *sqlite.Row) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		row := index.ScanRow(r)
		b.info.Runs++
		if err := b.dir.decodeRow(&row); err != nil {
			b.info.Damaged = append(b.info.Damaged, err)
		}
		if row.File == "" {
			return nil
		}
		return b.copyFile(&row, building)
	})
}

// checkTables takes note of rows that have changed, in the tables but that of the runs.
func (b *backup) checkTables(copied *sqlite.Conn) error {
	for i := range index.CheckedTables {
		c := &index.CheckedTables[i]
		err := c.EachRow(copied, func(r *sqlite.Row) error {
			if wrong := c.DescribeChange(r); wrong != "" {
				b.info.Damaged = append(b.info.Damaged, &CorruptError{File: b.dir.pathOf(indexFile), What: wrong})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies the file of a run, if it is what the index says.
func (b *backup) copyFile(r *index.Row, building string) error {
	to := filepath.Join(building, filepath.FromSlash(r.File))
	err := b.dir.copyRunFile(r, func() (*os.File, error) {
		if err := os.Mkdir(filepath.Dir(to), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		return os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	})
	if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion) {
		b.info.Damaged = append(b.info.Damaged, err)
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err != nil {
		return err
	}
	b.info.Files++
	b.dir.hook.Hit("backup.file")
	return syncPath(to)
}

// blobsDir is the folder of the blobs, which package pawl opens.
const blobsDir = index.BlobsDir

const allRefRows = `SELECT hash, num, artifact, crc FROM blob_refs ORDER BY hash`

// copyBlobs copies each blob that the copied index refers to, once. A blob that is missing or damaged is noted in
// the report.
func (b *backup) copyBlobs(ctx context.Context, copied *sqlite.Conn, building string) error {
	if b.blobs == nil {
		return nil
	}
	to, err := blob.OpenSealed(filepath.Join(building, blobsDir), b.dir.options.Codec)
	if err != nil {
		return err
	}
	last := ""
	err = copied.Each(allRefRows, func(r *sqlite.Row) error {
		hash := r.Text(0)
		if hash == last || !index.CRCMatches(r, 1, 3) {
			return nil
		}
		last = hash
		if err := context.Cause(ctx); err != nil {
			return err
		}
		b.dir.hook.Hit("backup.blob")
		err := copyBlob(ctx, b.blobs, to, hash)
		switch {
		case err == nil:
			b.info.Blobs++
		case errors.Is(err, blob.ErrMissing) || errors.Is(err, blob.ErrDamaged):
			b.info.Damaged = append(b.info.Damaged, err)
		default:
			return err
		}
		return nil
	})
	return errors.Join(err, to.Close())
}

// copyBlob copies a blob, whole or not at all.
func copyBlob(ctx context.Context, from, to blob.Store, hash string) error {
	r, err := from.Open(ctx, hash)
	if err != nil {
		return err
	}
	_, _, err = to.Put(ctx, r)
	_ = r.Close() // it was only read
	return err
}

// sumBytes adds up the bytes.
func (b *backup) sumBytes(building string) error {
	return filepath.WalkDir(building, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || e.Name() == unfinishedFile {
			return err
		}
		info, err := e.Info()
		if err == nil {
			b.info.Bytes += info.Size()
		}
		return err
	})
}

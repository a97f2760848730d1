package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// ErrNotEmpty says that a new directory cannot be made where something is.
var ErrNotEmpty = errors.New("there is something already")

// A BackupInfo says what is in a backup.
type BackupInfo struct {
	Path    string
	Runs    int
	Files   int
	Blobs   int
	Bytes   int64
	Damaged []error
}

// stepPages is how many pages of pawl.db are copied between two commits.
const stepPages = 128 << 10 / index.PageSize

// Backup makes a copy of the directory as it is at one moment, between two commits, in a new directory: into must not exist, or be an empty one, or
// it fails with ErrNotEmpty; it may not lie below this one. Commits and flushes go on meanwhile; only the file of a run that is flushed for the second
// time is written when the backup has ended. From blobs, which may be nil, the backup copies those that the copy refers to; the
// caller keeps them from being deleted. Backups are made one at a time. A backup that fails, or ends early because ctx does or with ErrClosed, leaves
// nothing under the name; a crash leaves a folder beside it with the name and .partial- in it, which Open refuses: it holds a file UNFINISHED until
// everything else is there and durable. The next backup takes nothing over from that folder.
//
// The backup has every commit up to the moment at which the copy of pawl.db is complete; each file that the copy names is held until it is copied. A
// backup of a remote directory has no log: it is a directory of its own.
func (d *Dir) Backup(ctx context.Context, into string, blobs blob.Store) (BackupInfo, error) {
	select {
	case d.backing <- struct{}{}:
		defer func() { <-d.backing }()
	case <-d.closing:
		return BackupInfo{}, ErrClosed
	case <-ctx.Done():
		return BackupInfo{}, late.Cause(ctx)
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
	ours, err := d.root.Stat(".")
	if errors.Is(err, fs.ErrClosed) {
		return ErrClosed
	}
	if err != nil {
		return err
	}
	return CheckOutside(ours, into)
}

// CheckOutside fails with ErrNotEmpty if a path is that of a folder or lies in it, as it is written or behind its links.
func CheckOutside(folder fs.FileInfo, into string) error {
	abs, err := filepath.Abs(into)
	if err != nil {
		return err
	}
	for at := abs; ; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil && os.SameFile(info, folder) {
			return fmt.Errorf("%w: %s is in the directory itself", ErrNotEmpty, into)
		}
		if real, err := filepath.EvalSymlinks(at); err == nil && real != at { // which has no links
			if err := CheckOutside(folder, real); err != nil {
				return err
			}
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

// copyDirectory fills the folder building: first pawl.db, then whatever the rows in that copy name, so that the backup is as of one moment although
// commits go on. Meanwhile the flusher removes no file of a run that the copy may still name.
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
	if err := errors.Join(syncPath(filepath.Join(building, indexFile)), index.CopyMark(d.root.FS(), building)); err != nil {
		return err
	}
	d.hook.Hit("backup.filled")
	return b.sumBytes(building)
}

// copyIndex copies pawl.db, some pages at a time: commits go on in between. It calls copied when the copy is complete, before the next commit.
//
// SQLite copies through the connection of the engine, so a commit in between is taken up by the copy, and the copying need not begin anew. The file
// is made before, since SQLite would make it readable for others.
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
		if err = late.Cause(ctx); err == nil {
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

// copyAll copies the files and blobs that a copy of the index names, and writes the lock record.
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

// writeClosedRecord writes the lock record of a directory that was closed, for the pawl.db in a folder, which c has open and nobody changes any more.
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

// copiers is how many files of runs a backup copies at once. Most are small: what they take is the time of the file system. More are
// hardly quicker, and commits wait longer beside them.
const copiers = 4

// A fileCopier copies files of runs into the folder of a backup. A few goroutines do, which end before copyFiles returns.
type fileCopier struct {
	*backup
	building string
	rows     chan *index.Row
	ended    sync.WaitGroup
	stop     context.CancelCauseFunc // with the first error

	mu      sync.Mutex
	damaged []damagedRow
}

// A damagedRow is what is wrong with the run that has a number.
type damagedRow struct {
	num int64
	err error
}

// copyFiles copies the file of each run in the copied index. Damage of a row or of a file is noted in the report,
// and does not keep the others from being backed up; a damaged file is left out.
//
// Files are made durable all at once, behind the last one, where the system can do that: nothing says yet that they are there.
func (b *backup) copyFiles(ctx context.Context, copied *sqlite.Conn, building string) error {
	disk, err := os.Open(building) // before the files are written, so that it learns of each error of the disk: see flushBatch
	if err != nil {
		return err
	}
	defer func() { _ = disk.Close() }() // it is only read
	if err := os.Mkdir(filepath.Join(building, runsDir), 0o700); err != nil {
		return err
	}
	within, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c := &fileCopier{backup: b, building: building, rows: make(chan *index.Row), stop: stop}
	for range copiers {
		c.ended.Go(c.copyRows)
	}
	err = c.handRows(within, copied)
	close(c.rows)
	c.ended.Wait()
	if err = cmp.Or(err, late.Cause(ctx)); ctx.Err() == nil {
		err = cmp.Or(context.Cause(within), err) // the first one of a file
	}
	slices.SortStableFunc(c.damaged, func(x, y damagedRow) int { return cmp.Compare(x.num, y.num) })
	for _, d := range c.damaged {
		b.info.Damaged = append(b.info.Damaged, d.err)
	}
	if err == nil && canSyncAll {
		err = syncAll(disk)
	}
	return err
}

// handRows hands the rows of runs that have a file to the copiers, and makes the folders of these files.
func (c *fileCopier) handRows(ctx context.Context, copied *sqlite.Conn) error {
	made := map[string]bool{}
	return copied.Each(allRows, func(r *sqlite.Row) error {
		row := index.ScanRow(r)
		c.info.Runs++
		if err := c.dir.decodeRow(&row); err != nil {
			c.noteDamage(row.Num, err)
		}
		if row.File == "" {
			return late.Cause(ctx)
		}
		if folder := path.Dir(row.File); !made[folder] {
			if err := os.MkdirAll(filepath.Join(c.building, filepath.FromSlash(folder)), 0o700); err != nil {
				return err
			}
			made[folder] = true
		}
		select {
		case c.rows <- &row:
			return nil
		case <-ctx.Done():
			return late.Cause(ctx)
		}
	})
}

// copyRows copies the files of rows as they come.
func (c *fileCopier) copyRows() {
	for row := range c.rows {
		if err := c.copyFile(row); err != nil {
			c.stop(err)
		}
	}
}

func (c *fileCopier) noteDamage(num int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.damaged = append(c.damaged, damagedRow{num, err})
}

// copyFile copies the file of a run, if it is what the index says.
//
// The partial copy of a damaged file is removed, so that the backup lacks the file, and says so.
func (c *fileCopier) copyFile(r *index.Row) error {
	to := filepath.Join(c.building, filepath.FromSlash(r.File))
	err := c.dir.copyRunFile(r, func() (*os.File, error) {
		return os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	})
	if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion) {
		c.noteDamage(r.Num, err)
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err == nil && !canSyncAll {
		err = syncPath(to)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.info.Files++
	c.dir.hook.Hit("backup.file")
	return nil
}

// checkTables takes note of rows that have changed, in the tables but that of the runs.
//
// The copy has those rows as they are: a backup neither loses nor repairs anything.
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

// blobsDir is the folder of the blobs, which package pawl opens.
const blobsDir = index.BlobsDir

const allRefRows = `SELECT hash, num, artifact, crc FROM blob_refs ORDER BY hash`

// copyBlobs copies each blob that the copied index refers to, once. A blob that is missing or damaged is noted in the report.
func (b *backup) copyBlobs(ctx context.Context, copied *sqlite.Conn, building string) error {
	if b.blobs == nil {
		return nil
	}
	to, err := blob.OpenFiles(filepath.Join(building, blobsDir), blob.Options{Codec: b.dir.options.Codec})
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
		if err := late.Cause(ctx); err != nil {
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
//
// The store that gets it computes its hash while it is written.
func copyBlob(ctx context.Context, from, to blob.Store, hash string) error {
	r, err := from.Open(ctx, hash)
	if err != nil {
		return err
	}
	got, _, err := to.Put(ctx, r)
	if _ = r.Close(); err == nil && got != hash { // it was only read
		err = fmt.Errorf("copy the blob %s: the copy is %s", hash, got)
	}
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

// Rebuild makes a new directory at into, whole and durable or not at all. The caller's fill writes the content into to, which lies at path until it
// is complete. Rebuild fails with ErrNotEmpty if into is anything but a missing or an empty directory, or lies in the directory that is inspected.
// A repair never changes what is damaged: it makes a directory of what is left, beside it, and the old one stays for whoever wants to look again.
func (in *Inspection) Rebuild(into string, fill func(to *Dir, path string) error) error {
	if err := in.dir.CheckOutside(into); err != nil {
		return err
	}
	err := newDirectory(nil, into, func(path string) error {
		to, err := Open(path, Options{building: true, Codec: in.dir.options.Codec})
		if err != nil {
			return err
		}
		err = in.keepSecret(to)
		if err == nil {
			err = fill(to, path)
		}
		return errors.Join(err, to.Close())
	})
	return typedError(err)
}

// keepSecret gives the new directory the secret of the inspected one, if that can be read, so that the keys of tasks which executors hold stay valid.
func (in *Inspection) keepSecret(to *Dir) error {
	if !in.HasIndex() {
		return nil
	}
	var secret []byte
	err := in.dir.readIndex(func(db *sqlite.Conn) (err error) { secret, err = index.ReadSecret(db); return err })
	if err != nil || secret == nil {
		return nil //nolint:nilerr // it has one of its own
	}
	return to.updateIndex(func(db *sqlite.Conn) error { return index.KeepSecret(db, secret) })
}

// StoreDefinitions stores definitions, as JSON by their hashes.
func (d *Dir) StoreDefinitions(docs map[string]string) error {
	sealed := map[string]string{}
	for hash, doc := range docs {
		text, err := d.sealer.SealText(index.DefinitionPlace(hash), doc)
		if err != nil {
			return err
		}
		sealed[hash] = text
	}
	return d.updateIndex(func(db *sqlite.Conn) error {
		for hash, doc := range sealed {
			if _, err := db.Exec(putDefinition, hash, doc); err != nil {
				return err
			}
		}
		return nil
	})
}

// An Adoption is a run that another directory has kept.
//
// All fields are of the same run, after its last record; whoever repairs has replayed the records to get there.
type Adoption struct {
	Entries   []*runfile.Entry  // all of its records, with their large values
	Records   []decision.Record // the same, decoded
	State     *state.State      // after them
	Artifacts []workflow.Artifact
	Listings  Listings // of all records
}

// Adopt commits the records of a run that another directory has kept: without a codec, their text and their checksums stay as they are; with one, all are
// sealed under its key. A child run finds room, whatever its root says. It fails as Commit does, and may panic if the fields of a are not of one run.
//
// It is the first commit of r, a handle of Dir.New.
func (r *Run) Adopt(a Adoption) error {
	r.pending, r.adopted = cloneEntries(a.Entries), true
	r.setNext(a.State, a.Records)
	r.next.Artifacts, r.dropped = a.Artifacts, a.State.Status.Final() && len(a.Artifacts) == 0
	r.listings = a.Listings.sorted()
	var err error
	if r.dir.sealer.IsOn() {
		err = r.dir.resealEntries(r.row.Run, r.pending)
	}
	if err == nil {
		err = r.encodeNext()
	}
	if err == nil {
		err = r.commitPending()
	}
	if err != nil {
		return fmt.Errorf("restore run %q: %w", string(r.row.Run), err)
	}
	r.advanceHandle()
	return nil
}

const allReferences = `SELECT hash, coalesce(min(id), '') FROM blob_refs LEFT JOIN runs USING (num) GROUP BY hash`

// References returns the blobs that runs and kept outcomes refer to, by hash, each with a run that does, "" if none does.
//
// A repair names those of them that it could not copy.
func (d *Dir) References() (map[string]workflow.RunID, error) {
	out := map[string]workflow.RunID{}
	err := d.readIndex(func(db *sqlite.Conn) error {
		return db.Each(allReferences, func(r *sqlite.Row) error { out[r.Text(0)] = workflow.RunID(r.Text(1)); return nil })
	})
	return out, err
}

// cloneEntries returns records that may be changed without changing others.
func cloneEntries(entries []*runfile.Entry) []*runfile.Entry {
	own, out := make([]runfile.Entry, len(entries)), make([]*runfile.Entry, len(entries))
	for i, e := range entries {
		own[i] = *e
		out[i] = &own[i]
	}
	return out
}

package store

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

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
	if err := os.Mkdir(filepath.Join(building, runsDir), 0o700); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c := &fileCopier{backup: b, building: building, rows: make(chan *index.Row), stop: stop}
	for range copiers {
		c.ended.Go(c.copyRows)
	}
	err := c.handRows(ctx, copied)
	close(c.rows)
	c.ended.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	slices.SortStableFunc(c.damaged, func(x, y damagedRow) int { return cmp.Compare(x.num, y.num) })
	for _, d := range c.damaged {
		b.info.Damaged = append(b.info.Damaged, d.err)
	}
	if err == nil && canSyncAll {
		err = syncBelow(building)
	}
	return err
}

// syncBelow makes everything in a folder durable.
func syncBelow(folder string) error {
	dir, err := os.Open(folder)
	if err == nil {
		err = errors.Join(syncAll(dir), dir.Close())
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
			return context.Cause(ctx)
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
			return context.Cause(ctx)
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
//
// The store that gets it computes its hash while it is written.
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

package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

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

// copyFile copies the file of a run, if it is what the index says.
//
// What was copied of a damaged file is removed, so that the backup lacks it, and says so.
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

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

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
	if _, err = io.Copy(to, from); err == nil {
		err = to.Sync()
	}
	if closed := to.Close(); err == nil {
		err = closed
	}
	if err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// writeBlobs writes the blobs that the index refers to.
//
// Each blob is written once, however many runs refer to it: the rows come in the order of their
// hashes.
func (r *restorer) writeBlobs(ctx context.Context, db *sqlite.Conn, building string) error {
	if !r.manifest.Whole {
		return nil
	}
	to, err := blob.OpenSealed(filepath.Join(building, blobsDir), r.o.Codec)
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

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// RestoreBackup makes an engine directory of one that Backup has made, which is only read: a copy of all of its files, in a new directory as
// Restore has it. No engine may have the backup open: it fails with ErrLocked then. A backup that was not finished is ErrCorrupt. The
// contents of the files are for a verification to look at.
func RestoreBackup(ctx context.Context, from, into string, c Codec) (info RestoreInfo, err error) {
	if ctx == nil {
		return info, errNoPlace
	}
	in, err := InspectSealed(from, c) // which keeps engines away from it
	if err != nil {
		return info, fmt.Errorf("restore %s: %w", from, err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if err := in.dir.checkFinished(); err != nil {
		return info, fmt.Errorf("restore %s: %w", from, err)
	}
	err = newDirectory(nil, into, func(building string) error {
		to, err := os.OpenRoot(building)
		if err != nil {
			return err
		}
		defer func() { _ = to.Close() }()
		return copyBackup(ctx, in.dir.root, to, &info)
	})
	if err != nil {
		return RestoreInfo{}, fmt.Errorf("restore into %s: %w", into, typedError(err))
	}
	return info, nil
}

// copyBackup copies all files of a directory, and counts those of runs and the blobs. The names are synced by newDirectory.
func copyBackup(ctx context.Context, from, to *os.Root, info *RestoreInfo) error {
	return fs.WalkDir(from.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case name == ".":
			return nil
		case e.IsDir():
			return to.Mkdir(name, 0o700)
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
	_, err = io.Copy(w, r)
	if err == nil {
		err = w.Sync()
	}
	return errors.Join(err, w.Close())
}

// Package following finds a copy that follows an engine directory: in a folder, with the log in log/ and the bases in bases/.
package following

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/commitlog"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/store/folderlog"
)

// The folders of a copy.
const (
	logFolder   = "log"
	basesFolder = "bases"
)

// OpenFolder opens the copy in a folder, which it makes if it is missing. The caller closes the bases. It fails with ErrInvalid if the folder
// is an engine directory, such as a backup: with a copy in it nobody could restore that any more.
func OpenFolder(folder string, c blob.Codec) (commitlog.Log, *blob.Files, error) {
	for _, name := range []string{"pawl.db", "runs"} {
		if _, err := os.Lstat(filepath.Join(folder, name)); err == nil {
			return nil, nil, fmt.Errorf("%w: %s is an engine directory or a backup, as it has %s: give the copy a folder of its own", refusal.ErrInvalid, folder, name)
		}
	}
	return openFolder(folder, blob.Options{Codec: c, Shared: true}) // with the follower that has the log, before this one has
}

// OpenKept is OpenFolder for a copy that is there and is only read. Error: ErrNoBase if the folder has none.
func OpenKept(folder string, c blob.Codec) (commitlog.Log, *blob.Files, error) {
	for _, name := range []string{logFolder, basesFolder} {
		_, err := os.Stat(filepath.Join(folder, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, err
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %s has no copy that follows a directory: %w", store.ErrNoBase, folder, err)
		}
	}
	return openFolder(folder, blob.Options{Codec: c, ReadOnly: true})
}

func openFolder(folder string, o blob.Options) (commitlog.Log, *blob.Files, error) {
	log, err := folderlog.Open(filepath.Join(folder, logFolder))
	if err != nil {
		return nil, nil, err
	}
	bases, err := blob.OpenFiles(filepath.Join(folder, basesFolder), o)
	if err != nil {
		return nil, nil, err
	}
	return log, bases, nil
}

// IsBackup reports whether a folder is an engine directory, as a backup is one, and no copy that follows one.
func IsBackup(folder string) bool {
	_, followed := os.Stat(filepath.Join(folder, logFolder))
	_, index := os.Stat(filepath.Join(folder, "pawl.db"))
	return followed != nil && index == nil
}

// Restore makes an engine directory in into of what is kept in a folder, which is a backup or a copy that follows a directory, or without a
// folder in the log and bases of the options.
func Restore(ctx context.Context, into, folder string, o store.RestoreOptions) (store.RestoreInfo, error) {
	inFolder := folder != ""
	switch {
	case !inFolder && (o.Log == nil || o.Bases == nil), inFolder && (o.Log != nil || o.Bases != nil):
		return store.RestoreInfo{}, fmt.Errorf("%w: to restore takes a folder, or a log and a store of bases", refusal.ErrInvalid)
	case inFolder && IsBackup(folder) && !o.At.IsZero():
		return store.RestoreInfo{}, fmt.Errorf("%w: %s is a backup of one moment: only a copy that follows a directory has others", refusal.ErrInvalid, folder)
	case inFolder && IsBackup(folder):
		info, err := store.RestoreBackup(ctx, folder, into, o.Codec)
		return info, InvalidIfTaken(err)
	case inFolder:
		log, bases, err := OpenKept(folder, o.Codec)
		if err != nil {
			return store.RestoreInfo{}, err
		}
		if err := checkOutsideCopy(folder, into); err != nil {
			return store.RestoreInfo{}, errors.Join(err, bases.Close())
		}
		info, err := Restore(ctx, into, "", store.RestoreOptions{Log: log, Bases: bases, At: o.At, Codec: o.Codec})
		return info, errors.Join(err, bases.Close())
	}
	info, err := store.Restore(ctx, into, o)
	return info, InvalidIfTaken(err)
}

// checkOutsideCopy fails with ErrInvalid if a directory is to be made in the folder of a copy, or where a link of that leads to.
func checkOutsideCopy(folder, into string) error {
	for _, name := range []string{".", logFolder, basesFolder} {
		info, err := os.Stat(filepath.Join(folder, name))
		if err == nil {
			err = store.CheckOutside(info, into)
		}
		if err != nil {
			return fmt.Errorf("restore %s: %w", folder, InvalidIfTaken(err))
		}
	}
	return nil
}

// InvalidIfTaken returns an error as one of the caller if it says that there is something already where a directory is to be made.
func InvalidIfTaken(err error) error {
	if errors.Is(err, store.ErrNotEmpty) {
		return fmt.Errorf("%w: %w", refusal.ErrInvalid, err)
	}
	return err
}

// CheckNoBlobs fails with ErrInvalid if the folder of an engine directory in which it keeps blobs has any: they would be lost with it.
func CheckNoBlobs(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%w: %s has blobs, which would be lost with the directory: put them into the store in Options.Blobs, then remove the folder", refusal.ErrInvalid, folder)
	}
	return nil
}

// CheckApart fails with ErrInvalid if a store of bases is that of blobs: each would delete what only the other knows.
func CheckApart(ctx context.Context, bases, blobs blob.Store) error {
	probe := rand.Text()
	hash, _, err := bases.Put(ctx, strings.NewReader(probe))
	if err != nil {
		return fmt.Errorf("put into the store of bases: %w", err)
	}
	_, err = blobs.Stat(ctx, hash)
	_, gone := bases.Delete(ctx, hash, time.Now().Add(time.Hour)) // if it stays, a later base drops it
	switch {
	case err == nil:
		return fmt.Errorf("%w: Bases is the store of Options.Blobs: give each a store of its own, or each deletes what the other has", refusal.ErrInvalid)
	case errors.Is(err, blob.ErrMissing):
		return gone
	}
	return fmt.Errorf("look into the store of blobs: %w", err)
}

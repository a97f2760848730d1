package store

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/pawl-run/pawl/internal/shown"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Conditions that callers test with errors.Is. A run id that is taken is [state.ErrRunExists].
var (
	// ErrRunNotFound says that no run has this id.
	ErrRunNotFound = state.ErrRunNotFound
	// ErrNotPublished says that no definition has this name and version.
	ErrNotPublished = errors.New("no such published definition")
	// ErrPublished says that the name and version stand for another definition.
	ErrPublished = errors.New("published with another content")
	// ErrNoRoom says that a root run has as many descendants as its definition's
	// limits allow.
	ErrNoRoom = errors.New("limit descendants: the root run has as many as it may have")
	// ErrNotEnded says that only a run that has ended can be purged.
	ErrNotEnded = errors.New("the run has not ended")
	// ErrLocked says that another process, or another Dir of this one, owns the
	// directory. Close that one first. It is a *LockedError, unless pawl.db is locked, or the lock file gone.
	ErrLocked = errors.New("the directory is in use by another engine")
	// ErrForeign says that the folder holds other files, and that no engine has
	// been in it. Nothing was changed.
	ErrForeign = errors.New("the folder is not an engine's and not empty")
	// ErrFenced says that another engine has taken the directory over, or
	// another handle the run. Nothing can be committed here any more.
	ErrFenced = errors.New("taken over by another engine")
	// ErrClosed says that the Dir, or the Run, was closed.
	ErrClosed = errors.New("closed")
	// ErrUnknown says that a commit failed in a way that leaves open whether it
	// took place. Load the run again to find out.
	ErrUnknown = state.ErrUnknown
	// ErrFailed says that the disk, or the directory, failed in a way after which
	// nothing that is held in memory can be trusted. Close the Dir and open the
	// directory again: every acknowledged commit is there.
	ErrFailed = errors.New("the directory has failed: close it and open it again")
	// ErrNoSpace says that the disk is full. Nothing was changed.
	ErrNoSpace = errors.New("no space left")
	// ErrCorrupt says that data is damaged, missing or not what was written. It
	// is always a *CorruptError.
	ErrCorrupt = errors.New("corrupt")
	// ErrVersion says that another version of pawl wrote a file. It is a
	// *VersionError, unless it is about a record.
	ErrVersion = errors.New("unknown format version")
)

// A CorruptError says what is wrong with a file, or with a run in it. Restore
// it from a backup; the files are left as they are.
type CorruptError struct {
	Run  workflow.RunID // "" if all runs are concerned
	File string
	What string
	Err  error // the cause, if there is one
}

// Error names the run, the file and what is wrong.
func (e *CorruptError) Error() string {
	text := "corrupt: " + e.What + " (" + e.File + "; restore it from a backup, or what its journal has by pawl repair)"
	if e.Run != "" {
		text = fmt.Sprintf("run %q: %s", string(e.Run), text)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// As gives errors.As this error as the type with the same fields that package pawl shows.
func (e *CorruptError) As(target any) bool { return shown.As(e, target) }

// Is reports whether target is ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// A VersionError names a file that another version of pawl wrote: a newer one, or
// one from before the first release.
type VersionError struct {
	File    string
	Version uint32 // that it has
	Known   uint32 // that this program reads
}

// firstFormat is that of pawl.db in the first release.
const firstFormat = 8

// Error names the file and says what to do.
func (e *VersionError) Error() string {
	if e.Version < e.Known && e.Version >= firstFormat {
		return fmt.Sprintf("format version %d of %s is of an earlier release: this program knows %d; an engine of this version brings the directory to it when it opens that", e.Version, e.File, e.Known)
	}
	if e.Version < e.Known {
		return fmt.Sprintf("format version %d of %s is from before the first release: this program knows %d; use another directory", e.Version, e.File, e.Known)
	}
	return fmt.Sprintf("unknown format version %d of %s: this program knows %d; use a newer pawl", e.Version, e.File, e.Known)
}

// Is reports whether target is ErrVersion.
func (e *VersionError) Is(target error) bool { return target == ErrVersion }

// typedError adds ErrNoSpace to an error of SQLite that means it.
func typedError(err error) error {
	if errors.Is(err, ErrNoSpace) {
		return err
	}
	if sqlite.IsFull(err) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// accessError adds fs.ErrPermission, and what for, to an error of an Open that says that the process may not write.
func accessError(err error) error {
	if sqlite.IsReadOnly(err) || errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: an engine needs to write in its directory, also to read it: %w", fs.ErrPermission, err)
	}
	return err
}

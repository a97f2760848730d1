package pawl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/store/folderlog"
)

// FollowOptions say where [Engine.Follow] keeps a copy of the engine directory.
type FollowOptions struct {
	// Log gets what is committed, and Bases complete copies of the directory from time to
	// time, with the blobs that runs refer to. Both are required. They hold everything sealed
	// as in the directory, but blobs: open a sealed store for those.
	Log   Log
	Bases blob.Store
	// Interval is how long a commit waits for others before it is sent; 0 is a second.
	Interval time.Duration
	// Rebase is after how long there is a new base, if anything has changed; 0 is an hour.
	Rebase time.Duration
	// Keep is for how long one can go back; 0 is a week. The copy keeps purged runs for as long.
	Keep time.Duration
	// Report, which may be nil and must not block, is called whenever something was kept, or
	// could not be kept and is tried again.
	Report func(FollowReport)
}

// A Log keeps the changes of an engine directory outside of it. Package store/folderlog has one in
// a folder.
type Log = store.Log

// A FollowReport says how far a copy of the engine directory is.
type FollowReport = store.FollowReport

// RestoreOptions say what [Restore] makes a directory of.
type RestoreOptions = store.RestoreOptions

// A RestoreInfo says what was restored.
type RestoreInfo = store.RestoreInfo

// Follow keeps a copy of the engine directory up to date, outside of it, until ctx ends or
// the engine is closed: a continuous backup, from which [Restore] makes a directory as of any
// moment. It blocks; let a goroutine call it when the engine is open.
//
// A commit does not wait for it: the copy is behind by Interval and by the time that the
// log takes, and that much is lost with the disk. FollowReport tells how far it is. When
// the log or the store fails it is tried again, with pauses of up to 30 s; commits go on
// meanwhile, and if too many wait (64 MiB), a new base is made in their place. Close waits
// up to 10 s for the last changes to be kept.
//
// Follow returns nil when the engine was closed and everything is kept, and the cause of ctx
// when that has ended. Other errors: ErrInvalid (options), ErrFollowed, ErrFenced (somebody
// else has taken the log), ErrCorrupt, ErrFailed, ErrNoBase and ErrClosed (the engine was
// closed before the first base was complete, or before everything could be kept).
func (e *Engine) Follow(ctx context.Context, o FollowOptions) error {
	if err := e.checkUsable(ctx); err != nil {
		return err
	}
	if o.Log == nil || o.Bases == nil {
		return fmt.Errorf("%w: to follow takes a log and a store of bases", ErrInvalid)
	}
	if o.Interval < 0 || o.Rebase < 0 || o.Keep < 0 {
		return fmt.Errorf("%w: Interval, Rebase and Keep of a follower are not negative", ErrInvalid)
	}
	of := store.FollowOptions{
		Log: o.Log, Bases: o.Bases, HoldBlobs: e.pinned.freezeBlobs,
		Interval: o.Interval, Rebase: o.Rebase, Keep: o.Keep, Report: o.Report,
	}
	if e.files != nil {
		of.Blobs = e.files
	} else if err := checkApart(ctx, o.Bases, e.blobs); err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	return closedError(e.dir.Follow(ctx, of))
}

// Restore makes an engine directory of what [Engine.Follow] has kept, as of a moment. into
// must not exist, or be an empty folder. If it fails, nothing is there under that name.
//
// Runs go on from that moment when the directory is opened, so tasks that came later are
// executed again: open it only where the original is not open any more. Errors: ErrInvalid
// (something is there already), ErrNoBase, ErrCorrupt, ErrVersion, ErrNoSpace.
func Restore(ctx context.Context, into string, o RestoreOptions) (RestoreInfo, error) {
	if ctx == nil || into == "" || o.Log == nil || o.Bases == nil {
		return RestoreInfo{}, fmt.Errorf("%w: to restore takes a context, a directory, a log and a store of bases", ErrInvalid)
	}
	info, err := store.Restore(ctx, into, o)
	if errors.Is(err, store.ErrNotEmpty) {
		err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return info, err
}

// The folders of what [Engine.FollowFolder] keeps.
const (
	followedLog   = "log"
	followedBases = "bases"
)

// FollowFolder is Follow into a folder, which it makes if it is missing: with the log in log/ and the bases
// in bases/, which are sealed with Options.Codec. Log and Bases of o are not used. [RestoreFolder] makes a
// directory of it. A folder inside of the engine directory is ErrInvalid.
func (e *Engine) FollowFolder(ctx context.Context, folder string, o FollowOptions) error {
	if err := e.checkUsable(ctx); err != nil {
		return err
	}
	if folder == "" || o.Log != nil || o.Bases != nil {
		return fmt.Errorf("%w: to follow into a folder takes its path, and no other place", ErrInvalid)
	}
	if err := e.dir.CheckOutside(folder); errors.Is(err, store.ErrNotEmpty) {
		return fmt.Errorf("%w: follow: %w", ErrInvalid, err)
	} else if err != nil {
		return closedError(err)
	}
	log, err := folderlog.Open(filepath.Join(folder, followedLog))
	if err != nil {
		return err
	}
	bases, err := blob.OpenSealed(filepath.Join(folder, followedBases), e.options.Codec)
	if err != nil {
		return err
	}
	o.Log, o.Bases = log, bases
	return errors.Join(e.Follow(ctx, o), bases.Close())
}

// isBackup reports whether a folder is an engine directory, as a backup is one, and no copy that follows one.
func isBackup(folder string) bool {
	_, followed := os.Stat(filepath.Join(folder, followedLog))
	_, index := os.Stat(filepath.Join(folder, "pawl.db"))
	return followed != nil && index == nil
}

// RestoreFolder is Restore from a folder of [Engine.FollowFolder], as of a moment or, if that is
// zero, the last one. c is the codec of the engine, nil if it had none. The folder is only read.
//
// The folder may also be a backup of [Engine.Backup], which is of one moment: at must be zero then. It is copied; look at the copy with
// package rescue before it is opened.
func RestoreFolder(ctx context.Context, folder, into string, at time.Time, c Codec) (RestoreInfo, error) {
	if ctx == nil || folder == "" || into == "" {
		return RestoreInfo{}, fmt.Errorf("%w: to restore takes a context, a folder and a directory", ErrInvalid)
	}
	if isBackup(folder) {
		if !at.IsZero() {
			return RestoreInfo{}, fmt.Errorf("%w: %s is a backup of one moment: only a copy that follows a directory has others", ErrInvalid, folder)
		}
		return store.RestoreBackup(ctx, folder, into, c)
	}
	for _, name := range []string{followedLog, followedBases} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return RestoreInfo{}, fmt.Errorf("%w: %s has no copy that follows a directory: %w", ErrNoBase, folder, err)
		}
	}
	log, err := folderlog.Open(filepath.Join(folder, followedLog))
	if err != nil {
		return RestoreInfo{}, err
	}
	bases, err := blob.OpenReadOnlySealed(filepath.Join(folder, followedBases), c)
	if err != nil {
		return RestoreInfo{}, err
	}
	info, err := Restore(ctx, into, RestoreOptions{Log: log, Bases: bases, At: at, Codec: c})
	return info, errors.Join(err, bases.Close())
}

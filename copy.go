package pawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/commitlog"
	"github.com/pawl-run/pawl/internal/following"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/store"
)

// A BackupInfo says what is in a backup, and what of the original was damaged.
type BackupInfo struct {
	Path  string // of the new directory, as it was given
	Runs  int    // in the index
	Files int    // of runs; a run has none before it was flushed first
	Blobs int    // that the index refers to, if the directory keeps them
	Bytes int64  // of all of it
	// Damaged lists files that could not be copied because they are damaged or missing in the original: errors.As finds a
	// *CorruptError or *blob.Error in each, or it is ErrVersion. The backup lacks them, and is complete otherwise.
	Damaged []error
}

// Backup makes a copy of the engine directory in a new directory, while the engine goes on: everything as it is at one moment,
// between two commits. [Restore] makes a directory of it; if it is opened itself, its schedules fire beside those of the original. into
// must not exist or be empty, its parent must exist. The copy appears under that name when it is complete and durable; if Backup fails,
// is cancelled, or the engine is closed meanwhile, nothing does. After a crash a folder with .partial- in its name may be left beside
// it, which Open refuses with ErrCorrupt as long as anything is missing in it.
//
// A backup that was interrupted begins anew: the next one is of a later moment, and files left of the earlier one may
// not be durable, since all are synced together at the end. The copy that [Engine.Follow] keeps continues where it
// stopped.
//
// Commits wait for a few pages of the index at a time to be copied. Old files of runs are removed only when the backup has ended,
// so that it needs some room in the directory too. Blobs are copied unless Options.Blobs keeps them elsewhere.
//
// Backup leaves out what is damaged in the original, and lists it in the result: look at it. In the copy the runs continue from
// the moment of the backup, so the tasks of later steps are executed again. Errors: ErrInvalid (something is there already, or it
// is inside of the directory), ErrNoSpace, ErrCorrupt, ErrClosed.
func (e *Engine) Backup(ctx context.Context, into string) (BackupInfo, error) {
	if err := e.checkUsable(ctx); err != nil {
		return BackupInfo{}, err
	}
	if err := refusal.CheckNewFolder(into); err != nil && e.ctx.Err() == nil { // else it is closed
		return BackupInfo{}, fmt.Errorf("backup: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(e.ctx, func() { cancel(ErrClosed) })()
	defer e.blobs.Freeze()()
	var blobs blob.Store
	if own := e.blobs.Own(); own != nil {
		blobs = own
	}
	info, err := e.dir.Backup(ctx, into, blobs)
	return BackupInfo(info), closedError(following.InvalidIfTaken(err))
}

// FollowOptions say where [Engine.Follow] keeps a copy of the engine directory: in a Folder, or in a Log and Bases.
type FollowOptions struct {
	// Folder gets the copy, the log in log/ and the bases in bases/, which are sealed with Options.Codec. It is made if it is
	// missing, and is neither an engine directory, such as a backup, nor inside of this one.
	Folder string
	// Log gets all commits, and Bases gets full copies of the directory from time to time,
	// with the blobs that runs refer to, unless there is a Folder. All is sealed as in the
	// directory, except blobs: open a sealed store for those. A Log and its Bases are of one directory.
	Log   commitlog.Log
	Bases blob.Store
	// Interval is how long a commit waits for others before it is sent; 0 is a second.
	Interval time.Duration
	// Rebase is how long after a base the next one is made, if anything has changed; 0 is an hour.
	Rebase time.Duration
	// Keep is how far back Restore can go; 0 is a week. The copy keeps purged runs for as long.
	Keep time.Duration
	// Report, which may be nil and must not block, is called whenever something was kept, or
	// could not be kept and is tried again.
	Report func(FollowReport)
}

// A FollowReport says how far a copy of the engine directory is.
type FollowReport struct {
	Position commitlog.Position `json:"position"` // the place of the last entry in the log
	At       time.Time          `json:"at"`       // the copy has everything up to this moment; zero until this Follow has a base
	Waiting  int                `json:"waiting"`  // transactions that the log has not got yet
	Base     time.Time          `json:"base"`     // when the last base was made; zero: this Follow has none yet, so nothing of what it has kept can be restored
	Err      error              `json:"-"`        // why the last attempt to write to the log, or to make a base, failed; it is repeated
}

// RestoreOptions say what [Restore] makes a directory of: a Folder, or a Log and Bases.
type RestoreOptions struct {
	Folder string        // of FollowOptions, or a backup of [Engine.Backup], which is of one moment. It is only read
	Log    commitlog.Log // of FollowOptions
	Bases  blob.Store    // likewise
	At     time.Time     // as of when; zero: the last moment that there is
	Codec  Codec         // of the engine; nil if it had none
}

// A RestoreInfo says what was restored.
type RestoreInfo struct {
	Position commitlog.Position `json:"position"`      // of the last entry that is in it
	At       time.Time          `json:"at,omitzero"`   // as of when the directory is
	Base     time.Time          `json:"base,omitzero"` // when the base was made
	Runs     int                `json:"runs"`
	Files    int                `json:"files"` // of runs
	Blobs    int                `json:"blobs"`
	Changes  int                `json:"changes"` // transactions that came after the base
	// Damaged names the files, rows and blobs that the restored directory lacks: those that were
	// damaged in the original when the base was made, and those whose copies are damaged now.
	Damaged []string `json:"damaged,omitempty"`
}

// Follow keeps a copy of the engine directory up to date, outside of it, until ctx ends or the engine is closed: a continuous
// backup, from which [Restore] makes a directory as of any moment. It blocks; let a goroutine call it when the engine is open.
//
// A commit does not wait for it: the copy is behind by Interval and by the time that the log takes, and that much is lost with
// the disk. FollowReport tells how far it is. When the log or the store fails it is tried again, with pauses of up to 30 s;
// commits go on meanwhile, and if too many wait (64 MiB), a new base is made in their place. Close waits up to 10 s for the last
// changes to be kept.
//
// Follow returns nil when the engine was closed and everything is kept, and the cause of ctx
// when that has ended. Other errors: ErrInvalid (options), ErrOtherLog (the copy is neither of this directory, nor of one that this was
// restored from), ErrFollowed, ErrFenced (somebody else has taken the log), ErrCorrupt, ErrFailed, ErrNoBase and ErrClosed (the engine
// was closed before the first base was complete, or before everything could be kept).
func (e *Engine) Follow(ctx context.Context, o FollowOptions) error {
	if err := e.checkUsable(ctx); err != nil {
		return err
	}
	if err := e.checkFollow(o); err != nil {
		return err
	}
	if o.Folder != "" {
		log, bases, err := following.OpenFolder(o.Folder, e.options.Codec)
		if err != nil {
			return err
		}
		o.Log, o.Bases = log, bases
		return errors.Join(e.followLog(ctx, o), bases.Close())
	}
	return e.followLog(ctx, o)
}

// checkFollow returns what is wrong with options to follow.
func (e *Engine) checkFollow(o FollowOptions) error {
	switch inFolder, inLog := o.Folder != "", o.Log != nil || o.Bases != nil; {
	case inFolder && inLog:
		return fmt.Errorf("%w: to follow into a folder takes its path, and no other place", ErrInvalid)
	case !inFolder && (o.Log == nil || o.Bases == nil):
		return fmt.Errorf("%w: to follow takes a folder, or a log and a store of bases", ErrInvalid)
	case o.Interval < 0 || o.Rebase < 0 || o.Keep < 0:
		return fmt.Errorf("%w: Interval, Rebase and Keep of a follower are not negative", ErrInvalid)
	case !inFolder:
		return nil
	}
	return closedError(following.InvalidIfTaken(e.dir.CheckOutside(o.Folder)))
}

// followLog is Follow with a log and bases.
func (e *Engine) followLog(ctx context.Context, o FollowOptions) error {
	of := store.FollowOptions{
		Log: o.Log, Bases: o.Bases, HoldBlobs: e.blobs.Freeze,
		Interval: o.Interval, Rebase: o.Rebase, Keep: o.Keep,
	}
	if o.Report != nil {
		of.Report = func(r store.FollowReport) { o.Report(FollowReport(r)) }
	}
	if own := e.blobs.Own(); own != nil {
		of.Blobs = own
	} else if err := following.CheckApart(ctx, o.Bases, e.blobs.Store); err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	return closedError(e.dir.Follow(ctx, of))
}

// Restore makes an engine directory from a copy of [Engine.Follow], as of a moment, or from a backup, which it copies: verify the
// directory with package rescue before it is opened. into must not exist, or be an empty folder. If Restore fails, it leaves nothing there.
//
// When the directory is opened, runs continue from that moment, so later tasks are executed again: open it only if the original is not
// open any more. Its schedules are then paused until somebody resumes them, because the original may fire them as well. Errors:
// ErrInvalid (something is there already; into is in the Folder; At with a backup), ErrNoBase, ErrCorrupt, ErrVersion, ErrNoSpace.
func Restore(ctx context.Context, into string, o RestoreOptions) (RestoreInfo, error) {
	if ctx == nil || into == "" {
		return RestoreInfo{}, fmt.Errorf("%w: to restore takes a context and a directory", ErrInvalid)
	}
	info, err := following.Restore(ctx, into, o.Folder, store.RestoreOptions{Log: o.Log, Bases: o.Bases, At: o.At, Codec: o.Codec})
	return RestoreInfo(info), err
}

// RemoteOptions say where an engine keeps its commits, so that its directory outlives its machine.
// The Log is authoritative, and the directory a cache of it: a commit becomes valid when the Log holds it. Each call waits for that, and
// before it no task is dispatched and nobody reads the commit. [Open] takes over the Log: it makes a missing directory from it, and adds
// to an existing one what it lacks; from then on an earlier owner, on whichever machine, commits nothing more and fails with ErrFenced. So
// an engine may be opened with the same Log wherever the last one is gone, or seems to be.
//
// The directory keeps the last entries of the Log, up to 64 MiB. If the Log has lost its end, and nobody has appended anything since, Open
// appends what is missing again, in the directory of the engine that had it last.
//
// While the Log does not answer, calls that change or read the directory wait, at most until their contexts are done; the work that they
// have begun goes on. Only Import waits longer while it commits. The engine tries again until it is certain whether the Log has the entry.
// Close waits 10 s for that.
type RemoteOptions struct {
	Log    commitlog.Log // gets each transaction before it is valid
	Bases  blob.Store    // gets full copies of the directory, from time to time; no other log may use it
	Rebase time.Duration // how long after a base the next one is made, if anything has changed; 0 is an hour
	Detach bool          // without Log: a directory that had one goes on without it, and can never use it again
	Keep   time.Duration // how far back Restore can go; 0: the log has what the last two bases need
	// StandBy, unless it is nil, makes Open wait until the channel is closed: meanwhile the directory follows the log of the
	// present owner, so that taking the log over is quick.
	StandBy <-chan struct{}
	// Report, which may be nil and must not block, is called when an entry was kept after failures, when a base
	// was kept, and when something failed; while the directory stands by, also whenever it has been brought to the end of its log, or the log
	// has no directory yet.
	Report func(RemoteReport)
}

// ofStore returns the options as the store takes them.
func (o *RemoteOptions) ofStore() store.RemoteOptions {
	out := store.RemoteOptions{Log: o.Log, Bases: o.Bases, Rebase: o.Rebase, Detach: o.Detach, Keep: o.Keep, StandBy: o.StandBy}
	if o.Report != nil {
		out.Report = func(r store.RemoteReport) { o.Report(RemoteReport(r)) }
	}
	return out
}

// A RemoteReport says how an engine stands with its Log.
type RemoteReport struct {
	Position commitlog.Position `json:"position"` // of the last entry of the log
	Base     time.Time          `json:"base"`     // when the last base was made in this life of the directory; zero: none yet
	Err      error              `json:"-"`        // why commits, or a base, wait just now
}

// Errors of engines whose commits are kept in a Log.
var (
	// ErrRemote says that the commits of a directory are kept in a log outside of it: Open needs
	// Options.Remote. [Restore] makes a directory of its own of the log.
	ErrRemote = store.ErrRemote
	// ErrOtherLog says that the log of Options.Remote, or the copy of [Engine.Follow], is that of another directory: give each its own. To get the directory
	// of a log, open a path where there is nothing yet.
	ErrOtherLog = store.ErrOtherLog
)

// checkRemote returns what is wrong with the options of a log.
func (o *Options) checkRemote(path string) error {
	r := &o.Remote
	switch {
	case r.Log == nil && r.Bases == nil:
		return nil
	case r.Detach:
		return fmt.Errorf("%w: Detach of Options.Remote takes no Log", ErrInvalid)
	case r.Log == nil || r.Bases == nil:
		return fmt.Errorf("%w: Options.Remote takes a Log and Bases", ErrInvalid)
	case r.Rebase < 0 || r.Keep < 0:
		return fmt.Errorf("%w: Rebase and Keep of Options.Remote are not negative", ErrInvalid)
	case o.Blobs == nil:
		return fmt.Errorf("%w: Options.Remote takes Options.Blobs: blobs in the directory would be lost with it", ErrInvalid)
	}
	return following.CheckNoBlobs(filepath.Join(path, "blobs"))
}

// RecoverOptions say how a log is begun anew.
type RecoverOptions struct {
	Log    commitlog.Log // of RemoteOptions: the one that is damaged, or a new one of that name
	Bases  blob.Store    // likewise
	Codec  Codec         // of the engine; nil if it has none
	Logger *slog.Logger  // nil discards
	Begin  bool          // without it nothing is begun: the report tells what would be given up
	GiveUp int           // how many entries of the log are given up at most
}

// A RecoverReport says how a directory and its log stand to each other.
type RecoverReport struct {
	Directory  commitlog.Position `json:"directory"`        // the last entry of the log that the directory has
	Log        commitlog.Position `json:"log"`              // the last entry that can be read; zero: it is empty
	Common     uint64             `json:"common"`           // number of the last entry of the log that the directory is known to have; 0: none
	GivenUp    int                `json:"givenUp"`          // entries behind that which hold commits, or cannot be read; a gap of up to 1000 counts as one, and of a larger one also each that is not looked at
	Since      time.Time          `json:"since,omitzero"`   // when the first of those was made that can be read
	Until      time.Time          `json:"until,omitzero"`   // the last one
	Lacks      uint64             `json:"lacks"`            // entries that the directory has and the log lacks at its end
	Damage     string             `json:"damage,omitempty"` // what is wrong with the log; "" if every entry can be read
	Generation uint64             `json:"generation"`       // of the directory; after it was begun anew, the new one
	Begun      bool               `json:"begun"`            // it was begun anew
}

// String says the same in lines for people.
func (r RecoverReport) String() string { return store.RecoverReport(r).String() }

// Errors of Recover.
var (
	// ErrGivesUp says that more would be given up than RecoverOptions.GiveUp.
	ErrGivesUp = store.ErrGivesUp
	// ErrNothingLost says that Open does what is needed.
	ErrNothingLost = store.ErrNothingLost
)

// Recover begins the log of RemoteOptions anew, from the engine directory at path, which no engine may have open: when the log has a hole, is
// damaged beyond what the directory can give back, or is gone. The directory first gets what can still be read of the log behind what it has. Then the log
// has one new base, of this directory, and nothing that was before.
//
// Recover gives up what others have committed there and this directory lacks; so look at the report first, which is made without Begin, and then say how
// much. An engine that has the log commits nothing more. Every other directory of that log is made anew when it is opened the next time, and its former
// content is set aside beside it under a name that ends with .superseded. A Recover that dies half-way can be repeated, or is finished by the next Open of
// this directory.
//
// Errors: ErrInvalid, ErrNothingLost, ErrGivesUp, ErrOtherLog (the directory has no log, or the log is of another directory), ErrLocked, ErrFenced (somebody has appended to the log
// meanwhile), and those of Open.
func Recover(ctx context.Context, path string, o RecoverOptions) (RecoverReport, error) {
	if ctx == nil || path == "" || o.Log == nil || o.Bases == nil {
		return RecoverReport{}, fmt.Errorf("%w: to recover a log takes a context, a directory, a log and a store of bases", ErrInvalid)
	}
	of := store.Options{Durability: store.ProcessCrash, Logger: o.Logger, Codec: o.Codec, Hook: testhook.From(ctx)}
	report, err := store.RecoverLog(ctx, path, of, store.RecoverOptions{Log: o.Log, Bases: o.Bases, Begin: o.Begin, GiveUp: o.GiveUp})
	return RecoverReport(report), err
}

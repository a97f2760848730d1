package pawl

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
	"github.com/pawl-run/pawl/store"
)

// RemoteOptions say where an engine keeps its commits, so that its directory outlives its machine.
// The Log is the truth, and the directory a cache of it: a commit counts when the Log has it, which each call waits for, and before that no task is
// dispatched and nobody reads it. [Open] takes the Log: it makes the directory of it, if that is missing, and gets what the directory lacks; from
// then on an engine that had it before, on whichever machine, commits nothing more and fails with ErrFenced. So an engine may be opened with the
// same Log wherever the last one is gone, or seems to be.
//
// The directory keeps the last entries of the Log, up to 64 MiB. If the Log has lost its end, and nobody has appended anything since, Open
// appends what is missing again, in the directory of the engine that had it last.
//
// While the Log does not answer, calls that change something wait, and those that look at the directory do, at most until their contexts are done; the work
// that they have begun goes on. Three calls wait on: Publish, which has no context, and Import and Once while they commit. The engine tries again until it is
// certain whether the Log has what was to be appended. If Close comes first it waits for 10 s.
type RemoteOptions = store.RemoteOptions

// A RemoteReport says how an engine stands with its Log.
type RemoteReport = store.RemoteReport

// Errors of engines whose commits are kept in a Log.
var (
	// ErrRemote says that the commits of a directory are kept in a log outside of it: Open needs
	// Options.Remote. [Restore] makes a directory of its own of the log.
	ErrRemote = store.ErrRemote
	// ErrOtherLog says that the log of Options.Remote is that of another directory: give each its own. To get the directory of a log, open a path where there
	// is nothing yet.
	ErrOtherLog = store.ErrOtherLog
)

// checkApart fails with ErrInvalid if a store of bases is that of blobs: each would delete what only the other knows.
func checkApart(ctx context.Context, bases, blobs blob.Store) error {
	probe := rand.Text()
	hash, _, err := bases.Put(ctx, strings.NewReader(probe))
	if err != nil {
		return fmt.Errorf("put into the store of bases: %w", err)
	}
	_, err = blobs.Stat(ctx, hash)
	_, gone := bases.Delete(ctx, hash, time.Now().Add(time.Hour)) // if it stays, a later base drops it
	switch {
	case err == nil:
		return fmt.Errorf("%w: Bases is the store of Options.Blobs: give each a store of its own, or each deletes what the other has", ErrInvalid)
	case errors.Is(err, blob.ErrMissing):
		return gone
	}
	return fmt.Errorf("look into the store of blobs: %w", err)
}

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
	kept := filepath.Join(path, "blobs")
	entries, err := os.ReadDir(kept)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%w: %s has blobs, which would be lost with the directory: put them into the store in Options.Blobs, then remove the folder", ErrInvalid, kept)
	}
	return nil
}

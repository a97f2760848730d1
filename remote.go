package pawl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pawl-run/pawl/store"
)

// RemoteOptions say where an engine keeps its commits, so that its directory outlives its machine.
// The Log is the truth, and the directory a cache of it: a commit counts when the Log has it, which each call waits for, and before that no task is
// dispatched and nobody reads it. [Open] takes the Log: it makes the directory of it, if there is none, and
// gets what the directory lacks; from then on an engine that had it before, on whichever machine, commits nothing
// more and fails with ErrFenced. So an engine may be opened with the same Log wherever the last one is gone, or
// seems to be.
//
// While the Log does not answer, calls that change something wait, at most until their contexts are done, and reads of lists wait; the engine tries again until it is certain whether the Log has what was to be appended. If
// Close comes first it waits for 10 s.
type RemoteOptions = store.RemoteOptions

// A RemoteReport says how an engine stands with its Log.
type RemoteReport = store.RemoteReport

// Errors of engines whose commits are kept in a Log.
var (
	// ErrRemote says that the commits of a directory are kept in a log outside of it: Open needs
	// Options.Remote. [Restore] makes a directory of its own of the log.
	ErrRemote = store.ErrRemote
	// ErrOtherLog says that the log of Options.Remote is that of another directory: give each its own. To have
	// the directory that a log is of, open a path where nothing is.
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

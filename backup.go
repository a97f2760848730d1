package pawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/store"
)

// A BackupInfo says what is in a backup, and what of the original was damaged.
type BackupInfo = store.BackupInfo

// Backup makes a copy of the engine directory in a new directory, while the
// engine goes on: everything as it is at one moment, between two commits. Open it
// like any other. into must not exist or be empty, its parent must exist. The
// copy appears under that name when it is complete and durable; if Backup fails,
// is cancelled, or the engine is closed meanwhile, nothing does. After a crash a
// folder with .partial- in its name may be left beside it, which Open refuses with
// ErrCorrupt as long as anything is missing in it.
//
// A backup that was cut off begins anew: the next one is of a later moment, and what is left of the earlier one is
// perhaps not durable, since the files are synced together at the end. The copy that [Engine.Follow] keeps goes on
// where it was.
//
// Commits wait for a few pages of the index at a time to be copied. Old files of
// runs are removed only when the backup has ended, so that it needs some room in
// the directory too. Blobs are copied unless Options.Blobs keeps them elsewhere.
//
// Backup leaves out what is damaged in the original, and lists it in the result:
// look at it. In the copy the runs continue from the moment of the backup, so the
// tasks of later steps are executed again. Errors: ErrInvalid (something is there
// already, or it is inside of the directory), ErrNoSpace, ErrCorrupt, ErrClosed.
func (e *Engine) Backup(ctx context.Context, into string) (BackupInfo, error) {
	if err := e.checkUsable(ctx); err != nil {
		return BackupInfo{}, err
	}
	if into == "" {
		return BackupInfo{}, fmt.Errorf("%w: the backup needs a directory to go into", ErrInvalid)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(e.ctx, func() { cancel(ErrClosed) })()
	defer e.pinned.freezeBlobs()()
	var blobs blob.Store
	if e.files != nil {
		blobs = e.files
	}
	info, err := e.dir.Backup(ctx, into, blobs)
	if errors.Is(err, store.ErrNotEmpty) {
		err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return info, closedError(err)
}

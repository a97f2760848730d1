package store

import (
	"context"
	"time"
)

// A builtBase is a base that is complete.
type builtBase struct {
	number int64  // of the last transaction in it
	size   int64  // of its pawl.db
	hash   string // of its manifest
	at     time.Time
}

// isBaseDue reports whether a new base is to be made: because the changes since the last one
// are as large as it is, or old, or because some were lost.
func (f *follower) isBaseDue() bool {
	return f.stale || f.since >= max(minRebase, f.size) || f.since > 0 && time.Since(f.begun) >= f.o.Rebase
}

// startBase makes a base, beside the changes that are shipped meanwhile.
//
// Changes that the base has as well are passed over when it is restored, by their numbers.
// stale is taken back at the beginning: changes that are lost from now on need another base,
// for this one may have been copied before them.
func (f *follower) startBase(ctx context.Context) {
	f.mending = f.mending || f.stale
	f.busy, f.stale, f.since, f.begun = true, false, 0, time.Now()
	f.building.Go(func() {
		ctx, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		go func() { // until the base is complete
			select {
			case <-f.dir.closing:
				stop(ErrClosed)
			case <-ctx.Done():
			}
		}()
		_ = f.retry(ctx, func(ctx context.Context) error { // whoever ended it knows why
			defer f.o.HoldBlobs()()
			b := baseBuilder{dir: f.dir, from: f.o.Blobs, to: f.o.Bases}
			hash, err := b.makeBase(ctx)
			if err == nil {
				f.bases <- builtBase{b.number, b.size, hash, b.manifest.At}
			}
			return err
		})
	})
}

// keepBase notes a base in the log, and drops what is needed no more.
//
// Behind this entry the log can be restored from the new base, so that what only served an older
// one may be dropped: in that order, or a crash in between would leave nothing to restore from.
func (f *follower) keepBase(ctx context.Context, b builtBase) error {
	e := &logEntry{kind: entryBase, at: b.at, epoch: f.dir.epoch, number: b.number, base: b.hash}
	err := f.appendEntry(ctx, e, func(r *FollowReport) {
		r.Base = b.at
		if r.At.Before(b.at) {
			r.At = b.at
		}
	})
	if err != nil {
		return err
	}
	f.size, f.mending = b.size, false
	if err := f.dropOld(ctx, time.Now().Add(-f.o.Keep)); err != nil { // the next one tries again
		f.dir.options.Logger.Warn("the log and the bases of a copy of the directory are not trimmed yet", "error", err)
	}
	return nil
}

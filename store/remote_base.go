package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/sqlite"
)

// makeBases makes a base when there are as many changes as the last one is large, or when some are
// old, until the directory is closed or has failed.
//
// A base lets the log drop what is before it, and an opening without a directory begin with it.
// So the more has changed, the sooner one is due; a directory in which nothing happens makes
// none.
func (r *remote) makeBases(d *Dir) {
	ctx, stop := context.WithCancelCause(r.ctx)
	defer stop(nil)
	go func() { // until this ends
		select {
		case <-d.closing:
			stop(ErrClosed)
		case <-d.failed:
			stop(ErrFailed)
		case <-ctx.Done():
		}
	}()
	for {
		timer := time.NewTimer(r.o.Rebase)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-r.due:
			timer.Stop()
		case <-timer.C:
			if r.since.Load() == 0 {
				continue
			}
		}
		r.retryBase(ctx, d)
	}
}

// retryBase makes a base, and tries again until there is one or ctx ends.
func (r *remote) retryBase(ctx context.Context, d *Dir) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := r.keepBase(ctx, d)
		if ctx.Err() != nil {
			return
		}
		if r.tell(err); err == nil {
			return
		}
		d.options.Logger.Warn("the log of the directory has no new base yet", "directory", d.path, "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// keepBase makes a base, notes it in the log, and drops what is needed no more.
//
// The copy in the base says by itself where in the log it stands, since the place is a row of
// pawl.db; whoever begins with it executes the entries behind that place. Entries that come while
// the base is made so need no further thought. A crash before the entry of the base leaves blobs
// which the log does not name.
//
// A log that is full may refuse the entry of the base, behind which it could drop most of what it
// has: then everything that is older than the last base in it is dropped first.
func (r *remote) keepBase(ctx context.Context, d *Dir) error {
	err := d.updateLocally(func(db *sqlite.Conn) error { return index.KeepLogPlace(db, r.place) }) // the copy must say where it stands
	if err != nil {
		return err
	}
	r.since.Store(0)
	b := baseBuilder{dir: d, to: r.o.Bases, remote: true}
	hash, err := b.makeBase(ctx)
	if err != nil {
		return err
	}
	d.hook.Hit("remote.base")
	entry := &logEntry{kind: entryBase, at: b.manifest.At, epoch: d.epoch, base: hash, number: int64(r.place.Generation)} //nolint:gosec // it counts
	f := follower{dir: d, o: FollowOptions{Log: r.o.Log, Bases: r.o.Bases}}
	if err := d.announceBase(hash); err != nil {
		return err
	}
	err = d.noteBase(entry)
	if errors.Is(err, ErrNoSpace) { // all that is older than the last base goes
		if err = f.dropOld(ctx, time.Now()); err == nil {
			err = d.noteBase(entry)
		}
	}
	if err != nil {
		return err
	}
	r.size.Store(b.size)
	r.mu.Lock()
	before := r.report.Base
	r.report.Base = b.manifest.At
	r.mu.Unlock()
	since := time.Now().Add(-r.o.Keep)
	if last := before.Truncate(time.Millisecond).Add(time.Millisecond); since.After(last) { // of the one before it, as the log has it
		since = last
	}
	if err := f.dropOld(ctx, since); err != nil && ctx.Err() == nil { // the next one tries again
		d.options.Logger.Warn("the log of the directory and its bases are not trimmed yet", "directory", d.path, "error", err)
	}
	return nil
}

// announceBase notes in pawl.db which base the log is about to get, if it is the first: should the directory not come to
// note that it is there, it is not that of another directory.
func (d *Dir) announceBase(hash string) error {
	return d.updateLocally(func(db *sqlite.Conn) error {
		place := &d.remote.place
		if place.Based {
			return nil
		}
		place.First = firstOf(hash)
		return index.KeepLogPlace(db, *place)
	})
}

// firstOf returns a base as pawl.db names it.
func firstOf(hash string) [sha256.Size]byte { return sha256.Sum256([]byte(hash)) }

// noteBase appends the entry of a base between two commits.
//
// It takes the lock as a reader does, so that no transaction is under way, and its entry comes
// between two of theirs. The first base is what makes the log that of this directory.
func (d *Dir) noteBase(e *logEntry) error {
	return d.readIndex(func(db *sqlite.Conn) error {
		err := d.remote.appendEntry(e)
		if no := (*refusal)(nil); errors.As(err, &no) && !errors.Is(err, ErrFenced) {
			return no.err
		}
		if err == nil {
			d.hook.Hit("remote.based")
			d.remote.place.Based = true
			err = index.KeepLogPlace(db, d.remote.place)
		}
		if err != nil {
			err = d.failForGood(err)
		}
		return err
	})
}

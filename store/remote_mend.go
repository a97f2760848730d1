package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-run/pawl/internal/index"
)

// A log may lose its end, although it said that it had it: servers that did not sync, a folder that was put back. The directory of
// who appended it is a copy of it. It is mended when that directory is opened:
//
//  1. The log is looked at where it is taken. If it ends with an entry that the directory has had, it is a true prefix: the
//     sum of an entry stands for all before it. The tail of the directory (remote_tail.go) must have everything behind it. After a loss of power
//     pawl.db may be no further than the log, and the tail have more all the same.
//  2. The log is taken with the first entry that it lacks, in place of an opening, on condition that it still ends there; from then on
//     nobody appends who had it before. The others are appended behind it, byte for byte: so every other copy of the directory, whatever it
//     has of them, finds what it knows.
//  3. Then it is taken with an opening, as ever.
//
// A crash in between leaves a log that is a longer prefix, and the same holds for it: for this directory, and for each other one. An entry that
// somebody else has appended behind the prefix, were it only an opening, makes the tail void: the directory is refused, and nothing is appended.
// That is so although the tail had acknowledged commits; the one who opened the log had no way to know. So that it is rare, only a directory
// that was the owner as far as it knows appends a tail: one that stood by may lack entries that the owner's directory has, and is refused. A
// directory whose append was refused because another one had taken the log keeps no tail.
//
// An empty log is no prefix: it may be another one, beside which the right one goes on.

// takeOrMend takes the log with an opening, after it has appended again what the log has lost. It returns where the opening is.
//
// It goes round once for each thing that it puts right, and returns when the opening is the last
// entry.
func (d *Dir) takeOrMend() (Position, error) {
	for {
		entry, p, err := d.takeOnce()
		switch {
		case errors.Is(err, errNotPrefix):
			found, failed := d.findPlace()
			if failed != nil {
				return p, failed
			}
			if !found {
				return p, err
			}
			continue
		case err != nil:
			return p, err
		case entry.lost == nil:
			if !d.remote.has {
				d.remote.tail.keepEntry(entry.data, tailMine)
			}
			return p, nil
		}
		if err := d.appendLost(entry.lost, p); err != nil {
			return p, err
		}
	}
}

// A takingEntry is what a log is taken with.
type takingEntry struct {
	data []byte
	lost []tailEntry // data is the first of these; nil if it is an opening
}

// takeOnce takes the log.
//
// The entry is chosen within the call of the log, which says where it ends: between looking and
// taking nobody can append anything. A refusal ends the context of that call, and leaves the log
// whose it is.
func (d *Dir) takeOnce() (entry takingEntry, p Position, err error) {
	r := d.remote
	ctx, stop := context.WithCancelCause(r.ctx)
	defer stop(nil)
	p, err = r.takeLog(ctx, func(found Position) []byte {
		var refused error
		if entry, refused = d.chooseEntry(found); refused != nil {
			stop(refused) // nothing is appended
		}
		return entry.data
	})
	if err == nil {
		err = context.Cause(ctx) // of a log that has not looked
	}
	return entry, p, err
}

// chooseEntry returns what a log is taken with that ends at a position: an opening, or what it has lost. The error says why it is not to
// be taken.
//
// A log that is further than pawl.db is looked at as well: its end may be one behind which the
// tail has more.
func (d *Dir) chooseEntry(found Position) (takingEntry, error) {
	r := d.remote
	open := logEntry{kind: entryOpen, at: time.Now(), epoch: d.epoch, before: found.Sum}
	entry := takingEntry{data: open.encode()}
	if !r.has {
		return entry, nil
	}
	err := errLostAll
	switch {
	case found.Sum == r.place.Sum || found.Seq > r.place.Seq: // catchUp looks at what pawl.db lacks
		entry.lost, err = r.tail.findBehind(found.Sum)
	case found.Seq > 0:
		entry.lost, err = r.tail.findLost(found.Sum, r.place.Sum)
	}
	if err == nil && len(entry.lost) > 0 {
		entry.data, err = r.tail.readEntry(entry.lost[0])
	}
	if err != nil {
		what := fmt.Sprintf("it is missing, and the directory has it: the log has lost its end, behind entry %d, and it cannot be appended again", found.Seq)
		err = &CorruptError{File: nameOfEntry(found.Seq + 1), What: what, Err: fmt.Errorf("%w: %w", errNotPrefix, err)}
	}
	return entry, err
}

// Why a log is not taken.
var (
	errNotPrefix = errors.New("the directory goes on from another entry")
	errLostAll   = errors.New("the log is empty: it is another one, or has lost everything")
)

// appendLost appends entries again; the first one is there already.
//
// The numbers of entries may be others than before, if openings that nobody needs were lost as
// well; what pawl.db has as its place is corrected when its entry is there.
func (d *Dir) appendLost(lost []tailEntry, first Position) error {
	r := d.remote
	p := first
	for i, e := range lost {
		if i > 0 {
			data, err := r.tail.readEntry(e)
			if err == nil {
				p, err = r.appendData(data)
			}
			if err != nil {
				return err
			}
		}
		d.hook.Hit("remote.again")
		if e.sum == r.place.Sum && p.Seq != r.place.Seq {
			r.place.Seq = p.Seq
			if err := index.KeepLogPlace(d.db, r.place); err != nil {
				return d.indexError(err)
			}
		}
	}
	d.options.Logger.Warn("the log had lost its end: what the directory has of it is appended again", "directory", d.path, "entries", len(lost), "last", p.Seq)
	return nil
}

// findPlace looks for the entry that pawl.db has last, by its sum, where the log has it under another number: of entries that
// were appended again, because what nobody needs was lost as well. It reports whether it has found it, and fails if the log
// does not answer.
func (d *Dir) findPlace() (bool, error) {
	r := d.remote
	for entry, err := range r.o.Log.Read(r.ctx, Position{}) {
		if errors.Is(err, ErrCorrupt) { // so much was looked at
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if p := PositionOf(entry.Seq, entry.Data); p.Sum == r.place.Sum && p.Seq != r.place.Seq {
			r.place.Seq = p.Seq
			return true, d.indexError(index.KeepLogPlace(d.db, r.place))
		}
	}
	return false, nil
}

// takeLog takes the log, and tries again until that has succeeded or ctx ends.
func (r *remote) takeLog(ctx context.Context, makeEntry func(Position) []byte) (Position, error) {
	for pause := firstPause; ; pause = min(2*pause, maxRetryPause) {
		p, err := r.o.Log.Take(ctx, makeEntry)
		switch {
		case err == nil:
			r.advance(p)
			return p, nil
		case ctx.Err() != nil:
			return p, context.Cause(ctx)
		case errors.Is(err, ErrCorrupt):
			return p, err
		}
		r.tell(err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return p, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

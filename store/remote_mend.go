package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-run/pawl/blob"
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

// takeLog takes the log, and tries again until that has succeeded or ctx ends. A log that is full drops what is older than its last base.
func (r *remote) takeLog(ctx context.Context, makeEntry func(Position) []byte) (Position, error) {
	dropped := false
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
		case errors.Is(err, ErrNoSpace) && !dropped:
			failed := r.makeRoom(ctx)
			if dropped = failed == nil; dropped {
				continue
			}
			err = errors.Join(err, failed)
		}
		r.tell(err)
		if !waitOut(ctx, pause) {
			return p, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// A log that has a hole, is damaged, or is gone, can be begun anew from a directory that is whole. That is for a person to say, who names
// the directory: what others have, and it has not, is given up.
//
//  1. The directory gets what the log has behind it, as far as that goes.
//  2. The log is taken with an entry that says: nothing before this counts. It has a number, the generation, which is higher than
//     that of the directory and of every such entry in the log. It is refused if the log has changed since it was looked at.
//  3. The directory notes that, then appends a base, and then has the log drop everything before.
//
// A crash before 3 leaves an entry without a base, behind which nobody opens but a caller that begins anew again; after it, each opening of the directory goes
// on: it is one whose log has no base yet. A directory of an earlier generation does not fit the log any more: it is made anew from the base, and the old one
// is set aside under another name, since it may have entries that were given up. If two generations have the same number, neither gives way to the other.

var (
	// errAnew ends a replay: the log was begun anew there.
	errAnew = errors.New("the log was begun anew, from another directory")
	// errSuperseded says that the log was begun anew, from another directory.
	errSuperseded = errors.New("the directory is of an earlier generation of its log")
	// ErrGivesUp says that more would be given up than the caller has said.
	ErrGivesUp = errors.New("more would be given up than was said")
	// ErrNothingLost says that a log needs not be begun anew.
	ErrNothingLost = errors.New("the log lacks nothing that the directory needs: open it")
)

// RecoverOptions say what a log is begun anew with.
type RecoverOptions struct {
	Log    Log
	Bases  blob.Store
	Begin  bool // false: only the report is made
	GiveUp int  // at most so many entries of the log, of those in RecoverReport.GivenUp
}

// A RecoverReport says how a directory and its log stand to each other.
type RecoverReport struct {
	Directory  Position
	Log        Position
	Common     uint64
	GivenUp    int
	Since      time.Time
	Until      time.Time
	Lacks      uint64
	Damage     string
	Generation uint64
	Begun      bool
}

// String says the same in lines for people.
func (r RecoverReport) String() string {
	lines := []string{fmt.Sprintf("the directory has the log up to entry %d", r.Directory.Seq)}
	if r.Log.Seq == 0 {
		lines = append(lines, "the log is empty")
	} else {
		lines = append(lines, fmt.Sprintf("the log can be read up to entry %d", r.Log.Seq))
	}
	if r.Damage != "" {
		lines = append(lines, "the log is damaged: "+r.Damage)
	}
	if r.Common == 0 && r.Log.Seq > 0 {
		lines = append(lines, "nothing in the log is known to the directory: is it the log of this one?")
	}
	if r.Lacks > 0 {
		lines = append(lines, fmt.Sprintf("the directory has %d entries that the log lacks behind entry %d", r.Lacks, r.Common))
	}
	switch {
	case r.GivenUp == 0:
		lines = append(lines, "the directory lacks nothing of the log")
	case r.Since.IsZero():
		lines = append(lines, fmt.Sprintf("the directory lacks %d entries of the log", r.GivenUp))
	default:
		lines = append(lines, fmt.Sprintf("the directory lacks %d entries of the log, of %s to %s", r.GivenUp, r.Since.UTC().Format(time.RFC3339), r.Until.UTC().Format(time.RFC3339)))
	}
	if r.Begun {
		lines = append(lines, fmt.Sprintf("the log is begun anew, with what the directory has: generation %d", r.Generation))
	}
	return strings.Join(lines, "\n")
}

// An anewRequest is what an opening is to do that begins a log anew.
type anewRequest struct {
	o      RecoverOptions
	report RecoverReport
}

// RecoverLog begins the log of a directory anew, with what the directory at path has: for a log that has a hole, is damaged or is gone. No
// engine may have the directory open. Engines that have taken the log commit nothing more, and other directories of that log are made anew when they are opened
// again. Without Begin it only reports. It fails as [OpenRemote] does, with ErrGivesUp, with ErrNothingLost, and with
// ErrOtherLog if the directory has no log, or the log is of another directory.
//
// It is the one operation that gives up entries of a log, so it asks twice: without Begin it says
// how many, and with it, the caller must have said that as many may go.
func RecoverLog(ctx context.Context, path string, o Options, ro RecoverOptions) (RecoverReport, error) {
	if ro.Log == nil || ro.Bases == nil {
		return RecoverReport{}, fmt.Errorf("recover the log of %s: %w", path, errNoPlace)
	}
	if _, err := os.Stat(filepath.Join(path, indexFile)); err != nil {
		return RecoverReport{}, fmt.Errorf("recover the log of %s: %w", path, err)
	}
	r := &remote{o: RemoteOptions{Log: ro.Log, Bases: ro.Bases, Rebase: time.Hour, Report: func(RemoteReport) {}}, anew: &anewRequest{o: ro}}
	d, err := openJoined(ctx, path, o, r)
	if err == nil {
		err = errors.Join(r.startKeeping(ctx, d), d.Close())
		r.anew.report.Begun = err == nil
	}
	if errors.Is(err, errReported) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("recover the log of %s: %w", path, err)
	}
	return r.anew.report, err
}

// errReported ends an opening that was only to report.
var errReported = errors.New("nothing is begun")

// beginAnew looks at the log, and begins it anew.
//
// First the directory gets what can be had: an error of the log in that is what brings people
// here, and no reason to stop. Then the log is surveyed as a whole, and what it has and the
// directory lacks is counted. The log is taken only if it still ends where it did before the
// survey.
func (d *Dir) beginAnew() error {
	r := d.remote
	if !r.has {
		return fmt.Errorf("%w: the directory has no log: open it with an empty one", ErrOtherLog)
	}
	if err := index.MakeOutbox(d.db); err != nil {
		return d.indexError(err)
	}
	if err := d.catchUp(); err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, errBehind) && !errors.Is(err, errAnew) && !errors.Is(err, ErrOtherLog) {
		return err
	}
	end, err := r.endOfLog()
	if err != nil {
		return err
	}
	s, err := d.surveyLog(end)
	if err == nil {
		err = d.checkBases(s)
	}
	if err != nil {
		return err
	}
	report := &r.anew.report
	*report = s.report
	switch {
	case !r.anew.o.Begin:
		return errReported
	case report.Damage == "" && report.GivenUp == 0 && d.fitsLog(s):
		return ErrNothingLost
	case s.later:
		return fmt.Errorf("%w: the log was begun anew from another directory since: open this one with it", ErrOtherLog)
	case report.GivenUp > r.anew.o.GiveUp:
		return fmt.Errorf("%w: %d entries of the log, and not %d at most", ErrGivesUp, report.GivenUp, r.anew.o.GiveUp)
	}
	// It is higher than all that were ever in the log as far as can be read, so that directories
	// of before know that they are.
	generation := max(r.place.Generation, s.generation) + 1
	ctx, stop := context.WithCancelCause(r.ctx)
	defer stop(nil)
	own := end // or an entry of ours, whose answer was lost
	p, err := r.takeLog(ctx, func(found Position) []byte {
		if found != end && found.Sum != own.Sum {
			stop(fmt.Errorf("%w: somebody has appended to the log meanwhile", ErrFenced))
		}
		e := logEntry{kind: entryAnew, at: time.Now(), epoch: d.epoch, before: found.Sum, number: int64(generation)} //nolint:gosec // it counts
		data := e.encode()
		own = PositionOf(0, data)
		return data
	})
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	d.hook.Hit("remote.taken")
	r.tail.removeFiles()
	r.place = index.LogPlace{Seq: p.Seq, Sum: p.Sum, Spill: r.place.Spill, Generation: generation, Anew: p.Seq}
	report.Generation = generation
	return d.indexError(index.KeepLogPlace(d.db, r.place))
}

// endOfLog returns where a log ends, without taking it.
//
// The function that is to make the entry ends the context, so that nothing is appended and nobody
// loses the log.
func (r *remote) endOfLog() (end Position, err error) {
	ctx, stop := context.WithCancelCause(r.ctx)
	defer stop(nil)
	_, err = r.takeLog(ctx, func(found Position) []byte {
		end = found
		stop(errLooked)
		return nil
	})
	if errors.Is(err, errLooked) {
		err = nil
	}
	return end, err
}

// errLooked keeps a log from being taken.
var errLooked = errors.New("it is only looked at")

// dropFormer has the log drop what was before it was begun anew. A crash may have kept an earlier opening from that, so each tries
// again; the one that begins it anew does so until ctx ends.
//
// Entries before the beginning count no more, and may be the damaged ones.
func (r *remote) dropFormer(ctx context.Context) error {
	if r.place.Anew <= 1 {
		return nil
	}
	for pause := firstPause; ; pause = min(2*pause, maxRetryPause) {
		err := r.o.Log.Drop(ctx, Position{Seq: r.place.Anew - 1})
		if err == nil || r.anew == nil {
			return context.Cause(ctx)
		}
		if !waitOut(ctx, pause) {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// fitsLog reports whether the directory can be opened with its log as that is.
func (d *Dir) fitsLog(s *logSurvey) bool {
	r := d.remote
	if s.report.Log.Sum == r.place.Sum {
		return true
	}
	_, err := r.tail.findLost(s.report.Log.Sum, r.place.Sum)
	return err == nil && s.report.Log.Seq > 0
}

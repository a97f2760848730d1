package store

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/workflow"
)

// While it stands by, a directory is as one that was left behind: pawl.db is brought up to the end of its log again and
// again. The files of runs are not in the log, so its records stay in pawl.db; when there are many, they are flushed as those of an engine that has crashed.

var (
	// errNoDirectory says that there is nothing yet that could stand by.
	errNoDirectory = errors.New("the log has no base yet")
	// errGrown says that a directory that stands by has much to be flushed.
	errGrown = errors.New("the directory has grown")
)

const (
	standByPause = time.Second // between two looks at the log
	standByBytes = 64 << 20    // of changes after which they are flushed
	getLogged    = `SELECT id, num, 0 FROM runs WHERE seq > filed AND ? <= 0 AND num > ? AND num IN (SELECT key >> 32 FROM log) ORDER BY num LIMIT ?`
)

// standsBy reports whether the log is not to be taken yet.
//
// Its answer changes once, from true to false, when the caller closes the channel.
func (r *RemoteOptions) standsBy() bool {
	if r.StandBy == nil {
		return false
	}
	select {
	case <-r.StandBy:
		return false
	default:
		return true
	}
}

// pauseStandBy waits until it is time to look at the log again, or to take it.
func (r *RemoteOptions) pauseStandBy(ctx context.Context) error {
	timer := time.NewTimer(standByPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.StandBy:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// standBy brings pawl.db up to the end of its log, once or, as long as it is not to be taken, again and again.
//
// Nothing is appended to the log meanwhile, so its owner notices nothing. An error that may pass,
// such as a log that does not answer, is reported and tried again; one that says that this
// directory cannot go on as it is ends the standing by.
func (d *Dir) standBy() error {
	r := d.remote
	for {
		waits := r.o.standsBy()
		err := d.catchUp()
		if errors.Is(err, ErrOtherLog) { // another one came before this one had a base, and was made of nothing
			if empty, unread := index.IsEmpty(d.db); unread == nil && empty {
				err = errBehind
			}
		}
		if !waits {
			return err
		}
		for _, final := range []error{errBehind, errAnew, ErrCorrupt, ErrVersion, ErrOtherLog, ErrNoSpace} {
			if errors.Is(err, final) {
				return err
			}
		}
		if d.checkpointIfLong(); d.dead != nil {
			return d.dead
		}
		r.advance(Position{r.place.Seq, r.place.Sum})
		r.tell(err)
		if r.replayed >= d.hook.StandByBytes(standByBytes) {
			return errGrown
		}
		if err := r.o.pauseStandBy(r.ctx); err != nil {
			return err
		}
		if err := d.checkOwnerAtOpen(); err != nil {
			return err
		}
	}
}

// flushStandBy has the records flushed that came into a directory from its log.
//
// It opens the directory as one whose log is away, so that records are flushed to files, which
// concerns this copy alone, and nothing can be committed.
func flushStandBy(ctx context.Context, path string, o Options) error {
	o.LogAway = true // nothing is committed
	d, err := OpenContext(ctx, path, o)
	if err != nil {
		return err
	}
	err = d.flushLogged(ctx)
	return errors.Join(err, d.Close())
}

// flushLogged has all records flushed that are in pawl.db. A run that cannot be loaded is left as it is: whoever
// takes the log is told.
//
// The runs are those with more records in the index than in their file.
func (d *Dir) flushLogged(ctx context.Context) error {
	ids, err := d.queryIDs(getLogged, 0)
	if err != nil {
		return err
	}
	var last workflow.RunID
	var failed error // of the last one: the log gets a line for all
	left := 0
	for _, id := range ids {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := d.flushRun(id); err != nil {
			last, failed, left = id, err, left+1
		}
	}
	if left > 0 {
		d.options.Logger.Warn("runs cannot be flushed yet", "directory", d.path, "runs", left, "run", string(last), "error", failed)
	}
	return nil
}

// flushRun has the records of a run flushed that are in pawl.db.
func (d *Dir) flushRun(id workflow.RunID) error {
	r, s, events, err := d.Load(id)
	if err != nil {
		return err
	}
	d.flusher.waitForBacklog()
	r.Flush(s.TakeChanges(), events, func(error) {}) // what fails stays in pawl.db
	return r.Close()
}

// Package outbox publishes the events that commits leave in an engine directory, in the order of each run and at least once.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/tasklog"
	"github.com/pawl-run/pawl/internal/telemetry"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// Bounds of a feeder.
const (
	feedTimeout = 30 * time.Second       // of one Publish
	feedLinger  = 2 * time.Millisecond   // in which more may come, once something has
	feedKeep    = 500 * time.Millisecond // that rows which are published stay at most
	feedDropped = 512                    // rows that are published and stay
	feedHeld    = 16384                  // runs that are held, before all others wait
	feedProbes  = 16                     // pages that fail as a whole, before a walk pauses
	feedDrain   = 2 * time.Second        // in which Close lets the last events be published
	firstFeed   = 100 * time.Millisecond // pause after a failure
	lastFeed    = 30 * time.Second       // pause after many
)

// A Directory is the engine directory as a feeder sees it; *store.Dir is one.
type Directory interface {
	ReadOutbox(after int64) ([]store.OutboxRow, error)
	DropOutbox(rows []store.OutboxRow) error
	OutboxMoved() <-chan struct{}
	OutboxSize() (events, bytes int64)
	Failed() <-chan struct{}
}

// Options say where events come from and where they go. All fields but Types and Hook are needed.
type Options struct {
	Dir      Directory
	Publish  func(ctx context.Context, row *store.OutboxRow, e *decision.Event) error // returns soon after ctx is done
	Types    []workflow.EventType                                                     // the events that are wanted; none is all
	MaxBytes int64                                                                    // of events that wait, from which commits wait
	Lanes    int                                                                      // calls of Publish at once
	Logger   *slog.Logger
	Metrics  *telemetry.Metrics // nil without
	Hook     *testhook.Hook
}

// A walk goes through the outbox from the first row on.
type walk struct {
	after  int64 // the row that it has come to
	failed int   // pages in a row that have failed as a whole
}

// isAway reports whether so much fails that the walk pauses.
//
// The other side is then probably not there: trying run by run would fill the memory with held
// runs, and the log with causes. The walk goes on behind what has failed, so that messages which
// are refused for ever stop nobody else's.
func (w *walk) isAway() bool { return w.failed >= feedProbes }

// A Feeder publishes the events in the outbox. The front walks through that once. A run with a
// message that fails is held: the front passes over its rows. After a pause a second walk, from
// the first row to the front, tries the held runs again, and releases those that fail nowhere. The
// two take turns page by page, so that trying again keeps no other run waiting. All but the counts
// is the feeder's goroutine's.
//
// Two orders matter. Events of one run are published in their order, each after the one before
// it was taken: a run that is held keeps its place. Runs among each other have no order, so
// that a message which nobody can take, for example because it is too large for them, holds up
// its own run and no other. A row is dropped from the outbox after its events were published,
// and a crash in between publishes them again: at least once.
type Feeder struct {
	o      Options
	types  map[workflow.EventType]bool // nil: all
	cancel context.CancelFunc          // of the messages
	ends   chan struct{}               // closed when nothing more is committed
	done   chan struct{}               // closed when the goroutine has ended

	front walk
	held  map[workflow.RunID]bool // runs whose rows the front passes over
	again walk                    // for the runs in tried; it stands while there are none
	tried map[workflow.RunID]bool // held runs that have not failed since again began
	// A row has the events of one record. If the third of five fails, the first two are not
	// published again in this life.
	begun     map[int64]int // how many events are published of rows that are not as a whole, by id
	pauses    int           // that are over
	ending    bool          // what comes now is the last
	published atomic.Int64
	kept      []store.OutboxRow // that are published, and not dropped yet; without their events, which may be large
	keptSince time.Time
	pause     time.Duration
	retryAt   time.Time

	// failing is since when something fails, zero while nothing does; failure is the last
	// cause. Stats reads both.
	mu      sync.Mutex // guards
	failing time.Time
	failure string
}

// New returns a feeder that publishes nothing before Start.
func New(o Options) *Feeder {
	f := &Feeder{o: o, ends: make(chan struct{}), done: make(chan struct{}), held: map[workflow.RunID]bool{}, begun: map[int64]int{}}
	for _, t := range o.Types {
		if f.types == nil {
			f.types = map[workflow.EventType]bool{}
		}
		f.types[t] = true
	}
	return f
}

// Start begins to publish.
func (f *Feeder) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go f.publishUntilStopped(ctx)
}

// Stop lets what waits be published, for a moment and while that succeeds, and ends. Nothing is
// committed any more.
//
// Close calls it after actors and background work have ended, so that the walk which begins now
// sees the last commit. A Publish that does not return is cancelled after feedDrain, or when
// ctx is done.
func (f *Feeder) Stop(ctx context.Context) {
	if f == nil || f.cancel == nil {
		return
	}
	close(f.ends)
	timer := time.NewTimer(feedDrain)
	defer timer.Stop()
	select {
	case <-f.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	f.cancel()
	<-f.done
}

// publishUntilStopped is the feeder's goroutine. It publishes pages as long as there are any,
// and waits in between. A directory that has failed ends it: nothing would be dropped any more.
func (f *Feeder) publishUntilStopped(ctx context.Context) {
	defer close(f.done)
	for ctx.Err() == nil {
		more, err := f.publishPages(ctx)
		if errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrFailed) {
			return
		}
		switch {
		case err != nil:
			f.noteFailure(err)
		case len(f.held) > 0 && !f.isTrying(): // perhaps by what has failed before the last pause
			f.beginPause()
		case len(f.held) == 0 && f.retryAt.IsZero():
			f.noteSuccess()
		}
		if !more && !f.waitForMore(ctx) {
			break
		}
		// While events come faster than they are published nobody waits, and a pause ends here.
		if now := time.Now(); f.front.failed == 0 && !f.isTrying() && f.isDue(now) {
			f.wakeUp(now)
		}
	}
	f.dropKept() // what it leaves comes again
}

// publishPages publishes the next page of either walk and reports whether there may be more.
//
// The front passes over the rows of a held run, so that the second walk has all of them as soon as
// it has come to the front: runs that have not failed by then are held no longer.
func (f *Feeder) publishPages(ctx context.Context) (more bool, err error) {
	if f.isTrying() {
		err = f.publishPage(ctx, &f.again, func(r *store.OutboxRow) bool { return r.ID <= f.front.after && f.tried[r.Run] })
		if err != nil {
			return false, err
		}
		if f.again.after >= f.front.after {
			maps.DeleteFunc(f.held, func(run workflow.RunID, _ bool) bool { return f.tried[run] })
			f.tried = nil
		}
	}
	before := f.front.after
	if !f.isStopped() {
		err = f.publishPage(ctx, &f.front, func(r *store.OutboxRow) bool { return !f.held[r.Run] })
	}
	return err == nil && (f.front.after > before && !f.isStopped() || f.isTrying()), err
}

// isTrying reports whether the second walk has something to do before the next pause is over.
func (f *Feeder) isTrying() bool { return len(f.tried) > 0 && !f.again.isAway() }

// isStopped reports whether the front goes no further before a pause is over.
func (f *Feeder) isStopped() bool { return f.front.isAway() || len(f.held) >= feedHeld }

// publishPage publishes the next rows of a walk that are wanted.
//
// A page is split by run, published, and noted; the walk moves behind it whatever came of it, as
// what failed is held and comes again.
func (f *Feeder) publishPage(ctx context.Context, w *walk, wants func(*store.OutboxRow) bool) error {
	rows, err := f.o.Dir.ReadOutbox(w.after)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		w.after = max(w.after, f.front.after) // the second walk has come to the front
		return nil
	}
	f.o.Hook.Hit("feed.read")
	lanes := f.groupByRun(rows, wants)
	good, bad := f.publishLanes(ctx, lanes)
	switch {
	case good:
		w.failed = 0
	case bad:
		w.failed++
	}
	w.after = rows[len(rows)-1].ID
	for _, l := range lanes {
		f.noteLane(l)
	}
	// Dropping is a commit of its own, so that it is done for many rows at once. It is done
	// early if the outbox is half full, because commits of runs wait for room in it.
	_, bytes := f.o.Dir.OutboxSize()
	if len(f.kept) >= feedDropped || len(f.kept) > 0 && (bytes >= f.o.MaxBytes/2 || f.untilDrop() <= 0) {
		f.dropKept()
	}
	return nil
}

// noteLane notes what came of a lane.
//
// A lane that was held and has published something now shows that the pause has helped, and the
// next one begins small again.
func (f *Feeder) noteLane(l *feedLane) {
	run := l.rows[0].Run
	if l.moved && f.tried[run] {
		f.pause = 0
	}
	for i := range l.published {
		delete(f.begun, l.rows[i].ID)
	}
	if l.published == len(l.rows) {
		return
	}
	// The number of rows that are begun is bounded; beyond it an event is published a second
	// time, which is allowed.
	if l.begun > 0 && len(f.begun) < feedHeld {
		f.begun[l.rows[l.published].ID] = l.begun
	}
	// From here on both walks pass over this run's rows: its next event must not overtake this
	// one.
	f.held[run] = true
	delete(f.tried, run)
	f.noteFailure(l.err, l.logArgs()...)
}

// A feedLane has rows of one run, in their order.
type feedLane struct {
	rows      []store.OutboxRow
	published int  // rows
	begun     int  // events of the next one that are published
	moved     bool // something was published
	err       error
}

// logArgs are the pairs of a line of the log about the row that a lane could not publish.
func (l *feedLane) logArgs() []any {
	r := &l.rows[l.published]
	args := []any{tasklog.Run, string(r.Run), tasklog.Workflow, r.Workflow}
	if l.begun < len(r.Events) { // else they cannot be read
		args = append(args, tasklog.Seq, r.Events[l.begun].Record)
	}
	return args
}

// groupByRun makes lanes of the rows of a page that are wanted, in the order in which the runs
// come. A lane begins with errNotTried, so that one which nobody gets to counts as failed.
func (f *Feeder) groupByRun(rows []store.OutboxRow, wants func(*store.OutboxRow) bool) (out []*feedLane) {
	lanes := map[workflow.RunID]*feedLane{}
	for i := range rows {
		r := &rows[i]
		if !wants(r) {
			continue
		}
		l := lanes[r.Run]
		if l == nil {
			l = &feedLane{err: errNotTried, begun: f.begun[r.ID]}
			lanes[r.Run] = l
			out = append(out, l)
		}
		l.rows = append(l.rows, *r)
		r.Events = nil // the lane has them
	}
	return out
}

// errNotTried is why a message was not published that was not tried because others failed.
var errNotTried = errors.New("other messages fail")

// publishLanes publishes lanes, several at once, unless everything fails, and reports whether some
// have worked and some have failed. After each pause it begins with others of them, so that no
// lane is always behind those that fail.
//
// The goroutines share the lanes by a counter, and each takes the next that nobody has. They
// stop early only if something has failed and nothing has worked among the first, one for each
// goroutine: then the rest of the page would only wait for the same time-out, lane after lane.
//
// A row that is published as a whole stays until it is dropped, which is done meanwhile, as a
// message may take its time. It must not be read again before, which a walk sees to by going on.
func (f *Feeder) publishLanes(ctx context.Context, lanes []*feedLane) (someGood, someBad bool) {
	var next, good, bad atomic.Int64
	var group sync.WaitGroup
	all, most := int64(len(lanes)), int64(f.o.Lanes)
	first := int64(f.pauses) * most
	taken := make(chan store.OutboxRow)
	for range min(most, all) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < all && (i < most || bad.Load() == 0 || good.Load() > 0); i = next.Add(1) - 1 {
				l := lanes[(first+i)%all]
				if l.err = f.publishLane(ctx, l, taken); l.err != nil {
					bad.Add(1)
				}
				if l.moved {
					good.Add(1)
				}
			}
		})
	}
	go func() { group.Wait(); close(taken) }()
	f.keepTaken(taken)
	return good.Load() > 0, bad.Load() > 0
}

// keepTaken keeps rows that are published, and drops them when their time is over, until taken is
// closed.
func (f *Feeder) keepTaken(taken <-chan store.OutboxRow) {
	drop := time.NewTimer(f.untilDrop())
	defer drop.Stop()
	for {
		select {
		case row, more := <-taken:
			if !more {
				return
			}
			if len(f.kept) == 0 {
				f.keptSince = time.Now()
			}
			f.kept = append(f.kept, row)
		case <-drop.C:
			f.dropKept()
			drop.Reset(f.untilDrop())
		}
	}
}

// untilDrop returns in which time what is published is to be dropped; feedKeep if nothing is.
func (f *Feeder) untilDrop() time.Duration {
	if len(f.kept) == 0 {
		return feedKeep
	}
	return feedKeep - time.Since(f.keptSince)
}

// publishLane publishes the rows of a lane one event after the other, and gives taken those that
// are published. It stops at the first event that fails: published and begun then say how far it
// came.
func (f *Feeder) publishLane(ctx context.Context, l *feedLane, taken chan<- store.OutboxRow) error {
	for i := range l.rows {
		row := &l.rows[i]
		if row.Err != nil {
			return row.Err
		}
		for ; l.begun < len(row.Events); l.begun++ {
			if err := f.publishEvent(ctx, row, &row.Events[l.begun]); err != nil {
				return fmt.Errorf("event %d of run %q: %w", row.Events[l.begun].Seq, string(row.Run), err)
			}
			l.moved = true
		}
		l.published, l.begun = l.published+1, 0
		row.Events = nil
		taken <- *row
	}
	return nil
}

// publishEvent publishes one event.
//
// It has a time of its own, and a panic of the host's function is an error like another: the
// goroutine of the feeder must not die of it.
func (f *Feeder) publishEvent(ctx context.Context, row *store.OutboxRow, e *decision.Event) (err error) {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the publisher panicked: %v", p)
		}
	}()
	f.o.Hook.Hit("feed.publish")
	if err := f.o.Publish(ctx, row, e); err != nil {
		return err
	}
	f.published.Add(1)
	f.o.Metrics.Published(row.At)
	f.o.Hook.Hit("feed.taken")
	return nil
}

// dropKept drops the rows that are published, and reports whether they are gone.
//
// Rows that could not be dropped stay in kept, and are tried again after feedKeep.
func (f *Feeder) dropKept() bool {
	if len(f.kept) == 0 {
		return true
	}
	f.o.Hook.Hit("feed.drop")
	if err := f.o.Dir.DropOutbox(f.kept); err != nil {
		f.keptSince = time.Now()
		f.noteFailure(err)
		return false
	}
	f.o.Hook.Hit("feed.dropped")
	f.kept = nil
	return true
}

// WantedEvents returns the events that are to be published.
func (f *Feeder) WantedEvents(told []decision.Told) []decision.Event {
	switch {
	case f == nil:
		return nil
	case f.types == nil:
		return decision.EventsOf(told)
	}
	var out []decision.Event
	for i := range told {
		if f.types[told[i].Bare().Type] {
			out = append(out, told[i].Event())
		}
	}
	return out
}

// noteFailure notes that something failed, and after which pause it is tried again.
//
// The first failure after a pause decides when the next pause ends; later ones change nothing but
// the cause that is shown. The pause doubles from time to time. The log is told once, when
// failing begins, and not for each message: about are the pairs of its line.
func (f *Feeder) noteFailure(err error, about ...any) {
	f.beginPause()
	f.mu.Lock()
	first := f.failing.IsZero()
	if first {
		f.failing = time.Now()
	}
	if !errors.Is(err, errNotTried) {
		f.failure = err.Error()
	}
	f.mu.Unlock()
	if first && !errors.Is(err, context.Canceled) { // the engine closes
		f.o.Logger.Warn("pawl: events cannot be published, and will be again", append(about, tasklog.Error, err)...)
	}
}

// beginPause begins a pause, unless one is under way.
func (f *Feeder) beginPause() {
	if f.retryAt.IsZero() {
		f.pause = min(max(2*f.pause, firstFeed), lastFeed)
		f.retryAt = time.Now().Add(f.pause)
	}
}

// noteSuccess notes that nothing fails any more.
//
// It is called after pages that were read while no pause was due and no run held.
func (f *Feeder) noteSuccess() {
	f.pause = 0
	f.mu.Lock()
	since := f.failing
	f.failing, f.failure = time.Time{}, ""
	f.mu.Unlock()
	if !since.IsZero() {
		f.o.Logger.Info("pawl: events are published again", "since", since)
	}
}

// waitForMore waits until there is something to do, and reports whether there will be.
//
// There are four reasons to go on: something was committed, a pause or the time of published
// rows is over, or nothing more will be committed. In the last case the walk goes on once more,
// to the end, and ends.
func (f *Feeder) waitForMore(ctx context.Context) bool {
	if f.ending {
		return false
	}
	moved := f.o.Dir.OutboxMoved()
	// If everything fails new commits are no reason to try: only the end of the pause is.
	if f.isStopped() {
		moved = nil
	}
	var wake <-chan time.Time
	if at := f.nextWake(); !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		wake = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-f.o.Dir.Failed():
		return false
	case <-f.ends:
		f.ending = true // once more, for what was committed last
	case <-moved:
		f.linger(ctx)
	case <-wake:
		f.wakeUp(time.Now())
	}
	return true
}

// nextWake returns when there is something to do by itself; zero if never.
func (f *Feeder) nextWake() time.Time {
	at := f.retryAt
	if drop := f.keptSince.Add(feedKeep); len(f.kept) > 0 && (at.IsZero() || drop.Before(at)) {
		at = drop
	}
	return at
}

// wakeUp drops what is published, and lets both walks go on if it is time for that. If the second
// one has come to its end it begins again.
//
// Published rows are dropped before it begins at the first row, or else it would read and publish
// them again.
func (f *Feeder) wakeUp(now time.Time) {
	retry := f.isDue(now)
	if retry {
		f.retryAt = time.Time{}
	}
	if gone := f.dropKept(); !gone || !retry {
		return // what is published and not gone would be published again
	}
	f.pauses++
	f.front.failed, f.again.failed = 0, 0
	if len(f.tried) == 0 {
		f.again.after, f.tried = 0, maps.Clone(f.held)
	}
}

// isDue reports whether a pause is over.
func (f *Feeder) isDue(now time.Time) bool { return !f.retryAt.IsZero() && !now.Before(f.retryAt) }

// linger gives others the time to commit as well.
//
// Commits come in bursts: a page of many rows costs as much as one of a single row.
func (f *Feeder) linger(ctx context.Context) {
	timer := time.NewTimer(feedLinger)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.ends:
	case <-ctx.Done():
	}
}

// Stats are how far a feeder is.
type Stats struct {
	Published int64     // messages since Start
	Failing   time.Time // since when messages fail; zero if none does
	Failure   string    // the last cause
}

// Stats returns how far the feeder is.
func (f *Feeder) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Stats{f.published.Load(), f.failing, f.failure}
}

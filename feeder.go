package pawl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// Bounds of a feeder.
const (
	feedTimeout = 30 * time.Second       // of one Publish
	feedLinger  = 2 * time.Millisecond   // in which more may come, once something has
	feedKeep    = 500 * time.Millisecond // that rows which are published stay at most
	feedDropped = 512                    // rows that are published and stay
	feedHeld    = 1024                   // runs that wait for the next walk, before all do
	feedProbes  = 16                     // pages of which everything fails, likewise
	feedDrain   = 2 * time.Second        // in which Close lets the last events be published
	firstFeed   = 100 * time.Millisecond // pause after a failure
	lastFeed    = 30 * time.Second       // pause after many
)

// A feeder publishes what is in the outbox. It walks through that from the first row on. A run
// of which a message fails is held: its rows are passed over until the next walk, which comes
// after a pause. All but the counts is its goroutine's.
type feeder struct {
	engine *Engine
	to     Feed
	types  map[EventType]bool // nil: all
	cancel context.CancelFunc // of the messages
	ends   chan struct{}      // closed when nothing more is committed
	done   chan struct{}      // closed when the goroutine has ended

	after     int64                   // the row that the walk has come to
	held      map[workflow.RunID]bool // since it began
	before    map[workflow.RunID]bool // that were held in the walk before
	begun     map[int64]int           // how many events are published of rows that are not as a whole, by id
	failed    int                     // pages in a row of which everything has failed
	walks     int
	ending    bool // this walk is the last
	published atomic.Int64
	kept      []store.OutboxRow // that are published, and not dropped yet
	keptSince time.Time
	pause     time.Duration
	retryAt   time.Time

	mu      sync.Mutex // guards
	failing time.Time
	failure string
}

// newFeeder returns a feeder that publishes until it is stopped, nil without a feed.
func newFeeder(e *Engine) *feeder {
	o := e.options.Feed
	if o.To == nil {
		return nil
	}
	f := &feeder{engine: e, to: o.To, ends: make(chan struct{}), done: make(chan struct{}), held: map[workflow.RunID]bool{}, begun: map[int64]int{}}
	for _, t := range o.Types {
		if f.types == nil {
			f.types = map[EventType]bool{}
		}
		f.types[t] = true
	}
	return f
}

// start begins to publish.
func (f *feeder) start() {
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	go f.publishUntilStopped(ctx)
}

// stop lets what waits be published, for a moment and while that succeeds, and ends. Nothing is
// committed any more.
func (f *feeder) stop(ctx context.Context) {
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

func (f *feeder) publishUntilStopped(ctx context.Context) {
	defer close(f.done)
	for ctx.Err() == nil {
		more, err := f.publishPage(ctx)
		if errors.Is(err, ErrClosed) || errors.Is(err, ErrFailed) {
			return
		}
		if err != nil {
			f.noteFailure(err)
		}
		if !more && !f.waitForMore(ctx) {
			break
		}
	}
	f.dropKept() // what it leaves comes again
}

// publishPage publishes the next rows of the walk and reports whether there may be more.
func (f *feeder) publishPage(ctx context.Context) (more bool, err error) {
	rows, err := f.engine.dir.ReadOutbox(f.after)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	f.engine.hook.Hit("feed.read")
	lanes := f.groupByRun(rows)
	f.publishLanes(ctx, lanes)
	f.after = rows[len(rows)-1].ID
	for _, l := range lanes {
		f.noteLane(l)
	}
	if _, bytes := f.engine.dir.OutboxSize(); len(f.kept) >= feedDropped || len(f.kept) > 0 && bytes >= f.engine.options.Feed.MaxBytes/2 {
		f.dropKept()
	}
	return !f.isAway(), nil
}

// isAway reports whether so much fails that the walk is over.
func (f *feeder) isAway() bool { return f.failed >= feedProbes || len(f.held) >= feedHeld }

// noteLane notes what came of a lane.
func (f *feeder) noteLane(l *feedLane) {
	run := l.rows[0].Run
	if l.moved && f.before[run] {
		f.pause = 0
	}
	if l.published > 0 && len(f.kept) == 0 {
		f.keptSince = time.Now()
	}
	for i := range l.published {
		f.kept = append(f.kept, l.rows[i])
		delete(f.begun, l.rows[i].ID)
	}
	if l.published == len(l.rows) {
		return
	}
	if l.begun > 0 && len(f.begun) < feedHeld {
		f.begun[l.rows[l.published].ID] = l.begun
	}
	f.held[run] = true
	f.noteFailure(l.err)
}

// A feedLane has rows of one run, in their order.
type feedLane struct {
	rows      []store.OutboxRow
	published int  // rows
	begun     int  // events of the next one that are published
	moved     bool // something was published
	err       error
}

func (f *feeder) groupByRun(rows []store.OutboxRow) (out []*feedLane) {
	lanes := map[workflow.RunID]*feedLane{}
	for _, r := range rows {
		if f.held[r.Run] {
			continue
		}
		l := lanes[r.Run]
		if l == nil {
			l = &feedLane{err: errNotTried, begun: f.begun[r.ID]}
			lanes[r.Run] = l
			out = append(out, l)
		}
		l.rows = append(l.rows, r)
	}
	return out
}

// errNotTried is why a message was not published that was not tried because others failed.
var errNotTried = errors.New("other messages fail")

// publishLanes publishes lanes, several at once, unless everything fails. Each walk begins
// with others of them, so that no lane is always behind those that fail.
func (f *feeder) publishLanes(ctx context.Context, lanes []*feedLane) {
	var next, good, bad atomic.Int64
	var group sync.WaitGroup
	first := int64(f.walks)
	for range min(FeedLanes, len(lanes)) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(lanes)) && (bad.Load() == 0 || good.Load() > 0); i = next.Add(1) - 1 {
				l := lanes[(first+i)%int64(len(lanes))]
				if l.err = f.publishLane(ctx, l); l.err != nil {
					bad.Add(1)
				}
				if l.moved {
					good.Add(1)
				}
			}
		})
	}
	group.Wait()
	switch {
	case good.Load() > 0:
		f.failed = 0
	case bad.Load() > 0:
		f.failed++
	}
}

func (f *feeder) publishLane(ctx context.Context, l *feedLane) error {
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
	}
	return nil
}

// publishEvent publishes one event.
func (f *feeder) publishEvent(ctx context.Context, row *store.OutboxRow, e *decision.Event) (err error) {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("Publish panicked: %v", p)
		}
	}()
	f.engine.hook.Hit("feed.publish")
	if err := f.to.Publish(ctx, messageOf(row, e)); err != nil {
		return err
	}
	f.published.Add(1)
	f.engine.hook.Hit("feed.taken")
	return nil
}

// dropKept drops the rows that are published, and reports whether they are gone.
func (f *feeder) dropKept() bool {
	if len(f.kept) == 0 {
		return true
	}
	f.engine.hook.Hit("feed.drop")
	if err := f.engine.dir.DropOutbox(f.kept); err != nil {
		f.keptSince = time.Now()
		f.noteFailure(err)
		return false
	}
	f.engine.hook.Hit("feed.dropped")
	f.kept = nil
	return true
}

// noteFailure notes that something failed, and after which pause it is tried again.
func (f *feeder) noteFailure(err error) {
	if f.retryAt.IsZero() {
		f.pause = min(max(2*f.pause, firstFeed), lastFeed)
		f.retryAt = time.Now().Add(f.pause)
	}
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
		f.engine.options.Logger.Warn("pawl: events cannot be published, and will be again", "error", err)
	}
}

// noteSuccess notes that a whole walk has failed nowhere.
func (f *feeder) noteSuccess() {
	f.pause = 0
	f.mu.Lock()
	since := f.failing
	f.failing, f.failure = time.Time{}, ""
	f.mu.Unlock()
	if !since.IsZero() {
		f.engine.options.Logger.Info("pawl: events are published again", "failed since", since)
	}
}

// waitForMore waits until there is something to do, and reports whether there will be.
func (f *feeder) waitForMore(ctx context.Context) bool {
	if f.retryAt.IsZero() {
		f.noteSuccess()
	}
	if f.ending {
		return false
	}
	moved := f.engine.dir.OutboxMoved()
	if f.isAway() {
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
	case <-f.engine.dir.Failed():
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
func (f *feeder) nextWake() time.Time {
	at := f.retryAt
	if drop := f.keptSince.Add(feedKeep); len(f.kept) > 0 && (at.IsZero() || drop.Before(at)) {
		at = drop
	}
	return at
}

// wakeUp drops what is published, and begins another walk if it is time for that.
func (f *feeder) wakeUp(now time.Time) {
	retry := !f.retryAt.IsZero() && !now.Before(f.retryAt)
	if retry {
		f.retryAt = time.Time{}
	}
	if gone := f.dropKept(); !gone || !retry {
		return // what is published and not gone would be published again
	}
	f.after, f.failed = 0, 0
	f.walks++
	f.before, f.held = f.held, map[workflow.RunID]bool{}
}

// linger gives others the time to commit as well.
func (f *feeder) linger(ctx context.Context) {
	timer := time.NewTimer(feedLinger)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.ends:
	case <-ctx.Done():
	}
}

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
//
// Two orders matter. Events of one run are published in their order, each after the one before
// it was taken: a run that is held keeps its place. Runs among each other have no order, so
// that a message which nobody can take, for example because it is too large for them, holds up
// its own run and no other. A row is dropped from the outbox after its events were published,
// and a crash in between publishes them again: at least once.
type feeder struct {
	engine *Engine
	to     Feed
	types  map[EventType]bool // nil: all
	cancel context.CancelFunc // of the messages
	ends   chan struct{}      // closed when nothing more is committed
	done   chan struct{}      // closed when the goroutine has ended

	after  int64                   // the row that the walk has come to
	held   map[workflow.RunID]bool // since it began
	before map[workflow.RunID]bool // that were held in the walk before
	// A row has the events of one record. If the third of five fails, the first two are not
	// published again in this life.
	begun     map[int64]int // how many events are published of rows that are not as a whole, by id
	failed    int           // pages in a row of which everything has failed
	walks     int
	ending    bool // this walk is the last
	published atomic.Int64
	kept      []store.OutboxRow // that are published, and not dropped yet
	keptSince time.Time
	pause     time.Duration
	retryAt   time.Time

	// failing is since when something fails, zero while nothing does; failure is the last
	// cause. FeedStats reads both.
	mu      sync.Mutex // guards
	failing time.Time
	failure string
}

// newFeeder returns a feeder that publishes until it is stopped, nil without a feed.
//
// It starts nothing: Open calls start once the runs have been recovered, and never with
// Maintenance.
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
//
// Close calls it after actors and background work have ended, so that the walk which begins now
// sees the last commit. A Publish that does not return is cancelled after feedDrain, or when
// ctx is done.
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

// publishUntilStopped is the feeder's goroutine. It publishes pages as long as there are any,
// and waits in between. A directory that has failed ends it: nothing would be dropped any more.
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
//
// A page is split by run, published, and noted; after moves behind it whatever came of it, as
// what failed is held and comes again with the next walk.
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
	// Dropping is a commit of its own, so that it is done for many rows at once. It is done
	// early if the outbox is half full, because commits of runs wait for room in it.
	if _, bytes := f.engine.dir.OutboxSize(); len(f.kept) >= feedDropped || len(f.kept) > 0 && bytes >= f.engine.options.Feed.MaxBytes/2 {
		f.dropKept()
	}
	return !f.isAway(), nil
}

// isAway reports whether so much fails that the walk is over.
//
// The other side is then probably not there: trying run by run would fill the memory with held
// runs, and the log with causes.
func (f *feeder) isAway() bool { return f.failed >= feedProbes || len(f.held) >= feedHeld }

// noteLane notes what came of a lane.
//
// A lane of which something was published although it was held the last time shows that the
// pause has helped, and the next one begins small again.
func (f *feeder) noteLane(l *feedLane) {
	run := l.rows[0].Run
	if l.moved && f.before[run] {
		f.pause = 0
	}
	if l.published > 0 && len(f.kept) == 0 {
		f.keptSince = time.Now()
	}
	// A row that is published as a whole stays until it is dropped; it must not be read again
	// before, which the walk sees to by going on.
	for i := range l.published {
		f.kept = append(f.kept, l.rows[i])
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
	// From here on the walk passes over this run's rows: its next event must not overtake this
	// one.
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

// groupByRun makes lanes of the rows of a page, in the order in which the runs come, without
// those of held runs. A lane begins with errNotTried, so that one which nobody gets to counts
// as failed.
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
//
// The goroutines share the lanes by a counter, and each takes the next that nobody has. They
// stop early only if something has failed and nothing has worked: then the rest of the page
// would only wait for the same time-out, lane after lane.
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

// publishLane publishes the rows of a lane one event after the other, and stops at the first
// that fails: published and begun then say how far it came.
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
//
// It has a time of its own, and a panic of the host's function is an error like another: the
// goroutine of the feeder must not die of it.
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
//
// Rows that could not be dropped stay in kept, and are tried again after feedKeep.
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

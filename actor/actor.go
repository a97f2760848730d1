package actor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/clock"
	"github.com/pawl-run/pawl/internal/failpoint"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// A Store is the durable side of one run. One actor owns it.
type Store interface {
	// Load returns the committed state, the sequence of its last record, and
	// the events that are not in the run's file yet. A run that does not exist
	// has a new state and sequence 0.
	Load() (s *workflow.State, seq int64, unfiled []decision.Event, err error)
	// Commit makes records durable, with s as the state after them: all of
	// them or, with an error, perhaps none.
	Commit(s *workflow.State, records []decision.Record) error
	// File brings the run's file up to what is committed, off the path, and
	// calls done when it is durable, or when it could not be written: what is
	// committed then stays in the log.
	File(ch workflow.Changes, events []decision.Event, done func(error))
	// Unfiled returns how much is committed that the file does not hold.
	Unfiled() (records int, bytes int64)
	// Close releases what the store holds open.
	Close() error
}

// An Outbox carries effects away. Its methods return at once and do not call
// back into the actor that calls them.
type Outbox interface {
	// Dispatch hands out an attempt of a task. The same key may come again.
	Dispatch(d Dispatch)
	// Withdraw says that a token's running attempt is no longer wanted, or has
	// ended.
	Withdraw(run workflow.RunID, token workflow.TokenID)
	// Committed says that the run has moved on, and how it stands now.
	Committed(o workflow.Outcome)
	Family
	// Leave asks whether the actor, which is idle, may end. Once it has said
	// yes nobody sends to this actor any more.
	Leave(a *Actor) bool
}

// A Dispatch is a task on its way to the executor.
type Dispatch struct {
	decision.DispatchTask
	Run      workflow.RunID
	Workflow string
	Node     *workflow.GraphNode
	Branch   workflow.Scope // the innermost branch; zero outside any
	Total    int            // branches of its group
}

// Options bound an actor. Every field should be set.
type Options struct {
	Epoch       workflow.Epoch
	Mailbox     int                                 // messages that wait: 1 to 65,536
	Batch       int                                 // messages committed together: 1 or more
	Idle        time.Duration                       // without messages before it passivates
	FileRecords int                                 // unfiled records before it files them
	FileBytes   int64                               // unfiled bytes before it files them
	Fault       func(run workflow.RunID, err error) // is told what no caller can be told; may be nil
}

const maxMailbox = 1 << 16

// Errors that an actor answers with, besides those of package planning.
var (
	// ErrUnknown says that a commit failed: the message may or may not have
	// been taken. Sending it again is safe.
	ErrUnknown = errors.New("the outcome is unknown: the commit failed; sending it again is safe")
	// ErrBusy says that the run's mailbox stayed full until the caller gave up.
	ErrBusy = errors.New("busy: too many messages wait")
	// ErrStopped says that the engine is closing.
	ErrStopped = errors.New("the engine is closed")
)

var (
	errNoContext = errors.New("the context is nil")
	errUnfit     = errors.New("an actor comes from New, with a store and an outbox, and runs once")
)

// An Actor owns the state of one run. Only the goroutine in Run touches it.
type Actor struct {
	ID      workflow.RunID
	store   Store
	outbox  Outbox
	options Options
	mailbox chan envelope
	filed   chan error
	nudge   chan struct{}
	done    chan struct{}
	ran     atomic.Bool // Run was called

	state  *workflow.State
	seq    int64
	events []decision.Event // committed, not yet handed to File
	filing bool
	fresh  bool // nothing is committed that was not handed to File

	unfileable bool // a filing failed in this life

	pause time.Duration // before the next alarm, since commits fail

	filedRecords int   // handed to File in this life
	filedBytes   int64 // likewise
	alarm        *time.Timer
	idle         *time.Timer
}

type envelope struct {
	message workflow.Message
	reply   chan error
}

// New returns the actor of a run. It does nothing until Run.
func New(id workflow.RunID, store Store, outbox Outbox, o Options) *Actor {
	o.Mailbox, o.Batch = min(max(o.Mailbox, 1), maxMailbox), max(o.Batch, 1)
	if o.Fault == nil {
		o.Fault = func(workflow.RunID, error) {}
	}
	return &Actor{
		ID: id, store: store, outbox: outbox, options: o,
		mailbox: make(chan envelope, o.Mailbox), filed: make(chan error, 1), nudge: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// Ask delivers m and waits until the answer to it is committed. It may be
// called only while the outbox would not let the actor leave.
func (a *Actor) Ask(ctx context.Context, m workflow.Message) error {
	if ctx == nil {
		return errNoContext
	}
	e := envelope{m, make(chan error, 1)}
	select {
	case a.mailbox <- e: // first, so that ErrBusy says that it was full
	default:
		select {
		case a.mailbox <- e:
		case <-a.done:
			return ErrStopped
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrBusy, context.Cause(ctx))
		}
	}
	select {
	case err := <-e.reply:
		return err
	case <-a.done:
		return a.lastWord(e)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lastWord returns the reply that an actor gave on its way out.
func (a *Actor) lastWord(e envelope) error {
	select {
	case err := <-e.reply:
		return err
	default:
		return ErrStopped
	}
}

// Done is closed when Run has returned.
func (a *Actor) Done() <-chan struct{} { return a.done }

// Idle reports whether no message waits.
func (a *Actor) Idle() bool { return len(a.mailbox) == 0 }

// Run receives messages until ctx is done, the run has nothing to do, or its
// state cannot be loaded. On its way out it answers everybody who waits. It may
// be called once.
func (a *Actor) Run(ctx context.Context) error {
	if ctx == nil {
		return errNoContext
	}
	if a.done == nil || a.store == nil || a.outbox == nil || a.ran.Swap(true) {
		return errUnfit
	}
	err := a.guard(func() error { return a.live(ctx) })
	failpoint.Hit("actor.passivate")
	a.awaitFiling()
	if cerr := a.store.Close(); err == nil {
		err = cerr
	}
	reason := err
	if reason == nil {
		reason = ErrStopped
	}
	for {
		select {
		case e := <-a.mailbox:
			e.reply <- reason
		default:
			close(a.done)
			return err
		}
	}
}

// guard turns a panic, which is a broken invariant, into an error that ends the
// actor: the fault of one run must not end the host.
func (a *Actor) guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return f()
}

func (a *Actor) live(ctx context.Context) error {
	a.alarm, a.idle = stoppedTimer(), time.NewTimer(a.options.Idle)
	defer a.alarm.Stop()
	defer a.idle.Stop()
	if err := a.activate(); err != nil {
		return err
	}
	for {
		select {
		case e := <-a.mailbox:
			failpoint.Turn(string(a.ID))
			if err := a.turn(a.collect(e)); err != nil {
				return err
			}
		case <-a.alarm.C:
			failpoint.Hit("actor.alarm")
			failpoint.Turn(string(a.ID))
			if err := a.turn(a.collect()); err != nil {
				return err
			}
		case err := <-a.filed:
			if err := a.settleFiling(err); err != nil {
				return err
			}
		case <-a.nudge:
		case <-a.idle.C:
			if a.Idle() && a.mayLeave() { // what waits is not idle, whichever was noticed first
				return nil
			}
			a.idle.Reset(a.options.Idle)
			continue
		case <-ctx.Done():
			return a.stop()
		}
		if a.over() && a.mayLeave() {
			return nil
		}
	}
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// over reports whether there is nothing more to do here: the run has ended, or
// was refused and never began, and nobody waits for an answer.
func (a *Actor) over() bool {
	return (a.state.Status.Final() || a.state.Status == workflow.RunCreated) && a.Idle()
}

// Nudge tells an actor that nobody holds it any more, so that it may ask again
// to leave.
func (a *Actor) Nudge() {
	select {
	case a.nudge <- struct{}{}:
	default:
	}
}

// mayLeave files what is left to file, and when that is done asks to end.
func (a *Actor) mayLeave() bool {
	a.rest(true)
	return !a.filing && (a.fresh || a.unfileable) && a.outbox.Leave(a)
}

// stop files what is committed, so that the next activation is quick. Nothing
// depends on it.
func (a *Actor) stop() error {
	a.awaitFiling()
	a.rest(true)
	return nil
}

// settleFiling takes note of how a filing went. What could not be filed stays in
// the log; the state is loaded again, since it no longer knows what its file
// lacks, and filing is left to a later life.
func (a *Actor) settleFiling(err error) error {
	a.filing = false
	if err == nil {
		return nil
	}
	a.unfileable = true
	a.options.Fault(a.ID, fmt.Errorf("file the run: %w", err))
	return a.activate()
}

// awaitFiling waits for a filing that goes on.
func (a *Actor) awaitFiling() {
	if !a.filing {
		return
	}
	a.filing = false
	if err := <-a.filed; err != nil {
		a.unfileable = true
		a.options.Fault(a.ID, fmt.Errorf("file the run: %w", err))
	}
}

// activate loads the run, sends again what it waits for and sets its alarm.
func (a *Actor) activate() error {
	a.awaitFiling() // whatever it writes is part of what is loaded
	failpoint.Hit("actor.load")
	s, seq, unfiled, err := a.store.Load()
	if err != nil {
		return err
	}
	s.Epoch = a.options.Epoch
	a.state, a.seq, a.events = s, seq, unfiled
	records, _ := a.store.Unfiled()
	a.fresh = records == 0
	failpoint.Hit("actor.resend")
	failpoint.Turn(string(a.ID))
	a.resend()
	a.setAlarm()
	failpoint.Hit("actor.active")
	return nil
}

func (a *Actor) resend() {
	for _, e := range planning.Pending(a.state) {
		a.send(e)
	}
	a.resendFamily()
}

// send lets one effect leave.
func (a *Actor) send(e decision.Effect) {
	switch e := e.(type) {
	case decision.DispatchTask:
		t := a.state.Token(e.Token)
		if t.Status != workflow.Dispatched || t.Attempt != e.Attempt {
			return // withdrawn in the same batch
		}
		n := a.state.Graph.Node(t.Node)
		d := Dispatch{DispatchTask: e, Run: a.ID, Workflow: a.state.Graph.Definition.Name, Node: n, Branch: t.Scope}
		if g := a.state.Group(t.Scope.Group); g != nil {
			d.Total = g.Total
		}
		failpoint.Hit("release.dispatch")
		a.outbox.Dispatch(d)
	case decision.StartChild:
		a.sendChild(e)
	default:
		panic(fmt.Sprintf("actor: unknown effect %T", e))
	}
}

// Between two alarms whose commits fail, the first time and at most: a full disk
// must not make a run spin.
const (
	firstPause = 10 * time.Millisecond
	maxPause   = 10 * time.Second
)

// maxNap bounds how long an alarm sleeps, so that a wall clock that jumps is
// noticed.
const maxNap = time.Minute

func (a *Actor) setAlarm() {
	a.alarm.Stop()
	at := planning.Alarm(a.state)
	if at.IsZero() {
		return
	}
	a.alarm.Reset(min(max(clock.Until(at), a.pause), maxNap))
}

func instant() time.Time { return timeout.Instant(clock.Now()) }

package actor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// A Store is the durable side of one run. One actor owns it.
type Store interface {
	// Load returns the committed state, the sequence of its last record, and
	// the events that are not in the run's file yet. A run that does not exist
	// has a new state and sequence 0.
	Load() (s *state.State, seq int64, unflushed []decision.Event, err error)
	// Commit makes records durable, with s as the state after them: all of
	// them or, with an error, perhaps none. The blobs to which they refer are
	// durable before. The events are what the records tell.
	Commit(s *state.State, records []decision.Record, blobs []decision.Blob, events []decision.Event) error
	// Flush writes the run's file up to what is committed, in the background, and
	// calls done when the file is durable, or when it could not be written: the
	// records then stay in the log.
	Flush(ch state.Changes, events []decision.Event, done func(error))
	// Unflushed returns how many committed records the file does not hold, and their bytes.
	Unflushed() (records int, bytes int64)
	// Bytes returns about how many bytes the run takes on the disk: its file as it was
	// loaded, and the records committed since.
	Bytes() int64
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
	// Committed says that the run has moved on, and gives its outcome so far.
	Committed(o workflow.Outcome)
	Relatives
	// Leave asks whether the actor, which is idle, may end. Once it has said
	// yes nobody sends to this actor any more.
	Leave(a *Actor) bool
}

// Options bound an actor. Every field but Fault and Hook should be set.
type Options struct {
	Epoch        workflow.Epoch
	Mailbox      int                                 // messages that wait: 1 to 65,536
	Batch        int                                 // messages committed together: 1 or more
	Idle         time.Duration                       // without messages before it passivates
	FlushRecords int                                 // unflushed records before it flushes them
	FlushBytes   int64                               // unflushed bytes before it flushes them
	Fault        func(run workflow.RunID, err error) // is told what no caller can be told; may be nil
	Hook         *testhook.Hook                      // of a test; nil otherwise
	Still        bool                                // time and size do nothing to the run: only messages do
}

const maxMailbox = 1 << 16

// Errors that an actor answers with, besides those of package planning.
var (
	// ErrUnknown says that a commit failed: the message may or may not have
	// been taken. Sending it again is safe.
	ErrUnknown = workflow.ErrUnknown
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
	hook    *testhook.Hook
	mailbox chan *envelope // pointers: its room is most of what a run that waits takes
	looks   chan look
	flushed chan error
	nudge   chan struct{}
	done    chan struct{}
	ran     atomic.Bool // Run was called

	state    *state.State
	seq      int64
	events   []decision.Event // committed, not yet handed to Flush
	flushing bool
	fresh    bool // nothing is committed that was not handed to Flush

	unflushable bool // a flush failed in this life
	rested      bool // nothing has come for as long as Options.Idle

	commitPause time.Duration // before the next alarm, while commits fail

	flushedRecords int   // handed to Flush in this life
	flushedBytes   int64 // likewise
	alarm          *time.Timer
	idle           *time.Timer
}

type envelope struct {
	message state.Message
	reply   chan error
}

// New returns the actor of a run. It does nothing until Run.
func New(id workflow.RunID, store Store, outbox Outbox, o Options) *Actor {
	o.Mailbox, o.Batch = min(max(o.Mailbox, 1), maxMailbox), max(o.Batch, 1)
	if o.Fault == nil {
		o.Fault = func(workflow.RunID, error) {}
	}
	return &Actor{
		ID: id, store: store, outbox: outbox, options: o, hook: o.Hook,
		mailbox: make(chan *envelope, o.Mailbox), looks: make(chan look), flushed: make(chan error, 1), nudge: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// Ask delivers m and waits until the answer to it is committed. It may be
// called only while the outbox would not let the actor leave.
func (a *Actor) Ask(ctx context.Context, m state.Message) error {
	if ctx == nil {
		return errNoContext
	}
	e := &envelope{m, make(chan error, 1)}
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
		return a.finalReply(e)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// finalReply returns the reply that an actor gave on its way out.
func (a *Actor) finalReply(e *envelope) error {
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
	return a.endLife(a.recoverPanic(func() error { return a.serveMailbox(ctx) }))
}

// endLife answers everybody who waits, and returns why the actor has ended.
func (a *Actor) endLife(err error) error {
	a.hook.Hit("actor.passivate")
	a.awaitFlush()
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

// recoverPanic turns a panic, which is a broken invariant, into an error that ends the
// actor: the fault of one run must not end the host.
func (a *Actor) recoverPanic(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return f()
}

// serveMailbox loads the run and receives messages and alarms until the actor may end.
func (a *Actor) serveMailbox(ctx context.Context) error {
	a.alarm, a.idle = stoppedTimer(), time.NewTimer(a.options.Idle)
	defer a.alarm.Stop()
	defer a.idle.Stop()
	if err := a.activateRun(); err != nil {
		return err
	}
	if err := a.endGrown(); err != nil { // the turn that should have failed it never came
		return err
	}
	for {
		if ended, err := a.serveNext(ctx); ended || err != nil {
			return err
		}
	}
}

// serveNext does what comes next, and reports whether the actor may end. Runs that wait stand
// here, so it has hardly anything on its stack: Go shrinks a stack of which little is used.
func (a *Actor) serveNext(ctx context.Context) (ended bool, err error) {
	select {
	case e := <-a.mailbox:
		err = a.serveMessages(*e)
	case <-a.alarm.C:
		a.hook.Hit("actor.alarm")
		err = a.serveMessages()
	case err = <-a.flushed:
		err = a.flushDone(err)
	case l := <-a.looks:
		l.at(a.state, a.seq)
		close(l.done)
	case <-a.nudge:
	case <-a.idle.C:
		a.rested = true
		a.idle.Reset(a.options.Idle) // if it may not leave yet
	case <-ctx.Done():
		return true, a.flushAndStop()
	}
	if err != nil {
		return true, err
	}
	return a.wantsToLeave() && a.mayLeave(), nil
}

// serveMessages has a turn with the messages of a batch and those that wait behind them.
func (a *Actor) serveMessages(batch ...envelope) error {
	a.hook.Turn(string(a.ID))
	return a.runTurn(a.collectBatch(batch...))
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// wantsToLeave reports whether the actor has nothing more to do, or has had nothing to do
// for long enough. What waits is not idle, whichever was noticed first.
func (a *Actor) wantsToLeave() bool { return a.rested && a.Idle() || a.nothingLeft() }

// nothingLeft reports whether the actor has nothing more to do: the run has ended, or
// was refused and never began, and nobody waits for an answer.
func (a *Actor) nothingLeft() bool {
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

// mayLeave flushes what is committed and, when that is done, asks whether the actor
// may end.
func (a *Actor) mayLeave() bool {
	a.flushIfDue(true)
	return !a.flushing && (a.fresh || a.unflushable) && a.outbox.Leave(a)
}

// flushAndStop flushes what is committed, so that the next activation is quick. Nothing
// depends on it.
func (a *Actor) flushAndStop() error {
	a.awaitFlush()
	a.flushIfDue(true)
	return nil
}

// flushDone notes how a flush went. Records that could not be flushed stay in the log;
// the state is loaded again, since it no longer knows what its file lacks, and
// flushing is left to a later life.
func (a *Actor) flushDone(err error) error {
	a.flushing = false
	if err == nil {
		return nil
	}
	a.unflushable = true
	a.options.Fault(a.ID, fmt.Errorf("file the run: %w", err))
	return a.activateRun()
}

// awaitFlush waits for a flush that is under way.
func (a *Actor) awaitFlush() {
	if !a.flushing {
		return
	}
	a.flushing = false
	if err := <-a.flushed; err != nil {
		a.unflushable = true
		a.options.Fault(a.ID, fmt.Errorf("file the run: %w", err))
	}
}

// activateRun loads the run, sends again what it waits for and sets its alarm.
func (a *Actor) activateRun() error {
	a.awaitFlush() // Load reads the file that it writes
	a.hook.Hit("actor.load")
	s, seq, unflushed, err := a.store.Load()
	if err != nil {
		return err
	}
	s.Epoch = a.options.Epoch
	a.state, a.seq, a.events = s, seq, unflushed
	records, _ := a.store.Unflushed()
	a.fresh = records == 0
	a.hook.Hit("actor.resend")
	a.hook.Turn(string(a.ID))
	a.resendPending()
	a.setAlarm()
	a.hook.Hit("actor.active")
	return nil
}

// resendPending sends again what the run waits for.
func (a *Actor) resendPending() {
	for _, e := range planning.Pending(a.state) {
		a.sendEffect(e)
	}
	a.resendToRelatives()
}

// sendEffect hands one effect to the outbox.
func (a *Actor) sendEffect(e decision.Effect) {
	switch e := e.(type) {
	case decision.DispatchTask:
		t := a.state.Token(e.Token)
		if t.Status != workflow.Dispatched || t.Attempt != e.Attempt {
			return // withdrawn in the same batch
		}
		a.hook.Hit("release.dispatch")
		a.outbox.Dispatch(NewDispatch(a.state, e))
	case decision.StartChild:
		a.sendChild(e)
	default:
		panic(fmt.Sprintf("actor: unknown effect %T", e))
	}
}

// commitBackoff is the pause between two alarms whose commits fail: a full disk must
// not make a run spin.
var commitBackoff = timeout.Backoff{First: 10 * time.Millisecond, Max: 10 * time.Second}

func (a *Actor) setAlarm() {
	a.alarm.Stop()
	at := a.state.Alarm()
	if at.IsZero() || a.options.Still {
		return
	}
	a.alarm.Reset(min(max(a.hook.Until(at), a.commitPause), a.hook.MaxNap(timeout.MaxNap)))
}

package actor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/telemetry"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// A Store is the durable side of one run. One actor owns it.
type Store interface {
	// Load returns the committed state, the sequence of its last record, and the events that are not in the run's
	// file yet. A run that does not exist has a new state and sequence 0. An actor loads when it becomes active,
	// after a commit that failed, and after a flush that failed.
	Load() (s *state.State, seq int64, unflushed []decision.Event, err error)
	// Commit makes records durable, with s as the state after them: all of
	// them or, with an error, perhaps none. The blobs to which they refer are
	// durable before. Told are the events of the records.
	Commit(s *state.State, records []decision.Record, blobs []decision.Blob, told []decision.Told) error
	// Flush writes the run's file up to what is committed, in the background, and
	// calls done when the file is durable or is held back, behind which it is written, or when it could not be: the
	// records then stay in the log.
	Flush(ch state.Changes, told [][]decision.Told, done func(error))
	// Unflushed returns how many committed records the file does not hold, and their bytes. Records of a flush that
	// has begun do not count any more; if it fails, they count again after the next Load. roomy says that those of all runs
	// together are few enough that a run may keep more of them.
	Unflushed() (records int, bytes int64, roomy bool)
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
	// Withdraw says that a token's running attempt is no longer wanted, or has ended. It names no attempt: a Dispatch
	// of the token's next attempt must come after it.
	Withdraw(run workflow.RunID, token workflow.TokenID)
	// Committed says that the run has moved on, and gives its outcome so far.
	Committed(o workflow.Outcome)
	Relatives
	// Leave asks whether the actor, which is idle, may end. Once it has said
	// yes nobody sends to this actor any more.
	Leave(a *Actor) bool
}

// A Place says which run has a fault, and where it stands.
type Place struct {
	Run      workflow.RunID
	Workflow string
	Seq      int64        // of its last record; 0 before the first
	Trace    *state.Trace // nil without
}

// Options bound an actor. Every field but Fault, Metrics and Hook should be set.
type Options struct {
	Epoch        state.Epoch
	Mailbox      int                       // messages that wait: 1 to 65,536
	Batch        int                       // messages committed together: 1 or more
	Idle         time.Duration             // without messages before it passivates
	FlushRecords int                       // unflushed records before it flushes them
	FlushBytes   int64                     // unflushed bytes before it flushes them
	Fault        func(at Place, err error) // is told what no caller can be told; may be nil
	Metrics      *telemetry.Metrics        // nil without
	Hook         *testhook.Hook            // of a test; nil otherwise
	Still        bool                      // time and size do nothing to the run: only messages do
}

// maxMailbox bounds Options.Mailbox. A channel takes its room when it is made, for each run that is active.
const maxMailbox = 1 << 16

// Errors that an actor answers with, besides those of package planning.
var (
	// ErrUnknown says that a commit failed: the message may or may not have
	// been taken.
	ErrUnknown = state.ErrUnknown
	// ErrNotTaken is wrapped by what a Commit returns that has certainly written nothing, and never will.
	ErrNotTaken = errors.New("nothing was committed")
	// ErrBusy says that the run's mailbox stayed full until the caller gave up.
	ErrBusy = errors.New("busy")
	// ErrStopped says that this actor takes no message: the engine closes, or the actor has ended by itself, and a new one takes what is
	// asked again. Look answers it also for a run that has not begun.
	ErrStopped = errors.New("the engine is closed")
)

var errUnfit = errors.New("an actor comes from New, with a store and an outbox, and runs once")

// An Actor owns the state of one run. Only who has the turn touches it: the goroutine in Run, or that of a caller of
// Deliver or Look, while the other waits for something to do. Ask, Nudge, Idle and Done use the channels alone. All of
// these may be called from any goroutine.
//
// Between two turns, state is what is committed with the record seq as its last one. During a turn it runs ahead of
// the commit: whatever keeps the commit from being made has the state loaded again.
type Actor struct {
	ID      workflow.RunID
	store   Store
	outbox  Outbox
	options Options
	hook    *testhook.Hook
	mailbox chan *envelope // pointers: its room is most of what a run that waits takes
	// nudge has room for one: two nudges say no more than one.
	nudge   chan struct{}
	waiting atomic.Int64 // messages that were sent to the mailbox, or are about to be, and have had no turn yet
	done    chan struct{}
	ran     atomic.Bool // Run was called
	// dismissed says that it is to leave as soon as no message waits.
	dismissed atomic.Bool

	// turn is full while somebody has the turn, from New until the run is loaded, and for good once the actor has
	// ended. Only the holder uses all below.
	turn   chan struct{}
	lent   bool       // a caller of Deliver or Look has it
	broken error      // why a turn in a caller's goroutine ended the actor, which is still to be done
	batch  []envelope // of the turn, if that is in the actor's goroutine: what has no answer when it breaks gets one

	// flush is the one that has begun and whose end has not been noted yet. A turn that commits meanwhile ends fresh,
	// not flush.
	state  *state.State
	seq    int64
	events [][]decision.Told // committed, not yet handed to Flush: those of each turn
	flush  *flush
	fresh  bool // nothing is committed that was not handed to Flush

	// Both let the actor leave: the first without a file that is up to date, which the log makes up for, the second
	// once it has flushed.
	failed *flush // the last flush, if that has failed
	rested bool   // nothing has come for as long as Options.Idle

	commitPause time.Duration // before the next alarm, while commits fail
	metered     time.Time     // the alarm that metrics know of

	flushedRecords int   // handed to Flush in this life
	flushedBytes   int64 // likewise
	alarm          *time.Timer
	idle           *time.Timer
}

// New returns the actor of a run. It does nothing until Run.
func New(id workflow.RunID, store Store, outbox Outbox, o Options) *Actor {
	o.Mailbox, o.Batch = min(max(o.Mailbox, 1), maxMailbox), max(o.Batch, 1)
	if o.Fault == nil {
		o.Fault = func(Place, error) {}
	}
	a := &Actor{
		ID: id, store: store, outbox: outbox, options: o, hook: o.Hook,
		mailbox: make(chan *envelope, o.Mailbox), nudge: make(chan struct{}, 1), done: make(chan struct{}), turn: make(chan struct{}, 1),
	}
	a.turn <- struct{}{} // until the run is loaded
	return a
}

// Done is closed when Run has returned.
func (a *Actor) Done() <-chan struct{} { return a.done }

// Idle reports whether no message waits. The registry asks it, under the lock under which it hands actors out, before
// it lets the actor go.
func (a *Actor) Idle() bool { return len(a.mailbox) == 0 }

// Run receives messages until ctx is done, the run has nothing to do, or its
// state cannot be loaded. On its way out it answers everybody who waits. It may
// be called once.
func (a *Actor) Run(ctx context.Context) (err error) {
	if a.done == nil || a.store == nil || a.outbox == nil || a.ran.Swap(true) {
		return errUnfit
	}
	err = errGone // unless serveMailbox returns
	defer func() { err = a.endLife(err) }()
	err = a.recoverPanic(func() error { return a.serveMailbox(ctx) })
	return err
}

// endLife answers all waiting callers, and returns why the actor has ended. It answers them last, when no flush is
// under way and the store is closed. A message that comes into the mailbox after it was emptied is answered by done.
func (a *Actor) endLife(err error) error {
	a.hook.Hit("actor.passivate")
	a.meterAlarm(time.Time{}) // the alarm is that of a run which sleeps
	a.awaitFlush()
	if cerr := a.store.Close(); err == nil {
		err = cerr
	}
	reason := err
	if reason == nil {
		reason = ErrStopped
	}
	a.answerBatch(a.batch, fmt.Errorf("%w: %s", ErrUnknown, firstLine(reason))) // it may be committed
	a.answerAll(reason)
	close(a.done)
	a.answerAll(ErrStopped) // who came in between, and waits for no done
	return err
}

// answerAll answers all messages that wait in the mailbox.
func (a *Actor) answerAll(reason error) {
	for {
		select {
		case e := <-a.mailbox:
			a.waiting.Add(-1)
			e.answerOnce(reason)
		default:
			return
		}
	}
}

// recoverPanic turns a panic, which is a broken invariant, into an error: the fault of one run must not end the host.
// The actor then ends, or, in a commit, loads the run again. planBatch recovers by itself, since a panic of a planner
// suspends the run.
func (a *Actor) recoverPanic(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return f()
}

// serveMailbox loads the run and receives messages and alarms until the actor may end. Each turn ends with everything
// sent, answered and armed, so that nothing is left to do when it returns but what endLife does.
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
	<-a.turn
	for {
		if ended, err := a.serveNext(ctx); ended || err != nil {
			return err
		}
	}
}

// serveNext does what comes next, and reports whether the actor may end. Runs that wait stand
// here, so it has hardly anything on its stack: Go shrinks a stack that is little used.
func (a *Actor) serveNext(ctx context.Context) (ended bool, err error) {
	select {
	case e := <-a.mailbox:
		return a.inTurn(func() error { return a.serveMessages(*e) }, e)
	// The batch is empty until runTurn looks at the clock: a timer may ring early, after a nap or when the clock has
	// jumped.
	case <-a.alarm.C:
		a.hook.Hit("actor.alarm")
		return a.inTurn(func() error { return a.serveMessages() })
	// Either a flush has ended, or there is nothing to do but to ask whether the actor may leave.
	case <-a.nudge:
		return a.inTurn(a.noteFlush)
	case <-a.idle.C:
		return a.inTurn(func() error {
			// It is set again in case the actor may not leave yet. If it was set, there was a turn since it rang.
			a.rested = !a.idle.Reset(a.options.Idle)
			return nil
		})
	case <-ctx.Done():
		a.turn <- struct{}{} // for good
		if a.broken != nil { // the state may be ahead of what is committed
			return true, a.broken
		}
		return true, a.flushAndStop()
	}
}

// inTurn does something that the actor has waited for, and reports whether the actor may end. It waits for a turn that
// a caller of Deliver has. The turn of an actor that ends is its last: nobody gets it any more. Messages that the turn
// was to be about are answered if it does not come.
func (a *Actor) inTurn(f func() error, messages ...*envelope) (ended bool, err error) {
	a.turn <- struct{}{}
	if a.broken != nil {
		for _, e := range messages {
			a.waiting.Add(-1)
			e.answerOnce(ErrStopped)
		}
		return true, a.broken
	}
	if err := f(); err != nil {
		return true, err
	}
	// This is asked after everything, since each of the cases may have been the last thing that the actor waited for.
	if a.wantsToLeave() && a.mayLeave() {
		return true, nil
	}
	<-a.turn
	return false, nil
}

// serveMessages has a turn with the messages of a batch and those that wait behind them.
func (a *Actor) serveMessages(batch ...envelope) error {
	a.waiting.Add(-int64(len(batch)))
	for i := range batch {
		a.options.Metrics.Waited(batch[i].sent)
	}
	a.batch = batch
	a.hook.Turn(string(a.ID))
	a.batch = a.collectBatch(batch...)
	return a.runTurn(a.batch)
}

// stoppedTimer returns a timer that never rings unless it is reset: no alarm is known before the run is loaded.
func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// wantsToLeave reports whether the actor has nothing more to do, or has had nothing to do
// for long enough. An actor with messages waiting is not idle, whichever was noticed first.
func (a *Actor) wantsToLeave() bool {
	return (a.rested || a.dismissed.Load()) && a.Idle() || a.nothingLeft()
}

// Dismiss asks an actor to leave as soon as no message waits, without waiting for Options.Idle, or takes that back. The registry asks
// it of a run that only waits, to make room for others.
func (a *Actor) Dismiss(leave bool) {
	a.dismissed.Store(leave)
	if leave {
		a.Nudge()
	}
}

// nothingLeft reports whether the actor has nothing more to do: the run has ended, or was refused and never began,
// and nobody waits for an answer. Such an actor does not wait for Options.Idle: short runs that come in great numbers
// would otherwise pile up in memory.
func (a *Actor) nothingLeft() bool {
	return (a.state.Status.Final() || a.state.Status == workflow.RunCreated) && a.Idle()
}

// Nudge tells an actor that nobody holds it any more, so that it may ask again to leave. The registry calls it when
// the last holder has let go: while somebody held the actor, Leave said no, and without a nudge the actor would ask
// again only after the next message or Options.Idle.
func (a *Actor) Nudge() {
	select {
	case a.nudge <- struct{}{}:
	default:
	}
}

// mayLeave flushes what is committed and asks whether the actor may end: of a run that goes on when the flush is done,
// after which it is called again. Once the outbox has said yes, a new actor may begin at once and load the run, which
// must not meet a flush of this one; of a run that has ended it waits for the file, and commits nothing.
func (a *Actor) mayLeave() bool {
	a.flushIfDue(true)
	return a.flush == nil && (a.fresh || a.failed != nil) && a.outbox.Leave(a)
}

// activateRun loads the run, sends again what it waits for and sets its alarm. Memory is a cache: this is both how a
// run wakes and how a failure is undone. Tasks and children that were dispatched are dispatched again under the
// stored key, since nobody knows whether the executor has them; at worst it has them twice, and then knows the key.
func (a *Actor) activateRun() error {
	a.awaitFlush() // Load reads the file that it writes
	a.hook.Hit("actor.load")
	s, seq, unflushed, err := a.store.Load()
	if err != nil {
		return err
	}
	// Tasks that the run dispatches from here on have the epoch of this life of the engine in their keys. Attempts
	// that are out keep theirs.
	s.Epoch = a.options.Epoch
	a.state, a.seq, a.events = s, seq, [][]decision.Told{decision.TellEvents(unflushed)}
	records, _, _ := a.store.Unflushed()
	a.fresh = records == 0
	a.hook.Hit("actor.resend")
	a.hook.Turn(string(a.ID))
	a.resendPending()
	if a.state.Status.Final() { // whoever was to tell of it may have broken behind the commit
		a.outbox.Committed(a.Outcome())
	}
	// Timers that came due while the run was not in memory ring at once, and each once, however long that was.
	a.setAlarm()
	a.hook.Hit("actor.active")
	return nil
}

// resendPending sends again what the run waits for, but for attempts whose time is over: the alarm ends them at once, whatever their
// handlers would do.
func (a *Actor) resendPending() {
	now := a.hook.Now()
	rings := a.isAlarmDue(now)
	for _, e := range planning.Pending(a.state) {
		if t, isTask := e.(decision.DispatchTask); isTask && rings {
			if at := a.state.Token(t.Token).Alarm(); !at.IsZero() && !at.After(now) {
				continue
			}
		}
		a.sendEffect(e, false, true)
	}
	a.resendToRelatives()
}

// commitBackoff is the pause between two alarms whose commits fail: a full disk must
// not make a run spin.
var commitBackoff = timeout.Backoff{First: 10 * time.Millisecond, Max: 10 * time.Second}

// setAlarm arms the one timer of the run for the earliest instant at which time alone changes it. It is derived from
// the state anew after each turn and each load, and stored nowhere: after a restart only the time that remains is
// waited. A nap is bounded by timeout.MaxNap, since a timer sleeps by the monotonic clock and the wall clock may be
// set meanwhile; one that rings early finds nothing due and is armed again.
func (a *Actor) setAlarm() {
	a.alarm.Stop()
	at := a.state.Alarm()
	if a.options.Still {
		at = time.Time{}
	}
	a.meterAlarm(at)
	if at.IsZero() {
		return
	}
	wait := a.hook.Until(at)
	if wait <= 0 && a.isAlarmHeld() {
		return
	}
	a.alarm.Reset(min(max(wait, a.commitPause), a.hook.MaxNap(timeout.MaxNap)))
}

// meterAlarm tells metrics when the alarm of the run is due; zero if it has none.
func (a *Actor) meterAlarm(at time.Time) {
	if a.options.Metrics != nil && !at.Equal(a.metered) {
		a.metered = at
		a.options.Metrics.AlarmSet(a.ID, at)
	}
}

// Look calls at with the committed state of the run and the sequence of its last record, between two turns: at returns
// soon, changes nothing, and keeps only what does not change, such as tokens and groups. Like Ask it may be called only
// while the outbox would not let the actor leave. Errors: ErrStopped, also for a run that has not begun; the cause of
// ctx. Overview uses it: what is asked of an active run is in memory, and need not be read from files.
func (a *Actor) Look(ctx context.Context, at func(s *state.State, seq int64)) error {
	if a.turn == nil || at == nil {
		return errUnfit
	}
	select {
	case a.turn <- struct{}{}:
	case <-a.done:
		return ErrStopped
	case <-ctx.Done():
		return late.Cause(ctx)
	}
	seen := false
	a.lendTurn(func() error {
		if a.broken != nil || a.state.Status == workflow.RunCreated {
			return a.broken
		}
		at(a.state, a.seq)
		seen = true
		return nil
	})
	if !seen { // at has panicked, or the turn before it, or the run has not begun
		return ErrStopped
	}
	return nil
}

// currentPlace returns where the run stands.
func (a *Actor) currentPlace() Place {
	at := Place{Run: a.ID, Seq: a.seq}
	if a.state != nil {
		at.Workflow, at.Trace = a.state.Graph.Definition.Name, a.state.Trace
	}
	return at
}

package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/once"
	"github.com/pawl-run/pawl/internal/value"
)

// MaxTurns is how many turns of Once one task may have or wait for at once.
const MaxTurns = 1000

// ErrManyTurns says that a task has as many turns of Once as it may have.
var ErrManyTurns = fmt.Errorf("the task has %d turns of Once already: let some end", MaxTurns)

// errTurnOver is why a turn ends without an outcome.
// It is the cause of the turn's context. A worker hears of it only if one of its messages about that
// turn waits for an answer when the turn ends.
var errTurnOver = errors.New("the turn is over")

// Turns are the calls of Task.Once for workers in other processes. A worker asks in two
// messages: one asks for the kept outcome, or for the turn to make the effect; the other, of
// the same turn, gives the outcome, or says that the effect failed.
//
// For the engine each turn is an ordinary call of Task.Once in its process, so the order of those that
// wait for a key, and the keeping of the outcome, are the engine's alone. open has the turns that have
// not ended: joinTurn adds one, its goroutine removes it, and EndTurns removes those of a task at
// once. A pool calls EndTurns when a worker lets go of a task, by result, lease, leave or withdrawal.
type Turns struct {
	ctx       context.Context // of every turn
	group     *sync.WaitGroup // of their goroutines
	errClosed error           // of a turn that would begin after Close

	mu     sync.Mutex
	closed bool
	open   map[pawl.Key]map[string]*onceTurn // by the names that the workers gave them
}

// NewTurns returns turns that end with ctx and whose goroutines are counted by group. closed is the error of AskTurn after Close.
func NewTurns(ctx context.Context, group *sync.WaitGroup, closed error) *Turns {
	return &Turns{ctx: ctx, group: group, errClosed: closed, open: map[pawl.Key]map[string]*onceTurn{}}
}

// Close lets no further turn begin. A pool calls it before it waits for the group: nobody may add to a group at zero meanwhile.
func (t *Turns) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

// A onceTurn is one call of Task.Once: in a goroutine, with a function that waits until the
// worker has made the effect and sent its outcome. It ends with the worker's hold on the task, so that a
// worker that died keeps nobody waiting for longer than its lease. The channels but outcome are closed when
// it has come so far.
// kept and err are written once, before ended is closed, and may be read after that without a lock.
type onceTurn struct {
	cancel  context.CancelCauseFunc
	yours   chan struct{} // the worker has the turn
	outcome chan any      // what the effect came to, at most one
	ended   chan struct{} // kept and err are set
	kept    any
	err     error
}

// lookTime is how long AskTurn looks for a kept outcome or a free turn, also for a worker that does not
// want to wait. Either takes one read of the engine's directory: the whole time passes only while somebody
// else has the turn, or the disk is slow.
const lookTime = 250 * time.Millisecond

// AskTurn answers a worker that asks for the turn, after at most wait, or lookTime if that is longer. checkHeld
// says whether the worker holds the task, and is asked once the turn is there: EndTurns ends it if the
// worker loses the task afterwards. It fails with the error of checkHeld, with ErrManyTurns, with that of
// Task.Once, or, after Close, with the error that NewTurns was given.
//
// An answer OnceWait leaves the turn open: the worker asks again and joins it. checkHeld is asked
// after joinTurn and not before, for the lease may run out in between: EndTurns would then have found
// nothing to end, and the turn would keep others waiting for a worker that is gone.
func (t *Turns) AskTurn(ctx context.Context, task pawl.Task, q OnceMessage, wait time.Duration, checkHeld func() error) (OnceReply, error) {
	turn, err := t.joinTurn(task, q)
	if err == nil {
		if err = checkHeld(); err != nil {
			turn.cancel(errTurnOver)
		}
	}
	if err != nil {
		return OnceReply{}, err
	}
	timer := time.NewTimer(max(wait, lookTime))
	defer timer.Stop()
	select {
	case <-turn.ended:
		return turn.endedReply()
	case <-turn.yours:
		return OnceReply{Status: OnceYours}, nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return OnceReply{Status: OnceWait}, nil
}

// joinTurn returns the turn that a message names, and begins it if it is new.
//
// The goroutine that it starts lives until Task.Once returns: there is an outcome, a failure, or the
// turn's context has ended. group counts it, and the pool's Close waits for it.
func (t *Turns) joinTurn(task pawl.Task, q OnceMessage) (*onceTurn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if turn := t.open[q.Key][q.Turn]; turn != nil {
		return turn, nil
	}
	switch {
	case t.closed:
		return nil, t.errClosed
	case len(t.open[q.Key]) >= MaxTurns:
		return nil, ErrManyTurns
	}
	ctx, cancel := context.WithCancelCause(t.ctx)
	turn := &onceTurn{cancel: cancel, yours: make(chan struct{}), outcome: make(chan any, 1), ended: make(chan struct{})}
	if t.open[q.Key] == nil {
		t.open[q.Key] = map[string]*onceTurn{}
	}
	t.open[q.Key][q.Turn] = turn
	t.group.Go(func() {
		defer cancel(nil)
		kept, err := task.Once(ctx, q.Once, turn.awaitOutcome)
		t.mu.Lock()
		defer t.mu.Unlock()
		turn.kept, turn.err = kept, err
		// EndTurns may have removed it, and the worker may have begun another turn of that name since.
		if t.open[q.Key][q.Turn] == turn {
			delete(t.open[q.Key], q.Turn)
			if len(t.open[q.Key]) == 0 {
				delete(t.open, q.Key)
			}
		}
		close(turn.ended)
	})
	return turn, nil
}

// awaitOutcome is the effect as the engine sees it.
//
// The engine calls it when the turn has come, at most once for each turn, since yours may be closed
// only once. From then on other callers under the key wait until it returns.
func (o *onceTurn) awaitOutcome(ctx context.Context) (any, error) {
	close(o.yours)
	select {
	case v := <-o.outcome:
		return v, nil
	case <-ctx.Done():
	}
	select {
	case v := <-o.outcome: // the worker has told it before it lost the turn
		return v, nil
	default:
		return nil, context.Cause(ctx)
	}
}

// endedReply says what a turn that has ended came to.
func (o *onceTurn) endedReply() (OnceReply, error) {
	if o.err != nil {
		return OnceReply{}, o.err
	}
	return OnceReply{Status: OnceKept, Outcome: value.Encode(o.kept)}, nil
}

// KeepOutcome keeps the outcome of an effect and answers with what is kept. A worker
// whose turn is over, since the pool was restarted or the message came twice, sends it
// all the same: what was kept first stays. It fails with an error of Task.Once, or with the cause of ctx.
//
// The effect has been made when this is called, so that losing the outcome would make it twice. That
// is why a turn that is not known is no error: a call of Task.Once with the outcome in hand keeps it,
// unless another was kept meanwhile.
func (t *Turns) KeepOutcome(ctx context.Context, task pawl.Task, q OnceMessage) (OnceReply, error) {
	outcome, err := value.Decode(q.Outcome, value.Limits{})
	if err != nil {
		return OnceReply{}, fmt.Errorf("%w: outcome: %w", pawl.ErrInvalid, err)
	}
	t.mu.Lock()
	turn := t.open[q.Key][q.Turn]
	t.mu.Unlock()
	if turn == nil {
		kept, err := task.Once(once.WithMade(ctx), q.Once, func(context.Context) (any, error) { return outcome, nil })
		if err != nil {
			return OnceReply{}, err
		}
		return OnceReply{Status: OnceKept, Outcome: value.Encode(kept)}, nil
	}
	select {
	case turn.outcome <- outcome:
	default: // it was sent before
	}
	select {
	case <-turn.ended:
		return turn.endedReply()
	case <-ctx.Done():
		return OnceReply{}, context.Cause(ctx)
	}
}

// GiveUp ends a turn whose effect was not made.
// A turn that is not known has ended already; that is no error, since the goodbye of a worker may come
// twice or late. The goroutine removes the turn.
func (t *Turns) GiveUp(q OnceMessage) OnceReply {
	t.mu.Lock()
	defer t.mu.Unlock()
	if turn := t.open[q.Key][q.Turn]; turn != nil {
		turn.cancel(errTurnOver)
	}
	return OnceReply{Status: OnceFailed}
}

// EndTurns ends the turns of a task that a worker has let go of.
// The effect of a worker that has lost its task may be half made, and the next holder makes it again:
// Task.Once promises one at a time, and one outcome, but not one call.
func (t *Turns) EndTurns(k pawl.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, turn := range t.open[k] {
		turn.cancel(errTurnOver)
	}
	delete(t.open, k)
}

// CountTasks returns how many tasks have turns.
func (t *Turns) CountTasks() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

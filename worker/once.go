package worker

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// maxTurns is how many turns of Once one task may have or wait for at once.
const maxTurns = 1000

// A onceTurn is a call of Once for a remote worker: the pool calls Once of the task, in a
// goroutine, with a function that waits until the worker has made the effect and sent its
// outcome. It ends with the worker's hold on the task, so that a worker that died
// keeps nobody waiting for longer than its lease. The channels but outcome are closed when
// it has come so far.
type onceTurn struct {
	cancel  context.CancelCauseFunc
	yours   chan struct{} // the worker has the turn
	outcome chan any      // what the effect came to, at most one
	ended   chan struct{} // kept and err are set
	kept    any
	err     error
}

// errTurnOver is why a turn ends without an outcome.
var errTurnOver = errors.New("the turn is over")

// serveOnce is Task.Once for a remote worker, in two messages: one asks for what is kept, or
// for the turn to make the effect; the other, of the same turn, gives the outcome,
// or says that there is none.
func (p *Pool) serveOnce(ctx context.Context, q onceRequest) (any, error) {
	wait := 30 * time.Second
	if err := errors.Join(checkVersion(q.Version), checkName("turn", q.Turn), setWait(&wait, q.Wait)); err != nil {
		return nil, err
	}
	if q.Failed && q.Outcome != nil {
		return nil, invalidRequestf("there are an outcome and \"failed\": true: send one of them")
	}
	t, err := p.taskHeldBy(ctx, q.Worker, q.Key)
	if err != nil {
		return nil, err
	}
	q.Key = t.Key // without its tag
	switch {
	case q.Failed:
		p.mu.Lock()
		defer p.mu.Unlock()
		if turn := p.turns[q.Key][q.Turn]; turn != nil {
			turn.cancel(errTurnOver)
		}
		return onceReply{Status: onceFailed}, nil
	case q.Outcome != nil:
		return p.keepOutcome(ctx, t, q)
	}
	turn, err := p.joinTurn(t, q)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-turn.ended:
		return turn.endedReply()
	case <-turn.yours:
		return onceReply{Status: onceYours}, nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return onceReply{Status: onceWait}, nil
}

// joinTurn returns the turn that a message names, begun if there is none.
func (p *Pool) joinTurn(t pawl.Task, q onceRequest) (*onceTurn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if turn := p.turns[q.Key][q.Turn]; turn != nil {
		return turn, nil
	}
	i := p.queue.items[q.Key]
	switch {
	case p.closed:
		return nil, ErrClosed
	case i == nil || i.holder == nil || i.holder.id != q.Worker: // since taskHeldBy
		return nil, ErrNotHolder
	case len(p.turns[q.Key]) >= maxTurns:
		return nil, poolErrorf(http.StatusServiceUnavailable, CodeBusy, "the task has %d turns of Once already: let some end", maxTurns)
	}
	ctx, cancel := context.WithCancelCause(p.ctx)
	turn := &onceTurn{cancel: cancel, yours: make(chan struct{}), outcome: make(chan any, 1), ended: make(chan struct{})}
	if p.turns[q.Key] == nil {
		p.turns[q.Key] = map[string]*onceTurn{}
	}
	p.turns[q.Key][q.Turn] = turn
	p.group.Go(func() {
		defer cancel(nil)
		kept, err := t.Once(ctx, q.Once, turn.awaitOutcome)
		p.mu.Lock()
		defer p.mu.Unlock()
		turn.kept, turn.err = kept, err
		if p.turns[q.Key][q.Turn] == turn {
			delete(p.turns[q.Key], q.Turn)
			if len(p.turns[q.Key]) == 0 {
				delete(p.turns, q.Key)
			}
		}
		close(turn.ended)
	})
	return turn, nil
}

// awaitOutcome is the effect as the engine sees it.
func (o *onceTurn) awaitOutcome(ctx context.Context) (any, error) {
	close(o.yours)
	select {
	case v := <-o.outcome:
		return v, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// endedReply says what a turn that has ended came to.
func (o *onceTurn) endedReply() (any, error) {
	if o.err != nil {
		return nil, onceError(o.err)
	}
	return onceReply{Status: onceKept, Outcome: value.Encode(o.kept)}, nil
}

// keepOutcome keeps the outcome of an effect and answers with what is kept. A worker
// whose turn is over, since the pool was restarted or the message came twice, sends it
// all the same: what was kept first stays.
func (p *Pool) keepOutcome(ctx context.Context, t pawl.Task, q onceRequest) (any, error) {
	outcome, err := value.Decode(q.Outcome, value.Limits{})
	if err != nil {
		return nil, invalidRequestf("outcome: %v", err)
	}
	committing, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	p.mu.Lock()
	turn := p.turns[q.Key][q.Turn]
	p.mu.Unlock()
	if turn == nil {
		kept, err := t.Once(committing, q.Once, func(context.Context) (any, error) { return outcome, nil })
		if err != nil {
			return nil, onceError(err)
		}
		return onceReply{Status: onceKept, Outcome: value.Encode(kept)}, nil
	}
	select {
	case turn.outcome <- outcome:
	default: // it was sent before
	}
	select {
	case <-turn.ended:
		return turn.endedReply()
	case <-committing.Done():
		return nil, onceError(context.Cause(committing))
	}
}

// endTurns ends the turns of a task that a worker has let go of. The lock is held.
func (p *Pool) endTurns(k pawl.Key) {
	for _, turn := range p.turns[k] {
		turn.cancel(errTurnOver)
	}
	delete(p.turns, k)
}

// onceError returns an error of Once as the worker gets it.
func onceError(err error) error {
	var limit *workflow.LimitError
	switch {
	case errors.As(err, &limit):
		return poolErrorf(http.StatusRequestEntityTooLarge, CodeTooLarge, "%v: keep a reference to a blob", err)
	case errors.Is(err, pawl.ErrInvalid):
		return invalidRequestf("%v", err)
	case errors.Is(err, pawl.ErrCorrupt):
		return err
	}
	return poolErrorf(http.StatusServiceUnavailable, CodeBusy, "no outcome could be kept, try again: %v", err)
}

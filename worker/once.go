package worker

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/workflow"
)

// serveOnce is Task.Once for a remote worker, in two messages: one asks for the kept
// outcome, or for the turn to make the effect; the other, of the same turn, gives the
// outcome, or says that the effect failed.
//
// The outcome is kept under a context that is cut off from that of the request: the effect is made,
// and a lost connection must not lose that. A goodbye is answered like success even if the turn is
// unknown.
func (p *Pool) serveOnce(ctx context.Context, q onceRequest) (any, error) {
	wait := 30 * time.Second
	if err := errors.Join(checkVersion(q.Version), checkName("turn", q.Turn), setWait(&wait, q.Wait)); err != nil {
		return nil, err
	}
	if q.Failed && q.Outcome != nil {
		return nil, invalidRequestf("there are an outcome and \"failed\": true: send one of them")
	}
	t, err := p.taskHeldBy(ctx, q.Worker, q.Key)
	if err == nil {
		err = callerOf(ctx).mayKeep(q.Once)
	}
	if err != nil {
		return nil, err
	}
	m := q.OnceMessage
	m.Key = t.Key // without its tag
	switch {
	case q.Failed:
		return p.turns.GiveUp(m), nil
	case q.Outcome != nil:
		committing, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
		defer cancel()
		return onceAnswer(p.turns.KeepOutcome(committing, t, m))
	}
	return onceAnswer(p.turns.AskTurn(ctx, t, m, wait, func() error { return p.checkHolder(q.Worker, t.Key) }))
}

// checkHolder says whether a worker holds a task.
//
// AskTurn calls it when the turn is in the map that EndTurns looks at: from then on the end of the
// lease ends the turn.
func (p *Pool) checkHolder(id string, k pawl.Key) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.queue.items[k]
	switch {
	case p.closed:
		return errClosed
	case i == nil || i.holder == nil || i.holder.id != id: // since taskHeldBy
		return ErrNotHolder
	}
	return nil
}

// onceAnswer returns the answer to a message of Once, or its error as the worker gets it.
func onceAnswer(a remote.OnceReply, err error) (any, error) {
	if err != nil {
		return nil, onceError(err)
	}
	return a, nil
}

// onceError returns an error of Once as the worker gets it.
//
// An error that neither the worker nor a repetition can mend, such as damage, is final; an error
// that may pass is busy, and askOnce repeats the request.
func onceError(err error) error {
	var limit *workflow.LimitError
	var refused *Error
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &limit):
		return poolErrorf(http.StatusRequestEntityTooLarge, remote.CodeTooLarge, "%v: keep a reference to a blob", err)
	case remote.IsInvalid(err), errors.Is(err, pawl.ErrCorrupt):
		return invalidRequestf("%v", err)
	}
	return poolErrorf(http.StatusServiceUnavailable, remote.CodeBusy, "no outcome could be kept, try again: %v", err)
}

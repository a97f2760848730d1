package api

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// sendSignal sends a signal to the run. TTL "" keeps the signal until a token takes it or the run
// ends. Whether the fields go together is for the engine to say; here only the text of the duration
// is read.
func sendSignal(ctx context.Context, p *performer, a *Operation) error {
	ttl, err := parseDuration("ttl", a.TTL)
	if err != nil {
		return err
	}
	return p.engine.Signal(ctx, p.run, workflow.Signal{Name: a.Name, ID: a.ID, Payload: valueOf(a.Payload), Transient: a.Transient, TTL: ttl, Early: a.Early})
}

// applyPatch changes the definition of the run. It leaves the revision that the patch has made in
// the performer, for Acted. The engine refuses a Base that is not the revision which the run has,
// so that of two operators who patch at once the second one looks again.
func applyPatch(ctx context.Context, p *performer, a *Operation) (err error) {
	patch := pawl.Patch{Base: a.Base}
	for _, op := range a.Ops {
		patch.Ops = append(patch.Ops, op)
	}
	p.revision, err = p.engine.Patch(ctx, p.run, patch)
	return err
}

// castVote votes on an approval. Approved is a pointer because a ballot without it must not count
// as a rejection.
func castVote(ctx context.Context, p *performer, a *Operation) error {
	if a.Approved == nil {
		return invalidf("approved must be true or false")
	}
	return p.engine.Vote(ctx, p.targetOf(a), workflow.Ballot{ID: a.ID, Approved: *a.Approved, Comment: a.Comment, Data: valueOf(a.Data)})
}

// completeTask ends the attempt that runs for a token with an output. It is the way of an operator
// who knows what an attempt came to whose worker cannot tell. The key of the attempt is not asked
// of the caller: findKey takes it from the token.
func completeTask(ctx context.Context, p *performer, a *Operation) error {
	key, err := p.findKey(ctx, a)
	if err != nil {
		return err
	}
	return p.engine.Complete(ctx, key, valueOf(a.Output))
}

// failTask ends the attempt that runs for a token with an error. A code is required, since it is
// what the definition chooses by when a task has failed; without it the failure would be one that
// nobody can handle by name.
func failTask(ctx context.Context, p *performer, a *Operation) error {
	if a.Code == "" {
		return invalidf("code must say how the task has failed")
	}
	key, err := p.findKey(ctx, a)
	if err != nil {
		return err
	}
	return p.engine.Fail(ctx, key, pawl.TaskError{Code: a.Code, Message: a.Message, Retryable: a.Retryable})
}

// elapseTime lets time pass for a copy. p.copied is never nil here: no path of a request on the run
// itself has this act, and batches do not know it either.
func elapseTime(_ context.Context, p *performer, a *Operation) error {
	d, err := parseDuration("elapse", a.Elapse)
	if err != nil {
		return err
	}
	return p.copied.Elapse(d)
}

// parseDuration reads a duration of a body, in the form of Go, such as 1h30m. An empty text is 0,
// which each caller gives its own meaning; the unit must be written, and less than 0 is refused.
func parseDuration(name, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, invalidf("%s is %q: it must be a duration such as \"30s\"", name, text)
	}
	return d, nil
}

// A performer does acts to a run, or to a copy of it. It is what makes a dry run and an act the
// same code: with copied set, performAct replaces the context by one of the copy, and the very
// methods of the engine that would change the run are answered by the Simulation. One performer
// serves one request, or one run of a batch, and belongs to its goroutine.
type performer struct {
	engine   *pawl.Engine
	run      workflow.RunID
	copied   *pawl.Simulation // nil if the run itself is changed
	revision int              // that a patch has made; 0 without one
}

// performAct does an act in somebody's name. decodeAct has checked that Do is an act. An empty By
// leaves the context without a name and happens in trials only: all others have called signAct.
func (p *performer) performAct(ctx context.Context, a *Operation) error {
	if a.By != "" {
		ctx = pawl.As(ctx, a.By)
	}
	ctx = pawl.Because(ctx, a.Reason)
	// This comes last: the context of the copy wraps name and reason, so that a trial shows them in
	// its records as the act would.
	if p.copied != nil {
		ctx = p.copied.Context(ctx)
	}
	return actKinds[a.Do].doAct(ctx, p, a)
}

// targetOf returns the token or the node that the act names, for the engine. The engine resolves
// Node to a token, and refuses with ErrAmbiguous if several there wait for the act.
func (p *performer) targetOf(a *Operation) pawl.Target {
	return pawl.Target{Run: p.run, Token: a.Token, Node: a.Node, Parked: a.Parked}
}

// findKey returns the key of the attempt that runs for a token. Complete and Fail of the engine
// take a key, not a token, so that a late result of an attempt that was given up cannot end the
// next one. Who acts through the API means the attempt of now, and gets its key here. Between this
// look and the commit another attempt may begin: then the key is stale, and the engine refuses it.
func (p *performer) findKey(ctx context.Context, a *Operation) (key pawl.Key, err error) {
	for t, err := range p.eachToken(ctx, a) {
		switch {
		case err != nil:
			return "", err
		// The copy lists all its tokens, the engine those that fit; so everything is checked here
		// again.
		case t.Status != workflow.Dispatched || a.Token != 0 && t.ID != a.Token || a.Node != "" && t.Node != a.Node:
		case key != "":
			return "", fmt.Errorf("run %q: %w", string(p.run), pawl.ErrAmbiguous)
		default:
			key = t.Key
		}
		if t.ID == a.Token {
			break
		}
	}
	if key == "" {
		return "", fmt.Errorf("run %q: %w: no attempt of that task runs", string(p.run), pawl.ErrNotLive)
	}
	return key, nil
}

// eachToken lists the tokens that an act may mean. Of a run it reads only tokens that are
// dispatched, from the one that is named on (After is exclusive, hence the minus one), and findKey
// stops there: a run with a million tokens is not read for one of them.
func (p *performer) eachToken(ctx context.Context, a *Operation) func(func(pawl.Token, error) bool) {
	if p.copied != nil {
		return func(yield func(pawl.Token, error) bool) {
			for _, t := range p.copied.Snapshot().Tokens {
				if !yield(t, nil) {
					return
				}
			}
		}
	}
	f := pawl.TokenFilter{Node: a.Node, Status: []workflow.TokenStatus{workflow.Dispatched}}
	if a.Token > 0 {
		f.After = a.Token - 1
	}
	return p.engine.Tokens(ctx, p.run, f)
}

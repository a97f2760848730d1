package api

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

func sendSignal(ctx context.Context, p *performer, a *Operation) error {
	ttl, err := parseDuration("ttl", a.TTL)
	if err != nil {
		return err
	}
	return p.engine.Signal(ctx, p.run, workflow.Signal{Name: a.Name, ID: a.ID, Payload: valueOf(a.Payload), Transient: a.Transient, TTL: ttl, Early: a.Early})
}

func applyPatch(ctx context.Context, p *performer, a *Operation) (err error) {
	patch := pawl.Patch{Base: a.Base}
	for _, op := range a.Ops {
		patch.Ops = append(patch.Ops, op)
	}
	p.revision, err = p.engine.Patch(ctx, p.run, patch)
	return err
}

func castVote(ctx context.Context, p *performer, a *Operation) error {
	if a.Approved == nil {
		return invalidf("approved must be true or false")
	}
	return p.engine.Vote(ctx, p.targetOf(a), workflow.Ballot{Approved: *a.Approved, Comment: a.Comment, Data: valueOf(a.Data)})
}

func completeTask(ctx context.Context, p *performer, a *Operation) error {
	key, err := p.findKey(ctx, a)
	if err != nil {
		return err
	}
	return p.engine.Complete(ctx, key, valueOf(a.Output))
}

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

func elapseTime(_ context.Context, p *performer, a *Operation) error {
	d, err := parseDuration("elapse", a.Elapse)
	if err != nil {
		return err
	}
	return p.copied.Elapse(d)
}

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

// A performer does acts to a run, or to a copy of it.
type performer struct {
	engine   *pawl.Engine
	run      workflow.RunID
	copied   *pawl.Simulation // nil if the run itself is changed
	revision int              // that a patch has made; 0 without one
}

// performAct does an act in somebody's name.
func (p *performer) performAct(ctx context.Context, a *Operation) error {
	if a.By != "" {
		ctx = pawl.As(ctx, a.By)
	}
	ctx = pawl.Because(ctx, a.Reason)
	if p.copied != nil {
		ctx = p.copied.Context(ctx)
	}
	return actKinds[a.Do].doAct(ctx, p, a)
}

func (p *performer) targetOf(a *Operation) pawl.Target {
	return pawl.Target{Run: p.run, Token: a.Token, Node: a.Node}
}

// findKey returns the key of the attempt that runs for a token.
func (p *performer) findKey(ctx context.Context, a *Operation) (key pawl.Key, err error) {
	for t, err := range p.eachToken(ctx, a) {
		switch {
		case err != nil:
			return "", err
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

// eachToken lists the tokens that an act may mean.
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

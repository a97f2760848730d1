package pawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/texts"
)

// As returns a context in which calls of an engine are made in somebody's name:
//
//	err := engine.Cancel(pawl.As(ctx, "ann"), "order-42", "the customer has called")
//
// Every call that changes a run (Start, Cancel, Signal, Vote, Patch, Retry, Skip, Pause, Resume, AddBranch, CloseGroup,
// CancelNodes, DoAll, Fork, Rerun, Complete, Fail) keeps the name in the run's journal, and as by in the data of the events that
// tell what the call asked for. Purge, which leaves no record, tells it to Options.Logger. The engine trusts the name: the host
// knows who calls, for instance from the session of an HTTP request.
//
// A name is at most 255 bytes of UTF-8. White space around it is cut off, within it is one space, and letters are
// composed (Unicode NFC), so that one name has one spelling. Calls under an empty name, or a name with a control
// or invisible character, fail with ErrInvalid. The last As of a context counts.
func As(ctx context.Context, by string) context.Context {
	return withAct(ctx, func(a *claim) { a.By, a.byErr = texts.NormalName(by) })
}

// Because returns a context in which calls of an engine are made for a reason, which they keep beside the name that
// [As] gives, or without one. Cancel and Vote have a reason and a comment of their own as well: Cancel's goes before
// this one. A reason is at most 1,024 bytes of UTF-8 in one line; calls for another one fail with ErrInvalid. An empty
// reason is the same as no reason.
func Because(ctx context.Context, reason string) context.Context {
	return withAct(ctx, func(a *claim) { a.Reason, a.reasonErr = reason, texts.CheckReason(reason) })
}

// A claim is what a context says of the calls that are made in it, and why they must
// be refused.
type claim struct {
	state.Act
	byErr, reasonErr error
}

type claimKey struct{}

func withAct(ctx context.Context, set func(*claim)) context.Context {
	if ctx == nil {
		return nil // which the call refuses
	}
	c, _ := ctx.Value(claimKey{}).(claim)
	set(&c)
	return context.WithValue(ctx, claimKey{}, c)
}

// actOf returns who calls, and why, if the engine can be used. The context may be that of
// a simulation.
func (e *Engine) actOf(ctx context.Context) (state.Act, error) {
	if err := e.checkUsable(ctx); err != nil {
		return state.Act{}, err
	}
	c, _ := ctx.Value(claimKey{}).(claim)
	if err := errors.Join(c.byErr, c.reasonErr); err != nil {
		return state.Act{}, err
	}
	return c.Act, nil
}

// voterOf returns the name of whoever votes: that of the ballot or, if it has none, that
// of whoever calls. Nobody votes in another's name.
func voterOf(by string, act state.Act) (string, error) {
	if by == "" {
		by = act.By
	}
	if by == "" {
		return "", fmt.Errorf("%w: a vote needs a name: set By, or call As", ErrInvalid)
	}
	voter, err := texts.NormalName(by)
	if err != nil {
		return "", err
	}
	if act.By != "" && act.By != voter {
		return "", fmt.Errorf("%w: the vote is that of %q, and the call is made as %q", ErrInvalid, voter, act.By)
	}
	return voter, nil
}

package pawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// Cancel ends a run as cancelled: its tokens and tasks are withdrawn, and its children are cancelled, level by level. From its
// return on none of their tasks begins in this process, and no child does. Cancel of
// a run that has ended is no error. The failure of a run that was cancelled [As]
// somebody names who it was, and so do those of its children.
func (e *Engine) Cancel(ctx context.Context, id workflow.RunID, reason string) error {
	act, err := e.actOf(ctx)
	if err != nil {
		return err
	}
	reason = storableText(cmp.Or(reason, act.Reason), maxMessage)
	if act != (state.Act{}) {
		act.Reason = reason
	}
	return e.askRun(ctx, id, state.Cancel{Reason: reason, Act: act})
}

// Complete delivers the result of an attempt, for an Executor that returned
// ErrPending. It may be repeated: one result counts per key, and a duplicate is
// nil. ErrStale says that the attempt does not run any more, or never did.
func (e *Engine) Complete(ctx context.Context, key Key, output any) error {
	act, err := e.actOf(ctx)
	if err != nil {
		return err
	}
	a, err := e.parseKey(key)
	if err != nil {
		return err
	}
	m, err := taskCompleted(output)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	m.Token, m.Attempt, m.Epoch, m.Act = a.Token, a.Number, a.Epoch, act
	release, err := e.pinResult(ctx, m)
	if err != nil {
		return err
	}
	defer release()
	return e.reportResult(ctx, a.Run, withBegan(m, e.dispatcher.performedSince(a)))
}

// Fail delivers the error of an attempt, as Execute would have returned it: a Snooze
// asks for another call.
func (e *Engine) Fail(ctx context.Context, key Key, cause error) error {
	act, err := e.actOf(ctx)
	if err != nil {
		return err
	}
	if cause == nil {
		return fmt.Errorf("%w: Fail needs an error", ErrInvalid)
	}
	a, err := e.parseKey(key)
	if err != nil {
		return err
	}
	failed := state.TaskFailed{Token: a.Token, Attempt: a.Number, Epoch: a.Epoch, Act: act}
	return e.reportResult(ctx, a.Run, withBegan(e.dispatcher.withDetails(a, attemptError(failed, cause)), e.dispatcher.performedSince(a)))
}

// reportResult delivers what an executor says. A run that does not exist makes the
// key a stale one.
func (e *Engine) reportResult(ctx context.Context, run workflow.RunID, m state.Message) error {
	err := e.askRun(ctx, run, m)
	if errors.Is(err, ErrRunNotFound) {
		return fmt.Errorf("%w: %w", ErrStale, err)
	}
	return err
}

// A Target names a token of a run: by its id, or by its node where only one
// token fits.
type Target struct {
	Run   workflow.RunID   `json:"run"`
	Token workflow.TokenID `json:"token,omitzero"` // or
	Node  workflow.NodeID  `json:"node,omitzero"`

	// Parked lets Retry and Skip do something only while the task waits for an operator, as a dead letter does: with
	// ErrNotLive they leave alone one that somebody has retried meanwhile, and whose attempt would be lost.
	Parked bool `json:"parked,omitzero"`
}

// errNotThere are refusals of what a call is about: it adds the run to them.
var errNotThere = []error{ErrNotLive, ErrAmbiguous, ErrEnded, ErrAlreadyVoted, ErrGroupClosed}

// askAbout is askRun, and says of which run the refusal is.
func (e *Engine) askAbout(ctx context.Context, id workflow.RunID, m state.Message) error {
	err := e.askRun(ctx, id, m)
	if slices.ContainsFunc(errNotThere, func(not error) bool { return errors.Is(err, not) }) {
		return fmt.Errorf("run %q: %w", string(id), err)
	}
	return err
}

// RetryOptions say how Retry retries.
type RetryOptions struct {
	// Input says with which input the task is called. By default that of a dead
	// letter is evaluated anew if the run was patched since it was evaluated.
	Input workflow.RetryInput
}

// Retry gives a parked task a fresh budget of attempts, or ends a back-off at
// once. If the task's input is evaluated anew, the event task.input_renewed says
// so; if that fails, the retry is refused and nothing changes. Errors: ErrInvalid
// (no such RetryInput), ErrNotLive, ErrEnded, ErrAmbiguous, *workflow.Failure (the
// input cannot be evaluated anew: patch it, or retry with workflow.InputKept).
func (e *Engine) Retry(ctx context.Context, t Target, o RetryOptions) error {
	act, err := e.actOf(ctx)
	if err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	return e.askAbout(ctx, t.Run, state.Retry{Token: t.Token, Node: t.Node, Parked: t.Parked, Input: o.Input, Act: act})
}

func (o RetryOptions) check() error {
	switch o.Input {
	case workflow.InputIfPatched, workflow.InputAgain, workflow.InputKept:
		return nil
	default:
		return fmt.Errorf("%w: the input of a retry is %q: it is empty, %q or %q", ErrInvalid, string(o.Input), workflow.InputAgain, workflow.InputKept)
	}
}

// Skip completes a task with the given output, in the operator's name. A
// running attempt's key becomes stale. An output with which the node cannot
// complete is refused, and nothing changes. Errors: ErrInvalid (the output is not
// JSON), ErrNotLive, ErrEnded, ErrAmbiguous, *workflow.LimitError,
// *workflow.Failure (the node's schema, output mapping or routing refuse it).
func (e *Engine) Skip(ctx context.Context, t Target, output any) error {
	act, err := e.actOf(ctx)
	if err != nil {
		return err
	}
	v, err := value.Normalize(output, resultLimits)
	if err != nil {
		return invalidValue("the output", err)
	}
	release, err := e.pinReferences(ctx, v)
	if err != nil {
		return err
	}
	defer release()
	return e.askAbout(ctx, t.Run, state.Skip{Token: t.Token, Node: t.Node, Parked: t.Parked, Output: v, Act: act})
}

// Pause holds back what a run would dispatch: tasks, children and locks. All
// else continues: results are taken, time passes, signals and votes count. It
// passes on to children. Pause of a paused run is no error.
func (e *Engine) Pause(ctx context.Context, id workflow.RunID) error {
	act, err := e.actOf(ctx)
	if err != nil {
		return err
	}
	return e.askAbout(ctx, id, state.Pause{Act: act})
}

// Signal gives an event to whoever waits for its name in a run, or keeps it
// until somebody does. One with an id counts once per run, so that it may be
// repeated, also when the run has ended since; an id does not begin with "pawl:". A name that no node of the run's definition waits for is refused, unless
// the definition declares it in its signals, or s is Early, or Transient: then it is lost,
// which an event tells. Errors: ErrInvalid (no
// name), ErrEnded, *workflow.SignalError, *workflow.LimitError.
func (e *Engine) Signal(ctx context.Context, id workflow.RunID, s workflow.Signal) error {
	act, err := e.actOf(ctx)
	if err != nil {
		return err
	}
	if s.Name == "" {
		return fmt.Errorf("%w: a signal needs a name", ErrInvalid)
	}
	if err := checkCallID("signal", s.ID); err != nil {
		return err
	}
	if s.TTL < 0 {
		return fmt.Errorf("%w: the ttl %v of the signal %q is less than 0", ErrInvalid, s.TTL, s.Name)
	}
	payload, err := value.Normalize(s.Payload, resultLimits)
	if err != nil {
		return invalidValue("the payload", err)
	}
	release, err := e.pinReferences(ctx, payload)
	if err != nil {
		return err
	}
	defer release()
	return e.askAbout(ctx, id, state.Signal{
		Name: s.Name, ID: s.ID, Payload: payload, Transient: s.Transient, TTL: s.TTL, Early: s.Early, Act: act,
	})
}

// Vote adds a vote to an open approval; the target's fields win over those of
// the ballot. The voter's name is spelt as [As] does it, so that one voter counts once.
// A ballot without By is that of whoever calls As; with both, they must agree. Errors:
// ErrInvalid (nobody votes, or under a name that As refuses; an id that a signal could not have), ErrAlreadyVoted, ErrNotLive (it
// is decided, or never was), ErrEnded (the run has), ErrAmbiguous,
// *workflow.LimitError.
//
// A vote may be repeated if it has an id, under which it counts once per run, or if it names the approval by its token: what
// the same person has said to that already, word for word, is no error, whatever has become of it. By its node alone it may
// not: where a loop asks again it would answer the next round.
func (e *Engine) Vote(ctx context.Context, t Target, b workflow.Ballot) error {
	act, err := e.actOf(ctx)
	if err != nil {
		return err
	}
	by, err := voterOf(b.By, act)
	if err != nil {
		return err
	}
	if err := checkCallID("vote", b.ID); err != nil {
		return err
	}
	data, err := value.Normalize(b.Data, resultLimits)
	if err != nil {
		return invalidValue("the data of the vote", err)
	}
	release, err := e.pinReferences(ctx, data)
	if err != nil {
		return err
	}
	defer release()
	m := state.Ballot{
		ID: b.ID, Token: t.Token, Node: t.Node, By: by, Approved: b.Approved, Comment: storableText(b.Comment, maxMessage), Data: data, Act: act,
	}
	if err = e.askAbout(ctx, t.Run, m); errors.Is(err, ErrNotLive) || errors.Is(err, ErrEnded) {
		if voted, lookErr := e.hasVoted(ctx, t.Run, m); voted || lookErr != nil {
			return lookErr
		}
	}
	return err
}

// hasVoted reports whether a ballot that names its token repeats a vote on an approval that is decided by now. Its token does not
// know the votes any more, but the events of the run do.
func (e *Engine) hasVoted(ctx context.Context, run workflow.RunID, m state.Ballot) (bool, error) {
	if m.Token == 0 || simulationOf(ctx) != nil {
		return false, nil
	}
	var kept asleep
	asked := false
	err := e.lookAt(ctx, run, &kept, func(s *state.State, _ int64) {
		t := s.Token(m.Token)
		if t != nil {
			n := s.Graph.Nodes[t.Node]
			asked = n != nil && n.Approval != nil
		}
	})
	if err != nil || !asked {
		return false, err
	}
	said := state.Vote{By: m.By, Approved: m.Approved, Comment: m.Comment, Data: m.Data}
	for ev, err := range e.Events(ctx, run, EventsOptions{}) {
		if err != nil {
			return false, err
		}
		if ev.Type == workflow.EventApprovalVoted && ev.Token == m.Token && decision.IsVote(ev.Data, said) {
			return true, nil
		}
	}
	return false, nil
}

// maxCallID is the longest id of a call, in bytes.
const maxCallID = 255

// checkCallID returns an error if an id of a call cannot be one.
func checkCallID(what, id string) error {
	if len(id) > maxCallID || !utf8.ValidString(id) || strings.HasPrefix(id, state.OwnIDs) {
		return fmt.Errorf("%w: the id %.300q of the %s: use at most %d bytes of UTF-8 that do not begin with %s", ErrInvalid, id, what, maxCallID, state.OwnIDs)
	}
	return nil
}

// CancelNodes ends the live tokens at some nodes of a run, which continues without
// them: a branch that ends so has ended by choice. A token that waits for its
// siblings stands at the node that their join leads to, and not at one that it has
// passed. It fails with ErrNotLive if no live token is there.
func (e *Engine) CancelNodes(ctx context.Context, id workflow.RunID, nodes ...workflow.NodeID) error {
	act, err := e.actOf(ctx)
	if err != nil {
		return err
	}
	return e.askAbout(ctx, id, state.CancelNodes{Nodes: nodes, Act: act})
}

// A GroupTarget names a live group of a run: by its sibling group, and by the
// token that fanned out where several of that name are live.
type GroupTarget struct {
	Run    workflow.RunID
	Group  string
	Origin workflow.TokenID // 0: the only one of that name

	// ID is that of a branch which AddBranch adds: under one id it adds one per run, so that the call may be repeated; "" is
	// always new. CloseGroup, which may be repeated by the token that fanned out, has no use for it.
	ID string
}

// AddBranch adds a branch to a live group, by the group's first transition; item
// is its element if that is a foreach. With an id it may be repeated. Errors: ErrInvalid (an id that a signal could not have), ErrGroupClosed (it was
// closed, or its join has fired), ErrNotLive (there is none), ErrAmbiguous, *workflow.LimitError.
func (e *Engine) AddBranch(ctx context.Context, t GroupTarget, item any) error {
	act, err := e.actOf(ctx)
	if err != nil {
		return err
	}
	if err := checkCallID("branch", t.ID); err != nil {
		return err
	}
	v, err := value.Normalize(item, resultLimits)
	if err != nil {
		return invalidValue("the item", err)
	}
	release, err := e.pinReferences(ctx, v)
	if err != nil {
		return err
	}
	defer release()
	return e.askAbout(ctx, t.Run, state.AddBranch{ID: t.ID, Group: t.Group, Origin: t.Origin, Item: v, Act: act})
}

// CloseGroup ends a live group: its join fires with what has arrived, at once or,
// where stragglers of an earlier occurrence block it, when the last of them has
// ended. Errors: as of AddBranch.
func (e *Engine) CloseGroup(ctx context.Context, t GroupTarget) error {
	act, err := e.actOf(ctx)
	if err != nil {
		return err
	}
	return e.askAbout(ctx, t.Run, state.CloseGroup{Group: t.Group, Origin: t.Origin, Act: act})
}

// Resume lets a run continue that is paused, or that an internal fault suspended,
// for instance after an upgrade: what it waits for is sent again.
func (e *Engine) Resume(ctx context.Context, id workflow.RunID) error {
	act, err := e.actOf(ctx)
	if err != nil {
		return err
	}
	return e.askAbout(ctx, id, state.Resume{Act: act})
}

// inputError returns an error of the value model as an error about the input of a run.
func inputError(id workflow.RunID, input any, err error) error {
	var ve *value.Error
	if !errors.As(err, &ve) {
		return &workflow.InputError{Message: err.Error()}
	}
	if ve.Code != value.CodeLimit {
		return &workflow.InputError{Path: ve.Pointer(), Message: ve.Message}
	}
	e := limitError(ve)
	e.What = fmt.Sprintf("the input of run %q", string(id))
	if _, m, err := value.NormalizeMeasured(input, value.Limits{}); err == nil && ve.Limit == value.LimitBytes {
		e.Got = int64(m.Size)
	}
	return e
}

// limitError returns a bound of the value model as one of the engine.
func limitError(e *value.Error) *workflow.LimitError {
	return &workflow.LimitError{Limit: e.Limit, Max: int64(e.Max)}
}

// invalidValue returns why something that a caller gives is no value of the JSON
// model: it is ErrInvalid, and a *workflow.LimitError where it is too deep or too
// large to be looked at.
func invalidValue(what string, err error) error {
	if ve := (*value.Error)(nil); errors.As(err, &ve) && ve.Code == value.CodeLimit {
		return fmt.Errorf("%w: %s: %w", ErrInvalid, what, limitError(ve))
	}
	return fmt.Errorf("%w: %s is not JSON: %w", ErrInvalid, what, err)
}

package pawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/dispatch"
	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/simulating"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/taskkey"
	"github.com/pawl-run/pawl/internal/texts"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// An Act is one thing that somebody does to an existing run, as a value: [Cancel], [Pause], [Resume], [Signal], [Patch],
// [CancelNodes], [AddBranch], [CloseGroup], [Raise], of a token [Retry], [Skip], [Vote], [Complete], [Fail], and [Elapse] in a simulation.
// Engine.Do does it, Simulation.Do tries it on a copy:
//
//	err := engine.Do(pawl.Because(pawl.As(ctx, "ann"), "paid twice"), "order-42", pawl.Cancel{})
//
// The set is closed. Each act has its fields and its rules here, beside its type, and its names in a row of the table of package
// internal/acts, by which the HTTP API decodes bodies. The inspector, the command and package pawltest each make an Act of a form,
// flags or an event, so that the rules hold for all. CONTRIBUTING.md lists the places that a new act touches.
type Act interface {
	// doTo does it in full or not at all.
	doTo(context.Context, *deed) error
}

// Do does something to a run, in the name and for the reason that [As] and [Because] have put into ctx. Its errors are those of
// the act, and ErrInvalid, ErrRunNotFound, ErrSuspended, ErrUnknown, ErrBusy, ErrClosed.
func (e *Engine) Do(ctx context.Context, run workflow.RunID, a Act) error {
	_, err := e.performAct(ctx, run, a)
	return err
}

// performAct is Do, and returns what has been done.
func (e *Engine) performAct(ctx context.Context, run workflow.RunID, a Act) (*deed, error) {
	by, err := e.actOf(ctx)
	if err != nil {
		return nil, err
	}
	d := &deed{engine: e, run: run, by: by}
	err = d.doAct(ctx, a)
	return d, err
}

// Do tries an act on the copy, with the answer that the run would give.
func (s *Simulation) Do(ctx context.Context, a Act) error {
	if !s.isMade() {
		return simulating.ErrNone
	}
	by, err := s.engine.actOf(ctx)
	if err != nil {
		return err
	}
	return (&deed{engine: s.engine, copied: s, run: s.copy.Head.Run, by: by}).doAct(ctx, a)
}

var errNoAct = fmt.Errorf("%w: an act is a value, such as Cancel{}, and neither nil nor a pointer", ErrInvalid)

// A deed is an act that is under way: on a run, or on a copy of it.
type deed struct {
	engine *Engine
	copied *Simulation // nil if the run itself is changed
	run    workflow.RunID
	by     state.Act

	revision int  // that a patch has made
	idle     bool // there was nothing to change
}

func (d *deed) doAct(ctx context.Context, a Act) error {
	if a == nil || reflect.TypeOf(a).Kind() == reflect.Pointer {
		return errNoAct
	}
	return a.doTo(ctx, d)
}

// submitMessage delivers the message of the act.
func (d *deed) submitMessage(ctx context.Context, m state.Message) error {
	if d.copied == nil {
		return d.engine.runs.Ask(ctx, d.run, m)
	}
	if ctx.Err() != nil {
		return late.Cause(ctx)
	}
	return d.copied.copy.Take(d.run, m)
}

// errNotThere are refusals of what an act is about: askAbout adds the run to them.
var errNotThere = []error{ErrNotLive, ErrAmbiguous, ErrEnded, ErrAlreadyVoted, ErrGroupClosed}

// askAbout is submitMessage, and adds the run to a refusal.
func (d *deed) askAbout(ctx context.Context, m state.Message) error {
	err := d.submitMessage(ctx, m)
	if slices.ContainsFunc(errNotThere, func(not error) bool { return errors.Is(err, not) }) {
		return fmt.Errorf("run %q: %w", string(d.run), err)
	}
	return err
}

// takeValue returns a value of the act in the JSON model, whose blobs are kept until release is called.
func (d *deed) takeValue(ctx context.Context, what string, of any) (v any, release func(), err error) {
	if v, err = value.Normalize(of, resultLimits); err != nil {
		return nil, nil, refusal.InvalidPayload(what, err)
	}
	release, err = d.engine.blobs.PinReferences(ctx, v)
	return v, release, err
}

// status returns how the run stands.
func (d *deed) status(ctx context.Context) (workflow.RunStatus, error) {
	if d.copied != nil {
		return d.copied.Summary().Status, nil
	}
	s, err := d.engine.Summary(ctx, d.run)
	return s.Status, err
}

// Cancel ends a run as cancelled: its tokens and tasks are withdrawn, and its children are cancelled, level by level. After
// it, none of their tasks and no child begins in this process. To cancel a cancelled run again is no error; ErrEnded says that
// the run has ended otherwise. If a run was cancelled [As] somebody, its failure and the failures of its children name that person.
type Cancel struct {
	Reason string `json:"-"` // that of [Because], if this is empty
	Ended  bool   `json:"-"` // a run that has ended otherwise is no error, so that the act may always be repeated
}

// Cancel does a [Cancel], with Ended: a run that has ended, in whatever way, is no error.
func (e *Engine) Cancel(ctx context.Context, id workflow.RunID, reason string) error {
	return e.Do(ctx, id, Cancel{Reason: reason, Ended: true})
}

func (a Cancel) doTo(ctx context.Context, d *deed) error {
	reason := texts.Storable(cmp.Or(a.Reason, d.by.Reason), maxMessage)
	if d.by != (state.Act{}) {
		d.by.Reason = reason
	}
	if err := d.submitMessage(ctx, state.Cancel{Reason: reason, Act: d.by}); err != nil || a.Ended {
		return err
	}
	// The run may have ended after the caller looked at it: nil would claim that it was cancelled.
	status, err := d.status(ctx)
	if err == nil && status.Final() && status != workflow.RunCancelled {
		err = fmt.Errorf("run %q: %w (%v): nothing is changed", string(d.run), ErrEnded, status)
	}
	return err
}

// Pause holds back the tasks, children and locks that a run would dispatch. All else continues: results are taken, time passes, signals
// and votes count. Its children are paused too. Pause of a paused run is no error.
type Pause struct{}

// Pause does a [Pause].
func (e *Engine) Pause(ctx context.Context, id workflow.RunID) error { return e.Do(ctx, id, Pause{}) }

func (Pause) doTo(ctx context.Context, d *deed) error { return d.askAbout(ctx, state.Pause{Act: d.by}) }

// Resume lets a run continue that is paused, or that an internal fault suspended, for instance after an upgrade. Its unfinished tasks and
// messages are sent again.
type Resume struct{}

// Resume does a [Resume].
func (e *Engine) Resume(ctx context.Context, id workflow.RunID) error { return e.Do(ctx, id, Resume{}) }

func (Resume) doTo(ctx context.Context, d *deed) error {
	return d.askAbout(ctx, state.Resume{Act: d.by})
}

// Signal gives an event to a token that waits for its name, or keeps it until one does. A signal with an id counts once
// per run, so that it may be repeated, even after the run has ended; an id must not begin with "pawl:". A name that no
// node of the run's definition waits for is refused, unless the definition declares it in its signals or the signal is
// Early or Transient; a Transient signal that nothing waits for is lost, and an event says so. Errors: ErrInvalid (no name),
// ErrEnded, *workflow.SignalError, *workflow.LimitError.
type Signal workflow.Signal

// Signal does a [Signal].
func (e *Engine) Signal(ctx context.Context, id workflow.RunID, s workflow.Signal) error {
	return e.Do(ctx, id, Signal(s))
}

func (a Signal) doTo(ctx context.Context, d *deed) error {
	if a.Name == "" {
		return fmt.Errorf("%w: a signal needs a name", ErrInvalid)
	}
	if err := texts.CheckCallID("signal", a.ID); err != nil {
		return err
	}
	if a.TTL < 0 {
		return fmt.Errorf("%w: the ttl %v of the signal %q is less than 0", ErrInvalid, a.TTL, a.Name)
	}
	payload, release, err := d.takeValue(ctx, "the payload", a.Payload)
	if err != nil {
		return err
	}
	defer d.engine.runs.ReleaseAnswered(ctx, d.run, release)
	return d.askAbout(ctx, state.Signal{Name: a.Name, ID: a.ID, Payload: payload, Transient: a.Transient, TTL: a.TTL, Early: a.Early, Act: d.by})
}

// CancelNodes ends the live tokens at some nodes of a run, which continues without them: a branch that ends so has ended by choice. A
// token that waits for its siblings is at the node that their join leads to, not at one that it has passed. It fails with ErrNotLive if
// no live token is there.
type CancelNodes struct {
	Nodes []workflow.NodeID `json:"nodes,omitzero" needs:"nodes must name some"`
}

// CancelNodes does a [CancelNodes].
func (e *Engine) CancelNodes(ctx context.Context, id workflow.RunID, nodes ...workflow.NodeID) error {
	return e.Do(ctx, id, CancelNodes{nodes})
}

func (a CancelNodes) doTo(ctx context.Context, d *deed) error {
	return d.askAbout(ctx, state.CancelNodes{Nodes: a.Nodes, Act: d.by})
}

// A GroupTarget names a live group of a run by its sibling group and, where several
// groups of that name are live, by the token that fanned out.
type GroupTarget struct {
	Run    workflow.RunID
	Group  string
	Origin workflow.TokenID // 0: the only one of that name

	// ID is the id of a new branch: AddBranch adds one branch per id and run, so that the call may be repeated; "" always
	// adds one. CloseGroup ignores it: a second one is ErrGroupClosed.
	ID string
}

// AddBranch adds a branch to a live group, by the group's first transition. With an id it may be repeated. Errors: ErrInvalid (an
// id that a signal could not have), ErrGroupClosed (it was closed, or its join has fired), ErrNotLive (there is no such group, or an
// item where its first transition has no foreach), ErrAmbiguous, *workflow.LimitError.
type AddBranch struct {
	ID     string           `json:"id,omitzero"` // one branch is added per id and run; "" always adds one
	Group  string           `json:"group,omitzero" needs:"group must name a group"`
	Origin workflow.TokenID `json:"origin,omitzero"` // the token that fanned out; 0: the only group of that name
	Item   any              `json:"item,omitzero"`   // the element of the branch, if it is a foreach
}

// AddBranch does an [AddBranch].
func (e *Engine) AddBranch(ctx context.Context, t GroupTarget, item any) error {
	return e.Do(ctx, t.Run, AddBranch{t.ID, t.Group, t.Origin, item})
}

func (a AddBranch) doTo(ctx context.Context, d *deed) error {
	if err := texts.CheckCallID("branch", a.ID); err != nil {
		return err
	}
	item, release, err := d.takeValue(ctx, "the item", a.Item)
	if err != nil {
		return err
	}
	defer d.engine.runs.ReleaseAnswered(ctx, d.run, release)
	return d.askAbout(ctx, state.AddBranch{ID: a.ID, Group: a.Group, Origin: a.Origin, Item: item, Act: d.by})
}

// CloseGroup ends a live group: its join fires with what has arrived, at once or, where stragglers of an earlier occurrence block
// it, when the last of them has ended. Errors: as of AddBranch.
type CloseGroup struct {
	Group  string           `json:"group,omitzero" needs:"group must name a group"`
	Origin workflow.TokenID `json:"origin,omitzero"` // the token that fanned out; 0: the only group of that name
}

// CloseGroup does a [CloseGroup].
func (e *Engine) CloseGroup(ctx context.Context, t GroupTarget) error {
	return e.Do(ctx, t.Run, CloseGroup{t.Group, t.Origin})
}

func (a CloseGroup) doTo(ctx context.Context, d *deed) error {
	return d.askAbout(ctx, state.CloseGroup{Group: a.Group, Origin: a.Origin, Act: d.by})
}

// Raise raises limits of what the results of a run may report ([workflow.Limits].Meta). Attempts that wait for room then begin, and
// so do tasks that were parked for lack of it. To raise a limit to its present value is no error, so that the act may be
// repeated. Errors: ErrInvalid (a number that no limit can be), ErrNotLive (the run has no limit of the name, or a higher one), ErrEnded.
type Raise struct {
	Meta map[string]float64 `json:"meta,omitzero" needs:"meta must name limits"` // the new limits, by name
}

func (a Raise) doTo(ctx context.Context, d *deed) error {
	meta, err := limitsOf(a.Meta)
	if err == nil && meta == nil {
		err = fmt.Errorf("%w: no limit is named", ErrInvalid)
	}
	if err != nil {
		return err
	}
	return d.askAbout(ctx, state.Raise{Meta: meta, Act: d.by})
}

// limitsOf returns limits of what results may report; ErrInvalid if a name or number cannot be one.
func limitsOf(meta map[string]float64) (amount.Sums, error) {
	out := amount.FromFloats(meta)
	switch {
	case len(out) < len(meta):
		return nil, fmt.Errorf("%w: limits are numbers from 0 to 2^53", ErrInvalid)
	case len(out) > amount.MaxNames:
		return nil, fmt.Errorf("%w: %d limits are more than %d", ErrInvalid, len(out), amount.MaxNames)
	}
	for _, x := range out {
		if x.Name == "" || len(x.Name) > amount.MaxName || !utf8.ValidString(x.Name) {
			return nil, fmt.Errorf("%w: the name of a limit has 1 to %d bytes of UTF-8", ErrInvalid, amount.MaxName)
		}
	}
	return out, nil
}

// A Target names a token of a run: by its id, or by its node where only one
// token fits. In an [Act], which is done to one run, Run has no meaning.
type Target struct {
	Run   workflow.RunID   `json:"run"`
	Token workflow.TokenID `json:"token,omitzero"` // or
	Node  workflow.NodeID  `json:"node,omitzero"`

	// Parked makes Retry and Skip fail with ErrNotLive unless the task is parked, as a dead letter is. If somebody else
	// has retried it meanwhile, the running attempt is not lost.
	Parked bool `json:"parked,omitzero"`
}

// RetryOptions say how Retry retries.
type RetryOptions struct {
	// Input says with which input the task is called. By default the input of a dead
	// letter is evaluated anew if the run was patched since the last evaluation.
	Input workflow.RetryInput
}

// Retry gives a parked task a fresh budget of attempts, or ends a back-off at once. If the task's input is evaluated anew, the
// event task.input_renewed says so; if that fails, the retry is refused and nothing changes. Errors: ErrInvalid (no such
// RetryInput), ErrNotLive, ErrEnded, ErrAmbiguous, *workflow.Failure (the input cannot be evaluated anew: patch it, or retry with
// workflow.InputKept).
type Retry struct {
	Target
	Input workflow.RetryInput `json:"input,omitzero"`
}

// Retry does a [Retry].
func (e *Engine) Retry(ctx context.Context, t Target, o RetryOptions) error {
	return e.Do(ctx, t.Run, Retry{t, o.Input})
}

func (a Retry) doTo(ctx context.Context, d *deed) error {
	if err := (RetryOptions{a.Input}).check(); err != nil {
		return err
	}
	return d.askAbout(ctx, state.Retry{Token: a.Token, Node: a.Node, Parked: a.Parked, Input: a.Input, Act: d.by})
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
type Skip struct {
	Target
	Output any `json:"output,omitzero"`
}

// Skip does a [Skip].
func (e *Engine) Skip(ctx context.Context, t Target, output any) error {
	return e.Do(ctx, t.Run, Skip{t, output})
}

func (a Skip) doTo(ctx context.Context, d *deed) error {
	output, release, err := d.takeValue(ctx, "the output", a.Output)
	if err != nil {
		return err
	}
	defer d.engine.runs.ReleaseAnswered(ctx, d.run, release)
	return d.askAbout(ctx, state.Skip{Token: a.Token, Node: a.Node, Parked: a.Parked, Output: output, Act: d.by})
}

// Vote adds a vote to an open approval. The voter's name is normalized as by [As], so that one voter counts once.
// The voter is By, or else the person of As; if both are set, they must agree. Errors:
// ErrInvalid (no voter, or a name that As refuses; an id that a signal could not have), ErrAlreadyVoted, ErrNotLive (the
// approval is decided, or does not exist), ErrEnded (the run has ended), ErrAmbiguous, *workflow.LimitError.
//
// A vote may be repeated if it has an id, under which it counts once per run, or if it names the approval by its token: the
// same words from the same person are no error, even if the approval is decided. A vote that names only the node must not be
// repeated: where a loop asks again, it would answer the next round.
type Vote struct {
	Target
	ID       string `json:"id,omitzero"`
	By       string `json:"-"`
	Approved bool   `json:"approved" needs:"approved must be true or false"`
	Comment  string `json:"comment,omitzero"`
	Data     any    `json:"data,omitzero"`
}

// Vote does a [Vote]; the target's fields win over those of the ballot.
func (e *Engine) Vote(ctx context.Context, t Target, b workflow.Ballot) error {
	return e.Do(ctx, t.Run, Vote{t, b.ID, b.By, b.Approved, b.Comment, b.Data})
}

func (a Vote) doTo(ctx context.Context, d *deed) error {
	by, err := voterOf(a.By, d.by)
	if err != nil {
		return err
	}
	if err := texts.CheckCallID("vote", a.ID); err != nil {
		return err
	}
	data, release, err := d.takeValue(ctx, "the data of the vote", a.Data)
	if err != nil {
		return err
	}
	defer d.engine.runs.ReleaseAnswered(ctx, d.run, release)
	m := state.Ballot{
		ID: a.ID, Token: a.Token, Node: a.Node, By: by, Approved: a.Approved, Comment: texts.Storable(a.Comment, maxMessage), Data: data, Act: d.by,
	}
	if err = d.askAbout(ctx, m); d.copied == nil && (errors.Is(err, ErrNotLive) || errors.Is(err, ErrEnded)) {
		if voted, lookErr := d.engine.hasVoted(ctx, d.run, m); voted || lookErr != nil {
			return lookErr
		}
	}
	return err
}

// hasVoted reports whether a ballot that names its token repeats a vote on an approval that is decided by now. Its token does not
// know the votes any more, but the events of the run do.
func (e *Engine) hasVoted(ctx context.Context, run workflow.RunID, m state.Ballot) (bool, error) {
	if m.Token == 0 {
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

// Complete delivers the result of an attempt, for an Executor that returned ErrPending. It may be repeated: one result counts per key, and a
// duplicate is nil. ErrStale says that the attempt does not run any more, or never did; after ErrSuspended, Resume has it performed again. Without
// a key it completes the running attempt of the token: ErrNotLive says that none runs, ErrAmbiguous that the node has several. A result that is too
// large or too deep fails the attempt, and one that is not JSON is ErrInvalid.
type Complete struct {
	Target
	Key    Key `json:"-"` // of the attempt, which names its run
	Output any `json:"output,omitzero"`

	keyed bool // Key counts, even if it is empty
}

// Complete does a [Complete] of an attempt by its key.
func (e *Engine) Complete(ctx context.Context, key Key, output any) error {
	return e.Do(ctx, "", Complete{Key: key, Output: output, keyed: true})
}

func (a Complete) doTo(ctx context.Context, d *deed) error {
	at, err := d.attemptOf(ctx, a.Key, a.keyed, a.Target)
	if err != nil {
		return err
	}
	var m state.TaskCompleted
	output, err := readOutput(a.Output, nil)
	if err == nil {
		m, err = taskCompleted(output)
	}
	if err != nil {
		if unfit := unfitResult(err); unfit.Code != workflow.CodeInvalidResult { // as a result that the definition does not take
			return d.reportResult(ctx, at, attemptError(state.TaskFailed{Token: at.Token, Attempt: at.Number, Epoch: at.Epoch, Act: d.by}, withResultMetadata(output, unfit)))
		}
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	m.Token, m.Attempt, m.Epoch, m.Act = at.Token, at.Number, at.Epoch, d.by
	release, err := d.engine.blobs.PinResult(ctx, m)
	if err != nil {
		return err
	}
	defer d.engine.runs.ReleaseAnswered(ctx, d.run, release)
	return d.reportResult(ctx, at, m)
}

// Fail delivers the error of an attempt, by its key or by its token as [Complete] does.
type Fail struct {
	Target
	Key       Key    `json:"-"`
	Cause     error  `json:"-"` // as Execute would have returned it: a Snooze asks for another call; nil: a TaskError of the fields below
	Code      string `json:"code,omitzero" needs:"code must say how the task has failed"`
	Message   string `json:"message,omitzero"`
	Retryable bool   `json:"retryable,omitzero"`

	keyed bool // as of Complete
}

// Fail does a [Fail] of an attempt by its key, with the error as Execute would have returned it: a Snooze asks for another call.
func (e *Engine) Fail(ctx context.Context, key Key, cause error) error {
	return e.Do(ctx, "", Fail{Key: key, Cause: cause, keyed: true})
}

func (a Fail) doTo(ctx context.Context, d *deed) error {
	if a.Cause == nil && a.Code == "" {
		return fmt.Errorf("%w: Fail needs an error", ErrInvalid)
	}
	if a.Cause == nil {
		a.Cause = TaskError{Code: a.Code, Message: a.Message, Retryable: a.Retryable}
	}
	at, err := d.attemptOf(ctx, a.Key, a.keyed, a.Target)
	if err != nil {
		return err
	}
	failed := state.TaskFailed{Token: at.Token, Attempt: at.Number, Epoch: at.Epoch, Act: d.by}
	return d.reportResult(ctx, at, d.engine.dispatcher.WithDetails(at, attemptError(failed, a.Cause)))
}

// attemptOf returns the attempt that an act is about, and makes its run that of the act.
//
// A late result of an abandoned attempt cannot end the next one: an act that names a token means the present attempt, and
// gets its key here. If another attempt begins before the act is committed, the key is stale.
func (d *deed) attemptOf(ctx context.Context, key Key, keyed bool, t Target) (at taskkey.Attempt, err error) {
	if key == "" && !keyed {
		if key, err = d.findKey(ctx, t); err != nil {
			return at, err
		}
	}
	at, err = d.engine.parseKey(key)
	if d.run == "" || d.copied != nil {
		d.run = at.Run
	}
	if err == nil && d.run != at.Run {
		err = fmt.Errorf("%w: the key is of an attempt of run %q, not of %q", ErrInvalid, string(at.Run), string(d.run))
	}
	return at, err
}

// findKey returns the key of the attempt that runs for a token. It reads the named token, whatever that does, or the dispatched ones
// at a node, so that a run with a million tokens is not read for one of them.
func (d *deed) findKey(ctx context.Context, t Target) (key Key, err error) {
	tokens := func(yield func(Token, error) bool) {
		for _, x := range d.copied.Snapshot().Tokens {
			if !yield(x, nil) {
				return
			}
		}
	}
	if d.copied == nil {
		f := TokenFilter{Node: t.Node, Status: []workflow.TokenStatus{workflow.Dispatched}}
		if t.Token != 0 {
			f = TokenFilter{After: t.Token - 1} // the named one comes first, and ends the list
		}
		tokens = d.engine.Tokens(ctx, d.run, f)
	}
	for x, err := range tokens {
		switch {
		case err != nil:
			return "", err
		case x.Status != workflow.Dispatched || t.Token != 0 && x.ID != t.Token || t.Node != "" && x.Node != t.Node:
		case key != "":
			return "", fmt.Errorf("run %q: %w", string(d.run), ErrAmbiguous)
		default:
			key = x.Key
		}
		if t.Token != 0 && x.ID >= t.Token {
			break
		}
	}
	if key != "" {
		return key, nil
	}
	switch status, err := d.status(ctx); {
	case err != nil:
		return "", err
	case status.Final():
		return "", fmt.Errorf("run %q: %w", string(d.run), ErrEnded)
	}
	return "", fmt.Errorf("run %q: %w: no attempt of that task runs", string(d.run), ErrNotLive)
}

// reportResult delivers the result of an attempt, which comes from outside.
func (d *deed) reportResult(ctx context.Context, at taskkey.Attempt, m state.Message) error {
	m = dispatch.WithBegan(m, d.engine.dispatcher.PerformedSince(at))
	if d.copied != nil {
		return d.report(ctx, m)
	}
	return d.engine.dispatcher.DeliverFromOutside(at, func() error { return d.report(ctx, m) })
}

// errNotWanted are refusals of what an executor says, after which it lets go of the attempt.
var errNotWanted = []error{ErrStale, ErrEnded, ErrSuspended, ErrCorrupt}

// report delivers what an executor says. The key of a run that does not exist is stale. Nothing is refused by an engine that has lost
// its log, which does not know the attempts of the one that has it now: the error is that of the log then.
func (d *deed) report(ctx context.Context, m state.Message) error {
	err := d.submitMessage(ctx, m)
	if errors.Is(err, ErrRunNotFound) {
		err = fmt.Errorf("%w: %w", ErrStale, err)
	}
	if d.copied == nil && slices.ContainsFunc(errNotWanted, func(not error) bool { return errors.Is(err, not) }) {
		return cmp.Or(closedError(d.engine.log.Until(ctx)), err)
	}
	return err
}

// Elapse lets time pass in a simulation: timers fire, attempts and approvals time out, retries are dispatched, each at its instant. A
// run refuses it: its time passes by itself. Errors: ErrInvalid (a negative duration), *workflow.LimitError (more than 10,000 steps).
type Elapse struct {
	Elapse time.Duration `json:"elapse" needs:"elapse must say how much time passes"`
}

func (a Elapse) doTo(_ context.Context, d *deed) error {
	if d.copied == nil {
		return fmt.Errorf("%w: time passes in a simulation only", ErrInvalid)
	}
	return d.copied.copy.Elapse(a.Elapse)
}

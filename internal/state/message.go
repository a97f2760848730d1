package state

import (
	"time"

	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A Message is something that a run's actor receives. Its variants are the
// types below and no others; they are part of the journal's format.
//
// The state of the run, the message and the instant are all that a planner reads: a message must carry everything
// else that the decision depends on. A message that is refused, or changes nothing, leaves no record.
//
//sumtype:decl
type Message interface{ isMessage() }

type (
	// Start begins the run.
	Start struct {
		Input  map[string]any    `json:"input,omitzero"`
		Parent *workflow.Parent  `json:"parent,omitzero"` // of a child run
		Pins   Pins              `json:"pins,omitzero"`   // the definitions of subworkflows
		Tenant string            `json:"tenant,omitzero"` // on whose behalf
		Labels map[string]string `json:"labels,omitzero"` // nil without
		As     workflow.RunID    `json:"as,omitzero"`     // the run that began so; this one is a fork of it
		Limits amount.Sums       `json:"limits,omitzero"` // of what it may report
		Trace  *Trace            `json:"trace,omitzero"`  // nil without
		Act    Act               `json:"act,omitzero"`

		Measure value.Measure `json:"-"` // of the input; zero in a message from a journal
		Text    value.Text    `json:"-"` // of the input, if it is known

		ScheduledAt time.Time `json:"scheduledAt,omitzero"` // the instant of the schedule that starts it; zero of any other run
	}
	// TaskCompleted reports the output of an attempt. The result of an attempt counts once. Token, Attempt and Epoch
	// are its key: a message whose key is not that of the running attempt changes nothing, so that a late result, or
	// one from an executor that a former life of the engine started, does no harm.
	TaskCompleted struct {
		Token     workflow.TokenID    `json:"token"`
		Attempt   int                 `json:"attempt"`
		Epoch     Epoch               `json:"epoch"`
		Output    any                 `json:"output,omitzero"`
		Metadata  map[string]any      `json:"metadata,omitzero"`  // kept on the event
		Artifacts []workflow.Artifact `json:"artifacts,omitzero"` // names and blobs
		Began     int64               `json:"began,omitzero"`     // when somebody began to perform it, in milliseconds since the Unix epoch; 0 if nobody knows
		Measure   value.Measure       `json:"-"`                  // of the output; zero in a message from a journal
		Text      value.Text          `json:"-"`                  // of the output, if it is known
		Act       Act                 `json:"act,omitzero"`
	}
	// TaskFailed reports that an attempt failed. Whether the task is tried again, parked, or fails its token is
	// decided by the node's policy, not here.
	TaskFailed struct {
		Token      workflow.TokenID `json:"token"`
		Attempt    int              `json:"attempt"`
		Epoch      Epoch            `json:"epoch"`
		Failure    workflow.Failure `json:"failure"`
		RetryAfter time.Duration    `json:"retryAfter,omitzero"` // in place of the policy's delay
		Details    any              `json:"details,omitzero"`    // of its last heartbeat, if they were not told before
		Metadata   map[string]any   `json:"metadata,omitzero"`   // kept on the event
		Began      int64            `json:"began,omitzero"`      // as in TaskCompleted
		Act        Act              `json:"act,omitzero"`
	}
	// TaskSnoozed reports that an attempt asks to be called again after a time. It does not use up an attempt's
	// budget as a failure would.
	TaskSnoozed struct {
		Token   workflow.TokenID `json:"token"`
		Attempt int              `json:"attempt"`
		Epoch   Epoch            `json:"epoch"`
		After   time.Duration    `json:"after"`
		Details any              `json:"details,omitzero"` // of its last heartbeat, if they were not told before
		Began   int64            `json:"began,omitzero"`   // as in TaskCompleted
		Act     Act              `json:"act,omitzero"`
	}
	// Heartbeat reports that an attempt is alive.
	Heartbeat struct {
		Token   workflow.TokenID `json:"token"`
		Attempt int              `json:"attempt"`
		Epoch   Epoch            `json:"epoch"`
		Details any              `json:"details,omitzero"` // how far it is, for the next attempt; nil leaves them
	}
	// AlarmFired reports that the instant for which the run's alarm was armed has come. Everything due by max(now,
	// At) happens. The actor makes it itself, behind the messages of a batch, if the state's Alarm is not after the
	// batch's instant.
	AlarmFired struct {
		At int64 `json:"at"` // milliseconds since the Unix epoch
	}
	// Cancel ends the run.
	Cancel struct {
		Reason string `json:"reason,omitzero"`
		Act    Act    `json:"act,omitzero"`
	}
	// Retry gives a parked task a fresh budget, or ends a back-off at once.
	// It names the token, or the node if one token waits there.
	Retry struct {
		Token  workflow.TokenID    `json:"token,omitzero"`
		Node   workflow.NodeID     `json:"node,omitzero"`
		Parked bool                `json:"parked,omitzero"` // only if the task is parked
		Input  workflow.RetryInput `json:"input,omitzero"`
		Act    Act                 `json:"act,omitzero"`
	}
	// Skip completes a task in the operator's name. It names the token, or the
	// node if one token is live there.
	Skip struct {
		Token  workflow.TokenID `json:"token,omitzero"`
		Node   workflow.NodeID  `json:"node,omitzero"`
		Parked bool             `json:"parked,omitzero"` // only if the task is parked
		Output any              `json:"output,omitzero"`
		Act    Act              `json:"act,omitzero"`
	}
	// Suspend stops a run whose planner broke an invariant. The actor plans it itself, after it has loaded the state
	// from before the fault.
	Suspend struct {
		Cause string `json:"cause"`
	}
	// Resume lets a suspended run go on.
	Resume struct {
		Parent bool `json:"parent,omitzero"` // said by the parent run
		Act    Act  `json:"act,omitzero"`
	}
	// Pause holds back what the run would dispatch. Results, signals, votes and time go on. A parent that is paused
	// pauses its children, who keep that in Facts.ParentPauses: a pause by an operator of the child outlasts the
	// parent's.
	Pause struct {
		Parent bool `json:"parent,omitzero"` // said by the parent run
		Act    Act  `json:"act,omitzero"`
	}
	// Signal is an event for whoever waits for its name in the run. An ID counts once per run for ever. Transient is
	// lost if nobody waits. A signal that is kept may be taken for as long as TTL, which is 0 for ever. Early keeps
	// also a signal whose name no node of the definition waits for, which is refused otherwise.
	Signal struct {
		Name      string        `json:"name"`
		ID        string        `json:"id,omitzero"`
		Payload   any           `json:"payload,omitzero"`
		Transient bool          `json:"transient,omitzero"`
		TTL       time.Duration `json:"ttl,omitzero"`
		Early     bool          `json:"early,omitzero"`
		Act       Act           `json:"act,omitzero"`
	}
	// Ballot is one vote on an approval. It names the token, or the node if one
	// approval is open there. An ID counts once per run for ever.
	Ballot struct {
		ID       string           `json:"id,omitzero"`
		Token    workflow.TokenID `json:"token,omitzero"`
		Node     workflow.NodeID  `json:"node,omitzero"`
		By       string           `json:"by"`
		Approved bool             `json:"approved"`
		Comment  string           `json:"comment,omitzero"`
		Data     any              `json:"data,omitzero"`
		Act      Act              `json:"act,omitzero"`
	}
	// CancelNodes ends the live tokens at some nodes.
	CancelNodes struct {
		Nodes []workflow.NodeID `json:"nodes"`
		Act   Act               `json:"act,omitzero"`
	}
	// AddBranch adds a branch to a live group, by the group's first transition. An ID counts once per run for ever.
	AddBranch struct {
		ID     string           `json:"id,omitzero"`
		Group  string           `json:"group"`
		Origin workflow.TokenID `json:"origin,omitzero"` // 0: the only live group of that name
		Item   any              `json:"item,omitzero"`   // its element, if that transition is a foreach
		Act    Act              `json:"act,omitzero"`
	}
	// CloseGroup fires the join of a live group with what has arrived.
	CloseGroup struct {
		Group  string           `json:"group"`
		Origin workflow.TokenID `json:"origin,omitzero"` // 0: the only live group of that name
		Act    Act              `json:"act,omitzero"`
	}
	// Raise raises limits of what the run may report.
	Raise struct {
		Meta amount.Sums `json:"meta"` // the new limits
		Act  Act         `json:"act,omitzero"`
	}
	// Patch changes the definition of the run.
	Patch struct {
		Base int   `json:"base"`          // the revision that the operations are for
		Ops  []any `json:"ops"`           // of a JSON patch, RFC 6902
		Pins Pins  `json:"pins,omitzero"` // the definitions of subworkflows that it adds
		Act  Act   `json:"act,omitzero"`
	}
	// RunForked makes a fork of the run, whose records it has up to this one.
	RunForked struct {
		Run      workflow.RunID        `json:"run"` // the fork
		From     workflow.ForkPoint    `json:"from"`
		Moved    bool                  `json:"moved,omitzero"` // it comes from elsewhere, and keeps its id
		AsOf     int64                 `json:"asOf"`           // milliseconds since the Unix epoch: what time had passed by then has passed in the fork
		InFlight workflow.InFlight     `json:"inFlight,omitzero"`
		Node     workflow.NodeID       `json:"node,omitzero"`  // of a rerun: where it begins, and
		Token    workflow.TokenID      `json:"token,omitzero"` // with which token
		Results  []workflow.ForkResult `json:"results,omitzero"`
		Kept     []KeptEnd             `json:"kept,omitzero"`  // of a rerun: what other tokens had come to since
		Made     []KeptToken           `json:"made,omitzero"`  // the tokens among those of Kept, and before them, that the state lacks
		Again    bool                  `json:"again,omitzero"` // what cannot be kept may be done again
		Trace    *Trace                `json:"trace,omitzero"` // of the fork; nil without
		Act      Act                   `json:"act,omitzero"`
	}
	// A KeptEnd is how a token of a run that is forked completed its node, after the record of the fork: in the fork,
	// the token that stands for it completes so again, and nothing is sent.
	KeptEnd struct {
		Token     workflow.TokenID    `json:"token"` // of the run that is forked
		Output    any                 `json:"output,omitzero"`
		Metadata  map[string]any      `json:"metadata,omitzero"`
		Artifacts []workflow.Artifact `json:"artifacts,omitzero"`
	}
	// A KeptToken says from which token another one grew, by which the one in the fork is found that stands for it.
	KeptToken struct {
		Token  workflow.TokenID `json:"token"`
		Parent workflow.TokenID `json:"parent"`
		Node   workflow.NodeID  `json:"node"`
	}
	// Stall fails a run that has done nothing for a time and waits for nothing that comes by itself. The engine sends
	// it, with Options.StallAfter. If the run has written further events since, it has moved and nothing happens.
	Stall struct {
		Events int64         `json:"events"` // that the run had written when it was looked at
		Idle   time.Duration `json:"idle"`   // how long it has been quiet
	}
	// RunGrown reports how many bytes a run takes on the disk, when they are more than it may. The actor plans it
	// itself after a turn, and when it has loaded the run, with the size that its store tells.
	RunGrown struct {
		Bytes int64 `json:"bytes"`
	}
	// ChildEnded reports how a child run has ended, or that it cannot begin. It may come more than once, since parent
	// and child tell each other at least once; only the first counts.
	ChildEnded struct {
		Token   workflow.TokenID   `json:"token"`
		Attempt int                `json:"attempt"`
		Status  workflow.RunStatus `json:"status"`
		Output  map[string]any     `json:"output,omitzero"`  // of a completed child
		Failure *workflow.Failure  `json:"failure,omitzero"` // of any other

		Reported amount.Sums `json:"reported,omitzero"` // by its attempts, and those below it
	}
	// ChildAsks is a child run's question whether it is still wanted. A child asks when it is loaded: its parent may
	// have ended while nobody could tell the child.
	ChildAsks struct {
		Token   workflow.TokenID `json:"token"`
		Attempt int              `json:"attempt"`
	}
)

func (Start) isMessage()         {}
func (TaskCompleted) isMessage() {}
func (TaskFailed) isMessage()    {}
func (TaskSnoozed) isMessage()   {}
func (Heartbeat) isMessage()     {}
func (AlarmFired) isMessage()    {}
func (Cancel) isMessage()        {}
func (Retry) isMessage()         {}
func (Skip) isMessage()          {}
func (Suspend) isMessage()       {}
func (Resume) isMessage()        {}
func (Pause) isMessage()         {}
func (Signal) isMessage()        {}
func (Ballot) isMessage()        {}
func (CancelNodes) isMessage()   {}
func (AddBranch) isMessage()     {}
func (CloseGroup) isMessage()    {}
func (Raise) isMessage()         {}
func (Patch) isMessage()         {}
func (Stall) isMessage()         {}
func (RunGrown) isMessage()      {}
func (ChildEnded) isMessage()    {}
func (ChildAsks) isMessage()     {}
func (RunForked) isMessage()     {}

// messageVariants has one zero value of every Message.
var messageVariants = [...]Message{
	Start{}, TaskCompleted{}, TaskFailed{}, TaskSnoozed{}, Heartbeat{}, AlarmFired{}, Cancel{},
	Retry{}, Skip{}, Suspend{}, Resume{}, Pause{}, Signal{}, Ballot{}, CancelNodes{}, AddBranch{},
	CloseGroup{}, ChildEnded{}, ChildAsks{}, Patch{}, Stall{}, RunGrown{}, RunForked{}, Raise{},
}

// Messages encodes messages for the journal.
var Messages = codec.New(messageVariants[:]...)

// BeganOf returns when somebody began to perform the attempt that a message is about; zero if it does not say so.
func BeganOf(m Message) time.Time {
	began := int64(0)
	switch m := m.(type) {
	case TaskCompleted:
		began = m.Began
	case TaskFailed:
		began = m.Began
	case TaskSnoozed:
		began = m.Began
	default:
	}
	if began == 0 {
		return time.Time{}
	}
	return time.UnixMilli(began).UTC()
}

// KnownText returns the value of a message whose canonical JSON the host has given, with that; no text if there is none.
func KnownText(m Message) (any, value.Text) {
	if m, ok := m.(Start); ok {
		return m.Input, m.Text
	}
	done, _ := m.(TaskCompleted)
	return done.Output, done.Text
}

// A Trace names the span from which all spans of a run descend: the one of its start, or that of an ancestor. It is part of the
// facts of a run, so that attempts after a restart, or on another machine, have the same parent. It is immutable.
type Trace struct {
	Parent string `json:"parent"`         // as the header traceparent of W3C Trace Context has it
	State  string `json:"state,omitzero"` // as tracestate has it
	At     int64  `json:"at"`             // when the span was made, in milliseconds since the Unix epoch
}

// Headers returns what names the span in the headers of W3C Trace Context; "" without one.
func (t *Trace) Headers() (traceparent, tracestate string) {
	if t == nil {
		return "", ""
	}
	return t.Parent, t.State
}

// An Act says who has made a call of the engine, and why. It is zero in the message of a call that was made in
// nobody's name. Every message that a caller of the engine may send carries one, but for Heartbeat, so that the
// journal answers later who did what.
type Act struct {
	By     string `json:"by,omitzero"`
	Reason string `json:"reason,omitzero"`
}

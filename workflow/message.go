package workflow

import "github.com/pawl-run/pawl/internal/codec"

// A Message is something that a run's actor receives. Its variants are the
// types below and no others; they are part of the journal's format.
//
//sumtype:decl
type Message interface{ message() }

type (
	// Start begins the run.
	Start struct {
		Input map[string]any `json:"input,omitzero"`
	}
	// TaskCompleted reports the output of an attempt.
	TaskCompleted struct {
		Token    TokenID        `json:"token"`
		Attempt  int            `json:"attempt"`
		Epoch    Epoch          `json:"epoch"`
		Output   any            `json:"output,omitzero"`
		Metadata map[string]any `json:"metadata,omitzero"` // kept on the event
	}
	// TaskFailed reports that an attempt failed.
	TaskFailed struct {
		Token   TokenID `json:"token"`
		Attempt int     `json:"attempt"`
		Epoch   Epoch   `json:"epoch"`
		Failure Failure `json:"failure"`
	}
	// Heartbeat reports that an attempt is alive.
	Heartbeat struct {
		Token   TokenID `json:"token"`
		Attempt int     `json:"attempt"`
		Epoch   Epoch   `json:"epoch"`
	}
	// AlarmFired reports that the instant for which the run's alarm was armed
	// has come. Everything due by max(now, At) happens.
	AlarmFired struct {
		At int64 `json:"at"` // milliseconds since the Unix epoch
	}
	// Cancel ends the run.
	Cancel struct {
		Reason string `json:"reason,omitzero"`
	}
	// Retry gives a parked task a fresh budget, or ends a back-off at once.
	// It names the token, or the node if one token waits there.
	Retry struct {
		Token TokenID `json:"token,omitzero"`
		Node  NodeID  `json:"node,omitzero"`
	}
	// Skip completes a task in the operator's name. It names the token, or the
	// node if one token is live there.
	Skip struct {
		Token  TokenID `json:"token,omitzero"`
		Node   NodeID  `json:"node,omitzero"`
		Output any     `json:"output,omitzero"`
	}
	// Suspend stops a run whose planner broke an invariant.
	Suspend struct {
		Cause string `json:"cause"`
	}
	// Resume lets a suspended run go on.
	Resume struct{}
)

func (Start) message()         {}
func (TaskCompleted) message() {}
func (TaskFailed) message()    {}
func (Heartbeat) message()     {}
func (AlarmFired) message()    {}
func (Cancel) message()        {}
func (Retry) message()         {}
func (Skip) message()          {}
func (Suspend) message()       {}
func (Resume) message()        {}

// messageVariants has one zero value of every Message.
var messageVariants = [...]Message{
	Start{}, TaskCompleted{}, TaskFailed{}, Heartbeat{}, AlarmFired{}, Cancel{},
	Retry{}, Skip{}, Suspend{}, Resume{},
}

// Messages encodes messages for the journal.
var Messages = codec.New(messageVariants[:]...)

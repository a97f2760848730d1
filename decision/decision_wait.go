package decision

import (
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Decisions about what waits for others: people, events, locks, joins, children.
type (
	// StartChild hands the start of a child run to the engine. Its id follows
	// from run, token and attempt, see workflow.ChildID.
	StartChild struct {
		Token      workflow.TokenID `json:"token"`
		Attempt    int              `json:"attempt"`
		Definition string           `json:"definition"` // hash
		Input      any              `json:"input,omitzero"`
		Due        time.Time        `json:"due,omitzero"` // the attempt times out
	}

	// EndChild notes how the child of a token has ended. The token is then as if
	// it were about to begin; what follows says what becomes of it.
	EndChild struct {
		Token   workflow.TokenID   `json:"token"`
		Status  workflow.RunStatus `json:"status"`
		Failure *workflow.Failure  `json:"failure,omitzero"`
	}

	// RequestApproval makes a token wait for people, until Due at most.
	RequestApproval struct {
		Token   workflow.TokenID `json:"token"`
		Attempt int              `json:"attempt"`
		Message string           `json:"message,omitzero"`
		Due     time.Time        `json:"due,omitzero"`
	}

	// AddVote adds a vote to an open approval.
	AddVote struct {
		Token workflow.TokenID `json:"token"`
		Vote  state.Vote       `json:"vote"`
	}

	// DecideApproval ends an approval. What follows says what becomes of the
	// token.
	DecideApproval struct {
		Token    workflow.TokenID `json:"token"`
		Approved bool             `json:"approved"`
		Cause    string           `json:"cause"` // votes or timeout
	}

	// AwaitEvent makes a token wait for an event, or until Due if one of what it
	// waits for is a timer, or until Limit, when its node times out.
	AwaitEvent struct {
		Token   workflow.TokenID `json:"token"`
		Attempt int              `json:"attempt"`
		Names   []string         `json:"names"`
		Due     time.Time        `json:"due,omitzero"`
		Limit   time.Time        `json:"limit,omitzero"`
		Result  any              `json:"result,omitzero"` // as in AwaitTimer
	}

	// KeepSignal keeps a signal until somebody takes it. Done says that its
	// number is kept only: it was taken, or lost, at once.
	KeepSignal struct {
		Seq     state.SignalID `json:"seq"`
		Name    string         `json:"name"`
		ID      string         `json:"id,omitzero"`
		Payload any            `json:"payload,omitzero"`
		Due     time.Time      `json:"due,omitzero"` // it is lost then
		Done    bool           `json:"done,omitzero"`
	}

	// TakeSignal gives a signal to a token. Kept signals are gone then. What
	// follows completes the token.
	TakeSignal struct {
		Token workflow.TokenID `json:"token"`
		Seq   state.SignalID   `json:"seq"`
		Name  string           `json:"name"`
	}

	// LoseSignal ends a signal that nobody took in time.
	LoseSignal struct {
		Seq  state.SignalID `json:"seq"`
		Name string         `json:"name"`
	}

	// RejectSignal notes that a waiting token's match failed on a signal.
	RejectSignal struct {
		Token   workflow.TokenID `json:"token"`
		Name    string           `json:"name"`
		Failure workflow.Failure `json:"failure"`
	}

	// AwaitLock makes a token wait for its node's lock.
	AwaitLock struct {
		Token  workflow.TokenID `json:"token"`
		Result any              `json:"result,omitzero"` // of the node that was left
	}

	// TakeLock gives a token its node's lock, until it leaves the node.
	TakeLock struct {
		Token workflow.TokenID `json:"token"`
		Lock  string           `json:"lock"`
	}

	// HoldToken keeps a token from going on while the run is paused.
	HoldToken struct {
		Token  workflow.TokenID `json:"token"`
		Result any              `json:"result,omitzero"` // of the node that was left, or the task's input
	}

	// AwaitJoin makes a token wait at its node for other incoming transitions.
	AwaitJoin struct {
		Token workflow.TokenID      `json:"token"`
		Via   workflow.TransitionID `json:"via"` // the transition that it took
	}

	// FireJoin ends the tokens, one for each transition, with which a node's
	// join goes on.
	FireJoin struct {
		Node   workflow.NodeID    `json:"node"`
		Tokens []workflow.TokenID `json:"tokens"`
	}

	// CancelTokens ends all live tokens at some nodes, but one: in a branch and
	// what is nested in it. Those that wait at a group's join have left their
	// node.
	CancelTokens struct {
		Scope  workflow.Scope    `json:"scope,omitzero"`
		Nodes  []workflow.NodeID `json:"nodes"`
		Except workflow.TokenID  `json:"except,omitzero"`
	}

	// AddBranch adds a branch to a group.
	AddBranch struct {
		Group workflow.GroupID `json:"group"`
		Token workflow.TokenID `json:"token"`
		Item  any              `json:"item,omitzero"`
	}

	// CloseGroup lets a group take no further branches. Its join fires with what
	// has arrived: now, or when nothing blocks it any more.
	CloseGroup struct {
		Group workflow.GroupID `json:"group"`
	}

	// ArmGroup starts the time of a group's join, which stragglers of an earlier
	// occurrence had blocked. Without Due it stops the time: they block it now.
	ArmGroup struct {
		Group workflow.GroupID `json:"group"`
		Due   time.Time        `json:"due,omitzero"`
	}

	// ListErrors writes the failures that a group's join tolerates.
	ListErrors struct {
		Group  workflow.GroupID `json:"group"`
		Scope  workflow.Scope   `json:"scope,omitzero"`
		Path   []string         `json:"path"`
		Append bool             `json:"append,omitzero"`
		Value  any              `json:"value,omitzero"`
	}

	// PatchRun replaces the run's definition. Steps are those of a dag whose
	// incoming transitions it changes.
	PatchRun struct {
		Revision   int             `json:"revision"`
		Definition any             `json:"definition"` // as a value
		Pins       workflow.Pins   `json:"pins,omitzero"`
		Due        time.Time       `json:"due,omitzero"` // the run times out
		Steps      []state.Step    `json:"steps,omitzero"`
		Graph      *workflow.Graph `json:"-"` // of Definition; nil until it is asked for
	}

	// StageArtifacts adds what a token's task hands over to the artifacts of the
	// run.
	StageArtifacts struct {
		Token     workflow.TokenID    `json:"token"`
		Artifacts []workflow.Artifact `json:"artifacts"`
	}

	// PauseRun holds back what the run would dispatch.
	PauseRun struct {
		Parent bool `json:"parent,omitzero"` // because the parent run is paused
	}

	// StartStep notes that a node of a dag has its token.
	StartStep struct {
		Node workflow.NodeID `json:"node"`
	}

	// EndStep resolves the transitions that leave a node of a dag: those listed
	// are taken, the others dead. Skipped says that the node never runs.
	EndStep struct {
		Node    workflow.NodeID         `json:"node"`
		Taken   []workflow.TransitionID `json:"taken,omitzero"`
		All     bool                    `json:"all,omitzero"` // all are taken, none is listed
		Skipped bool                    `json:"skipped,omitzero"`
	}

	// DeferFailure notes that the run will fail once the rest of it has ended.
	DeferFailure struct {
		Failure workflow.Failure `json:"failure"`
	}
)

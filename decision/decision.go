package decision

import (
	"fmt"
	"time"

	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A Decision is one change to a run. Its variants are the types below and no
// others; their names and fields are part of the journal's format.
//
//sumtype:decl
type Decision interface {
	fmt.Stringer // one deterministic line: the trace
	decision()
}

// An Effect is a Decision whose message leaves the actor once it is committed.
//
//sumtype:decl
type Effect interface {
	Decision
	effect()
}

// A Plan is what a planner makes of one message.
type Plan struct {
	Decisions []Decision
	Trace     []Note // why; never applied
}

// A Note says why a plan is as it is: a condition with its value, a limit, the
// counts of a join.
type Note struct {
	Token      workflow.TokenID
	Transition workflow.TransitionID
	Text       string
}

// String returns the note in one line.
func (n Note) String() string {
	if n.Transition == "" {
		return fmt.Sprintf("%v: %s", n.Token, n.Text)
	}
	return fmt.Sprintf("%v %s: %s", n.Token, n.Transition, n.Text)
}

// Effects returns the effects of p in order.
func (p Plan) Effects() []Effect {
	var out []Effect
	for _, d := range p.Decisions {
		if e, ok := d.(Effect); ok {
			out = pace.Push(out, e)
		}
	}
	return out
}

// Decisions about tokens.
type (
	// CreateToken puts a new token on a node.
	CreateToken struct {
		Token state.Token `json:"token"`
	}

	// CreateBranches makes a group and the first tokens of its branches, one
	// per branch from Group.First on, placed by the group's spawns. Items holds
	// the element of each branch if any of them has one.
	CreateBranches struct {
		Group state.Group `json:"group"`
		Items []any       `json:"items,omitzero"`
	}

	// StartBranches lets the next Count branches of a group begin.
	StartBranches struct {
		Group workflow.GroupID `json:"group"`
		Count int              `json:"count"`
	}

	// DispatchTask hands an attempt of a token's task to the executor.
	DispatchTask struct {
		Token   workflow.TokenID `json:"token"`
		Task    string           `json:"task"`
		Attempt int              `json:"attempt"`
		Epoch   workflow.Epoch   `json:"epoch"`
		Input   any              `json:"input,omitzero"`
		Due     time.Time        `json:"due,omitzero"`  // the attempt times out
		Beat    time.Time        `json:"beat,omitzero"` // the first heartbeat is due
	}

	// ExtendTask moves the instant at which an attempt's silence is too long.
	ExtendTask struct {
		Token workflow.TokenID `json:"token"`
		Beat  time.Time        `json:"beat"`
	}

	// RetryTask makes a token wait for its next attempt. Base is the number of
	// attempts that no longer count against the budget.
	RetryTask struct {
		Token   workflow.TokenID  `json:"token"`
		Due     time.Time         `json:"due"`
		Base    int               `json:"base,omitzero"`
		Failure *workflow.Failure `json:"failure,omitzero"`
	}

	// ParkTask makes a token wait for an operator: a dead letter is open.
	ParkTask struct {
		Token   workflow.TokenID `json:"token"`
		Failure workflow.Failure `json:"failure"`
	}

	// AwaitTimer makes a token wait until Due, or until Limit, when its node
	// times out, if that is earlier. Result is that of the node that was left,
	// kept where a further attempt may ask for it.
	AwaitTimer struct {
		Token   workflow.TokenID `json:"token"`
		Attempt int              `json:"attempt"`
		Due     time.Time        `json:"due"`
		Limit   time.Time        `json:"limit,omitzero"`
		Result  any              `json:"result,omitzero"`
	}

	// AwaitSiblings makes a token wait at the join of a group, as part of
	// branch Scope, which it may enter from a group inside it. Completes says
	// that its node completes with it, as in CompleteToken.
	AwaitSiblings struct {
		Token     workflow.TokenID      `json:"token"`
		Scope     workflow.Scope        `json:"scope"`
		Via       workflow.TransitionID `json:"via"`
		Source    any                   `json:"source,omitzero"`
		Completes bool                  `json:"completes,omitzero"`
		Output    any                   `json:"output,omitzero"`
		Metadata  map[string]any        `json:"metadata,omitzero"`
		Skipped   bool                  `json:"skipped,omitzero"` // as in CompleteToken
	}

	// CompleteToken ends a token whose node has completed. Output is kept if
	// some expression asks for it.
	CompleteToken struct {
		Token    workflow.TokenID `json:"token"`
		Output   any              `json:"output,omitzero"`
		Metadata map[string]any   `json:"metadata,omitzero"`
		Skipped  bool             `json:"skipped,omitzero"` // by an operator: the attempt's key is stale
	}

	// FailToken ends a token whose node has failed.
	FailToken struct {
		Token   workflow.TokenID `json:"token"`
		Failure workflow.Failure `json:"failure"`
	}

	// ExpireToken ends a token whose last attempt timed out.
	ExpireToken struct {
		Token   workflow.TokenID `json:"token"`
		Failure workflow.Failure `json:"failure"`
	}

	// CancelToken ends a token that is no longer wanted.
	CancelToken struct {
		Token  workflow.TokenID `json:"token"`
		Reason string           `json:"reason,omitzero"`
	}
)

// Decisions about groups and data.
type (
	// ArriveBranch counts a branch as arrived. Due is set by the first arrival
	// of a group whose join has a timeout.
	ArriveBranch struct {
		Scope workflow.Scope `json:"scope"`
		Due   time.Time      `json:"due,omitzero"`
	}

	// EndBranch counts a branch as ended by choice, and drops its data unless
	// stragglers in it still see them.
	EndBranch struct {
		Scope workflow.Scope `json:"scope"`
	}

	// FailBranch counts a branch as failed, cancels what lives in it and in
	// what is nested in it, and drops its data.
	FailBranch struct {
		Scope   workflow.Scope   `json:"scope"`
		Failure workflow.Failure `json:"failure"`
	}

	// DropBranch drops the data of a branch whose last straggler has ended.
	DropBranch struct {
		Scope workflow.Scope `json:"scope"`
	}

	// MergeBranches writes the merged value of a group's arrived branches into
	// its origin's scope.
	MergeBranches struct {
		Group  workflow.GroupID `json:"group"`
		Scope  workflow.Scope   `json:"scope,omitzero"`
		Path   []string         `json:"path"`
		Append bool             `json:"append,omitzero"`
		Value  any              `json:"value,omitzero"`
	}

	// FireGroup ends a group whose join goes on: the tokens that arrived
	// complete, and what still runs is cancelled or left to itself.
	FireGroup struct {
		Group     workflow.GroupID `json:"group"`
		Cancel    bool             `json:"cancel,omitzero"`
		Shortfall bool             `json:"shortfall,omitzero"` // fewer than the quorum
		TimedOut  bool             `json:"timedOut,omitzero"`  // because its time was up
	}

	// FailGroup ends a group that failed and cancels what lives in it. The
	// failure is raised at the node that fanned out.
	FailGroup struct {
		Group     workflow.GroupID `json:"group"`
		Shortfall bool             `json:"shortfall,omitzero"` // fewer than the quorum
		TimedOut  bool             `json:"timedOut,omitzero"`  // because its time was up: so have those that waited
		Failure   workflow.Failure `json:"failure"`
	}

	// AbandonGroup ends a group of which every branch ended by choice, or that
	// has no join: nothing goes on from it.
	AbandonGroup struct {
		Group workflow.GroupID `json:"group"`
	}

	// SetData sets the value at a path of a scope.
	SetData struct {
		Scope workflow.Scope `json:"scope,omitzero"`
		Path  []string       `json:"path"`
		Value any            `json:"value,omitzero"`
	}

	// AppendData appends one element to the list at a path of a scope.
	AppendData struct {
		Scope workflow.Scope `json:"scope,omitzero"`
		Path  []string       `json:"path"`
		Value any            `json:"value,omitzero"`
	}
)

// Decisions about the run.
type (
	// StartRun begins the run with its input.
	StartRun struct {
		Input  map[string]any   `json:"input"`
		At     time.Time        `json:"at"`
		Due    time.Time        `json:"due,omitzero"`    // the run times out
		Parent *workflow.Parent `json:"parent,omitzero"` // of a child run
		Pins   workflow.Pins    `json:"pins,omitzero"`   // the definitions of subworkflows
	}

	// CompleteRun ends the run with its output and cancels what lives.
	CompleteRun struct {
		Output map[string]any `json:"output"`
		At     time.Time      `json:"at"`
	}

	// FailRun ends the run as failed and cancels what lives.
	FailRun struct {
		Failure workflow.Failure `json:"failure"`
		At      time.Time        `json:"at"`
	}

	// ExpireRun ends the run as timed out and cancels what lives.
	ExpireRun struct {
		Failure workflow.Failure `json:"failure"`
		At      time.Time        `json:"at"`
	}

	// CancelRun ends the run as cancelled and cancels what lives.
	CancelRun struct {
		Failure workflow.Failure `json:"failure"`
		At      time.Time        `json:"at"`
	}

	// SuspendRun stops a run because of an internal fault.
	SuspendRun struct {
		Failure workflow.Failure `json:"failure"`
	}

	// ResumeRun lets a paused or suspended run go on.
	ResumeRun struct{}
)

func (CreateToken) decision()     {}
func (CreateBranches) decision()  {}
func (StartBranches) decision()   {}
func (DispatchTask) decision()    {}
func (ExtendTask) decision()      {}
func (RetryTask) decision()       {}
func (ParkTask) decision()        {}
func (AwaitTimer) decision()      {}
func (AwaitSiblings) decision()   {}
func (CompleteToken) decision()   {}
func (FailToken) decision()       {}
func (ExpireToken) decision()     {}
func (CancelToken) decision()     {}
func (ArriveBranch) decision()    {}
func (EndBranch) decision()       {}
func (FailBranch) decision()      {}
func (DropBranch) decision()      {}
func (MergeBranches) decision()   {}
func (FireGroup) decision()       {}
func (FailGroup) decision()       {}
func (AbandonGroup) decision()    {}
func (SetData) decision()         {}
func (AppendData) decision()      {}
func (StartRun) decision()        {}
func (CompleteRun) decision()     {}
func (FailRun) decision()         {}
func (ExpireRun) decision()       {}
func (CancelRun) decision()       {}
func (SuspendRun) decision()      {}
func (ResumeRun) decision()       {}
func (StartChild) decision()      {}
func (EndChild) decision()        {}
func (RequestApproval) decision() {}
func (AddVote) decision()         {}
func (DecideApproval) decision()  {}
func (AwaitEvent) decision()      {}
func (KeepSignal) decision()      {}
func (TakeSignal) decision()      {}
func (LoseSignal) decision()      {}
func (RejectSignal) decision()    {}
func (AwaitLock) decision()       {}
func (TakeLock) decision()        {}
func (HoldToken) decision()       {}
func (AwaitJoin) decision()       {}
func (FireJoin) decision()        {}
func (CancelTokens) decision()    {}
func (AddBranch) decision()       {}
func (CloseGroup) decision()      {}
func (ArmGroup) decision()        {}
func (ListErrors) decision()      {}
func (PauseRun) decision()        {}
func (PatchRun) decision()        {}
func (StageArtifacts) decision()  {}
func (StartStep) decision()       {}
func (EndStep) decision()         {}
func (DeferFailure) decision()    {}

func (DispatchTask) effect() {}
func (StartChild) effect()   {}

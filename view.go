package pawl

import (
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/taskkey"
	"github.com/pawl-run/pawl/workflow"
)

// A Token is one thread of execution of a run, as Inspect shows it.
type Token struct {
	ID      workflow.TokenID     `json:"id"`
	Node    workflow.NodeID      `json:"node"`             // where it is, or where it ended
	Status  workflow.TokenStatus `json:"status"`           // what it does there, or how it ended
	Parent  workflow.TokenID     `json:"parent,omitzero"`  // the token that it grew from; 0 for the first
	Scope   workflow.Scope       `json:"scope,omitzero"`   // the group and the branch that it is in
	Path    string               `json:"path"`             // the same as a text: root, and /NODE:INDEX for every fan-out around it, by the node that fanned out
	JoinAt  workflow.NodeID      `json:"joinAt,omitzero"`  // while it waits for its siblings: the node that their join leads to, where it stands and CancelNodes ends it
	Attempt int                  `json:"attempt,omitzero"` // of its task, from 1; 0 before the first
	Key     Key                  `json:"key,omitzero"`     // of that attempt; empty if none has been dispatched
	Snoozes int                  `json:"snoozes,omitzero"` // how often its task has asked to be called again, see Snooze
	Chosen  string               `json:"chosen,omitzero"`  // the task type or subworkflow that an expression of its node has chosen; "" if none has, and once it has ended
	Input   any                  `json:"input,omitzero"`   // of its approval, a value of the JSON model: do not modify it
	Due     time.Time            `json:"due,omitzero"`     // when time alone changes it; zero if never
	Limited bool                 `json:"limited,omitzero"` // its task waits for the limit of its type or its tenant, see Options.Types and Tenants
	// Executing says that its task is performed now, by a handler of this process or by a worker that has
	// said so, since when and, if that is known, by whom. It is false for a task that is queued, and for one whose
	// result comes later, through Complete. The engine sees it when it is asked, and stores it nowhere. Queued says what
	// a task waits for that nobody performs yet.
	Executing bool              `json:"executing,omitzero"`
	Since     time.Time         `json:"since,omitzero"`
	Worker    string            `json:"worker,omitzero"`
	Queued    *workflow.Queued  `json:"queued,omitzero"`
	Details   any               `json:"details,omitzero"` // of its task's last heartbeat; nil if there were none
	Failure   *workflow.Failure `json:"failure,omitzero"` // of its last attempt; nil if that has not failed
}

// Live reports whether the token can still change.
func (t Token) Live() bool { return !t.Status.Terminal() }

// A Group is one occurrence of a fan-out, as Inspect shows it.
type Group struct {
	ID      workflow.GroupID `json:"id"`
	Name    string           `json:"name,omitzero"`  // the sibling group; empty if no join waits for it
	Origin  workflow.TokenID `json:"origin"`         // the token that fanned out
	Node    workflow.NodeID  `json:"node"`           // where it did
	Scope   workflow.Scope   `json:"scope,omitzero"` // the group and the branch that the origin is in
	Phase   workflow.Phase   `json:"phase"`          // whether its join has fired
	Total   int              `json:"total"`          // branches made so far
	Arrived int              `json:"arrived"`        // branches that have arrived at the join
	Ended   int              `json:"ended"`          // branches that ended elsewhere, by choice
	Failed  int              `json:"failed"`         // branches that failed
	Running int              `json:"running"`        // branches that have begun and have not arrived, ended or failed
	Live    int              `json:"live"`           // live tokens in it and in the groups within it
	Due     time.Time        `json:"due,omitzero"`   // when its join times out; zero if never
}

// A tokenPlace is where a token is, as the state around it tells.
type tokenPlace struct {
	path   string
	joinAt workflow.NodeID
}

func placeOf(s *state.State, t *state.Token) tokenPlace {
	at := tokenPlace{path: s.PathOf(t.Scope)}
	if t.Status == workflow.WaitingForSiblings {
		at.joinAt = s.NodeOf(t)
	}
	return at
}

// viewToken shows a token. It shows no input but that of an approval which waits, as others may be large.
func (e *Engine) viewToken(run workflow.RunID, t *state.Token, at tokenPlace) Token {
	view := Token{
		ID: t.ID, Node: t.Node, Status: t.Status, Parent: t.Parent, Scope: t.Scope, Path: at.path, JoinAt: at.joinAt,
		Attempt: t.Attempt, Snoozes: t.Remembered().Snoozes, Chosen: t.Remembered().Chosen, Details: t.Remembered().Details, Failure: t.Failure,
	}
	if t.Epoch != 0 {
		view.Key = e.keyOf(taskkey.Attempt{Run: run, Token: t.ID, Number: t.Attempt, Epoch: t.Epoch})
	}
	if t.Status == workflow.WaitingForApproval {
		view.Input = t.Input
	}
	if t.Live() {
		view.Due = t.Alarm()
	}
	return view
}

// viewGroup shows a group, without its branches.
func viewGroup(g *state.Group) Group {
	return Group{
		ID: g.ID, Name: g.Name, Origin: g.Origin, Node: g.Node, Scope: g.Scope, Phase: g.Phase,
		Total: g.Total, Arrived: g.Arrived, Ended: g.Ended, Failed: g.Failed, Running: g.RunningBranches(), Live: g.Live, Due: g.Due,
	}
}

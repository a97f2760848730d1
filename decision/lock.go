package decision

import (
	"fmt"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// AwaitLock makes a token wait for its node's lock.
//
// The lock is granted in the order of arrival, by the plan that releases it. Result is kept
// because the input of the node is evaluated only when the token has the lock: it may ask for
// what the holder writes.
type AwaitLock struct {
	Token  workflow.TokenID `json:"token"`
	Result any              `json:"result,omitzero"` // of the node that was left
}

// String implements fmt.Stringer.
func (d AwaitLock) String() string { return newLine("await-lock", d.Token).String() }

func (d AwaitLock) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	t.Status, t.Input, t.Order, t.Held = workflow.WaitingForLock, d.Result, s.NextPlace(), false
	s.PutToken(&t)
}

func (d AwaitLock) toldEvents(s *state.State) []Event {
	return []Event{waitingFor(s, d.Token, "lock", map[string]any{"lock": s.Graph.Node(s.Token(d.Token).Node).Lock})}
}

func (AwaitLock) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// TakeLock gives a token its node's lock, until it leaves the node.
//
// It stays with the token through all its attempts and the back-offs between them; a
// subworkflow node holds it for the life of its child. No decision releases it: a token that
// ends, or waits at the join of a group, holds nothing, and the state tells the planner which
// locks became free.
type TakeLock struct {
	Token workflow.TokenID `json:"token"`
	Lock  string           `json:"lock"`
}

// String implements fmt.Stringer.
func (d TakeLock) String() string {
	return newLine("take-lock", d.Token).addField("lock", d.Lock).String()
}

// evolveState refuses a second holder, since a critical section with two of them is worse
// than a run that is suspended.
func (d TakeLock) evolveState(s *state.State) {
	if by := s.LockHolder(d.Lock); by != 0 {
		panic(fmt.Sprintf("decision: %v holds the lock %q that %v takes", by, d.Lock, d.Token))
	}
	t := *liveToken(s, d.Token)
	t.Status, t.Input, t.Holds, t.Held = workflow.Pending, nil, d.Lock, false
	s.PutToken(&t)
}

func (TakeLock) toldEvents(*state.State) []Event                 { return nil }
func (TakeLock) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

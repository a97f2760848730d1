package decision

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// RequestApproval makes a token wait for people, until Due at most.
//
// Votes begin anew with each attempt. Input is what people are shown beside the message; nil
// shows nothing.
type RequestApproval struct {
	Token   workflow.TokenID `json:"token"`
	Attempt int              `json:"attempt"`
	Message string           `json:"message,omitzero"`
	Input   map[string]any   `json:"input,omitzero"`
	Due     time.Time        `json:"due,omitzero"`

	Evaluated bool `json:"evaluated,omitzero"` // Message is the value of an expression
}

// String implements fmt.Stringer.
func (d RequestApproval) String() string {
	l := newLine("request-approval", d.Token).addField("attempt", fmt.Sprint(d.Attempt))
	if d.Evaluated {
		l = l.addJSON("message", d.Message)
	}
	if d.Input != nil {
		l = l.addJSON("input", d.Input)
	}
	return l.addTime("due", d.Due).String()
}

// evolveState sets Input only if there is one, because a nil map in it would not be nil any
// more. A message from an expression is remembered, so that a further attempt asks the same.
func (d RequestApproval) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	t.Status, t.Attempt, t.Due, t.Votes = workflow.WaitingForApproval, d.Attempt, d.Due, nil
	t.Order, t.Held, t.Input = s.NextPlace(), false, nil
	if d.Input != nil {
		t.Input = d.Input
	}
	if d.Evaluated {
		m := t.Remembered()
		m.Message = d.Message
		t.Memory = &m
	}
	s.PutToken(&t)
}

func (d RequestApproval) toldEvents(s *state.State) []Event {
	data := map[string]any{"message": d.Message}
	if !d.Due.IsZero() {
		data["due"] = timeText(d.Due)
	}
	return []Event{tokenEvent(s, workflow.EventApprovalRequested, d.Token, data)}
}

func (RequestApproval) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// AddVote adds a vote to an open approval. The planner has checked that the voter has not
// voted before; DecideApproval follows if the vote makes a quorum.
//
// ID is that of the ballot: another one under it changes nothing.
type AddVote struct {
	ID    string           `json:"id,omitzero"`
	Token workflow.TokenID `json:"token"`
	Vote  state.Vote       `json:"vote"`
}

// String implements fmt.Stringer.
func (d AddVote) String() string {
	return newLine("add-vote", d.Token).addField("id", d.ID).addField("by", d.Vote.By).addFlag("approved", d.Vote.Approved).addJSON("data", d.Vote.Data).String()
}

// evolveState copies the votes, because the token that it replaces shares them.
func (d AddVote) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	t.Votes = append(slices.Clone(t.Votes), d.Vote)
	s.PutToken(&t)
	s.NoteCall(state.VoteIDs, d.ID)
}

func (d AddVote) toldEvents(s *state.State) []Event {
	return []Event{tokenEvent(s, workflow.EventApprovalVoted, d.Token, voteValue(d.Vote))}
}

func (AddVote) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// DecideApproval ends an approval. The decisions that follow say what becomes of the token.
// A rejection is a result as well: the node completes with approved: false, and no error
// transition is tried.
type DecideApproval struct {
	Token    workflow.TokenID `json:"token"`
	Approved bool             `json:"approved"`
	Cause    string           `json:"cause"` // votes or timeout
}

// String implements fmt.Stringer.
func (d DecideApproval) String() string {
	return newLine("decide-approval", d.Token).addFlag("approved", d.Approved).addField("cause", d.Cause).String()
}

func (d DecideApproval) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	t.Status, t.Due = workflow.Pending, never
	s.PutToken(&t)
}

func (d DecideApproval) toldEvents(s *state.State) []Event {
	return []Event{tokenEvent(s, workflow.EventApprovalDecided, d.Token, map[string]any{"approved": d.Approved, "cause": d.Cause})}
}

func (DecideApproval) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// voteValue is a vote as data: in events and in the output of an approval. Fields that a vote
// leaves out are left out here, so that an expression may ask for them with has.
func voteValue(v state.Vote) map[string]any {
	out := map[string]any{"by": v.By, "approved": v.Approved, "at": timeText(v.At)}
	if v.Comment != "" {
		out["comment"] = v.Comment
	}
	if v.Data != nil {
		out["data"] = v.Data
	}
	return out
}

// IsVote reports whether the data of an event EventApprovalVoted are those of a vote, whenever and for whatever reason it was given.
func IsVote(data map[string]any, v state.Vote) bool {
	said := voteValue(v)
	said["at"] = data["at"]
	if reason, ok := data["reason"]; ok {
		said["reason"] = reason
	}
	return value.Equal(data, said)
}

// VoteValues returns votes as the output of an approval has them.
func VoteValues(votes []state.Vote) []any {
	out := make([]any, len(votes))
	for i, v := range votes {
		out[i] = voteValue(v)
	}
	return out
}

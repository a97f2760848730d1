package store

import (
	"maps"
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/column"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// listingsAt returns what a commit at an instant changes in the lists of all runs:
// of the tokens that the state's TakeListings names.
//
// For a commit it is asked once, with the state after all its records: a token that began to wait
// and ceased to within one commit is never in a list.
func listingsAt(s *state.State, at time.Time) []listing {
	ids := s.TakeListings()
	if len(ids) > 0 && s.Status.Final() {
		return []listing{{}} // nothing waits any more
	}
	out := make([]listing, len(ids))
	for i, id := range ids {
		out[i] = listingOf(s, s.Token(id), at)
	}
	return out
}

// Listings are what the records of a run, one after the other, make of the lists of all
// runs. The zero value is empty.
type Listings struct {
	last map[workflow.TokenID]listing
}

// AddRecord adds what a record at an instant has changed. s is the state after it.
//
// It is for a run whose records come all at once, from another directory: what the last of them
// left of each token is what counts. After the end of the run nothing is left.
func (l *Listings) AddRecord(s *state.State, at time.Time) {
	if l.last == nil {
		l.last = map[workflow.TokenID]listing{}
	}
	for _, x := range listingsAt(s, at) {
		if x.Token == 0 {
			clear(l.last)
		}
		l.last[x.Token] = x
	}
}

func (l *Listings) sorted() (out []listing) {
	for _, id := range slices.Sorted(maps.Keys(l.last)) {
		out = append(out, l.last[id])
	}
	return out
}

// WaitingTokens returns what the lists of all runs say of a run with the state s: its open
// approvals, and its dead letters, without the instants since when they wait.
//
// A verification compares it with the rows that the lists have.
func WaitingTokens(s *state.State) (approvals []Approval, letters []DeadLetter) {
	if s.Status.Final() {
		return nil, nil
	}
	for _, id := range s.LiveTokens() {
		l := listingOf(s, s.Token(id), time.Time{})
		if l.Approval != nil {
			approvals = append(approvals, *l.Approval)
		}
		if l.DeadLetter != nil {
			letters = append(letters, *l.DeadLetter)
		}
	}
	return approvals, letters
}

// listingOf returns how a token stands in the lists since an instant.
func listingOf(s *state.State, t *state.Token, at time.Time) listing {
	l := listing{Token: t.ID}
	switch t.Status {
	case workflow.WaitingForApproval:
		l.Approval = approvalOf(s, t)
	case workflow.WaitingForOperator:
		l.DeadLetter = deadLetterOf(s, t, at)
	default:
	}
	return l
}

// approvalOf returns a token that waits for people as the list of approvals shows it, with the votes so far.
//
// A message that the token remembers takes the place of the definition's.
func approvalOf(s *state.State, t *state.Token) *Approval {
	a := &Approval{
		Run: s.Run, Workflow: s.Graph.Definition.Name, Token: t.ID, Node: t.Node,
		Message: s.Graph.Node(t.Node).Approval.Message, Input: t.Input, Due: t.Due,
	}
	if m := t.Remembered().Message; m != "" {
		a.Message = m
	}
	for _, v := range t.Votes {
		if v.Approved {
			a.Approved++
		} else {
			a.Rejected++
		}
	}
	return a
}

func deadLetterOf(s *state.State, t *state.Token, at time.Time) *DeadLetter {
	l := &DeadLetter{
		Run: s.Run, Workflow: s.Graph.Definition.Name, Token: t.ID, Node: t.Node, Task: t.TaskAt(s.Graph.Node(t.Node)),
		Attempts: t.Attempt, Input: t.Input, At: at,
	}
	if t.Failure != nil {
		l.Failure = *t.Failure
	}
	return l
}

// textsOf returns the texts of a row in the lists.
func (l *listing) textsOf() (t listed) {
	switch {
	case l.DeadLetter != nil:
		t = listed{failureText(l.DeadLetter.Failure), string(value.Encode(l.DeadLetter.Input))}
	case l.Approval != nil:
		t = listed{l.Approval.Message, string(value.Encode(l.Approval.Input))}
	}
	return t
}

func failureText(f workflow.Failure) string {
	text, _ := column.JSONText(f).(string)
	return text
}

package store

import (
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// listingsAt returns what a commit at an instant changes in the lists of all runs:
// of the tokens that the state's TakeListings names.
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

func approvalOf(s *state.State, t *state.Token) *Approval {
	a := &Approval{
		Run: s.Run, Workflow: s.Graph.Definition.Name, Token: t.ID, Node: t.Node,
		Message: s.Graph.Node(t.Node).Approval.Message, Due: t.Due,
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
		Run: s.Run, Workflow: s.Graph.Definition.Name, Token: t.ID, Node: t.Node, Task: s.Graph.Node(t.Node).Task,
		Attempts: t.Attempt, Input: t.Input, At: at,
	}
	if t.Failure != nil {
		l.Failure = *t.Failure
	}
	return l
}

package decision

import (
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Withdrawn returns the tokens whose running task or child d makes unwanted,
// given the state before it: their executors, or the child runs, are told to
// stop.
func Withdrawn(s *state.State, d Decision) []workflow.TokenID {
	switch d := d.(type) {
	case FailToken:
		return running(s, d.Token)
	case ExpireToken:
		return running(s, d.Token)
	case CancelToken:
		return running(s, d.Token)
	case CompleteToken:
		return running(s, d.Token)
	case RetryTask:
		return running(s, d.Token)
	case ParkTask:
		return running(s, d.Token)
	case AwaitSiblings:
		return running(s, d.Token)
	case CancelTokens:
		return running(s, Standing(s, d)...)
	case FailBranch:
		return running(s, s.TokensOf(d.Scope)...)
	case FailGroup:
		return running(s, s.GroupTokens(d.Group)...)
	case FireGroup:
		if !d.Cancel {
			return nil
		}
		return running(s, s.GroupTokens(d.Group)...)
	case CompleteRun, FailRun, ExpireRun, CancelRun:
		if s.Live() == 0 {
			return nil
		}
		return running(s, s.LiveTokens()...)
	default: // leaves what runs alone
		return nil
	}
}

// running returns those of ids whose task is with the executor, or whose child
// runs.
func running(s *state.State, ids ...workflow.TokenID) []workflow.TokenID {
	var out []workflow.TokenID
	for _, id := range ids {
		if t := s.Token(id); t != nil && (t.Status == workflow.Dispatched || t.Status == workflow.WaitingForChild) {
			out = append(out, id)
		}
	}
	return out
}

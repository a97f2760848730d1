package decision

import (
	"slices"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// waitingFor says that a token waits, and for what.
func waitingFor(s *state.State, id workflow.TokenID, what string, more map[string]any) Event {
	if more == nil {
		more = map[string]any{}
	}
	more["for"] = what
	return tokenEvent(s, TokenWaiting, id, more)
}

func holdEvents(s *state.State, d Decision) []Event {
	switch d := d.(type) {
	case StartChild:
		child := workflow.ChildID(s.Run, d.Token, d.Attempt)
		return []Event{tokenEvent(s, SubworkflowStarted, d.Token, map[string]any{"run": string(child), "attempt": int64(d.Attempt)})}
	case EndChild:
		child := workflow.ChildID(s.Run, d.Token, s.Token(d.Token).Attempt)
		data := map[string]any{"run": string(child), "status": d.Status.String()}
		if d.Failure == nil {
			return []Event{tokenEvent(s, SubworkflowCompleted, d.Token, data)}
		}
		data["error"] = FailureValue(d.Failure)
		return []Event{tokenEvent(s, SubworkflowFailed, d.Token, data)}
	case RequestApproval:
		data := map[string]any{"message": d.Message}
		if !d.Due.IsZero() {
			data["due"] = timeText(d.Due)
		}
		return []Event{tokenEvent(s, ApprovalRequested, d.Token, data)}
	case AddVote:
		return []Event{tokenEvent(s, ApprovalVoted, d.Token, voteValue(d.Vote))}
	case DecideApproval:
		return []Event{tokenEvent(s, ApprovalDecided, d.Token, map[string]any{"approved": d.Approved, "cause": d.Cause})}
	case AwaitLock:
		return []Event{waitingFor(s, d.Token, "lock", map[string]any{"lock": s.Graph.Node(s.Token(d.Token).Node).Lock})}
	case HoldToken:
		return []Event{waitingFor(s, d.Token, "resume", nil)}
	case AwaitJoin:
		return []Event{waitingFor(s, d.Token, "join", map[string]any{"via": string(d.Via)})}
	case FireJoin:
		tokens := make([]any, len(d.Tokens))
		for i, id := range d.Tokens {
			tokens[i] = int64(id)
		}
		return []Event{{Type: JoinCompleted, Node: d.Node, Data: map[string]any{"tokens": tokens}}}
	case CancelTokens:
		return cancelEvents(s, d)
	default:
		return misplaced(d)
	}
}

// voteValue is a vote as data: in events and in the output of an approval.
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

// VoteValues returns votes as the output of an approval has them.
func VoteValues(votes []state.Vote) []any {
	out := make([]any, len(votes))
	for i, v := range votes {
		out[i] = voteValue(v)
	}
	return out
}

// cancelEvents is one event, however many tokens end, and none if none does.
func cancelEvents(s *state.State, d CancelTokens) []Event {
	const most = 100 // tokens that it names
	ids := Standing(s, d)
	if len(ids) == 0 {
		return nil
	}
	tokens := make([]any, 0, min(len(ids), most))
	for _, id := range ids[:min(len(ids), most)] {
		tokens = append(tokens, int64(id))
	}
	nodes := make([]any, len(d.Nodes))
	for i, n := range d.Nodes {
		nodes[i] = string(n)
	}
	return []Event{{Type: TokenCancelled, Data: map[string]any{"nodes": nodes, "count": int64(len(ids)), "tokens": tokens}}}
}

func signalEvents(s *state.State, d Decision) []Event {
	switch d := d.(type) {
	case AwaitEvent:
		names := make([]any, len(d.Names))
		for i, n := range d.Names {
			names[i] = n
		}
		data := map[string]any{"names": names}
		if !d.Due.IsZero() {
			data["until"] = timeText(d.Due)
		}
		return []Event{waitingFor(s, d.Token, "event", data)}
	case KeepSignal:
		data := map[string]any{"name": d.Name, "signal": int64(d.Seq)}
		if d.ID != "" {
			data["id"] = d.ID
		}
		return []Event{{Type: SignalReceived, Data: data}}
	case TakeSignal:
		return []Event{tokenEvent(s, SignalTaken, d.Token, map[string]any{"name": d.Name, "signal": int64(d.Seq)})}
	case LoseSignal:
		return []Event{{Type: SignalLost, Data: map[string]any{"name": d.Name, "signal": int64(d.Seq)}}}
	case RejectSignal:
		return []Event{tokenEvent(s, SignalRejected, d.Token, map[string]any{"name": d.Name, "error": FailureValue(&d.Failure)})}
	default:
		return misplaced(d)
	}
}

func openEvents(s *state.State, d Decision) []Event {
	switch d := d.(type) {
	case AddBranch:
		g := s.Group(d.Group)
		return []Event{{Type: BranchAdded, Token: d.Token, Node: g.Node, Group: g.ID, Data: map[string]any{"name": g.Name, "index": int64(g.Total)}}}
	case CloseGroup:
		return []Event{groupEvent(s, GroupClosed, d.Group)}
	case EndStep:
		if !d.Skipped {
			return nil
		}
		return []Event{{Type: NodeSkipped, Node: d.Node}}
	default:
		return misplaced(d)
	}
}

// names are texts joined by commas.
func names[T ~string](xs []T) string {
	out := make([]byte, 0, 16)
	for i, x := range slices.All(xs) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, string(x)...)
	}
	return string(out)
}

package decision

import (
	"strings"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// AwaitJoin makes a token wait at its node for other incoming transitions.
//
// The node has not begun, so that the token holds nothing of it. Via says on which incoming
// transition the token counts; tokens pile up per transition and pair off first come, first
// served.
type AwaitJoin struct {
	Token workflow.TokenID      `json:"token"`
	Via   workflow.TransitionID `json:"via"` // the transition that it took
}

// String implements fmt.Stringer.
func (d AwaitJoin) String() string {
	return newLine("await-join", d.Token).addField("via", string(d.Via)).String()
}

// evolveState drops the error that the token came by: what continues behind a join of several
// has none.
func (d AwaitJoin) evolveState(s *state.State) {
	t := *liveToken(s, d.Token)
	t.Status, t.Via, t.Caught, t.Order = workflow.WaitingForJoin, d.Via, nil, s.NextPlace()
	s.PutToken(&t)
}

func (d AwaitJoin) toldEvents(s *state.State) []Event {
	return []Event{waitingFor(s, d.Token, "join", map[string]any{"via": string(d.Via)})}
}

func (AwaitJoin) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// FireJoin ends the tokens that wait at a node's join, one for each incoming transition
// that has one. The token that continues in their place is created by the next decision.
type FireJoin struct {
	Node   workflow.NodeID    `json:"node"`
	Tokens []workflow.TokenID `json:"tokens"`
}

// String implements fmt.Stringer.
func (d FireJoin) String() string {
	return newLine("fire-join").addField("node", string(d.Node)).addField("tokens", tokensText(d.Tokens)).String()
}

// evolveState completes the tokens and not the node: it keeps no end of the node, which
// begins only with the token that continues.
func (d FireJoin) evolveState(s *state.State) {
	for _, id := range d.Tokens {
		completeWaiting(s, liveToken(s, id))
	}
}

func (d FireJoin) toldEvents(*state.State) []Event {
	tokens := make([]any, len(d.Tokens))
	for i, id := range d.Tokens {
		tokens[i] = int64(id)
	}
	return []Event{{Type: workflow.EventJoinCompleted, Node: d.Node, Data: map[string]any{"tokens": tokens}}}
}

func (FireJoin) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// tokensText returns ids joined by commas, as t2,t5.
func tokensText(ids []workflow.TokenID) string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = id.String()
	}
	return strings.Join(out, ",")
}

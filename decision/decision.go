package decision

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A Decision is one change to a run. Its variants are the types of this package
// that are listed in variants, and no others; their names and fields are part of
// the journal's format. The methods of a variant, beside it, say what it means:
// a new variant does not compile until it has them all.
//
// All three methods are given the state as it is before the decision: who wants the events or
// the tokens to be withdrawn asks for them first and evolves last, as Apply does.
//
// evolveState never modifies what is already in the state, because a state shares its tokens
// and groups with the overlays that planners plan on. It copies a row, changes the copy and
// puts that in its place.
//
//sumtype:decl
type Decision interface {
	fmt.Stringer // one deterministic line: the trace

	// evolveState applies the decision to s.
	evolveState(s *state.State)
	// toldEvents returns what the decision tells the world, given the state
	// before it; nil if nothing.
	toldEvents(s *state.State) []Event
	// withdrawnTokens returns the tokens whose running task or child the
	// decision makes unwanted, given the state before it.
	withdrawnTokens(s *state.State) []workflow.TokenID
}

// An Effect is a Decision with a message that leaves the actor after the commit. The two
// effects are DispatchTask and StartChild. Everything else that leaves a run is derived:
// events by [Events], and stops by [Withdrawn].
//
//sumtype:decl
type Effect interface {
	Decision
	effect()
}

// A Plan is what a planner makes of one message. Each decision is meant for the state that
// those before it leave. A plan without decisions is no record of the journal and changes
// nothing.
type Plan struct {
	Decisions []Decision
	Trace     []Note // why, if planning.Explain was asked; never applied
	Blobs     []Blob // that the decisions refer to; put before they are committed

	// Unkept are the nodes of the tokens, of those in RunForked.Kept, that could not complete: their nodes are
	// performed again in the fork.
	Unkept []workflow.NodeID
}

// A Note says why a plan is as it is: a condition with what it has read, a limit, the
// counts of a join.
type Note struct {
	Token      workflow.TokenID      `json:"token,omitzero"`
	Transition workflow.TransitionID `json:"transition,omitzero"`
	Tier       int                   `json:"tier,omitzero"`       // priority of the transition
	Expression string                `json:"expression,omitzero"` // that was evaluated; "" if the note is a text
	Reads      []Reading             `json:"reads,omitzero"`      // by path
	Result     bool                  `json:"result,omitzero"`     // of the expression
	Cost       int                   `json:"cost,omitzero"`       // of its evaluation, in units of CEL
	Text       string                `json:"text,omitzero"`       // of a note without an expression
}

// A Reading is a value that an expression may have read.
type Reading struct {
	Path  string `json:"path"`  // such as nodes.quote.output.price
	Value string `json:"value"` // as JSON, shortened to some 200 bytes; "" if there was none
}

// String returns the note in one line. A condition that fails, for example, gives "t3
// check->pay: state.sum > 100 is false with state.sum = 7"; a note of no particular
// transition begins with the token alone.
func (n Note) String() string {
	text := n.Text
	if n.Expression != "" {
		text = fmt.Sprintf("%s is %t", n.Expression, n.Result)
	}
	before := " with "
	for _, r := range n.Reads {
		text, before = text+before+r.Path+" = "+cmp.Or(r.Value, "absent"), ", "
	}
	text = escapeControls(text)
	if n.Transition == "" {
		return fmt.Sprintf("%v: %s", n.Token, text)
	}
	return fmt.Sprintf("%v %s [tier %d]: %s", n.Token, n.Transition, n.Tier, text)
}

// Effects returns the effects of p in order. An actor sends them when the record of the plan
// is committed, and never before: a crash in between loses nothing, since planning.Pending
// derives them anew from the state.
func (p Plan) Effects() []Effect {
	var out []Effect
	for _, d := range p.Decisions {
		if e, ok := d.(Effect); ok {
			out = pace.Push(out, e)
		}
	}
	return out
}

// An Event tells the world what a decision changed. Events of a run are
// numbered from 1 without gaps.
//
// It is derived from a decision and the state before it, so that a replay of the journal
// gives the same events again; nothing is decided by what they say.
type Event struct {
	Seq    int64              `json:"seq"`            // set by whoever keeps the event
	Record int64              `json:"record"`         // sequence of the journal record that it belongs to
	At     time.Time          `json:"at"`             // of that record
	Type   workflow.EventType `json:"type"`           // what happened
	Token  workflow.TokenID   `json:"token,omitzero"` // whose, if it concerns one
	Node   workflow.NodeID    `json:"node,omitzero"`  // where
	Group  workflow.GroupID   `json:"group,omitzero"` // the group, if the event concerns one
	Data   map[string]any     `json:"data,omitzero"`  // particulars, by type; nil if none
}

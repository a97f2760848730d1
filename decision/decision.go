package decision

import (
	"fmt"

	"github.com/pawl-run/pawl/history"
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

// An Event tells what has changed in a run.
type Event = history.Event

// A Note says why the planner decided as it did.
type Note = history.Note

// A Reading is a value that an expression may have read.
type Reading = history.Reading

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

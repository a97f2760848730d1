package decision

import (
	"fmt"

	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A Decision is one change to a run. Its variants are the types of this package
// that are listed in variants, and no others; their names and fields are part of
// the journal's format. What a variant means is said by its methods, beside it:
// a new one does not compile until it has them all.
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

// An Effect is a Decision whose message leaves the actor once it is committed.
//
//sumtype:decl
type Effect interface {
	Decision
	effect()
}

// A Plan is what a planner makes of one message.
type Plan struct {
	Decisions []Decision
	Trace     []Note // why; never applied
	Blobs     []Blob // that the decisions refer to; put before they are committed
}

// A Note says why a plan is as it is: a condition with its value, a limit, the
// counts of a join.
type Note struct {
	Token      workflow.TokenID
	Transition workflow.TransitionID
	Text       string
}

// String returns the note in one line.
func (n Note) String() string {
	if n.Transition == "" {
		return fmt.Sprintf("%v: %s", n.Token, n.Text)
	}
	return fmt.Sprintf("%v %s: %s", n.Token, n.Transition, n.Text)
}

// Effects returns the effects of p in order.
func (p Plan) Effects() []Effect {
	var out []Effect
	for _, d := range p.Decisions {
		if e, ok := d.(Effect); ok {
			out = pace.Push(out, e)
		}
	}
	return out
}

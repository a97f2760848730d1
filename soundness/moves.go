package soundness

import (
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A move is what a run is told.
type move struct {
	message state.Message
	node    workflow.NodeID // whose result it is, or at which somebody votes; "" without
	input   map[string]any  // of the start
}

// movesFrom returns what a run may be told: for each thing that may happen, lists of moves, of
// which the first that works is enough.
func (x *explorer) movesFrom(f *found) (out [][][]move) {
	s := f.state
	form := newForm(s, x.check.values.keeps)
	seen := map[string]bool{}
	for _, id := range s.LiveTokens() {
		t := s.Token(id)
		if key := form.placeText(t); seen[key] {
			continue // another one goes on alike
		} else {
			seen[key] = true
		}
		out = append(out, x.tokenMoves(s, t)...)
	}
	if at := s.Alarm(); !at.IsZero() {
		out = append(out, oneMove(move{message: state.AlarmFired{At: at.UnixMilli()}}))
	}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		if g := s.Group(id); g.Open && g.Phase == workflow.Gathering && g.Name != "" {
			out = append(out, oneMove(move{message: state.CloseGroup{Group: g.Name, Origin: g.Origin}}))
		}
	}
	return out
}

// placeText tells tokens apart that may go on differently.
func (f *form) placeText(t *state.Token) string {
	text := tokenForm(t)
	for sc := t.Scope; sc.Group != 0; {
		g := f.s.Group(sc.Group)
		text += fmt.Sprintf(" in g%d %s", g.ID, f.scopeText(sc))
		if items := f.s.BranchItems(g.ID); sc.Branch < len(items) && f.keeps("item", "") {
			text += fmt.Sprint(" of ", items[sc.Branch])
		}
		sc = g.Scope
	}
	return text
}

func oneMove(m move) [][]move { return [][]move{{m}} }

// tokenMoves returns what may happen to a token.
func (x *explorer) tokenMoves(s *state.State, t *state.Token) (out [][][]move) {
	n := s.Graph.Node(t.Node)
	switch t.Status {
	case workflow.Dispatched:
		out = append(out, x.resultMoves(n, func(v any) state.Message {
			return state.TaskCompleted{Token: t.ID, Attempt: t.Attempt, Epoch: t.Epoch, Output: v}
		}))
		for _, code := range failuresOf(s, t, n) {
			failure := workflow.Failure{Code: code, Message: "made up", Permanent: true}
			out = append(out, oneMove(move{message: state.TaskFailed{Token: t.ID, Attempt: t.Attempt, Epoch: t.Epoch, Failure: failure}, node: n.ID}))
		}
	case workflow.WaitingForChild:
		out = append(out, x.resultMoves(n, func(v any) state.Message {
			output, ok := v.(map[string]any)
			if !ok && v != nil {
				return nil
			}
			return state.ChildEnded{Token: t.ID, Attempt: t.Attempt, Status: workflow.RunCompleted, Output: output}
		}))
		for _, code := range failuresOf(s, t, n) {
			failure := &workflow.Failure{Code: code, Message: "made up", Permanent: true}
			out = append(out, oneMove(move{message: state.ChildEnded{Token: t.ID, Attempt: t.Attempt, Status: workflow.RunFailed, Failure: failure}, node: n.ID}))
		}
	case workflow.WaitingForApproval:
		by := fmt.Sprintf("voter%d", len(t.Votes)+1)
		for _, yes := range []bool{true, false} {
			out = append(out, oneMove(move{message: state.Ballot{Token: t.ID, By: by, Approved: yes}, node: n.ID}))
		}
	case workflow.WaitingForEvent:
		out = append(out, x.signalMoves(n)...)
	default: // it waits for others, or for time
	}
	return out
}

// resultMoves returns a move for each result that a node is tried with.
func (x *explorer) resultMoves(n *workflow.GraphNode, message func(any) state.Message) (out [][]move) {
	for _, some := range x.check.values.resultsOf(n) {
		var moves []move
		for _, v := range some {
			if m := message(v); m != nil {
				moves = append(moves, move{message: m, node: n.ID})
			}
		}
		out = append(out, moves)
	}
	return out
}

func (x *explorer) signalMoves(n *workflow.GraphNode) (out [][][]move) {
	for _, name := range n.Events() {
		var lists [][]move
		for _, some := range x.check.values.payloadsOf(n) {
			var moves []move
			for _, v := range some {
				moves = append(moves, move{message: state.Signal{Name: name, Payload: v, Transient: true}, node: n.ID})
			}
			lists = append(lists, moves)
		}
		out = append(out, lists)
	}
	return out
}

// failuresOf returns the codes with which a task is let fail: those that transitions catch, and
// one that none names. A failure that nothing can catch ends the run, and is not tried.
func failuresOf(s *state.State, t *state.Token, n *workflow.GraphNode) (codes []string) {
	if n.Node.Retry != nil && n.Node.Retry.Exhausted == workflow.ExhaustedPark {
		return nil
	}
	for _, tier := range n.Failure {
		for _, tr := range tier {
			for _, code := range tr.Errors {
				if !slices.Contains(codes, code) {
					codes = append(codes, code)
				}
			}
		}
	}
	if len(n.Failure) > 0 || t.Scope.Group != 0 {
		codes = append(codes, "error")
	}
	return codes
}

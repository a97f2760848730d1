package soundness

import (
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A move is what a run is told.
//
// Everything that comes from outside of the planner is a move, and nothing else: tasks and
// children that end, signals, votes, time, and the end of an open group. Operators do not come
// in, since a run should be sound without them.
type move struct {
	message state.Message
	node    workflow.NodeID // the node of the result, or of the vote; "" without
	input   map[string]any  // of the start
}

// movesFrom returns the messages that a run may get: for each thing that may happen, lists of
// moves, where the first list that works is enough.
//
// The result has three levels. The outer one has things that happen independently of each
// other, and all are tried. The middle one has alternatives for one of them, and the first
// that works is enough. The inner one has the values of an alternative, and all are tried.
// Thus a task that waits gives one thing for its completion and one for each code with which
// it may fail.
func (x *explorer) movesFrom(f *found) (out [][][]move) {
	s := f.state
	// The form that is made for comparing states tells here which tokens are alike: of three
	// like branches that wait, a result for the first is enough, as one for another leads to
	// the same form.
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
	// Time passes by the earliest alarm only. Waiting less changes nothing, and waiting longer
	// is what the next state does.
	if at := s.Alarm(); !at.IsZero() {
		out = append(out, oneMove(move{message: state.AlarmFired{At: at.UnixMilli()}}))
	}
	// An open group waits for somebody to close it. Adding a branch is no move, for there would
	// be no end of them.
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		if g := s.Group(id); g.Open && g.Phase == workflow.Gathering && g.Name != "" {
			out = append(out, oneMove(move{message: state.CloseGroup{Group: g.Name, Origin: g.Origin}}))
		}
	}
	return out
}

// placeText tells tokens apart that may go on differently.
//
// The text is that of the token and of all branches around it, with their groups: two tokens in
// different branches are alike only if the branches hold the same. The number of the group is
// in it, so that the branches of one fan-out are compared with each other and not with those of
// another.
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

// oneMove is for what can happen in one way only.
func oneMove(m move) [][]move { return [][]move{{m}} }

// tokenMoves returns what may happen to a token.
//
// A token that waits for a join, for its siblings, a timer or a lock has no move of its own:
// others move it, or the alarm does.
func (x *explorer) tokenMoves(s *state.State, t *state.Token) (out [][][]move) {
	n := s.Graph.Node(t.Node)
	switch t.Status {
	case workflow.Dispatched:
		out = append(out, x.resultMoves(n, func(v any) state.Message {
			return state.TaskCompleted{Token: t.ID, Attempt: t.Attempt, Epoch: t.Epoch, Output: v}
		}))
		for _, code := range failuresOf(s, t, n) {
			// The failure is permanent, so that retries, which would only repeat the search,
			// are not played. The run goes on as it does when they are used up.
			failure := workflow.Failure{Code: code, Message: "made up", Permanent: true}
			out = append(out, oneMove(move{message: state.TaskFailed{Token: t.ID, Attempt: t.Attempt, Epoch: t.Epoch, Failure: failure}, node: n.ID}))
		}
	case workflow.WaitingForChild:
		out = append(out, x.resultMoves(n, func(v any) state.Message {
			// A child's output is an object; no other value can be its answer, and resultMoves
			// leaves it out.
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
		// Each vote is another person's, since the planner refuses a second one of the same voter.
		// Both answers are tried, so that a quorum of n is met and missed in all ways.
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
func (x *explorer) resultMoves(n *compiled.Node, message func(any) state.Message) (out [][]move) {
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

// signalMoves returns a thing to try for each event that a node waits for. The signal is
// transient: if nobody takes it, it is not kept, and tryMove sees that it has changed nothing.
func (x *explorer) signalMoves(n *compiled.Node) (out [][][]move) {
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
func failuresOf(s *state.State, t *state.Token, n *compiled.Node) (codes []string) {
	// A parked task waits for an operator, whom the search does not play: it never fails here.
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
	// In a branch a failure that nothing catches decides something too: it fails the branch,
	// and the strategy of the join says what follows.
	if len(n.Failure) > 0 || t.Scope.Group != 0 {
		codes = append(codes, "error")
	}
	return codes
}

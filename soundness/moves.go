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
// children that end, signals, votes, time, and what open groups are told. Operators do not come
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
	// is what the next state does, or ringOvertaken where moves lead back to this one.
	if at := s.Alarm(); !at.IsZero() {
		out = append(out, oneMove(move{message: state.AlarmFired{At: at.UnixMilli()}}))
	}
	// An open group waits for somebody to close it, and may get branches until then.
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		g := s.Group(id)
		if !g.Open || g.Closed || g.Phase != workflow.Gathering || g.Name == "" {
			continue
		}
		out = append(out, oneMove(move{message: state.CloseGroup{Group: g.Name, Origin: g.Origin}}))
		if mayGrow(s, g) {
			out = append(out, x.branchMoves(s, g))
		}
	}
	return out
}

// mayGrow reports whether a branch is added to an open group. There would be no end of them: a group gets one, or as many as the
// strategy of its join needs. A group that has two gets another only once these are resolved, since fan-outs of several branches are
// tried anyway.
func mayGrow(s *state.State, g *state.Group) bool {
	quorum := 0
	if spec := s.Graph.Groups[g.Name]; spec != nil && spec.Sync != nil {
		quorum = spec.Sync.Strategy.Quorum()
	}
	if g.Total >= max(2, quorum) && g.UnresolvedBranches() > 0 {
		return false
	}
	return len(g.Added) == 0 || g.Total < quorum
}

// maxKnown bounds the elements of a group that are tried for a further branch.
const maxKnown = 2

// branchMoves returns the ways to add a branch to a group: with elements that the group has, and those that are made up. A branch of a
// transition without foreach has no element.
func (x *explorer) branchMoves(s *state.State, g *state.Group) [][]move {
	items := []any{nil}
	if s.Graph.Transition(g.Spawns[0].Transition).Foreach != nil {
		first, second := x.check.values.elements()
		known := s.BranchItems(g.ID)
		items = distinct(append(slices.Clone(known[:min(len(known), maxKnown)]), first, second))
	}
	var moves []move
	for _, item := range items {
		moves = append(moves, move{message: state.AddBranch{Group: g.Name, Origin: g.Origin, Item: item}})
	}
	return [][]move{moves}
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

package state

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/workflow"
)

// joinCounts tell whether the joins of nodes with join: all can still be met. They are counted
// in states of definitions that have such a node, not in overlays. Something stands at a node if
// it may move on from there without a join: all that fires first: a live token that does not wait
// at one, and a group that gathers and began there, since it may fail there or get more branches.
type joinCounts struct {
	// A count of 0 has no entry in standing and places; in lines it may have one.
	standing map[workflow.NodeID]int       // tokens and groups
	lines    map[workflow.TransitionID]int // branches in which a token waits that came by it
	places   map[workflow.NodeID]int       // branches in which a token waits at the node
	stale    bool                          // unmet is to be found anew
	unmet    *workflow.Failure
}

// FailureOrIncident returns why the run has ended or is suspended or, of one that goes on, that a join: all of it can
// no longer be met; nil if neither is so. The latter is found if no token that lives, other than those that wait at
// such joins, can come to a transition that the join lacks, by whatever conditions and branches. So nothing is
// reported that may still resolve itself, but for a patch; what only values or another branch rule out is found when
// that has ended. It is found anew only after a token was the first or the last at its node or at a join. An overlay
// has the failure alone. Such a run need not be at its end: what waits at the join is stuck for good, while other
// tokens go on for a long time, and an operator wants to know before they have ended and the run fails as deadlocked.
// Nothing is decided by it.
func (s *State) FailureOrIncident() *workflow.Failure {
	if s.Failure != nil || s.Status != workflow.RunRunning && s.Status != workflow.RunPaused {
		return s.Failure
	}
	if j := &s.joins; j.stale {
		j.stale, j.unmet = false, s.findUnmetJoin()
	}
	return s.joins.unmet
}

// standsBy reports whether a token may move on without a join: all that fires first. A token that waits at a join:
// synchronize does: it goes on when no other token can come, not only when one comes.
func (s *State) standsBy(t *Token) bool {
	return t != nil && t.Live() && (t.Status != workflow.WaitingForJoin || s.Graph.Node(t.Node).Join != workflow.JoinAll)
}

// moveStanding counts where something stands when t replaces old, which is nil if t is new.
func (s *State) moveStanding(old, t *Token) {
	if s.base != nil || !s.Graph.JoinsAll() {
		return
	}
	was, is := s.standsBy(old), s.standsBy(t)
	// A change of status alone moves nothing.
	if was && is && old.Node == t.Node {
		return
	}
	if was {
		s.countStanding(old.Node, -1)
	}
	if is {
		s.countStanding(t.Node, +1)
	}
}

// countStanding adds d to what stands at a node. Only the first at a node, and the last that leaves it, can change
// what may be reached; whatever lies in between leaves the last answer valid.
func (s *State) countStanding(n workflow.NodeID, d int) {
	if s.base != nil || !s.Graph.JoinsAll() {
		return
	}
	j := &s.joins
	if j.standing == nil {
		j.standing = map[workflow.NodeID]int{}
	}
	before := j.standing[n]
	if before+d == 0 {
		delete(j.standing, n)
	} else {
		j.standing[n] = before + d
	}
	j.stale = j.stale || before == 0 || before+d == 0
}

// countJoinLine counts that the first token begins to wait in a line, with 1, or that the last one has left it, with
// -1. A line is of one transition in one branch. Example: tokens of two branches wait at node n by its transition a,
// and one of them has another token there that came by b. Then lines[a] is 2, lines[b] is 1 and places[n] is 2:
// somewhere b is lacking.
func (s *State) countJoinLine(k WaitKey, d int) {
	if k.Kind != LineJoin || s.base != nil || !s.Graph.JoinsAll() {
		return
	}
	id := workflow.TransitionID(k.Name)
	tr := s.Graph.Transition(id)
	if tr == nil || s.Graph.Node(tr.To).Join != workflow.JoinAll {
		return
	}
	j := &s.joins
	if j.lines == nil {
		j.lines, j.places = map[workflow.TransitionID]int{}, map[workflow.NodeID]int{}
	}
	j.stale = true
	j.lines[id] += d
	// In this branch the node is counted already, or still, because of another line.
	for _, other := range s.Graph.Node(tr.To).Incoming {
		if other.ID != id && len(s.waiting[WaitKey{LineJoin, string(other.ID), k.Scope}]) > 0 {
			return
		}
	}
	if j.places[tr.To] += d; j.places[tr.To] == 0 {
		delete(j.places, tr.To)
	}
}

// findUnmetJoin returns the first node, by id, at whose join tokens wait that nothing can come to meet; nil without
// one. The order by id makes the answer the same in every process that has the same state.
func (s *State) findUnmetJoin() *workflow.Failure {
	for _, id := range slices.Sorted(maps.Keys(s.joins.places)) {
		for _, tr := range s.Graph.Node(id).Incoming {
			// In some branch a token waits at the node and none has come by this transition.
			if s.joins.lines[tr.ID] < s.joins.places[id] && !s.mayTake(tr) {
				return &workflow.Failure{
					Code: workflow.CodeJoinUnmet, Node: id,
					Message: fmt.Sprintf("its join lacks %s, which nothing in the run can bring any more", tr.ID),
				}
			}
		}
	}
	return nil
}

// mayTake reports whether something may come to take a transition, or has taken it and is yet to begin to wait behind
// it: something stands there, where it begins, or where other transitions lead to that from. It searches backwards,
// since a join has few transitions before it and a run may have tokens at many nodes. Conditions and branches are
// left aside: it may say yes where nothing comes, and never no where something does.
func (s *State) mayTake(to *compiled.Transition) bool {
	if s.joins.standing[to.To] > 0 {
		return true
	}
	seen, queue := map[workflow.NodeID]bool{to.From: true}, []workflow.NodeID{to.From}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if s.joins.standing[at] > 0 {
			return true
		}
		for _, tr := range s.Graph.Node(at).Incoming {
			if !seen[tr.From] {
				seen[tr.From] = true
				queue = append(queue, tr.From)
			}
		}
	}
	return false
}

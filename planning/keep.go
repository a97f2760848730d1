package planning

import (
	"slices"
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// This file has what a rerun keeps. A run is performed again from a token on, as of the record
// that made that token. Other tokens have gone on since: the message has the results of their
// nodes, in the order in which they came. They come again in the fork, without anything being
// sent. A step that can only follow when the token of the rerun has gone on as well, such as
// the fan-in of its group, does not happen.
//
// Tokens that were made since may have other ids in the fork. A token there stands for one of
// the forked run if their parents stand for each other, both are at the same node, and as many
// of the same kind were made before them.

// Ends returns how nodes complete by a message, in the order in which they do; none if the
// message is refused.
func Ends(s *state.State, m state.Message, now time.Time) []state.KeptEnd {
	var ends []state.KeptEnd
	p := &planner{s: s.Overlay(), now: now, budget: newBudget(s.Graph), ends: &ends}
	defer p.s.Discard()
	if admitMessage(s, m) != nil || p.takeMessage(m) != nil {
		return nil
	}
	p.drainWork()
	if p.budget.limit != nil {
		return nil
	}
	return ends
}

// A kinship is what tokens have in common that have grown from one token and are at one node.
type kinship struct {
	parent workflow.TokenID
	node   workflow.NodeID
}

// A keeper finds the tokens of the fork that stand for those of the forked run.
type keeper struct {
	p     *planner
	first workflow.TokenID                     // those before it are the same in both
	next  workflow.TokenID                     // of the fork, to be listed
	made  map[workflow.TokenID]state.KeptToken // tokens of the forked run
	place map[workflow.TokenID]int             // among those of their kinship
	here  map[kinship][]workflow.TokenID       // tokens of the fork
}

// keepEnds lets tokens complete as they have in the forked run, but for those whose results are
// given. It returns the tasks and children that were out there as well, and are yet to be sent
// where all are left to an operator; it notes the nodes that could not complete in unkept.
func (p *planner) keepEnds(m *state.RunForked, given []workflow.TokenID) (out []workflow.TokenID) {
	if len(m.Kept) == 0 {
		return nil
	}
	k := &keeper{p: p, first: p.s.NextToken, next: p.s.NextToken, made: map[workflow.TokenID]state.KeptToken{}, place: map[workflow.TokenID]int{}, here: map[kinship][]workflow.TokenID{}}
	count := map[kinship]int{}
	for _, t := range m.Made {
		kin := kinship{t.Parent, t.Node}
		k.made[t.Token], k.place[t.Token] = t, count[kin]
		count[kin]++
	}
	lost := map[workflow.TokenID]bool{}
	for _, end := range m.Kept {
		id := k.standsFor(end.Token)
		switch {
		case id == 0:
			if k.growsFrom(end.Token, lost) {
				lost[end.Token] = true
				p.noteUnkept(k.made[end.Token].Node)
			}
		case slices.Contains(given, id) || !p.s.Token(id).Live():
		case !p.keepEnd(id, end):
			lost[end.Token] = true
			p.noteUnkept(p.s.Token(id).Node)
		}
	}
	if m.InFlight != workflow.InFlightPark {
		return nil
	}
	for id := k.first; id < p.s.NextToken; id++ {
		if s := p.s.Token(id).Status; s == workflow.Dispatched || s == workflow.WaitingForChild {
			out = append(out, id)
		}
	}
	return out
}

// noteUnkept notes a node that is performed again, if that sends something.
func (p *planner) noteUnkept(node workflow.NodeID) {
	n := p.s.Graph.Node(node)
	if n != nil && (n.Kind == workflow.KindTask || n.Kind == workflow.KindSubworkflow) && !slices.Contains(p.unkept, node) {
		p.unkept = append(p.unkept, node)
	}
}

// keepNothing notes all that could be kept as unkept: a suspended run takes nothing.
func (p *planner) keepNothing(m *state.RunForked) {
	made := map[workflow.TokenID]workflow.NodeID{}
	for _, t := range m.Made {
		made[t.Token] = t.Node
	}
	for _, end := range m.Kept {
		if t := p.s.Token(end.Token); t != nil {
			p.noteUnkept(t.Node)
		} else {
			p.noteUnkept(made[end.Token])
		}
	}
}

// standsFor returns the token of the fork that stands for one of the forked run, 0 if no token
// does so, or none yet.
func (k *keeper) standsFor(id workflow.TokenID) workflow.TokenID {
	if id < k.first {
		return id
	}
	for ; k.next < k.p.s.NextToken; k.next++ {
		t := k.p.s.Token(k.next)
		kin := kinship{t.Parent, t.Node}
		k.here[kin] = append(k.here[kin], t.ID)
	}
	t, ok := k.made[id]
	if !ok || t.Parent >= id {
		return 0
	}
	parent := t.Parent
	if parent != 0 {
		if parent = k.standsFor(parent); parent == 0 {
			return 0
		}
	}
	if same := k.here[kinship{parent, t.Node}]; k.place[id] < len(same) {
		return same[k.place[id]]
	}
	return 0
}

// growsFrom reports whether a token of the forked run has grown from one of some.
func (k *keeper) growsFrom(id workflow.TokenID, some map[workflow.TokenID]bool) bool {
	for t, ok := k.made[id]; ok && t.Parent < id; t, ok = k.made[id] {
		if id = t.Parent; some[id] {
			return true
		}
	}
	return false
}

// keepEnd lets a token complete its node, with all that follows, and reports whether it could:
// not if its branch has not begun, and not if the run would end by it.
func (p *planner) keepEnd(id workflow.TokenID, end state.KeptEnd) bool {
	t := p.s.Token(id)
	switch t.Status {
	case workflow.Dispatched, workflow.Retrying, workflow.WaitingForOperator, workflow.WaitingForChild, workflow.WaitingForEvent,
		workflow.WaitingForTimer, workflow.WaitingForApproval, workflow.WaitingForLock, workflow.WaitingForBudget:
	case workflow.Pending:
		if !t.Held {
			return false
		}
	default:
		return false
	}
	q := p.forkPlanner()
	n := q.s.Graph.Node(t.Node)
	branch, f := q.leaveNode(t, n, completion{output: end.Output, metadata: end.Metadata, artifacts: end.Artifacts})
	if branch != nil || f != nil {
		return false
	}
	if q.drainWork(); q.hasStopped() {
		return false
	}
	p.adoptFork(q)
	return true
}

package planning

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/pawl-run/pawl/decision"
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

// A Continuation names the group in whose place a token continues, and says how the group ended if not by a join that got
// all it waited for: it failed, its quorum could not be met, or its time was up.
type Continuation struct {
	Group                       workflow.GroupID
	Failed, Shortfall, TimedOut bool
}

// ContinuedGroups returns the groups that a plan fires or fails, by the tokens that continue in their place.
func ContinuedGroups(ds []decision.Decision) map[workflow.TokenID]Continuation {
	var out map[workflow.TokenID]Continuation
	var last Continuation
	for _, d := range ds {
		switch d := d.(type) {
		case decision.FireGroup:
			last = Continuation{Group: d.Group, Shortfall: d.Shortfall, TimedOut: d.TimedOut}
		case decision.FailGroup:
			last = Continuation{Group: d.Group, Failed: true, Shortfall: d.Shortfall, TimedOut: d.TimedOut}
		case decision.FailBranch:
			last = Continuation{} // by the failure of a group that nothing catches
		case decision.CreateToken:
			if last.Group != 0 {
				if out == nil {
					out = map[workflow.TokenID]Continuation{}
				}
				out[d.Token.ID], last = last, Continuation{}
			}
		default: // neither ends a group nor continues
		}
	}
	return out
}

// A kinship is what tokens have in common that have grown from one token and are at one node.
type kinship struct {
	parent workflow.TokenID
	node   workflow.NodeID
}

// A keeper finds the tokens of the fork that stand for those of the forked run.
type keeper struct {
	p     *planner
	first workflow.TokenID                      // those before it are the same in both
	next  workflow.TokenID                      // of the fork, to be listed
	made  map[workflow.TokenID]state.KeptToken  // tokens of the forked run
	place map[workflow.TokenID]int              // among those of their kinship
	here  map[kinship][]workflow.TokenID        // tokens of the fork
	seen  int                                   // decisions of the plan whose groups are in after
	after map[workflow.TokenID]Continuation     // tokens of the fork that continue in the place of groups
	lost  map[workflow.TokenID]bool             // tokens of the forked run whose results are not kept
	stand map[workflow.TokenID]workflow.TokenID // tokens of the fork, by those of the forked run for which they were found to stand
}

// keepEnds lets tokens complete as they have in the forked run, but for those whose results are
// given. It returns what was out there too, to be parked; it notes the nodes that could not
// complete in unkept.
func (p *planner) keepEnds(m *state.RunForked, given []workflow.TokenID) (out []workflow.TokenID) {
	if len(m.Kept) == 0 {
		return nil
	}
	k := p.newKeeper(m)
	for _, end := range m.Kept {
		id := k.standsFor(end.Token)
		switch {
		case id == 0:
			k.noteLost(end.Token, m.Token)
		case slices.Contains(given, id) || !p.s.Token(id).Live():
		case !p.keepEnd(id, end):
			k.lost[end.Token] = true
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

// newKeeper returns a keeper that knows the tokens of the forked run.
func (p *planner) newKeeper(m *state.RunForked) *keeper {
	k := &keeper{
		p: p, first: p.s.NextToken, next: p.s.NextToken, made: map[workflow.TokenID]state.KeptToken{}, place: map[workflow.TokenID]int{},
		here: map[kinship][]workflow.TokenID{}, after: map[workflow.TokenID]Continuation{}, lost: map[workflow.TokenID]bool{}, stand: map[workflow.TokenID]workflow.TokenID{},
	}
	count := map[kinship]int{}
	for _, t := range m.Made {
		kin := kinship{t.Parent, t.Node}
		k.made[t.Token], k.place[t.Token] = t, count[kin]
		count[kin]++
	}
	return k
}

// noteUnkept notes a node that is performed again, if that sends something. A node that the fork lacks, because a patch
// has added it since, may have done so.
func (p *planner) noteUnkept(node workflow.NodeID) {
	n := p.s.Graph.Node(node)
	sends := n != nil && (n.Kind == workflow.KindTask || n.Kind == workflow.KindSubworkflow) || n == nil && node != "" && p.planLike() >= 5
	if sends && !slices.Contains(p.unkept, node) {
		p.unkept = append(p.unkept, node)
	}
}

// noteLost notes the node of a token for which none stands in the fork: a branch that somebody had added, or what came
// behind a failure, a time-out or another act that does not come again by itself. If it came from a token that is performed
// again, such as one whose failure was caught, that comes first. Up to version 4 only what came from a token that could
// not complete was noted.
func (k *keeper) noteLost(id, rerun workflow.TokenID) {
	if k.p.planLike() < 5 {
		if k.growsFrom(id, k.lost) {
			k.lost[id] = true
			k.p.noteUnkept(k.made[id].Node)
		}
		return
	}
	k.lost[id] = true
	for t := k.made[id]; t.Parent < t.Token && t.Parent != 0 && !k.lost[t.Parent]; t = k.made[t.Parent] {
		if at := k.standsFor(t.Parent); at != 0 {
			if from := k.p.s.Token(at); from != nil && from.Live() && from.Status != workflow.WaitingForSiblings && at != rerun {
				k.p.noteUnkept(from.Node)
			}
			break
		}
	}
	k.p.noteUnkept(k.made[id].Node)
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
	k.listNew()
	// The way back ends at the nearest token that is the same in both, or for which one is known to stand.
	var way []workflow.TokenID
	for id >= k.first && k.stand[id] == 0 {
		t, ok := k.made[id]
		if !ok || t.Parent >= id {
			return 0
		}
		k.p.budget.pacer.Spend(1)
		way, id = append(way, id), t.Parent
	}
	at := id
	if id >= k.first {
		at = k.stand[id]
	}
	for _, id := range slices.Backward(way) {
		same := k.here[kinship{at, k.made[id].Node}]
		if k.place[id] >= len(same) {
			return 0
		}
		at = same[k.place[id]]
		k.stand[id] = at
	}
	return at
}

// listNew lists the tokens of the fork that were made since it was called last.
func (k *keeper) listNew() {
	if k.p.planLike() >= 5 {
		maps.Copy(k.after, ContinuedGroups(k.p.decisions[k.seen:]))
		k.seen = len(k.p.decisions)
	}
	for ; k.next < k.p.s.NextToken; k.next++ {
		t := k.p.s.Token(k.next)
		kin := kinship{t.Parent, t.Node}
		if g := k.p.s.Group(k.after[t.ID].Group); g != nil {
			kin.parent = cmp.Or(g.TokenOf(0), t.Parent)
		}
		k.here[kin] = append(k.here[kin], t.ID)
	}
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
	var ends []state.KeptEnd
	if p.ends != nil {
		q.ends = &ends
	}
	n := q.s.Graph.Node(t.Node)
	branch, f := q.leaveNode(t, n, completion{output: end.Output, metadata: end.Metadata, artifacts: end.Artifacts})
	if branch != nil || f != nil {
		return false
	}
	if q.drainWork(); q.hasStopped() {
		return false
	}
	p.adoptFork(q)
	if p.ends != nil {
		*p.ends = append(*p.ends, ends...)
	}
	return true
}

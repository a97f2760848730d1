package forking

import (
	"slices"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// A trail is the work of a run that follows from some of its tokens. A token follows from another one if it
//
//   - is that token, or has grown from a token that follows;
//   - continues behind the join of a group to which a token that follows has come, or that has waited for one;
//   - stands for a group that has failed, in which a token follows;
//   - continues behind the join of a node at which a token that follows has waited, or that has waited for one;
//   - is at a node of a dag for which the node of a token that follows has counted.
//
// A join with a quorum has waited for the branches that made the quorum: other branches are stragglers, and nothing
// follows from them.
//
// A trail also knows what does not come again by itself in a fork, although it does not follow: added branches, and what came
// of failures, of joins whose time was up and of groups that somebody closed. The joins to which that has led may fire in the
// fork with others.
type trail struct {
	follows map[workflow.TokenID]bool
	places  map[workflow.Scope][]place                 // of tokens that follow, by each branch around them
	via     map[workflow.TokenID]workflow.TransitionID // by which tokens wait at the joins of nodes
	nodes   map[workflow.NodeID]bool                   // of a dag: they follow, or are skipped by what follows
	led     map[workflow.TransitionID]bool             // of a dag: transitions that leave such a node which has ended, and whether they were taken

	behind map[workflow.TokenID]workflow.TokenID // the first token of a group, by the one that continues in its place
	failed map[workflow.TokenID]bool             // by something that has happened since the record of the fork
	gone   map[workflow.TokenID]bool             // they do not come again by themselves
	lacks  map[workflow.GroupID]bool             // groups in which there were such
	broken map[workflow.GroupID]bool             // groups where a branch has failed, or was cancelled by an act, since the record of the fork
	joins  map[place]bool                        // joins of nodes at which other pairs meet in the fork
	unsure map[workflow.TokenID]bool             // they continue behind a join at which others may meet in the fork
	next   workflow.TokenID                      // the first that the record makes; 0 in that of the fork
}

// A place is where a token was: in a branch, at a node.
type place struct {
	scope workflow.Scope
	node  workflow.NodeID
}

// newTrail returns a trail that begins with a token which may be yet to be made.
func newTrail(from workflow.TokenID) *trail {
	return &trail{
		follows: map[workflow.TokenID]bool{from: true}, places: map[workflow.Scope][]place{}, via: map[workflow.TokenID]workflow.TransitionID{},
		nodes: map[workflow.NodeID]bool{}, led: map[workflow.TransitionID]bool{},
		behind: map[workflow.TokenID]workflow.TokenID{}, failed: map[workflow.TokenID]bool{}, gone: map[workflow.TokenID]bool{},
		lacks: map[workflow.GroupID]bool{}, broken: map[workflow.GroupID]bool{}, joins: map[place]bool{}, unsure: map[workflow.TokenID]bool{},
	}
}

// beginAsOf notes how the run stands as of the record of the fork: the tasks to which results are given begin the trail as well.
func (t *trail) beginAsOf(s *state.State, given []workflow.ForkResult) {
	for _, r := range given {
		if token, err := planning.FindToken(s, r.Token, r.Node, workflow.Dispatched); err == nil { // else the planner refuses it
			t.addToken(s, token)
		}
	}
	for _, id := range s.LiveTokens() {
		if token := s.Token(id); token.Status == workflow.WaitingForJoin {
			t.via[id] = token.Via
		}
	}
}

// addToken adds a token that follows.
func (t *trail) addToken(s *state.State, token *state.Token) {
	t.follows[token.ID], t.nodes[token.Node] = true, true
	t.addPlace(s, place{token.Scope, token.Node})
}

// addPlace notes where a token is that follows.
func (t *trail) addPlace(s *state.State, at place) {
	sc := at.scope
	for ; sc.Group != 0; sc = s.Group(sc.Group).Scope {
		t.places[sc] = append(t.places[sc], at)
	}
	t.places[sc] = append(t.places[sc], at)
}

// noteRecord adds the tokens that follow by a record, given the state after it.
func (t *trail) noteRecord(s *state.State, r *decision.Record) {
	continued, joined, unsure := planning.ContinuedGroups(r.Decisions), false, false
	for _, d := range r.Decisions {
		switch d := d.(type) {
		case decision.FailToken:
			t.failed[d.Token] = d.Token < t.next
		case decision.ExpireToken:
			t.failed[d.Token] = d.Token < t.next
		case decision.FailBranch:
			t.broken[d.Scope.Group] = t.broken[d.Scope.Group] || t.next > 0
		case decision.EndBranch:
			_, cancels := r.Message.(state.CancelNodes)
			t.broken[d.Scope.Group] = t.broken[d.Scope.Group] || t.next > 0 && cancels
		case decision.AwaitJoin:
			t.via[d.Token] = d.Via
		case decision.AwaitSiblings:
			if t.follows[d.Token] {
				t.addPlace(s, place{scope: d.Scope})
			}
		case decision.FireJoin:
			joined, unsure = t.leadsToJoin(s, &d)
		case decision.StartStep:
			joined = t.leadsToStep(s.Graph.Node(d.Node))
		case decision.EndStep:
			t.endStep(s.Graph.Node(d.Node), &d)
		case decision.CreateToken:
			if c, ok := continued[d.Token.ID]; ok {
				t.behind[d.Token.ID] = s.Group(c.Group).TokenOf(0)
				joined, unsure = t.leadsBehind(s, c)
			}
			t.noteToken(s, &d.Token, joined, unsure)
			joined, unsure = false, false
		case decision.CreateBranches:
			t.addBranches(s, workflow.Scope{Group: d.Group.ID}, d.Group.First, d.Group.Total)
		case decision.AddBranch:
			t.addBranches(s, workflow.Scope{Group: d.Group, Branch: s.Group(d.Group).Total - 1}, d.Token, 1)
			if t.next > 0 {
				t.noteGone(s, d.Token, workflow.Scope{Group: d.Group})
			}
		default: // makes no token
		}
	}
	t.next = s.NextToken
}

// noteToken adds a token that was made, if it follows: it does so if it has joined what follows.
func (t *trail) noteToken(s *state.State, token *state.Token, joined, unsure bool) {
	t.unsure[token.ID] = unsure
	switch {
	case joined || t.follows[token.Parent] || t.follows[token.ID]:
		t.addToken(s, token)
	case unsure || t.failed[token.Parent] || t.gone[token.Parent]:
		t.noteGone(s, token.ID, token.Scope)
	}
}

// noteGone notes that a token in a branch does not come again by itself.
func (t *trail) noteGone(s *state.State, id workflow.TokenID, sc workflow.Scope) {
	t.gone[id] = true
	for ; sc.Group != 0; sc = s.Group(sc.Group).Scope {
		t.lacks[sc.Group] = true
	}
}

// addBranches adds the first tokens of branches of a group, from the branch sc on.
func (t *trail) addBranches(s *state.State, sc workflow.Scope, first workflow.TokenID, count int) {
	for id := first; id < first+workflow.TokenID(count); id++ {
		t.noteToken(s, &state.Token{ID: id, Node: s.Token(id).Node, Parent: s.Group(sc.Group).Origin, Scope: sc}, false, false)
		sc.Branch++
	}
}

// leadsBehind reports whether the token that continues in the place of a group follows, and whether another may stand for it
// in the fork.
func (t *trail) leadsBehind(s *state.State, c planning.Continuation) (follows, unsure bool) {
	g := s.Group(c.Group)
	spec := s.Graph.Groups[g.Name]
	all := c.Failed || c.Shortfall || c.TimedOut || g.Closed || spec == nil || spec.Sync == nil || spec.Sync.Strategy.Quorum() == 0
	unsure = c.TimedOut || g.Closed || t.lacks[g.ID] || all && t.broken[g.ID]
	for i := range g.Total {
		sc := workflow.Scope{Group: g.ID, Branch: i}
		status := s.Branch(sc).Status
		counts := all || status == state.BranchArrived || status == state.BranchFailed && len(spec.Errors.Segments) > 0
		if counts && slices.ContainsFunc(t.places[sc], func(at place) bool { return waitsFor(s, sc, at) }) {
			return true, unsure
		}
	}
	return false, unsure
}

// waitsFor reports whether a branch waits for a token in it, or in a group within: not if that is a straggler there.
func waitsFor(s *state.State, branch workflow.Scope, at place) bool {
	for sc := at.scope; sc != branch; {
		g := s.Group(sc.Group)
		if g == nil || g.Phase == workflow.Fired {
			return false
		}
		sc = g.Scope
	}
	return true
}

// leadsToJoin reports whether the token that continues behind the join of a node follows, and whether another may stand for
// it in the fork. Tokens pair off at a join first come, first served: if one of a pair does not follow, it waits there in the
// fork, and all later pairs are others.
func (t *trail) leadsToJoin(s *state.State, d *decision.FireJoin) (follows, unsure bool) {
	at, came, gone := place{s.Token(d.Tokens[0]).Scope, d.Node}, 0, 0
	for _, id := range d.Tokens {
		switch {
		case t.follows[id]:
			came++
		case t.gone[id]:
			gone++
		}
	}
	follows = came > 0 || t.hasHeldUp(s, d, at.scope)
	unsure = t.joins[at] || gone > 0
	t.joins[at] = t.joins[at] || t.next > 0 && (follows || gone > 0) && came+gone < len(d.Tokens)
	return follows, unsure
}

// hasHeldUp reports whether a join: synchronize has waited for a token that follows: it waits for all that could still come,
// where nothing has.
func (t *trail) hasHeldUp(s *state.State, d *decision.FireJoin, branch workflow.Scope) bool {
	n := s.Graph.Node(d.Node)
	if n == nil || n.Join != workflow.JoinSynchronize {
		return false
	}
	for i, tr := range n.Incoming {
		came := slices.ContainsFunc(d.Tokens, func(id workflow.TokenID) bool { return t.via[id] == tr.ID })
		if !came && slices.ContainsFunc(t.places[branch], func(at place) bool {
			from := s.Graph.Node(at.node)
			return from != nil && n.Reach[i].Has(from) && waitsFor(s, branch, at)
		}) {
			return true
		}
	}
	return false
}

// leadsToStep reports whether the token follows with which a node of a dag begins.
func (t *trail) leadsToStep(n *compiled.Node) bool {
	return n != nil && slices.ContainsFunc(n.Incoming, func(tr *compiled.Transition) bool {
		taken, resolved := t.led[tr.ID]
		return resolved && (taken || n.Join.Quorum() == 0)
	})
}

// endStep notes how the transitions that leave a node of a dag are resolved, if the node follows or is skipped by what
// follows.
func (t *trail) endStep(n *compiled.Node, d *decision.EndStep) {
	if n == nil {
		return
	}
	if d.Skipped && slices.ContainsFunc(n.Incoming, func(tr *compiled.Transition) bool { _, resolved := t.led[tr.ID]; return resolved }) {
		t.nodes[n.ID] = true
	}
	if !t.nodes[n.ID] {
		return
	}
	for _, tr := range n.Outgoing {
		t.led[tr.ID] = d.All || slices.Contains(d.Taken, tr.ID)
	}
}

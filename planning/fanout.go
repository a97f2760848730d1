package planning

import (
	"fmt"
	"slices"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/pace"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// The fan-out rule. A transition with spawnCount, foreach or siblingGroup makes
// branches. All transitions of one routing that name the same sibling group make
// one group together; one without a name makes a group of its own.
//
//	count      countBranches evaluates how many branches each transition makes; a
//	           foreach makes at most as many as the limit of that name.
//	make       fanOut makes the group and all its tokens, in one decision.
//	start      startGroup asks the join first, which may decide at once; then
//	           startBranches lets as many branches begin as maxConcurrency
//	           allows, by index, and again whenever one is resolved.
//	add        While a group with a name gathers, AddBranch adds a branch made by
//	           its first transition, and CloseGroup ends that. Only an open group
//	           gathers until then, whatever has arrived.

// countBranches evaluates how many branches a transition makes: its spawnCount,
// one for each element of its foreach, or one.
//
// The elements of a foreach are those of the moment at which the node was left, whatever
// becomes of the list later. A failure here is one of the node that is left, which error
// transitions may catch.
func (p *planner) countBranches(m *match, v vars) *workflow.Failure {
	switch {
	case m.SpawnCount > 0:
		m.count = m.SpawnCount
	case m.Foreach == nil:
		m.count = 1
	default:
		x, f := v.evalProgram(m.Collection)
		if f != nil {
			return f
		}
		items, ok := x.([]any)
		if !ok {
			quoted := quoteValue(x)
			if p.planLike() < 6 {
				quoted = string(value.Encode(x))
			}
			return &workflow.Failure{
				Code: workflow.CodeExpression, Permanent: true,
				Message: fmt.Sprintf("foreach %s: %s is not a list", m.Foreach.Collection, quoted),
			}
		}
		m.count, m.items = len(items), items
	}
	if most := p.s.Graph.Limits.Foreach; m.Foreach != nil && m.count > most {
		f := limitFailure("foreach", most, "branches of one transition")
		return &f
	}
	return nil
}

// fanOut makes one group of those matches that name it, with all its branches.
// Its first branches begin when startGroup is called for it.
//
// matches are those from the first transition of the group on, in definition order, which
// gives the branches their indices. A transition that joins a branch makes none, also if it
// names a group.
func (p *planner) fanOut(name string, matches []match, v vars) {
	g := state.Group{
		ID: p.s.NextGroup, Name: name, Origin: v.token.ID, Node: v.token.Node, Scope: v.scope,
		Counts: v.token.Counts, First: p.s.NextToken, Caught: v.caught,
	}
	var items []any
	for i := range matches {
		if m := &matches[i]; m.SiblingGroup == name && m.Fans() && m.joins.Group == 0 {
			items = addSpawn(&g, items, m)
		}
	}
	// Asked before anything is made: a group is made whole or not at all.
	if p.tooManyTokens(g.Total) || p.nestedTooDeep(v.scope) {
		return
	}
	// Nobody can add branches to an anonymous group, so that a bound which it does not reach
	// means nothing.
	if name == "" && g.Max >= g.Total {
		g.Max = 0
	}
	if p.keepsResult(&g) {
		g.Result = v.result
	}
	if g.Total == 0 {
		items = nil
	}
	p.decide(decision.CreateBranches{Group: g, Items: items})
	p.newGroups = append(p.newGroups, newGroup{g.ID, v.result})
}

// addSpawn adds the branches of one transition to a group that is being made,
// and returns the elements of all its branches so far; nil if none has one.
//
// Elements are kept by index of the branch. With a plain spawn of 2 and a foreach over ["a",
// "b"] that is [null, null, "a", "b"]; without any foreach there is no list.
func addSpawn(g *state.Group, items []any, m *match) []any {
	if m.items != nil && items == nil {
		items = make([]any, g.Total, g.Total+m.count)
	}
	if items != nil {
		items = append(items, m.items...)
		for len(items) < g.Total+m.count {
			items = append(items, nil)
		}
	}
	g.Spawns = append(g.Spawns, state.Spawn{Transition: m.ID, Count: m.count})
	g.Total += m.count
	g.Open = g.Open || m.Open
	if m.MaxConcurrency > 0 && (g.Max == 0 || m.MaxConcurrency < g.Max) {
		g.Max = m.MaxConcurrency
	}
	return items
}

// keepsResult reports whether the first nodes of a group's branches use the origin's result
// later: because a branch may begin later, or evaluate its input anew. The result may be
// large, and is written with the group whenever a branch begins. Groups with a name may get
// further branches by AddBranch; in one without a bound and a name all branches begin in the
// plan that makes them.
func (p *planner) keepsResult(g *state.Group) bool {
	beginLater := g.Max > 0 || g.Name != ""
	return slices.ContainsFunc(g.Spawns, func(sp state.Spawn) bool {
		n := p.s.Graph.Node(p.s.Graph.Transition(sp.Transition).To)
		return n.KeepsResult || beginLater && n.AsksResult
	})
}

// nestedTooDeep reports whether a group in scope sc would exceed the bound of
// groups within each other: each level adds to the cost of every token in it.
// The plan is then given up.
func (p *planner) nestedTooDeep(sc workflow.Scope) bool {
	n := 1
	for ; sc.Group != 0; n++ {
		sc = p.s.Group(sc.Group).Scope
	}
	if n > limits.MaxNesting {
		p.exceedLimit("nesting", limits.MaxNesting, "groups within each other")
	}
	return p.budget.limit != nil
}

// startGroup lets the first branches of a new group begin, unless its join decides at once:
// there are no branches, or fewer than its quorum. A fan-out over an empty list with all
// fires at once and merges nothing; 2 branches for a quorum of 3 are a shortfall before any
// of them has begun. An open group may still get what it lacks.
func (p *planner) startGroup(f newGroup) {
	g := p.s.Group(f.group)
	if g.Phase != workflow.Gathering {
		return // cancelled before it began
	}
	if sync := p.syncOf(g); g.Total == 0 || sync != nil && sync.Strategy.Quorum() > g.Total && !g.Open {
		p.decideGroup(g.ID, nil)
	}
	p.startBranches(g.ID, f.result)
}

// startBranches lets as many branches of a group begin as its maxConcurrency
// allows. In a group that has fired without cancelling, they begin as
// stragglers. Branches whose token was cancelled before it began are passed
// over.
//
// It is called when the group is made, and whenever one of its branches is resolved. result
// is what the first nodes of the branches may ask for: for branches that begin later, what
// the group has kept.
func (p *planner) startBranches(id workflow.GroupID, result any) {
	g := p.s.Group(id)
	if g.Started == g.Total || p.hasStopped() {
		return
	}
	most := g.Total
	if g.Max > 0 {
		most = g.Max - g.RunningBranches()
	}
	// The decision counts the passed-over ones that lie before the last one that begins.
	passed := 0
	var begin []entry
	i := max(g.Started, p.passed[id])
	for ; i < g.Total && len(begin) < most; i++ {
		p.budget.pacer.Spend(1)
		if t := p.s.Token(g.TokenOf(i)); t.Live() {
			begin = pace.Push(begin, entry{token: t.ID, result: result})
			passed = i + 1 - g.Started
		}
	}
	if len(begin) == 0 {
		p.notePassed(id, i)
		return
	}
	p.decide(decision.StartBranches{Group: id, Count: passed})
	p.entries = pace.Append(p.entries, begin...)
}

// notePassed notes that no branch of a group begins before branch i any more: a token that was
// cancelled stays so. Else a plan that cancels many would pass over all of them for each.
func (p *planner) notePassed(id workflow.GroupID, i int) {
	if p.passed == nil {
		p.passed = map[workflow.GroupID]int{}
	}
	p.passed[id] = i
}

// gatheringGroup returns the only group of a name that gathers and has not been closed;
// origin, unless it is 0, says which token fanned it out. Without such a group, the error
// says whether there ever was one: whether the caller came too late or has the name wrong.
func (p *planner) gatheringGroup(name string, origin workflow.TokenID) (*state.Group, error) {
	if name == "" {
		return nil, state.ErrNotLive // anonymous groups are nobody's
	}
	var found *state.Group
	err := fmt.Errorf("%w: there is no group %q", state.ErrNotLive, name)
	for id := p.s.NextGroup - 1; id > 0; id-- {
		g := p.s.Group(id)
		switch {
		case g.Name != name || origin != 0 && g.Origin != origin:
		case g.Phase != workflow.Gathering, g.Closed:
			err = fmt.Errorf("%w: %q", state.ErrGroupClosed, name)
		case found != nil:
			return nil, fmt.Errorf("%w: there are the groups %q of the threads %d and %d; name one by its Origin", state.ErrAmbiguous, name, g.Origin, found.Origin)
		default:
			found = g
		}
	}
	if found == nil {
		return nil, err
	}
	return found, nil
}

// addBranch adds a branch to a live group, made by the group's first transition. A branch too
// many is refused and does not fail the run: somebody else's call must not end it. The new
// branch begins now if maxConcurrency has room for it.
func (p *planner) addBranch(m state.AddBranch) error {
	if p.s.KnowsCall(state.BranchIDs, m.ID) {
		return nil
	}
	g, err := p.gatheringGroup(m.Group, m.Origin)
	if err != nil {
		return err
	}
	l := p.s.Graph.Limits
	if err := p.refuseValue(m.Item); err != nil {
		return err
	}
	first := p.s.Graph.Transition(g.Spawns[0].Transition)
	if m.Item != nil && first.Foreach == nil && p.planLike() >= 6 {
		return fmt.Errorf("%w: the branches of %q have no item, since %q has no foreach; add the branch without one", state.ErrNotLive, g.Name, string(first.ID))
	}
	switch {
	case g.Total >= l.Foreach:
		return &workflow.LimitError{Limit: "foreach", Max: int64(l.Foreach), Got: int64(g.Total) + 1}
	case p.s.LiveCount() >= l.LiveTokens:
		return &workflow.LimitError{Limit: "liveTokens", Max: int64(l.LiveTokens), Got: int64(p.s.LiveCount()) + 1}
	case int(p.s.NextToken) > l.Tokens:
		return &workflow.LimitError{Limit: "tokens", Max: int64(l.Tokens), Got: int64(p.s.NextToken)}
	}
	p.decide(decision.AddBranch{ID: m.ID, Group: g.ID, Token: p.s.NextToken, Item: m.Item})
	p.startBranches(g.ID, g.Result)
	return nil
}

// closeGroup lets a group take no further branches. Its join fires with what has
// arrived: at once, or when the stragglers that block it have ended.
//
// Branches that still run are then what any join leaves behind when it fires: cancelled,
// ignored or blocking.
func (p *planner) closeGroup(m state.CloseGroup) error {
	g, err := p.gatheringGroup(m.Group, m.Origin)
	if err != nil {
		return err
	}
	p.decide(decision.CloseGroup{Group: g.ID})
	p.decideGroup(g.ID, nil)
	return nil
}

package planning

import (
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// gathering returns the live group of a name, and of an origin if one is given,
// that has not been closed.
func (p *planner) gathering(name string, origin workflow.TokenID) (*workflow.Group, error) {
	if name == "" {
		return nil, workflow.ErrNotLive // anonymous groups are nobody's
	}
	var found *workflow.Group
	err := workflow.ErrNotLive
	for id := p.s.NextGroup - 1; id > 0; id-- {
		g := p.s.Group(id)
		switch {
		case g.Name != name || origin != 0 && g.Origin != origin:
		case g.Phase != workflow.Gathering, g.Closed:
			err = workflow.ErrGroupClosed
		case found != nil:
			return nil, workflow.ErrAmbiguous
		default:
			found = g
		}
	}
	if found == nil {
		return nil, err
	}
	return found, nil
}

// addBranch adds a branch to a live group, by its first transition.
func (p *planner) addBranch(m workflow.AddBranch) error {
	g, err := p.gathering(m.Group, m.Origin)
	if err != nil {
		return err
	}
	l := p.s.Graph.Limits
	if err := p.refuses(m.Item); err != nil {
		return err
	}
	switch {
	case g.Total >= l.Foreach:
		return &workflow.LimitError{Limit: "foreach", Max: int64(l.Foreach), Got: int64(g.Total) + 1}
	case p.s.Live() >= l.LiveTokens:
		return &workflow.LimitError{Limit: "liveTokens", Max: int64(l.LiveTokens), Got: int64(p.s.Live()) + 1}
	case int(p.s.NextToken) > l.Tokens:
		return &workflow.LimitError{Limit: "tokens", Max: int64(l.Tokens), Got: int64(p.s.NextToken)}
	}
	p.decide(decision.AddBranch{Group: g.ID, Token: p.s.NextToken, Item: m.Item})
	p.startBranches(g.ID, g.Result)
	return nil
}

// closeGroup lets a group take no further branches, and fires its join with what
// has arrived: at once, or when the stragglers that block it have ended.
func (p *planner) closeGroup(m workflow.CloseGroup) error {
	g, err := p.gathering(m.Group, m.Origin)
	if err != nil {
		return err
	}
	p.decide(decision.CloseGroup{Group: g.ID})
	p.conclude(g.ID, nil)
	return nil
}

// blocked reports whether stragglers of an earlier occurrence keep a group's
// join from firing, or an earlier occurrence itself that waits for them.
func (p *planner) blocked(g *workflow.Group) bool {
	sync := p.syncOf(g)
	return sync != nil && sync.Remaining == workflow.RemainingBlock && p.s.Draining(g.Name, g.Scope)
}

// disarm stops the time of the occurrences that the stragglers of a group that
// has just fired block. It begins when the block lifts.
func (p *planner) disarm(g *workflow.Group) {
	if sync := p.syncOf(g); sync.Remaining != workflow.RemainingBlock || !g.Busy() {
		return
	}
	for _, id := range p.s.Gathering(g.Name, g.Scope) {
		if next := p.s.Group(id); !next.Due.IsZero() {
			p.decide(decision.ArmGroup{Group: id})
		}
	}
}

// unblock decides the next occurrences of a group whose last straggler has
// ended, until one blocks again. The time of their joins begins now, if a branch
// has arrived.
func (p *planner) unblock(g *workflow.Group) {
	sync := p.syncOf(g)
	if g.Phase != workflow.Fired || g.Busy() || sync == nil || sync.Remaining != workflow.RemainingBlock {
		return
	}
	for _, id := range p.s.Gathering(g.Name, g.Scope) {
		next := p.s.Group(id)
		if p.blocked(next) || p.stopped() {
			return
		}
		p.conclude(id, nil)
		if next = p.s.Group(id); next.Phase == workflow.Gathering && next.Arrived > 0 && next.Due.IsZero() && sync.Timeout > 0 {
			p.decide(decision.ArmGroup{Group: id, Due: timeout.Deadline(p.now, sync.Timeout)})
		}
	}
}

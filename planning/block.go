package planning

import (
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// Block.

// blockedByStragglers reports whether the join of a group may not fire yet,
// because stragglers of an earlier occurrence still run, or because an earlier
// occurrence itself waits for them.
func (p *planner) blockedByStragglers(g *state.Group) bool {
	sync := p.syncOf(g)
	return sync != nil && sync.Remaining == workflow.RemainingBlock && p.s.IsDraining(g.Name, g.Scope)
}

// disarmBlocked stops the timeouts of the occurrences that a group which has just
// fired blocks by its stragglers. They begin anew when the block lifts.
func (p *planner) disarmBlocked(g *state.Group) {
	if sync := p.syncOf(g); sync.Remaining != workflow.RemainingBlock || !g.Busy() {
		return
	}
	for _, id := range p.s.GatheringGroups(g.Name, g.Scope) {
		if next := p.s.Group(id); !next.Due.IsZero() {
			p.decide(decision.ArmGroup{Group: id})
		}
	}
}

// unblockNext decides the occurrences that a group has blocked until its last
// straggler ended, up to the first of them that blocks again. The timeout of a
// join begins now if a branch has arrived there.
func (p *planner) unblockNext(g *state.Group) {
	sync := p.syncOf(g)
	if g.Phase != workflow.Fired || g.Busy() || sync == nil || sync.Remaining != workflow.RemainingBlock {
		return
	}
	for _, id := range p.s.GatheringGroups(g.Name, g.Scope) {
		next := p.s.Group(id)
		if p.blockedByStragglers(next) || p.hasStopped() {
			return
		}
		p.decideGroup(id, nil)
		if next = p.s.Group(id); next.Phase == workflow.Gathering && next.Arrived > 0 && next.Due.IsZero() && sync.Timeout > 0 {
			p.decide(decision.ArmGroup{Group: id, Due: timeout.Deadline(p.now, sync.Timeout)})
		}
	}
}

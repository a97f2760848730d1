package planning

import (
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// How the occurrences of a group wait for each other where its join has remaining:
// block. An occurrence that fires may leave stragglers; while one of them lives, the
// next occurrence of that name in the same branch takes arrivals, but neither fires
// nor times out. Occurrences in different branches never block each other. Say that
// a loop fans out for the second time while a straggler of the first round runs: the
// second round waits at its join until that straggler has ended, and only then does
// the timeout of its join begin.

// blockedByStragglers reports whether the join of a group may not fire yet,
// because stragglers of an earlier occurrence still run, or because an earlier
// occurrence itself waits for them.
//
// The planner asks it when it decides a group, before anything that could fire the join or
// let its time run. It asks tolerance even earlier: a group that fails waits for nobody.
func (p *planner) blockedByStragglers(g *state.Group) bool {
	sync := p.syncOf(g)
	return sync != nil && sync.Remaining == workflow.RemainingBlock && p.s.IsDraining(g.Name, g.Scope)
}

// disarmBlocked stops the timeouts of the occurrences that a group which has just fired
// blocks by its stragglers. They begin anew when the block lifts. Several occurrences may
// gather at once, and the one that fires need not be the oldest. Time that another has waited
// so far is forgotten: its timeout is for its own branches and not for the stragglers.
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
//
// It is called with the group of every branch in which something has changed, and does
// nothing unless that group has fired and nothing is left in it.
func (p *planner) unblockNext(g *state.Group) {
	sync := p.syncOf(g)
	if g.Phase != workflow.Fired || g.Busy() || sync == nil || sync.Remaining != workflow.RemainingBlock {
		return
	}
	for _, id := range p.s.GatheringGroups(g.Name, g.Scope) {
		next := p.s.Group(id)
		// An occurrence that has just fired may have left stragglers of its own, which
		// block the ones behind it.
		if p.blockedByStragglers(next) || p.hasStopped() {
			return
		}
		p.decideGroup(id, nil)
		// It was decided and still gathers, so that its branches are not all there: now its
		// time may run.
		if next = p.s.Group(id); next.Phase == workflow.Gathering && next.Arrived > 0 && next.Due.IsZero() && sync.Timeout > 0 {
			p.decide(decision.ArmGroup{Group: id, Due: timeout.Deadline(p.now, sync.Timeout)})
		}
	}
}

package planning

import (
	"fmt"
	"reflect"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// patchRun puts the run on another definition, whole or not at all. Work that has
// begun continues as it began: attempts that are out, inputs, deadlines, elements
// of a foreach. Everything decided later follows the new definition: retries,
// routing, joins. Waits that changed begin anew, and approvals, groups and joins
// are decided again, because the new rules may be met already.
//
// The checks come before anything is decided, so that a patch which does not fit is refused
// with its place. The revision is the first decision of the plan, because the state is built
// anew by it. The bounds of the engine were asked by the caller; here only validity counts,
// so that a replay under other bounds comes to the same.
func (p *planner) patchRun(m state.Patch) error {
	if m.Base != p.s.Revision() {
		return fmt.Errorf("%w: it is at %d, the patch is for %d", state.ErrConflict, p.s.Revision(), m.Base)
	}
	old := p.s.Graph
	g, err := Patched(old, m.Ops, compiled.Boundless())
	if err != nil {
		return err
	}
	c := patchCheck{s: p.s, like: p.planLike(), old: old, new: g, pins: append(p.s.Pins[:len(p.s.Pins):len(p.s.Pins)], m.Pins...)}
	if err := c.checkAll(); err != nil {
		return err
	}
	doc, err := value.Decode([]byte(g.JSON), value.Limits{Bytes: -1})
	if err != nil {
		return err
	}
	d := decision.PatchRun{Revision: m.Base + 1, Definition: doc, Pins: m.Pins, Due: p.s.Due, Steps: c.steps, Graph: g}
	if was, is := old.Definition.Timeout, g.Definition.Timeout; was != is {
		d.Due = timeout.Deadline(p.s.StartedAt, is)
	}
	p.decide(d)
	p.redecideWaits(old)
	return nil
}

// redecideWaits decides everything that waits again, by the new definition.
//
// A token whose event was renamed must wait in another line; an approval whose quorum was
// lowered may have it already; a join that lost a transition may have all that it waits for.
func (p *planner) redecideWaits(old *compiled.Graph) {
	end := p.s.NextGroup // what begins now has the new rules from the first
	for _, id := range p.s.LiveTokens() {
		if p.hasStopped() {
			return
		}
		switch t := p.s.Token(id); t.Status {
		case workflow.WaitingForEvent, workflow.WaitingForTimer:
			p.waitAnew(t, old)
		case workflow.WaitingForApproval:
			p.recountVotes(t)
		// drainWork looks at the place afterwards; a join: synchronize it looks at in any
		// case.
		case workflow.WaitingForJoin:
			p.arrived = append(p.arrived, joinPlace{t.Node, t.Scope})
		default:
		}
	}
	for id := workflow.GroupID(1); id < end && !p.hasStopped(); id++ {
		if g := p.s.Group(id); g.Phase == workflow.Gathering {
			p.redecideGroup(g, old)
		}
	}
	p.startReadyNodes()
}

// waitAnew lets a token wait by its node's new rules, from now on, if they have changed.
// Deadlines that did not change run on. The token stays in the attempt in which it is.
func (p *planner) waitAnew(t *state.Token, old *compiled.Graph) {
	n, was := p.s.Graph.Node(t.Node), old.Node(t.Node)
	if !changesWait(was, n) {
		return
	}
	same := *t
	same.Attempt-- // it is the attempt that it was
	p.beginWait(&same, n, vars{p: p, scope: t.Scope, token: t, result: t.Input, bound: true, caught: t.Caught})
}

// changesWait reports whether a patch changes what a node waits for, or how long.
func changesWait(was, is *compiled.Node) bool {
	return !reflect.DeepEqual(is.Wait, was.Wait) || is.Timeout != was.Timeout
}

// recountVotes decides an approval whose votes meet the quorum that it now has. The approving
// side is asked first, as the votes of both may suffice at once.
func (p *planner) recountVotes(t *state.Token) {
	approved := 0
	for _, v := range t.Votes {
		if v.Approved {
			approved++
		}
	}
	switch spec := p.s.Graph.Node(t.Node).Approval; {
	case approved >= spec.Quorum:
		p.decideApproval(t.ID, true, "votes")
	case len(t.Votes)-approved >= spec.RejectQuorum:
		p.decideApproval(t.ID, false, "votes")
	}
}

// redecideGroup decides a group by the rules that its join now has. A join that tolerates
// less than before may have to fail with a failure that it has taken long since: the last
// branch's, by index.
func (p *planner) redecideGroup(g *state.Group, old *compiled.Graph) {
	sync := p.syncOf(g)
	if sync == nil {
		return
	}
	if due := p.rearmedDue(g, old.Groups[g.Name].Sync, sync); !due.Equal(g.Due) {
		p.decide(decision.ArmGroup{Group: g.ID, Due: due})
		g = p.s.Group(g.ID)
	}
	var last *workflow.Failure
	if g.Failed > 0 && sync.Tolerate.Exceeded(g.Failed, g.Total) {
		for _, b := range p.branchesOf(g, state.BranchFailed) {
			last = b.Failure
		}
	}
	p.decideGroup(g.ID, last)
}

// rearmedDue returns when a group's join times out: as long after its first arrival
// as its timeout now says, or from now on if it had none.
//
// With a timeout of 10 minutes that becomes 15, a join whose first branch came 8 minutes ago
// has 7 minutes left. If the timeout becomes 5, the join is due at once, by an instant that
// is past.
func (p *planner) rearmedDue(g *state.Group, was, is *workflow.Synchronization) time.Time {
	switch {
	case g.Arrived == 0 || is.Timeout == 0 || p.blockedByStragglers(g):
		return time.Time{}
	case g.Due.IsZero():
		return timeout.Deadline(p.now, is.Timeout)
	}
	return timeout.Deadline(g.Due.Add(-was.Timeout), is.Timeout)
}

// startReadyNodes starts or skips the nodes of a dag for which that is decided by now, in
// definition order. Nodes that the patch adds behind ones which have ended are never resolved
// by the end of these, so that somebody has to look. In a run that will fail a patch starts
// nothing.
func (p *planner) startReadyNodes() {
	if !p.isDAG() || p.s.Deferred != nil {
		return
	}
	for i := range p.s.Graph.Definition.Nodes {
		if p.hasStopped() {
			return
		}
		n := p.s.Graph.Node(p.s.Graph.Definition.Nodes[i].ID)
		switch r := p.readinessOf(n); {
		case r == nodeRuns, r == nodeSkipped && len(n.Incoming) == 0:
			p.startNode(n, state.Token{})
		case r == nodeSkipped:
			p.endNode(decision.EndStep{Node: n.ID, Skipped: true}, vars{token: &state.Token{}})
		}
	}
}

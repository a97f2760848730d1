package planning

import (
	"fmt"
	"reflect"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// patch puts the run on another definition, whole or not at all. What has begun
// goes on as it began: attempts that are out, inputs, deadlines, elements of a
// foreach. What is decided later is decided by the new definition: retries,
// routing, joins. Waits that changed begin anew, and approvals, groups and joins
// are decided again, as the new rules may be met already.
func (p *planner) patch(m workflow.Patch) error {
	if m.Base != p.s.Revision() {
		return fmt.Errorf("%w: it is at %d, the patch is for %d", workflow.ErrConflict, p.s.Revision(), m.Base)
	}
	old := p.s.Graph
	g, err := Patched(old, m.Ops, workflow.Boundless())
	if err != nil {
		return err
	}
	c := patchCheck{s: p.s, old: old, new: g, pins: append(p.s.Pins[:len(p.s.Pins):len(p.s.Pins)], m.Pins...)}
	if err := c.run(); err != nil {
		return err
	}
	raw, err := g.Definition.MarshalJSON()
	if err != nil {
		return err
	}
	doc, err := value.Decode(raw, value.Limits{Bytes: -1})
	if err != nil {
		return err
	}
	d := decision.PatchRun{Revision: m.Base + 1, Definition: doc, Pins: m.Pins, Due: p.s.Due, Steps: c.steps, Graph: g}
	if was, is := old.Definition.Timeout, g.Definition.Timeout; was != is {
		d.Due = timeout.Deadline(p.s.StartedAt, is)
	}
	p.decide(d)
	p.resettle(old)
	return nil
}

// resettle decides what waits again, by the definition that the run now has.
func (p *planner) resettle(old *workflow.Graph) {
	end := p.s.NextGroup // what begins now has the new rules from the first
	for _, id := range p.s.LiveTokens() {
		if p.stopped() {
			return
		}
		switch t := p.s.Token(id); t.Status {
		case workflow.WaitingForEvent, workflow.WaitingForTimer:
			p.waitAnew(t, old)
		case workflow.WaitingForApproval:
			p.recount(t)
		case workflow.WaitingForJoin:
			p.arrived = append(p.arrived, joinPlace{t.Node, t.Scope})
		default:
		}
	}
	for id := workflow.GroupID(1); id < end && !p.stopped(); id++ {
		if g := p.s.Group(id); g.Phase == workflow.Gathering {
			p.regather(g, old)
		}
	}
	p.readySteps()
}

// waitAnew lets a token wait by its node's new rules, from now on, if they have
// changed.
func (p *planner) waitAnew(t *workflow.Token, old *workflow.Graph) {
	n, was := p.s.Graph.Node(t.Node), old.Node(t.Node)
	if reflect.DeepEqual(n.Wait, was.Wait) && n.Timeout == was.Timeout {
		return
	}
	same := *t
	same.Attempt-- // it is the attempt that it was
	p.wait(&same, n, vars{p: p, scope: t.Scope, token: t, result: t.Input, bound: true, caught: t.Caught})
}

// recount decides an approval whose votes meet the quorum that it now has.
func (p *planner) recount(t *workflow.Token) {
	approved := 0
	for _, v := range t.Votes {
		if v.Approved {
			approved++
		}
	}
	switch spec := p.s.Graph.Node(t.Node).Approval; {
	case approved >= max(spec.Quorum, 1):
		p.decideApproval(t.ID, true, "votes")
	case len(t.Votes)-approved >= max(spec.RejectQuorum, 1):
		p.decideApproval(t.ID, false, "votes")
	}
}

// regather decides a group by the rules that its join now has.
func (p *planner) regather(g *workflow.Group, old *workflow.Graph) {
	sync := p.syncOf(g)
	if sync == nil {
		return
	}
	if due := p.rearmed(g, old.Groups[g.Name].Sync, sync); !due.Equal(g.Due) {
		p.decide(decision.ArmGroup{Group: g.ID, Due: due})
		g = p.s.Group(g.ID)
	}
	var last *workflow.Failure
	if g.Failed > 0 && intolerable(sync, g) {
		for i := range g.Total {
			if b := p.s.Branch(workflow.Scope{Group: g.ID, Branch: i}); b.Status == workflow.BranchFailed {
				last = b.Failure
			}
		}
	}
	p.conclude(g.ID, last)
}

// rearmed returns when a group's join times out: as long after its first arrival
// as its timeout now says, or from now on if it had none.
func (p *planner) rearmed(g *workflow.Group, was, is *workflow.Synchronization) time.Time {
	switch {
	case g.Arrived == 0 || is.Timeout == 0 || p.blocked(g):
		return time.Time{}
	case g.Due.IsZero():
		return timeout.Deadline(p.now, is.Timeout)
	}
	return timeout.Deadline(g.Due.Add(-was.Timeout), is.Timeout)
}

// readySteps starts or skips the nodes of a dag for which that is decided by
// now, in definition order.
func (p *planner) readySteps() {
	if !p.dag() || p.s.Deferred != nil {
		return
	}
	for i := range p.s.Graph.Definition.Nodes {
		if p.stopped() {
			return
		}
		n := p.s.Graph.Node(p.s.Graph.Definition.Nodes[i].ID)
		switch r := p.standing(n); {
		case r == runs, r == skips && len(n.Incoming) == 0:
			p.startStep(n, workflow.Token{})
		case r == skips:
			p.endStep(decision.EndStep{Node: n.ID, Skipped: true}, vars{token: &workflow.Token{}})
		}
	}
}

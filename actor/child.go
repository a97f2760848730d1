package actor

import (
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// A Relatives carries what parent and child runs tell each other, at least once. Like all of an Outbox it returns at
// once. Either may be asleep, or die in between. A parent that wakes asks for its children again, a child that wakes
// asks whether it is wanted, and each takes a message that comes again for what it is.
type Relatives interface {
	// StartChild asks for a child run: that it exists, and runs or is paused
	// as its parent is. The same may come again. If the child has ended, or
	// cannot begin, the parent is told.
	StartChild(c Child)
	// CancelChild says that a child run is no longer wanted. It comes after the
	// StartChild of that child.
	CancelChild(child workflow.RunID)
	// ChildEnded tells a parent how its child has ended.
	ChildEnded(child workflow.RunID, p workflow.Parent, m state.ChildEnded)
	// ChildAsks asks a parent whether it still wants its child, which is to be
	// cancelled if not.
	ChildAsks(child workflow.RunID, p workflow.Parent)
}

// A Child is a child run as its parent wants it. The id follows from the parent's id, token and attempt: a parent
// that asks again after a crash asks for the same child.
type Child struct {
	decision.StartChild
	ID     workflow.RunID
	Parent workflow.Parent
	Pins   state.Pins
	Tenant string       // the parent's
	Trace  *state.Trace // the parent's; nil without
	Limits amount.Sums  // of what it may report
	Paused bool         // as the parent is
}

// sendChild asks for the child that a token waits for.
func (a *Actor) sendChild(e decision.StartChild) {
	t := a.state.Token(e.Token)
	if t.Status != workflow.WaitingForChild || t.Attempt != e.Attempt {
		return // withdrawn in the same batch
	}
	p := workflow.Parent{Run: a.ID, Token: e.Token, Attempt: e.Attempt, Root: a.ID, Depth: 1}
	// The root and the depth are handed down, so that descendants can be bounded without a look at the ancestors.
	if own := a.state.Parent; own != nil {
		p.Root, p.Depth = own.Root, own.Depth+1
	}
	a.hook.Hit("release.child")
	a.outbox.StartChild(Child{
		StartChild: e, ID: state.ChildID(a.ID, e.Token, e.Attempt), Parent: p, Pins: a.state.Pins, Tenant: a.state.Tenant, Trace: a.state.Trace,
		Limits: planning.ChildLimits(a.state, e.Token), Paused: a.state.Status == workflow.RunPaused,
	})
}

// noteUnwanted notes the tokens whose task, and the children that a decision makes unwanted, before it is applied.
// After it is applied the tokens have ended, and no longer say what they waited for. A token in a subworkflow node
// has a child and no task.
func (a *Actor) noteUnwanted(t *turn, d decision.Decision) {
	for _, id := range decision.Withdrawn(a.state, d) {
		if token := a.state.Token(id); token.Status == workflow.WaitingForChild {
			t.unwanted = append(t.unwanted, state.ChildID(a.ID, id, token.Attempt))
			continue
		}
		t.withdrawn = append(t.withdrawn, id)
	}
	if _, ok := d.(decision.PauseRun); ok {
		t.paused = true
	}
}

// tellRelatives tells children and parent what a committed turn means for them. The starts of children have been sent
// before, so that a CancelChild never overtakes them.
func (a *Actor) tellRelatives(t turn) {
	for _, child := range t.unwanted {
		a.outbox.CancelChild(child)
	}
	// A later message of the batch may have resumed the run.
	if t.paused && a.state.Status == workflow.RunPaused {
		a.sendChildren()
	}
	// If the process dies here, the parent asks for its child again when it wakes, and is told then.
	if p := a.state.Parent; p != nil && a.state.Status.Final() {
		a.outbox.ChildEnded(a.ID, *p, Ended(*p, a.Outcome(), a.state.Reported.Total()))
	}
}

// Ended returns what a parent is told of the end of its child, with what that and all below it have reported.
func Ended(p workflow.Parent, o workflow.Outcome, reported amount.Sums) state.ChildEnded {
	return state.ChildEnded{Token: p.Token, Attempt: p.Attempt, Status: o.Status, Output: o.Output, Failure: o.Failure, Reported: reported}
}

// resendToRelatives sends again what a run that wakes may not have told children and parent. Pending has the children
// of a run that runs, and leaves out those of a paused one, which may have to be told of the pause.
func (a *Actor) resendToRelatives() {
	if a.state.Status == workflow.RunPaused {
		a.sendChildren()
	}
	if p := a.state.Parent; p != nil && !a.state.Status.Final() {
		a.outbox.ChildAsks(a.ID, *p)
	}
}

// sendChildren asks for all children that the run waits for, which tells them whether the run is paused.
func (a *Actor) sendChildren() {
	for _, e := range planning.Children(a.state) {
		a.sendChild(e)
	}
}

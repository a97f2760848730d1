package roster

import (
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// deliverMessage delivers a message. An error says that it is to be tried again.
//
// The messenger calls it, with one message at a time for each child. Messages between runs are
// not kept on the disk: whoever needs an answer asks again when it is activated, so that each
// of them may come twice, or late, and must then change nothing.
func (c *Messenger) deliverMessage(child workflow.RunID, x Message) error {
	switch {
	case x.Want != nil:
		c.o.Hook.Hit("child.want")
		return c.ensureChild(x.Want)
	case x.Cancel:
		c.o.Hook.Hit("child.cancel")
		return c.cancelChild(child)
	case x.Ended != nil:
		c.o.Hook.Hit("child.ended")
		return c.tellParent(x.Parent.Run, *x.Ended)
	}
	c.o.Hook.Hit("child.asks")
	return c.askParent(child, x.Parent)
}

// ensureChild makes sure that a child exists, and that it runs or is paused as its
// parent is.
//
// A parent sends this when it wants a child and whenever it is activated while it waits for it.
// The state of the child decides what is done: the child is started, paused, resumed,
// or its end is told once more.
func (c *Messenger) ensureChild(d *actor.Child) error {
	if c.IsUnwanted(d.ID) {
		return nil // its cancel follows, or one of a run above it
	}
	h, err := c.o.Runs.Head(d.ID)
	switch {
	case errors.Is(err, store.ErrRunNotFound) && d.Paused:
		return nil // it begins when its parent is resumed
	case errors.Is(err, store.ErrRunNotFound):
		return c.startChild(d)
	case err != nil:
		return c.refuseChild(d, err)
	// Somebody has started another run under this id, or the definition is another one: waiting
	// for that run would be waiting for a stranger.
	case h.Parent != d.Parent.Run, h.Definition != d.Definition:
		return c.tellParent(d.Parent.Run, childRefused(d, workflow.CodeIDConflict, fmt.Sprintf("run %q is not the child", string(d.ID))))
	case h.Status.Final():
		return c.tellEnd(d, &h)
	case h.Status == workflow.RunRunning && d.Paused:
		return ignoreFinal(c.o.Runs.Ask(d.ID, state.Pause{Parent: true}))
	case h.Status == workflow.RunPaused && !d.Paused:
		return ignoreFinal(c.o.Runs.Ask(d.ID, state.Resume{Parent: true}))
	}
	return nil
}

// startChild begins a child run.
func (c *Messenger) startChild(d *actor.Child) error {
	g, err := c.o.Runs.Graph(d.Definition)
	if err != nil {
		return c.refuseChild(d, err)
	}
	// The root counts how many runs may be below it; without this bound a definition that
	// starts itself would fill the directory.
	if h, err := c.o.Runs.Head(d.Parent.Root); err == nil && h.Room <= 0 {
		return c.refuseChild(d, fmt.Errorf("%w: run %q", store.ErrNoRoom, string(d.Parent.Root)))
	}
	err = c.o.Runs.StartChild(d, g)
	c.o.Hook.Hit("child.started")
	if err != nil {
		return c.refuseChild(d, err)
	}
	// A run that fails as it starts has no parent that it knows of.
	h, err := c.o.Runs.Head(d.ID)
	if err == nil && h.Status == workflow.RunFailed {
		return c.tellParent(d.Parent.Run, actor.Ended(d.Parent, h.Outcome(), nil))
	}
	return nil
}

// tellEnd tells a parent that has missed it how its child has ended. The sums of the child are in its state and not in
// its row; where that is damaged, the parent goes on without them.
func (c *Messenger) tellEnd(d *actor.Child, h *store.Head) error {
	reported, err := c.o.Runs.Reported(d.ID)
	if err != nil && !isRunDamage(err) {
		return err
	}
	return c.tellParent(d.Parent.Run, actor.Ended(d.Parent, h.Outcome(), reported))
}

// refuseChild tells a parent that its child cannot begin, if err says so for good.
//
// A parent that got no answer would wait for ever. An error that may pass is returned, so that
// the messenger tries again; one that will come again becomes the failure of the child, which
// the parent's node can catch. The codes are those that the same fault has in a run.
func (c *Messenger) refuseChild(d *actor.Child, err error) error {
	var input *workflow.InputError
	var limit *workflow.LimitError
	code := ""
	switch {
	case errors.As(err, &input):
		code = workflow.CodeSchema
	case errors.As(err, &limit), errors.Is(err, store.ErrNoRoom):
		code = workflow.CodeLimit
	case isRunDamage(err), errors.Is(err, store.ErrVersion), errors.Is(err, state.ErrSuspended):
		code = workflow.CodeInternal
	default:
		return err
	}
	return c.tellParent(d.Parent.Run, childRefused(d, code, c.o.Runs.Storable(err.Error())))
}

// isRunDamage reports whether err says that a run is damaged, not the index of all,
// which may only be unreadable at the moment.
func isRunDamage(err error) bool {
	var c *store.CorruptError
	return errors.As(err, &c) && c.Run != ""
}

// childRefused is the end of a child that was never there.
func childRefused(d *actor.Child, code, message string) state.ChildEnded {
	return state.ChildEnded{
		Token: d.Token, Attempt: d.Attempt, Status: workflow.RunFailed,
		Failure: &workflow.Failure{Code: code, Message: message, Permanent: true},
	}
}

// cancelChild ends a child that its parent does not want any more, in the name of
// whoever has cancelled the parent.
func (c *Messenger) cancelChild(child workflow.RunID) error {
	h, err := c.o.Runs.Head(child)
	if err == nil && h.Status.Final() {
		return nil
	}
	m := state.Cancel{Reason: "the parent run does not wait for it any more"}
	// The person who has cancelled the parent has cancelled its children as well: their failures name
	// the same person.
	if parent, err := c.o.Runs.Head(h.Parent); err == nil && parent.Status == workflow.RunCancelled && parent.Failure != nil {
		m.Act.By = parent.Failure.By
	}
	return ignoreFinal(c.o.Runs.Ask(child, m))
}

// cancelLine ends a child and every run between it and its root that has not ended, from the top: a run that heard first that
// its child was cancelled would fail by that, though it is cancelled itself.
func (c *Messenger) cancelLine(child, parent, root workflow.RunID) error {
	h, err := c.o.Runs.Head(parent)
	switch {
	case err != nil:
		err = ignoreFinal(err)
	case parent != root && !h.Status.Final():
		err = c.cancelLine(parent, h.Parent, root)
	}
	if err != nil {
		return err
	}
	return c.cancelChild(child)
}

// tellParent tells a parent how its child has ended.
func (c *Messenger) tellParent(parent workflow.RunID, m state.ChildEnded) error {
	err := ignoreFinal(c.o.Runs.Ask(parent, m))
	c.o.Hook.Hit("child.told")
	return err
}

// askParent asks a parent whether it wants its child, and cancels the child if not.
//
// A child asks when it is activated. If its parent does not wait for it, because it was purged,
// has ended, or waits for a later attempt, the child would go on for nobody.
//
// Below a root that has ended nothing is wanted, whatever the runs in between still know.
func (c *Messenger) askParent(child workflow.RunID, p workflow.Parent) error {
	if h, err := c.o.Runs.Head(p.Root); err == nil && h.Status.Final() {
		return c.cancelLine(child, p.Run, p.Root)
	}
	err := c.o.Runs.Ask(p.Run, state.ChildAsks{Token: p.Token, Attempt: p.Attempt})
	if errors.Is(err, state.ErrStale) || errors.Is(err, state.ErrEnded) || errors.Is(err, store.ErrRunNotFound) {
		return c.cancelChild(child)
	}
	return ignoreFinal(err)
}

// ignoreFinal returns nil in place of an error that another try would only repeat: the
// run does not want the message, or a later Resume or repair has it sent again.
func ignoreFinal(err error) error {
	for _, final := range []error{state.ErrStale, state.ErrEnded, state.ErrNotLive, store.ErrRunNotFound, state.ErrSuspended, store.ErrCorrupt, store.ErrVersion} {
		if errors.Is(err, final) {
			return nil
		}
	}
	return err
}

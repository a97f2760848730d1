package pawltest

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// performEvent makes an event happen to the engine.
func (d *driver) performEvent(ctx context.Context, engine *pawl.Engine, e *event) error {
	_, run := e.targetOf(nil, "")
	switch {
	case e.Signal != nil:
		return d.sendSignal(ctx, engine, e)
	case e.Vote != nil:
		return d.castVote(ctx, engine, e)
	case e.Result != nil:
		return d.reportResult(ctx, engine, e)
	case e.Cancel:
		return engine.Cancel(ctx, run, "cancelled by the scenario")
	case e.Pause:
		return engine.Pause(ctx, run)
	case e.Resume:
		return engine.Resume(ctx, run)
	case e.Patch.set:
		return d.applyPatch(ctx, engine, run, e.Patch.value)
	case e.AddBranch != nil:
		_, run := e.targetOf(nil, e.AddBranch.Run)
		return engine.AddBranch(ctx, pawl.GroupTarget{Run: run, Group: e.AddBranch.Group}, e.AddBranch.Item.value)
	case e.CloseGroup != nil:
		_, run := e.targetOf(nil, e.CloseGroup.Run)
		return engine.CloseGroup(ctx, pawl.GroupTarget{Run: run, Group: e.CloseGroup.Group})
	case e.CancelNodes != nil:
		nodes := make([]workflow.NodeID, len(e.CancelNodes))
		for i, n := range e.CancelNodes {
			nodes[i] = workflow.NodeID(n)
		}
		return engine.CancelNodes(ctx, run, nodes...)
	case e.Retry != nil:
		t, err := d.tokenTarget(ctx, engine, e, e.Retry.Node, e.Retry.Index, e.Retry.Run)
		if err != nil {
			return err
		}
		return engine.Retry(ctx, t)
	case e.Skip != nil:
		t, err := d.tokenTarget(ctx, engine, e, e.Skip.Node, e.Skip.Index, e.Skip.Run)
		if err != nil {
			return err
		}
		return engine.Skip(ctx, t, e.Skip.Output.value)
	}
	panic("pawltest: an event that is nothing")
}

func (d *driver) sendSignal(ctx context.Context, engine *pawl.Engine, e *event) error {
	_, run := e.targetOf(nil, e.Signal.Run)
	s := workflow.Signal{Name: e.Signal.Name, ID: e.Signal.ID, Payload: e.Signal.Payload.value}
	if ttl := e.Signal.TTL; ttl != nil {
		s.TTL, s.Transient = *ttl, *ttl == 0
	}
	return engine.Signal(ctx, run, s)
}

func (d *driver) castVote(ctx context.Context, engine *pawl.Engine, e *event) error {
	v := e.Vote
	t, err := d.tokenTarget(ctx, engine, e, v.Node, v.Index, v.Run)
	if err != nil {
		return err
	}
	return engine.Vote(ctx, t, workflow.Ballot{By: v.By, Approved: v.Approved, Comment: v.Comment, Data: v.Data.value})
}

func (d *driver) reportResult(ctx context.Context, engine *pawl.Engine, e *event) error {
	r := e.Result
	index, run := e.targetOf(r.Index, r.Run)
	key := d.keyOf(r, index, run)
	if r.Error != nil {
		return engine.Fail(ctx, key, r.Error.taskError())
	}
	return engine.Complete(ctx, key, r.Output.orElse(map[string]any{}))
}

func (d *driver) applyPatch(ctx context.Context, engine *pawl.Engine, run workflow.RunID, ops any) error {
	list, ok := ops.([]any)
	if !ok {
		return fmt.Errorf("%w: a patch is a list of operations", pawl.ErrInvalid)
	}
	snap, err := engine.Inspect(ctx, run)
	if err != nil {
		return err
	}
	_, err = engine.Patch(ctx, run, pawl.Patch{Base: snap.Revision, Ops: list})
	return err
}

// tokenTarget returns the token that an event is about: the one at a node, or the one of
// a branch of that index.
func (d *driver) tokenTarget(ctx context.Context, engine *pawl.Engine, e *event, node string, inner *int, innerRun string) (pawl.Target, error) {
	index, run := e.targetOf(inner, innerRun)
	t := pawl.Target{Run: run, Node: workflow.NodeID(node)}
	if index == nil {
		return t, nil
	}
	snap, err := engine.Inspect(ctx, run)
	if err != nil {
		return t, err
	}
	for i := range snap.Tokens {
		token := &snap.Tokens[i]
		if token.Live() && token.Node == t.Node && token.Scope.Group != 0 && token.Scope.Branch == *index {
			return pawl.Target{Run: run, Token: token.ID}, nil
		}
	}
	return t, fmt.Errorf("%w: no token of branch %d is at node %q", pawl.ErrNotLive, *index, node)
}

// messageOf returns the name of the message that an event becomes; "" if it
// changes nothing to repeat it.
func (e *event) messageOf() string {
	switch {
	case e.Signal != nil:
		return "Signal"
	case e.Vote != nil:
		return "Ballot"
	case e.Cancel:
		return "Cancel"
	case e.Pause:
		return "Pause"
	case e.Resume:
		return "Resume"
	case e.Patch.set:
		return "Patch"
	case e.AddBranch != nil:
		return "AddBranch"
	case e.CloseGroup != nil:
		return "CloseGroup"
	case e.CancelNodes != nil:
		return "CancelNodes"
	case e.Retry != nil:
		return "Retry"
	case e.Skip != nil:
		return "Skip"
	}
	return ""
}

// runID returns the run that an event is about.
func (e *event) runID() workflow.RunID {
	inner := ""
	switch {
	case e.Signal != nil:
		inner = e.Signal.Run
	case e.Vote != nil:
		inner = e.Vote.Run
	case e.AddBranch != nil:
		inner = e.AddBranch.Run
	case e.CloseGroup != nil:
		inner = e.CloseGroup.Run
	case e.Retry != nil:
		inner = e.Retry.Run
	case e.Skip != nil:
		inner = e.Skip.Run
	}
	_, run := e.targetOf(nil, inner)
	return run
}

// An action is something that the driver has asked the engine for.
type action struct {
	event int // its index; -1 is the start of the run
	at    time.Time
	base  int64 // of the run's journal, when it was asked first
	done  bool
	err   error
	again bool // its answer was lost once
}

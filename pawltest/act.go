package pawltest

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// performEvent makes an event happen to a run.
func (d *driver) performEvent(ctx context.Context, engine *pawl.Engine, run workflow.RunID, e *event) error {
	ctx = pawl.Because(ctx, e.Reason)
	if e.By != nil {
		ctx = pawl.As(ctx, *e.By)
	}
	switch {
	case e.Signal != nil:
		return sendSignal(ctx, engine, run, e.Signal)
	case e.Vote != nil:
		return d.castVote(ctx, engine, run, e)
	case e.Result != nil:
		return d.reportResult(ctx, engine, run, e)
	case e.Cancel:
		return engine.Cancel(ctx, run, cmp.Or(e.Reason, "cancelled by the scenario"))
	case e.Pause:
		return engine.Pause(ctx, run)
	case e.Resume:
		return engine.Resume(ctx, run)
	case e.Patch.set:
		return d.applyPatch(ctx, engine, run, e.Patch.value)
	case e.AddBranch != nil:
		return engine.AddBranch(ctx, pawl.GroupTarget{Run: run, Group: e.AddBranch.Group, ID: e.AddBranch.ID}, e.AddBranch.Item.value)
	case e.CloseGroup != nil:
		return engine.CloseGroup(ctx, pawl.GroupTarget{Run: run, Group: e.CloseGroup.Group})
	case e.CancelNodes != nil:
		nodes := make([]workflow.NodeID, len(e.CancelNodes))
		for i, n := range e.CancelNodes {
			nodes[i] = workflow.NodeID(n)
		}
		return engine.CancelNodes(ctx, run, nodes...)
	case e.Retry != nil:
		t, err := tokenTarget(d.ctx, engine, pawl.Target{Run: run, Node: workflow.NodeID(e.Retry.Node)}, e.branchIndex(e.Retry.Index))
		if err != nil {
			return err
		}
		return engine.Retry(ctx, t, pawl.RetryOptions{Input: workflow.RetryInput(e.Retry.Input)})
	case e.Skip != nil:
		t, err := tokenTarget(d.ctx, engine, pawl.Target{Run: run, Node: workflow.NodeID(e.Skip.Node)}, e.branchIndex(e.Skip.Index))
		if err != nil {
			return err
		}
		return engine.Skip(ctx, t, e.Skip.Output.value)
	case e.Fork != nil:
		return d.forkRun(ctx, engine, run, e.Fork)
	case e.Simulate != nil:
		return d.simulateEvent(ctx, engine, run, e)
	case e.Replay != nil:
		return d.replayRun(ctx, engine, run, e)
	}
	panic("pawltest: an event that is nothing")
}

func sendSignal(ctx context.Context, engine *pawl.Engine, run workflow.RunID, e *signalEvent) error {
	s := workflow.Signal{Name: e.Name, ID: e.ID, Payload: e.Payload.value, Early: e.Early}
	if ttl := e.TTL; ttl != nil {
		s.TTL, s.Transient = *ttl, *ttl == 0
	}
	return engine.Signal(ctx, run, s)
}

func (d *driver) castVote(ctx context.Context, engine *pawl.Engine, run workflow.RunID, e *event) error {
	v := e.Vote
	t, err := tokenTarget(d.ctx, engine, pawl.Target{Run: run, Node: workflow.NodeID(v.Node)}, e.branchIndex(v.Index))
	if err != nil {
		return err
	}
	if v.Token != 0 {
		t = pawl.Target{Run: run, Token: workflow.TokenID(v.Token)}
	}
	return engine.Vote(ctx, t, workflow.Ballot{ID: v.ID, By: v.By, Approved: v.Approved, Comment: v.Comment, Data: v.Data.value})
}

func (d *driver) reportResult(ctx context.Context, engine *pawl.Engine, run workflow.RunID, e *event) error {
	r := e.Result
	key := d.keyOf(r, e.branchIndex(r.Index), run)
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
	snap, err := engine.Inspect(d.ctx, run)
	if err != nil {
		return err
	}
	_, err = engine.Patch(ctx, run, pawl.Patch{Base: snap.Revision, Ops: list})
	return err
}

// tokenTarget returns the token that an event is about: the one at the node of t, or the
// one there of a branch of that index.
func tokenTarget(ctx context.Context, engine *pawl.Engine, t pawl.Target, index *int) (pawl.Target, error) {
	if index == nil {
		return t, nil
	}
	snap, err := engine.Inspect(ctx, t.Run)
	if err != nil {
		return t, err
	}
	for i := range snap.Tokens {
		token := &snap.Tokens[i]
		if token.Live() && token.Node == t.Node && token.Scope.Group != 0 && token.Scope.Branch == *index {
			return pawl.Target{Run: t.Run, Token: token.ID}, nil
		}
	}
	return t, fmt.Errorf("%w: no token of branch %d is at node %q", pawl.ErrNotLive, *index, string(t.Node))
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

// An action is something that the driver has asked the engine for.
type action struct {
	event int // its index; -1 is the start of the run
	at    time.Time
	run   workflow.RunID // that the event is about; "" until it is known
	base  int64          // of the run's journal, when it was asked first
	done  bool
	err   error
	again bool // its answer was lost once
}

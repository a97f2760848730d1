package pawltest

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/workflow"
)

// performEvent makes an event happen to a run.
func (d *driver) performEvent(ctx context.Context, engine *pawl.Engine, run workflow.RunID, e *event) error {
	ctx = e.asks(ctx)
	switch {
	case e.Schedule != nil:
		return actOnSchedule(ctx, engine, e.Schedule)
	case e.Fork != nil:
		return d.forkRun(ctx, engine, run, e.Fork)
	case e.Simulate != nil:
		return d.simulateEvent(ctx, engine, run, e)
	case e.Replay != nil:
		return d.replayRun(ctx, engine, run, e)
	}
	a, err := d.actOf(engine, run, e)
	if err != nil {
		return err
	}
	return engine.Do(ctx, run, a)
}

// asks returns the context in which an event is asked for.
func (e *event) asks(ctx context.Context) context.Context {
	ctx = pawl.Because(ctx, e.Reason)
	if e.By != nil {
		ctx = pawl.As(ctx, *e.By)
	}
	return ctx
}

// actOf returns the act that an event is. The run says which token is meant, and which revision it has.
func (d *driver) actOf(engine *pawl.Engine, run workflow.RunID, e *event) (pawl.Act, error) {
	switch {
	case e.Signal != nil:
		return e.Signal.act(), nil
	case e.Vote != nil:
		v := e.Vote
		a := pawl.Vote{ID: v.ID, By: v.By, Approved: v.Approved, Comment: v.Comment, Data: v.Data.value}
		if v.Token != 0 {
			a.Token = workflow.TokenID(v.Token)
			return a, nil
		}
		return d.aimed(engine, a, pawl.Target{Run: run, Node: workflow.NodeID(v.Node)}, e.branchIndex(v.Index))
	case e.Result != nil:
		r := e.Result
		key := d.keyOf(r, e.branchIndex(r.Index), run)
		result := resultWith(r.Output.orElse(map[string]any{}), r.Metadata)
		if r.Error != nil {
			return pawl.Fail{Key: key, Cause: pawl.WithMetadata(r.Error.taskError(), result.Metadata)}, nil
		}
		return pawl.Complete{Key: key, Output: result}, nil
	case e.Cancel:
		return pawl.Cancel{Reason: cmp.Or(e.Reason, "cancelled by the scenario"), Ended: true}, nil
	case e.Pause:
		return pawl.Pause{}, nil
	case e.Resume:
		return pawl.Resume{}, nil
	case e.Patch.set:
		return d.patchOf(engine, run, e.Patch.value)
	case e.AddBranch != nil:
		origin, err := d.originOf(engine, run, e.AddBranch.Group, e.branchIndex(e.AddBranch.Index))
		return pawl.AddBranch{Group: e.AddBranch.Group, Origin: origin, ID: e.AddBranch.ID, Item: e.AddBranch.Item.value}, err
	case e.CloseGroup != nil:
		origin, err := d.originOf(engine, run, e.CloseGroup.Group, e.branchIndex(e.CloseGroup.Index))
		return pawl.CloseGroup{Group: e.CloseGroup.Group, Origin: origin}, err
	case e.CancelNodes != nil:
		var a pawl.CancelNodes
		for _, n := range e.CancelNodes {
			a.Nodes = append(a.Nodes, workflow.NodeID(n))
		}
		return a, nil
	case e.Raise.set:
		return pawl.Raise{Meta: amountsOf(e.Raise)}, nil
	case e.Retry != nil:
		a := pawl.Retry{Input: workflow.RetryInput(e.Retry.Input)}
		return d.aimed(engine, a, pawl.Target{Run: run, Node: workflow.NodeID(e.Retry.Node)}, e.branchIndex(e.Retry.Index))
	case e.Skip != nil:
		return d.aimed(engine, pawl.Skip{Output: e.Skip.Output.value}, pawl.Target{Run: run, Node: workflow.NodeID(e.Skip.Node)}, e.branchIndex(e.Skip.Index))
	}
	panic("pawltest: an event that is nothing")
}

func (e *signalEvent) act() pawl.Signal {
	s := pawl.Signal{Name: e.Name, ID: e.ID, Payload: e.Payload.value, Early: e.Early}
	if ttl := e.TTL; ttl != nil {
		s.TTL, s.Transient = *ttl, *ttl == 0
	}
	return s
}

// aimed returns an act on the token that an event is about.
func (d *driver) aimed(engine *pawl.Engine, a pawl.Act, t pawl.Target, index *int) (pawl.Act, error) {
	t, err := tokenTarget(d.ctx, engine, t, index)
	return acts.At(a, t), err
}

func (d *driver) patchOf(engine *pawl.Engine, run workflow.RunID, ops any) (pawl.Act, error) {
	list, ok := ops.([]any)
	if !ok {
		return nil, fmt.Errorf("%w: a patch is a list of operations", pawl.ErrInvalid)
	}
	snap, err := engine.Inspect(d.ctx, run)
	return pawl.Patch{Base: snap.Revision, Ops: list}, err
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
	return t, fmt.Errorf("%w: no thread of branch %d is at node %q", pawl.ErrNotLive, *index, string(t.Node))
}

// originOf returns the origin of the group that an event is about, which gathers in a branch of that index; 0 without an index.
func (d *driver) originOf(engine *pawl.Engine, run workflow.RunID, group string, index *int) (workflow.TokenID, error) {
	if index == nil {
		return 0, nil
	}
	snap, err := engine.Inspect(d.ctx, run)
	if err != nil {
		return 0, err
	}
	for i := range snap.Groups {
		g := &snap.Groups[i]
		if g.Name == group && g.Phase == workflow.Gathering && g.Scope.Group != 0 && g.Scope.Branch == *index {
			return g.Origin, nil
		}
	}
	return 0, fmt.Errorf("%w: no group %q gathers in branch %d", pawl.ErrNotLive, group, *index)
}

// messageOf returns the name of the message that an event becomes, which is that of its kind but for a vote. No message has the name
// of another kind: to repeat it changes nothing.
func (e *event) messageOf() string {
	if e.Vote != nil {
		return "Ballot"
	}
	return e.kinds()[0]
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

// amountsOf returns numbers by name.
func amountsOf(o optional) map[string]float64 {
	of, _ := o.value.(map[string]any)
	return amount.Of(of).Floats()
}

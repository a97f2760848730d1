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
	a, err := d.actOf(subject{engine: engine, run: run}, e)
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

// actOf returns the act that an event is. The subject says which token is meant, and which revision it has.
func (d *driver) actOf(of subject, e *event) (pawl.Act, error) {
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
		return d.aimAct(of, a, workflow.NodeID(v.Node), e.branchIndex(v.Index))
	case e.Result != nil:
		r := e.Result
		key := d.keyOf(of, r, e.branchIndex(r.Index))
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
		return d.patchOf(of, e.Patch.value)
	case e.AddBranch != nil:
		origin, err := d.originOf(of, e.AddBranch, e.branchIndex(e.AddBranch.Index))
		return pawl.AddBranch{Group: e.AddBranch.Group, Origin: origin, ID: e.AddBranch.ID, Item: e.AddBranch.Item.value}, err
	case e.CloseGroup != nil:
		origin, err := d.originOf(of, e.CloseGroup, e.branchIndex(e.CloseGroup.Index))
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
		return d.aimAct(of, a, workflow.NodeID(e.Retry.Node), e.branchIndex(e.Retry.Index))
	case e.Skip != nil:
		return d.aimAct(of, pawl.Skip{Output: e.Skip.Output.value}, workflow.NodeID(e.Skip.Node), e.branchIndex(e.Skip.Index))
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

// aimAct returns an act on the token that an event is about: the one at a node, or the one there of a branch of that index.
func (d *driver) aimAct(of subject, a pawl.Act, node workflow.NodeID, index *int) (pawl.Act, error) {
	t := pawl.Target{Run: of.run, Node: node}
	if index != nil {
		var err error
		if t, err = of.tokenTarget(d.ctx, t, *index); err != nil {
			return a, err
		}
	}
	return acts.At(a, t), nil
}

func (d *driver) patchOf(of subject, ops any) (pawl.Act, error) {
	list, ok := ops.([]any)
	if !ok {
		return nil, fmt.Errorf("%w: a patch is a list of operations", pawl.ErrInvalid)
	}
	snap, err := of.inspectRun(d.ctx)
	return pawl.Patch{Base: snap.Revision, Ops: list}, err
}

// originOf returns the origin of the group that an event is about: the one that it names, or that of the group which gathers in a branch of that index;
// 0 without either.
func (d *driver) originOf(of subject, e *groupEvent, index *int) (workflow.TokenID, error) {
	if e.Origin != 0 || index == nil {
		return workflow.TokenID(e.Origin), nil
	}
	return of.groupOrigin(d.ctx, e.Group, *index)
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

package pawltest

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// do has an event happen to the engine.
func (d *driver) do(ctx context.Context, engine *pawl.Engine, e *event) error {
	_, run := e.target(nil, "")
	switch {
	case e.Signal != nil:
		return d.signal(ctx, engine, e)
	case e.Vote != nil:
		return d.vote(ctx, engine, e)
	case e.Result != nil:
		return d.report(ctx, engine, e)
	case e.Cancel:
		return engine.Cancel(ctx, run, "cancelled by the scenario")
	case e.Pause:
		return invoke(engine, "Pause", ctx, run)
	case e.Resume:
		return engine.Resume(ctx, run)
	case e.Patch.set:
		return d.patch(ctx, engine, run, e.Patch.value)
	case e.AddBranch != nil:
		_, run := e.target(nil, e.AddBranch.Run)
		return invoke(engine, "AddBranch", ctx, fields{"Run": run, "Group": e.AddBranch.Group}, e.AddBranch.Item.value)
	case e.CloseGroup != nil:
		_, run := e.target(nil, e.CloseGroup.Run)
		return invoke(engine, "CloseGroup", ctx, fields{"Run": run, "Group": e.CloseGroup.Group})
	case e.CancelNodes != nil:
		args := []any{ctx, run}
		for _, n := range e.CancelNodes {
			args = append(args, workflow.NodeID(n))
		}
		return invoke(engine, "CancelNodes", args...)
	case e.Retry != nil:
		t, err := d.at(ctx, engine, e, e.Retry.Node, e.Retry.Index, e.Retry.Run)
		if err != nil {
			return err
		}
		return engine.Retry(ctx, t)
	case e.Skip != nil:
		t, err := d.at(ctx, engine, e, e.Skip.Node, e.Skip.Index, e.Skip.Run)
		if err != nil {
			return err
		}
		return engine.Skip(ctx, t, e.Skip.Output.value)
	}
	panic("pawltest: an event that is nothing")
}

func (d *driver) signal(ctx context.Context, engine *pawl.Engine, e *event) error {
	_, run := e.target(nil, e.Signal.Run)
	s := workflow.Signal{Name: e.Signal.Name, ID: e.Signal.ID, Payload: e.Signal.Payload.value}
	if ttl := e.Signal.TTL; ttl != nil {
		s.TTL, s.Transient = *ttl, *ttl == 0
	}
	return invoke(engine, "Signal", ctx, run, s)
}

func (d *driver) vote(ctx context.Context, engine *pawl.Engine, e *event) error {
	v := e.Vote
	t, err := d.at(ctx, engine, e, v.Node, v.Index, v.Run)
	if err != nil {
		return err
	}
	return invoke(engine, "Vote", ctx, t, workflow.Ballot{By: v.By, Approved: v.Approved, Comment: v.Comment, Data: v.Data.value})
}

func (d *driver) report(ctx context.Context, engine *pawl.Engine, e *event) error {
	r := e.Result
	index, run := e.target(r.Index, r.Run)
	key := d.keyOf(r, index, run)
	if r.Error != nil {
		return engine.Fail(ctx, key, r.Error.err())
	}
	return engine.Complete(ctx, key, r.Output.or(map[string]any{}))
}

func (d *driver) patch(ctx context.Context, engine *pawl.Engine, run workflow.RunID, ops any) error {
	list, ok := ops.([]any)
	if !ok {
		return fmt.Errorf("%w: a patch is a list of operations", pawl.ErrInvalid)
	}
	return invoke(engine, "Patch", ctx, run, fields{"Base": d.revision(ctx, engine, run), "Ops": list})
}

// revision returns the revision of a run's definition, 1 if it was never patched.
func (d *driver) revision(ctx context.Context, engine *pawl.Engine, run workflow.RunID) int {
	snap, err := engine.Inspect(ctx, run)
	if f := reflect.ValueOf(snap).FieldByName("Revision"); err == nil && f.IsValid() && f.CanInt() {
		return int(f.Int())
	}
	return 1
}

// at returns the token that an event is about: the one at a node, or the one of
// a branch of that index.
func (d *driver) at(ctx context.Context, engine *pawl.Engine, e *event, node string, inner *int, innerRun string) (pawl.Target, error) {
	index, run := e.target(inner, innerRun)
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

// fields are the fields of a struct that invoke makes.
type fields map[string]any

// invoke calls a method of the engine by name, and returns its error, or one
// that says that there is no such method. An argument of type fields becomes the
// struct that the method takes.
func invoke(engine *pawl.Engine, name string, args ...any) error {
	m := reflect.ValueOf(engine).MethodByName(name)
	if !m.IsValid() {
		return fmt.Errorf("%w: the engine has no %s", errUnsupported, name)
	}
	in := make([]reflect.Value, len(args))
	for i, arg := range args {
		t := m.Type().In(min(i, m.Type().NumIn()-1))
		switch arg := arg.(type) {
		case nil:
			in[i] = reflect.Zero(t)
		case fields:
			in[i] = reflect.New(t).Elem()
			for field, v := range arg {
				in[i].FieldByName(field).Set(reflect.ValueOf(v))
			}
		default:
			in[i] = reflect.ValueOf(arg)
		}
	}
	out := m.Call(in)
	err, _ := out[len(out)-1].Interface().(error)
	return err
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
	_, run := e.target(nil, inner)
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

package pawl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// A run that failed because its child did leads to that, and can be done again from before it.
func TestWhyOfAFailedChild(t *testing.T) {
	ctx := t.Context()
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
		return nil, pawl.TaskError{Code: "broken"}
	}}})
	_, err := e.Publish(t.Context(), define(t, "name: kid\nstart: a\nnodes: [{id: a, task: work}]\n"))
	require.NoError(t, err)
	_, err = e.Run(ctx, workflow.Run{ID: "top", Definition: define(t, "name: top\nstart: call\nnodes: [{id: call, subworkflow: {name: kid}}]\n")}, nil)
	require.NoError(t, err)
	x, err := e.Why(ctx, "top")
	require.NoError(t, err)
	require.Len(t, x.Failed, 1)
	child := x.Failed[0].Child
	require.Equal(t, []string{"pawl why " + string(child), "pawl fork top NEWID --node call -m REASON"}, x.Failed[0].Try)
	x, err = e.Why(ctx, child)
	require.NoError(t, err)
	require.Equal(t, "a", x.Failed[0].Place)
	require.Equal(t, "broken", x.Failed[0].Failure.Code)
}

// The chain leads down through the child runs to what failed first; a child that is purged ends it.
func TestWhyLeadsToTheFirstFailure(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	e := open(t, dir, pawl.Options{Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
		return nil, pawl.TaskError{Code: "broken", Message: "the card was declined"}
	}}})
	publish(t, e, define(t, "name: grandkid\nstart: pay\nnodes: [{id: pay, task: work}]\n"))
	publish(t, e, define(t, "name: kid\nstart: order\nnodes: [{id: order, subworkflow: {name: grandkid}}]\n"))
	_, err := e.Run(ctx, workflow.Run{ID: "top", Definition: define(t, "name: top\nstart: call\nnodes: [{id: call, subworkflow: {name: kid}}]\n")}, nil)
	require.NoError(t, err)
	x, err := e.Why(ctx, "top")
	require.NoError(t, err)
	require.Len(t, x.Failed, 1)
	below := x.Failed[0].Below
	require.Len(t, below, 2)
	require.Equal(t, []string{"order", "pay"}, []string{below[0].Place, below[1].Place})
	require.Equal(t, x.Failed[0].Child, below[0].Run)
	require.Equal(t, "broken", below[1].Failure.Code)
	require.Contains(t, x.String(), "in "+string(below[1].Run)+", pay (t1) failed: broken at node \"pay\" (t1): the card was declined")
	require.NoError(t, e.Close(ctx))

	rec, err := replay.Find(dir + ":top")
	require.NoError(t, err)
	defer rec.Close()
	again, err := replay.Why(rec)
	require.NoError(t, err)
	require.NoError(t, again.ExplainBelow(func(id workflow.RunID) (*replay.Recording, error) {
		if id == below[1].Run {
			return nil, pawl.ErrRunNotFound
		}
		return replay.Find(dir + ":" + string(id))
	}))
	require.Equal(t, below[:1], again.Failed[0].Below)
	other := errors.New("the disk is gone")
	require.ErrorIs(t, again.ExplainBelow(func(workflow.RunID) (*replay.Recording, error) { return nil, other }), other)
}

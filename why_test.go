package pawl_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A run that failed because its child did leads to that, and can be done again from before it.
func TestWhyOfAFailedChild(t *testing.T) {
	ctx := t.Context()
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
		return nil, pawl.TaskError{Code: "broken"}
	}}})
	_, err := e.Publish(define(t, "name: kid\nstart: a\nnodes: [{id: a, task: work}]\n"))
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

package tracing

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// Without a provider nothing is allocated.
func TestNoProviderNoCost(t *testing.T) {
	var off *Tracer
	d, s := &workflow.Definition{Name: "w"}, &state.State{}
	ctx := context.Background()
	require.Nil(t, New(Options{}))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		b := off.Begin(ctx, RunBy("r", d, nil))
		b.End()
		b.Await()
		b.Settle(true)
		off.CommitBegins(nil)
		_ = b.Trace()
		_ = off.IsOld(nil)
		off.Loaded(s)
		a := off.Perform(Task{Run: RunBy("r", d, nil)}, time.Time{})
		a.ReturnResult(state.TaskCompleted{})
		a.Decide(End{})
		a.Drop()
		a.End()
		off.Committed(s, nil, nil)
		off.Ended(Elsewhere{}, End{})
		off.Close(ctx)
	}))
}

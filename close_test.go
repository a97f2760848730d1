package pawl_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A task that Close interrupts has not failed: it is sent again by the next
// Open, as the same attempt. One that ends in spite of Close is not.
func TestCloseInterruptsTasks(t *testing.T) {
	const runs = 20
	dir := t.TempDir()
	def := &workflow.Definition{
		Name: "close", Start: "split",
		Nodes:       []workflow.Node{{ID: "split"}, {ID: "stop", Task: "stop"}, {ID: "end", Task: "end"}},
		Transitions: []workflow.Transition{{From: "split", To: "stop"}, {From: "split", To: "end"}},
	}
	var begun sync.WaitGroup
	begun.Add(2 * runs)
	wait := func(ctx context.Context) {
		begun.Done()
		<-ctx.Done()
	}
	engine, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{
		"stop": func(ctx context.Context, _ pawl.Task) (any, error) { wait(ctx); return nil, ctx.Err() },
		"end":  func(ctx context.Context, _ pawl.Task) (any, error) { wait(ctx); return nil, nil },
	}})
	require.NoError(t, err)
	id := func(i int) workflow.RunID { return workflow.RunID(fmt.Sprint(i)) }
	for i := range runs {
		require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: id(i), Definition: def}, nil))
	}
	begun.Wait()
	require.NoError(t, engine.Close(t.Context()))

	var mu sync.Mutex
	again := map[string]int{}
	engine, err = pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{
		"*": func(_ context.Context, task pawl.Task) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			again[fmt.Sprint(task.Type, " ", task.Attempt)]++
			return nil, nil
		},
	}})
	require.NoError(t, err)
	for i := range runs {
		out, err := engine.Wait(t.Context(), id(i))
		require.NoError(t, err)
		require.NoError(t, out.Err())
	}
	require.NoError(t, engine.Close(t.Context()))
	require.Equal(t, map[string]int{"stop 1": runs}, again)
}

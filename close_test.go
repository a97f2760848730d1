package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

// A task that Close interrupts has not failed: it is sent again by the next
// Open, as the same attempt. A task that ends in spite of Close is not sent
// again.
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

// Close says what it waits for: in the log while it waits, and in its error when it gives up.
func TestCloseSaysWhatItWaitsFor(t *testing.T) {
	for place, want := range map[string]string{
		"task.begin":    `1 handlers have not returned: task "work" at node "work" of run "slow"`,
		"actor.load":    `1 runs compute or read: "slow"`,
		"commit.inside": "the disk does not answer",
		"close.actors":  "messages to runs are on their way",
	} {
		t.Run(place, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logged
				hook, gate := &testhook.Hook{}, make(chan struct{})
				ctx := testhook.With(t.Context(), hook)
				engine, err := pawl.Open(ctx, replays.Dir(t), pawl.Options{Logger: log.logger(), Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, nil }}})
				require.NoError(t, err)
				synctest.Wait() // the alarms have been looked at: who waits for a mutex stops the clock of the bubble
				hook.OnHit(func(point string) {
					if point == place {
						<-gate
					}
				})
				starting, cancel := context.WithCancel(ctx)
				go func() {
					_ = engine.Start(starting, workflow.Run{ID: "slow", Definition: define(t, oneTask)}, map[string]any{"n": 1})
				}()
				synctest.Wait()
				soon, done := context.WithTimeout(ctx, 35*time.Second)
				defer done()
				err = engine.Close(soon)
				var left *pawl.LeftBehindError
				if !errors.As(err, &left) {
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.EqualError(t, err, want+", the engine is still closing: "+context.DeadlineExceeded.Error())
				}
				require.Equal(t, 2, strings.Count(log.text.String(), `level=WARN msg="pawl: Close waits: `+strings.ReplaceAll(want, `"`, `\"`)+"\"\n"), log.text.String())
				close(gate)
				cancel()
				_ = engine.Close(t.Context())
			})
		})
	}
}

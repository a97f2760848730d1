package pawl_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// The executor of a branch is told that it is no longer wanted, by its context,
// once the join that cancels the rest has fired: the patterns 29, 32 and 35. With
// remaining: ignore it is left alone: 30 and 34.
func TestJoinsTellTheExecutor(t *testing.T) {
	fans := map[string]string{"29, 32": `spawnCount: 4`, "35": `foreach: {collection: "[0, 1, 2, 3]"}`}
	for name, fan := range fans {
		for remaining, want := range map[string]int{"cancel": 2, "ignore": 0} {
			t.Run(name+" "+remaining, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var mu sync.Mutex
					told := map[int]error{}
					left := make(chan struct{})
					e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"quote": func(ctx context.Context, task pawl.Task) (any, error) {
						if task.Branch.Index < 2 {
							return nil, nil
						}
						select {
						case <-ctx.Done():
							mu.Lock()
							defer mu.Unlock()
							told[task.Branch.Index] = context.Cause(ctx)
							return nil, ctx.Err()
						case <-left:
							return nil, nil
						}
					}}})
					d := define(t, fmt.Sprintf(`
name: w
start: s
nodes: [{id: s}, {id: a, task: quote}, {id: z}, {id: last, wait: {event: go}}]
transitions:
  - {from: s, to: a, %s, siblingGroup: g}
  - {from: a, to: z, synchronization: {siblingGroup: g, strategy: {mOfN: 2}, remaining: %s}}
  - {from: z, to: last}
`, fan, remaining))
					require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil))
					synctest.Wait()
					mu.Lock()
					require.Len(t, told, want)
					for _, cause := range told {
						require.ErrorContains(t, cause, "no longer wanted")
					}
					mu.Unlock()
					close(left)
					require.NoError(t, e.Signal(t.Context(), "r", workflow.Signal{Name: "go"}))
					out, err := e.Wait(t.Context(), "r")
					require.NoError(t, err)
					require.NoError(t, out.Err())
				})
			})
		}
	}
}

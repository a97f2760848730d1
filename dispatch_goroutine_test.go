package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

// goroutineName returns what tells the goroutine of its caller from others.
func goroutineName() string {
	text := make([]byte, 64)
	name, _, _ := strings.Cut(string(text[:runtime.Stack(text, false)]), " [")
	return name
}

// The tasks of a chain are performed by one goroutine, whatever they return, and by another one
// after a handler has ended it.
func TestAChainHasOneGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		at := map[string][]string{}
		handlers := pawl.Handlers{"*": func(_ context.Context, task pawl.Task) (any, error) {
			mu.Lock()
			at[goroutineName()] = append(at[goroutineName()], string(task.Node))
			mu.Unlock()
			<-time.After(time.Second) // the run has nothing else to do
			switch task.Type {
			case "fail":
				return nil, errors.New("no")
			case "panic":
				panic("no")
			case "goexit":
				runtime.Goexit()
			}
			return nil, nil
		}}
		e := open(t, t.TempDir(), pawl.Options{Executor: handlers})
		out, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: define(t, `
name: chain
start: a
nodes: [{id: a, task: work}, {id: b, task: fail}, {id: c, task: panic}, {id: d, task: goexit}, {id: e, task: work}, {id: f, task: work}]
transitions:
  - {from: a, to: b}
  - {from: b, to: c, outcome: error}
  - {from: c, to: d, outcome: error}
  - {from: d, to: e, outcome: error}
  - {from: e, to: f}
`)}, nil)
		require.NoError(t, err)
		require.Equal(t, workflow.RunCompleted, out.Status)
		require.Len(t, at, 2)
		for _, nodes := range at {
			require.Contains(t, [][]string{{"a", "b", "c", "d"}, {"e", "f"}}, nodes)
		}
	})
}

// Chains whose tasks have nothing to wait for take turns on one processor: none keeps it for many steps.
func TestChainsTakeTurns(t *testing.T) {
	const length = 200
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var order []workflow.RunID // on one processor, and under mu all the same
	var mu sync.Mutex
	e := open(t, t.TempDir(), pawl.Options{Durability: pawl.ProcessCrash, Executor: pawl.Handlers{"*": func(_ context.Context, task pawl.Task) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, task.Run)
		return nil, nil
	}}})
	d := &workflow.Definition{Name: "chain", Start: "n0"}
	for i := range length {
		id := workflow.NodeID(fmt.Sprint("n", i))
		d.Nodes = append(d.Nodes, workflow.Node{ID: id, Task: "t"})
		if i > 0 {
			d.Transitions = append(d.Transitions, workflow.Transition{From: d.Nodes[i-1].ID, To: id})
		}
	}
	runs := []workflow.RunID{"a", "b", "c"}
	for _, id := range runs {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: d}, nil))
	}
	for _, id := range runs {
		out, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, workflow.RunCompleted, out.Status)
	}
	switches := 0
	for i := range order[1:] {
		if order[i] != order[i+1] {
			switches++
		}
	}
	t.Log(switches, "switches")
	require.Greater(t, switches, length)
}

// Results that wait for a run which does something else have no goroutines, and none of them is lost or counts twice,
// also if the actor breaks that has them in its mailbox.
func TestResultsWaitWithoutGoroutines(t *testing.T) {
	for _, breaks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const branches = 100
			hook := &testhook.Hook{}
			var performed atomic.Int64
			e := openWith(t, hook, t.TempDir(), pawl.Options{Logger: slog.New(slog.DiscardHandler), Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) {
				performed.Add(1)
				<-time.After(time.Second) // until all have begun
				return 1, nil
			}}})
			def := define(t, `
name: fan
start: split
nodes: [{id: split}, {id: work, task: t}, {id: join}]
transitions:
  - {from: split, to: work, siblingGroup: g, foreach: {collection: input.items}}
  - {from: work, to: join, synchronization: {siblingGroup: g, merge: {target: state.results, strategy: collect}}}
output: {mapping: {results: state.results}}
`)
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, map[string]any{"items": make([]int, branches)}))
			gate := make(chan struct{})
			var turns atomic.Int64
			hook.OnTurn(func(string) {
				<-gate // in the turn of the first result
				if turns.Add(1) == 3 && breaks {
					panic("broken")
				}
			})
			<-time.After(2 * time.Second)
			synctest.Wait()
			require.EqualValues(t, branches, performed.Load())
			require.Less(t, runtime.NumGoroutine(), branches/2)
			close(gate)
			out, err := e.Wait(t.Context(), "r")
			require.NoError(t, err)
			require.Equal(t, workflow.RunCompleted, out.Status)
			require.Len(t, out.Output["results"], branches)
			require.EqualValues(t, branches, performed.Load(), "each result counts once")
		})
	}
}

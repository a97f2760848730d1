package pawl_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
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

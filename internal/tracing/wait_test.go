package tracing_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/spantest"
	"github.com/pawl-run/pawl/workflow"
)

// Many runs that wait for the same instant through a restart have a span of the wait each.
func TestManyWaitsThroughARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const runs = 400
		var p spantest.Provider
		dir := t.TempDir()
		o := pawl.Options{Durability: pawl.ProcessCrash}
		e := open(t, dir, &p, o)
		d := define(t, "name: w\nstart: a\nnodes: [{id: a, wait: {for: 30m}}]")
		for i := range runs {
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: d}, nil))
		}
		<-time.After(time.Minute)
		require.NoError(t, e.Close(t.Context()))
		e = open(t, dir, &p, o)
		<-time.After(time.Hour)
		require.NoError(t, e.Close(t.Context()))
		waits := p.Named("wait timer")
		require.Len(t, waits, runs)
		for i := range waits {
			require.Equal(t, 30*time.Minute, waits[i].End.Sub(waits[i].Begin))
		}
	})
}

// A run that ends while branches gather has a span of their join, and leaves nothing that a later run of its id could meet.
func TestARunEndsWhileBranchesGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p spantest.Provider
		e := open(t, t.TempDir(), &p, pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }}})
		gathers := define(t, `
name: gathers
start: split
nodes: [{id: split}, {id: work, task: work}, {id: done}]
transitions:
  - {from: split, to: work, siblingGroup: g, spawnCount: 3}
  - {from: work, to: done, synchronization: {siblingGroup: g}}
`)
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: gathers}, nil))
		<-time.After(time.Minute)
		require.NoError(t, e.Cancel(t.Context(), "r", ""))
		settle()
		join := p.Find(t, "join")
		require.Equal(t, time.Minute, join.End.Sub(join.Begin).Truncate(time.Second))
		require.NoError(t, e.Purge(t.Context(), "r"))
		d := define(t, "name: w\nstart: a\nnodes: [{id: a, wait: {event: go}}]")
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil))
		require.NoError(t, e.Cancel(t.Context(), "r", ""))
		settle()
		require.Len(t, p.Named("join"), 1)
		require.Len(t, p.Named("wait event"), 1)
	})
}

// A wait at the join of a node ends when that fires.
func TestAWaitAtAJoinEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p spantest.Provider
		e := open(t, t.TempDir(), &p, pawl.Options{})
		d := define(t, `
name: w
start: s
nodes: [{id: s}, {id: a, wait: {for: 1m}}, {id: b, wait: {for: 3m}}, {id: both, join: all}, {id: last, wait: {for: 1h}}]
transitions: [{from: s, to: a}, {from: s, to: b}, {from: a, to: both}, {from: b, to: both}, {from: both, to: last}]
`)
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil))
		<-time.After(10 * time.Minute)
		settle()
		join := p.Find(t, "wait join")
		require.Equal(t, 2*time.Minute, join.End.Sub(join.Begin).Truncate(time.Second))
	})
}

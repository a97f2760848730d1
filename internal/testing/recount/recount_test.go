package recount

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

const fan = `
name: fan
start: split
nodes: [{id: split}, {id: each, task: work}, {id: sum}]
transitions:
  - {from: split, to: each, spawnCount: 3, siblingGroup: g}
  - {from: each, to: sum, synchronization: {siblingGroup: g}}
`

func started(t *testing.T) *state.State {
	d, err := workflow.ParseYAML([]byte(fan))
	require.NoError(t, err)
	g, err := compiled.Compile(workflow.Bounds{}, d)
	require.NoError(t, err)
	s := state.NewState("r", g)
	plan, err := planning.Step(s, state.Start{}, time.UnixMilli(0))
	require.NoError(t, err)
	for _, c := range plan.Decisions {
		decision.Apply(s, c, &decision.Record{Seq: 1, At: time.UnixMilli(0)})
	}
	return s
}

func TestCheck(t *testing.T) {
	require.NoError(t, Check(started(t)))
	tests := []struct {
		name string
		hurt func(*state.Group)
	}{
		{"live", func(g *state.Group) { g.Live++ }},
		{"arrived", func(g *state.Group) { g.Arrived++ }},
		{"failed", func(g *state.Group) { g.Failed++ }},
		{"first", func(g *state.Group) { g.First-- }},
		{"origin", func(g *state.Group) { g.Origin = 99 }},
		{"total", func(g *state.Group) { g.Total = 2 }},
		{"started", func(g *state.Group) { g.Started = 4 }},
		{"unstarted", func(g *state.Group) { g.Unstarted = 1 }},
		{"bound", func(g *state.Group) { g.Max = 2 }},
		{"open", func(g *state.Group) { g.Open = true }},
		{"phase", func(g *state.Group) { g.Phase = workflow.Broken }},
		{"due", func(g *state.Group) { g.Phase, g.Due = workflow.Fired, time.UnixMilli(1) }},
	}
	for _, tt := range tests {
		s := started(t)
		tt.hurt(s.Group(1))
		require.Error(t, Check(s), tt.name)
	}
}

func TestInvariantsOfTokens(t *testing.T) {
	require.NoError(t, Invariants(started(t)))
	tests := []struct {
		name string
		hurt func(*state.Token)
	}{
		{"status", func(x *state.Token) { x.Status = workflow.Retrying }},
		{"ended", func(x *state.Token) { x.Status = workflow.Cancelled }},
		{"parent", func(x *state.Token) { x.Parent = x.ID }},
		{"scope", func(x *state.Token) { x.Scope.Branch = 3 }},
		{"held", func(x *state.Token) { x.Held = true }},
		{"holds", func(x *state.Token) { x.Holds = "lock" }},
		{"via", func(x *state.Token) { x.Status = workflow.WaitingForSiblings }},
		{"base", func(x *state.Token) { x.Base = x.Attempt + 1 }},
	}
	for _, tt := range tests {
		s := started(t)
		tt.hurt(s.Token(2))
		require.Error(t, Invariants(s), tt.name)
	}
}

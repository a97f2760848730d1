package inspector_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

// The page of a definition says at each transition how many of the last runs took it, and lists those that none did; runs of
// another version do not count.
func TestTransitionsTaken(t *testing.T) {
	s := openShop(t)
	const routes = "name: routes\nstart: a\nnodes: [{id: a}, {id: b, wait: {event: go}}, {id: c}, {id: d}]\n" +
		"transitions: [{id: low, from: a, to: b, condition: input.n < 10}, {id: high, from: a, to: c, priority: 1}, {id: done, from: b, to: d}]\n"
	s.start("old", "version: 1\n"+routes, map[string]any{"n": 1})
	for id, n := range map[workflow.RunID]int{"r-1": 1, "r-2": 2, "r-3": 50} {
		s.start(id, "version: 2\n"+routes, map[string]any{"n": n})
	}
	page := s.see("definitions?workflow=routes")
	text := textOf(t, page)
	require.Contains(t, text, "how many of 3 runs took them")
	require.Contains(t, text, "in 2 runs")
	require.Contains(t, text, "in one run")
	require.Contains(t, text, "4 of 4 runs", "of the older version too: its nodes count")
	require.Contains(t, page, `class="edge share-3"><title>a to b`)
	require.Contains(t, page, `class="edge share-2"><title>a to c`)
	require.Contains(t, text, "Never taken done")
	require.Contains(t, page, `class="edge never"><title>b to d: taken in no run`)

	require.NoError(t, s.engine.Signal(t.Context(), "r-1", workflow.Signal{Name: "go"}))
	_, err := s.engine.Wait(t.Context(), "r-1")
	require.NoError(t, err)
	require.NotContains(t, textOf(t, s.see("definitions?workflow=routes")), "Never taken")
}

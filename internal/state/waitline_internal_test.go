package state

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/workflow"
)

// A line whose length hovers is not looked at whole each time something is added, wherever it hovers, and one with stale spots does
// not grow without end.
func TestALineThatHovers(t *testing.T) {
	g, err := compiled.Compile(workflow.Bounds{}, &workflow.Definition{Name: "w", Start: "a", Nodes: []workflow.Node{{ID: "a", Task: "t"}}})
	require.NoError(t, err)
	for _, n := range []int{1000, 1023, 1024, 1025, 2048} {
		s, k, asked, at := NewState("r", g), WaitKey{Kind: LineEvent, Name: "x"}, 0, int64(0)
		fresh := func(p spot) bool { asked++; return p.order > at-int64(n) }
		for range 20 * n {
			at++
			s.addToLine(k, spot{order: at}, fresh)
			s.trimLine(k, fresh)
		}
		require.Less(t, asked, 20*n*8, "%d", n)
		require.LessOrEqual(t, len(s.waiting[k]), n+1)
	}
}

// A plan in which one token after the other waits and goes on looks at few stale spots for each, and a loop over a line misses none
// that is fresh while others are added.
func TestALineOfAnOverlay(t *testing.T) {
	g, err := compiled.Compile(workflow.Bounds{}, &workflow.Definition{Name: "w", Start: "a", Nodes: []workflow.Node{{ID: "a", Task: "t"}}})
	require.NoError(t, err)
	s, k := NewState("r", g).Overlay(), WaitKey{Kind: LineEvent, Name: "x"}
	for at := range int64(10_000) {
		s.addToLine(k, spot{order: at, id: 1}, func(p spot) bool { return p.order == at })
		require.LessOrEqual(t, len(s.waiting[k]), 64)
	}
	last, odd := int64(10_000), func(p spot) bool { return p.order%2 == 1 }
	for range 100 {
		s.addToLine(k, spot{order: last, id: 1}, odd)
		last++
	}
	var want, got []int64
	for _, p := range s.waiting[k] {
		want = append(want, p.order)
	}
	for p := range s.spotsOf(k) {
		got = append(got, p.order)
		for range 10 {
			s.addToLine(k, spot{order: last, id: 1}, odd)
			last++
		}
	}
	require.Equal(t, want, got)
}

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

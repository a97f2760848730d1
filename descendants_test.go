package pawl

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

// Children are purged before the run above them: after a crash in between, the run is
// there still, by which alone they can be purged.
func TestChildrenArePurgedFirst(t *testing.T) {
	e, err := Open(t.Context(), t.TempDir(), Options{})
	require.NoError(t, err)
	definition := func(name, calls string) *workflow.Definition {
		n := workflow.Node{ID: "n"}
		if calls != "" {
			n.Subworkflow = &workflow.SubworkflowSpec{Name: calls}
		}
		return &workflow.Definition{Name: name, Start: "n", Nodes: []workflow.Node{n}}
	}
	publish(t, e, definition("leaf", ""))
	publish(t, e, definition("middle", "leaf"))
	_, err = e.Run(t.Context(), workflow.Run{ID: "top", Definition: definition("top", "middle")}, nil)
	require.NoError(t, err)
	top := doomed{root: "top"}
	require.NoError(t, e.lookAtDoomed(t.Context(), []*doomed{&top}))
	require.NoError(t, top.err)
	runs, _ := lowestFirst([]*doomed{&top})
	var ids []workflow.RunID
	for _, m := range runs {
		ids = append(ids, m.Head.Run)
	}
	require.Equal(t, []workflow.RunID{"top/1.1/1.1", "top/1.1", "top"}, ids)
	require.NoError(t, e.Close(context.Background()))
}

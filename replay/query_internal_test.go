package replay

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// Runs that take more room than there is are refused whole, and those before them still answer.
func TestQueryIsBounded(t *testing.T) {
	d, err := workflow.ParseYAML([]byte("name: full\nstart: a\nnodes: [{id: a, task: work}]\n"))
	require.NoError(t, err)
	g, err := compiled.Compile(workflow.Bounds{}, d)
	require.NoError(t, err)
	of := func(id workflow.RunID, text string) *Recording {
		r := decision.Record{Seq: 1, Planner: planning.Version, Message: state.Start{Input: map[string]any{"text": text}}}
		plan, err := planning.Step(state.NewState(id, g), r.Message, r.At)
		require.NoError(t, err)
		r.Decisions = plan.Decisions
		return New(id, g, func(yield func(decision.Record, error) bool) { yield(r, nil) })
	}
	q, err := NewQuery(`SELECT count(*) FROM runs WHERE input <> ''`)
	require.NoError(t, err)
	require.NoError(t, q.db.Script(`PRAGMA max_page_count=40`))
	require.NoError(t, q.Add(of("small", "x")))
	require.ErrorIs(t, q.Add(of("large", strings.Repeat("x", 200<<10))), ErrQueryFull)
	require.NoError(t, q.Add(of("other", "y")))
	n := int64(0)
	require.NoError(t, q.Answer(t.Context(), func([]string) error { return nil }, func(values []any) error {
		n = values[0].(int64)
		return nil
	}))
	require.EqualValues(t, 2, n)
	require.NoError(t, q.Close())
}

package pawl_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A signal of a name that nobody waits for is refused, with the names that there are.
func TestUnknownSignals(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{}})
	start := func(id workflow.RunID, yaml string) {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: define(t, yaml)}, nil))
	}
	start("w", "name: w\nstart: w\nsignals: [noted]\nnodes: [{id: w, wait: {any: [{event: paid}, {event: refused}]}}]\n")
	start("mute", "name: w\nstart: w\nnodes: [{id: w, wait: {for: 1h}}]\n")

	err := e.Signal(t.Context(), "w", workflow.Signal{Name: "payd"})
	require.EqualError(t, err, `run "w" has no signal "payd" (did you mean "paid"?): there are ["noted" "paid" "refused"]: `+
		`declare it in signals, or send it as early if a patch will add a node`)
	var unknown *workflow.SignalError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, &workflow.SignalError{Run: "w", Name: "payd", Known: []string{"noted", "paid", "refused"}}, unknown)
	require.Equal(t, 400, pawl.HTTPStatus(err))
	require.EqualError(t, e.Signal(t.Context(), "mute", workflow.Signal{Name: "go"}),
		`run "mute" has no signal "go": no node of its definition waits for any: declare it in signals, or send it as early if a patch will add a node`)

	require.NoError(t, e.Signal(t.Context(), "mute", workflow.Signal{Name: "go", Transient: true}))
	lost := false
	for ev, err := range e.Events(t.Context(), "mute", pawl.EventsOptions{}) {
		require.NoError(t, err)
		lost = lost || ev.Type == workflow.EventSignalLost
	}
	require.True(t, lost, "it is told")

	require.NoError(t, e.Signal(t.Context(), "w", workflow.Signal{Name: "noted"}))
	require.NoError(t, e.Signal(t.Context(), "w", workflow.Signal{Name: "payd", Early: true}))
	require.NoError(t, e.Signal(t.Context(), "w", workflow.Signal{Name: "paid"}))
	out, err := e.Wait(t.Context(), "w")
	require.NoError(t, err)
	require.Equal(t, workflow.RunCompleted, out.Status)
}

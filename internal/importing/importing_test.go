package importing

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// none has no definitions.
type none struct{}

func (none) Graph(string) (*compiled.Graph, error) { return nil, store.ErrCorrupt }

// A subworkflow that is missing is named as the definition does, with what publishes it.
func TestMissingSubworkflow(t *testing.T) {
	g, err := compiled.Compile(workflow.Bounds{}, workflow.MustParse([]byte("name: top\nstart: a\nnodes: [{id: a, subworkflow: {name: leaf}}]\n")))
	require.NoError(t, err)
	for want, pin := range map[string]state.Pin{
		"needs the subworkflow leaf@2 with the hash 0123456789ab: publish it here, as with pawl publish":                           {Name: "leaf", Version: 2, Hash: "0123456789abcdef"},
		"needs the subworkflow leaf, as its latest version was, with the hash 0123456789ab: publish it here, as with pawl publish": {Name: "leaf", Hash: "0123456789abcdef"},
	} {
		err := CheckState(&state.State{Graph: g, Facts: state.Facts{Pins: state.Pins{pin}}}, workflow.Bounds{}, none{})
		require.ErrorIs(t, err, refusal.ErrInvalid)
		require.ErrorContains(t, err, want)
	}
}

// An import whose context has ended plans no further record.
func TestReadEndsWithItsContext(t *testing.T) {
	g, err := compiled.Compile(workflow.Bounds{}, workflow.MustParse([]byte("name: a\nstart: a\nnodes: [{id: a, task: t}]\n")))
	require.NoError(t, err)
	at := time.UnixMilli(1_700_000_000_000).UTC()
	plan, err := planning.Step(state.NewState("r", g), state.Start{}, at)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	read := int64(0)
	_, err = Read(ctx, replay.New("r", g, func(yield func(decision.Record, error) bool) {
		for read = 1; yield(decision.Record{Seq: read, At: at, Planner: planning.Version, Message: state.Start{}, Decisions: plan.Decisions}, nil) && read < 9; read++ {
			cancel()
			plan.Decisions = nil
		}
	}), nil)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, `import run "r": context canceled`)
	require.EqualValues(t, 2, read)
}

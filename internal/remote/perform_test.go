package remote_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/workflow"
)

// A worker fails a task whose result is too large, or too deep, with the code that the engine's process has for it, and keeps the metadata.
func TestResultsThatAWorkerCannotSend(t *testing.T) {
	deep := json.RawMessage(strings.Repeat("[", 200) + strings.Repeat("]", 200))
	for name, tt := range map[string]struct {
		output any
		code   string
	}{
		"huge":     {strings.Repeat("x", 20<<20), workflow.CodeResultTooLarge},
		"reader":   {strings.NewReader(strings.Repeat(" ", 20<<20)), workflow.CodeResultTooLarge},
		"deep":     {deep, workflow.CodeLimit},
		"not JSON": {json.RawMessage("{"), workflow.CodeInvalidResult},
	} {
		handlers := pawl.Handlers{"a": func(context.Context, pawl.Task) (any, error) {
			return pawl.Result{Output: tt.output, Metadata: map[string]any{"cost": 2}}, nil
		}}
		remote.Performer{Handlers: handlers}.PerformTask(t.Context(), pawl.Task{Type: "a"}, func(_ any, err error) {
			m := remote.NewCompletion(pawl.Task{}, nil, err)
			require.Equal(t, tt.code, m.Error.Code, name)
			require.False(t, *m.Error.Retryable, name)
			require.JSONEq(t, `{"cost": 2}`, string(m.Metadata), name)
		})
	}
	require.Equal(t, workflow.CodeLimit, remote.NewCompletion(pawl.Task{}, deep, nil).Error.Code)
}

package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/workflow"
)

// An answer leaves out what its caller may not see, and the answers to others keep it.
func TestAnEventIsShownByACopy(t *testing.T) {
	data := func() map[string]any {
		return map[string]any{"key": "k", "message": "at 4111", "error": map[string]any{"code": "closed", "message": "at 4111"}}
	}
	e := history.Event{Type: workflow.EventTaskRetrying, Data: data()}
	v := &viewer{rights: View | Values}
	require.NotContains(t, v.eventOf(&e).Data, "key")
	v.redact = func(_ workflow.RunID, _ string, x any) any { return x }
	require.Equal(t, map[string]any{"error": map[string]any{"code": "closed"}}, v.eventOf(&e).Data)
	require.Equal(t, data(), e.Data)
}

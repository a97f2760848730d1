package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

// An error in the match of a wait may quote the payload of a signal. Callers who may not see values do not see it either.
func TestWhyHidesTheErrorOfAMatch(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	def := parse(t, "name: w\nstart: a\nnodes: [{id: a, wait: {event: go, match: \"{'x': true}[payload.card]\"}}]\n")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "w", Definition: def}, nil))
	require.NoError(t, e.Signal(t.Context(), "w", workflow.Signal{Name: "go", Payload: map[string]any{"card": "4111"}}))
	for name, o := range map[string]api.Options{
		"view":   {Identify: everybody(api.View)},
		"redact": {Identify: everybody(api.View | api.Values), Redact: func(workflow.RunID, string, any) any { return "***" }},
		"all":    {Identify: everybody(api.View | api.Values)},
	} {
		h := api.Handler(e, o)
		for _, path := range []string{"/v1/runs/w/why", "/v1/runs/w/why?at=2"} {
			status, body := get(t, h, path)
			require.Equal(t, http.StatusOK, status)
			require.Contains(t, body, "did not match", name)
			if name == "all" {
				require.Contains(t, body, "no such key: 4111")
			} else {
				require.NotContains(t, body, "4111", "%s %s", name, path)
			}
		}
	}
}

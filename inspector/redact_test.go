package inspector_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/workflow"
)

// Pages that tell why an act is refused quote values of the run only to readers who may see them.
func TestNoValueIsInARefusal(t *testing.T) {
	s := openShop(t)
	card := map[string]any{"card": "4111"}
	s.start("pay-1", "name: pay\nstart: a\nnodes: [{id: a, task: f, output: {state.t: timestamp(input.card)}, retry: {maxAttempts: 1, exhausted: park}}]\n", card)
	s.start("send-1", "name: send\nstart: a\nnodes: [{id: a, task: f, input: {x: input.card}, retry: {maxAttempts: 1, exhausted: park}}]\n", card)
	for _, id := range []workflow.RunID{"pay-1", "send-1"} {
		require.NoError(t, s.engine.Fail(t.Context(), s.key(id, "a"), pawl.TaskError{Code: "boom", Message: "at 4222"}))
	}
	patch := pawl.Patch{Base: 1, Ops: []any{map[string]any{"op": "replace", "path": "/nodes/a/input/x", "value": "timestamp(input.card)"}}}
	require.NoError(t, s.engine.Do(t.Context(), "send-1", patch))

	redacted := as("ann", api.All)
	redacted.Redact = func(workflow.RunID, string, any) any { return "***" }
	for name, o := range map[string]inspector.Options{"no values": as("ann", api.View|api.Act), "redacted": redacted, "all": as("ann", api.All)} {
		ann := s.serve(o)
		check := func(what string, status int, page string) {
			t.Helper()
			page = textOf(t, page)
			require.NotEqual(t, http.StatusSeeOther, status, what)
			require.Contains(t, page, "expression_error", "%s: %s", name, what)
			require.Equal(t, name == "all", strings.Contains(page, "4111"), "%s: %s: %s", name, what, page)
		}
		for _, address := range []string{"act?do=skip&target=1+pay-1", "act?do=retry&target=1+send-1", "act?all=letters&do=skip&where=workflow+%3D%3D+'pay'", "run/pay-1?view=whatif&do=skip&on=1&value="} {
			if name == "no values" && strings.Contains(address, "whatif") {
				continue // who sees no values tries nothing
			}
			status, page := ann.get(address)
			if name == "no values" && strings.Contains(address, "do=skip") {
				require.Contains(t, textOf(t, page), "Not tried: what would come of it is shown to those alone who may see values.", address)
				require.NotContains(t, page, "formmethod", "nothing else would be shown")
				continue
			}
			check(address, status, page)
		}
		for _, form := range []url.Values{
			{"do": {"skip"}, "target": {"1 pay-1"}, "reason": {"x"}}, {"do": {"retry"}, "target": {"1 send-1"}, "reason": {"x"}},
			{"do": {"skip"}, "all": {"letters"}, "where": {"workflow == 'pay'"}, "reason": {"x"}},
		} {
			status, page, _ := ann.post("act", form, "same-origin")
			check(form.Encode(), status, page)
		}
	}
}

// The events of a run that failed for a failure which it had caught do not quote that one where values are redacted.
func TestACauseIsRedacted(t *testing.T) {
	s := openShop(t)
	s.start("gone-1", "name: gone\nstart: a\nnodes: [{id: a, task: f}, {id: z, end: {fail: gone}}]\ntransitions: [{from: a, to: z, outcome: error}]\n", nil)
	require.NoError(t, s.engine.Fail(t.Context(), s.key("gone-1", "a"), pawl.TaskError{Code: "boom", Message: "at 4222"}))
	redacted := as("ann", api.All)
	redacted.Redact = func(_ workflow.RunID, _ string, v any) any { return v }
	require.Contains(t, textOf(t, s.see("run/gone-1?view=events")), `"cause":{`)
	for _, o := range []inspector.Options{redacted, as("ann", api.View)} {
		reader := s.serve(o)
		for _, address := range []string{"run/gone-1?view=events", "run/gone-1", "run/gone-1?view=journal", "run/gone-1?view=why", ""} {
			require.NotContains(t, textOf(t, reader.see(address)), "4222", address)
		}
	}
	page := textOf(t, s.serve(redacted).see("run/gone-1?view=events"))
	require.Contains(t, page, `"code":"gone"`)
}

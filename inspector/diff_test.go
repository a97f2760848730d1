package inspector_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/workflow"
)

// Two runs are compared by where they part.
func TestDiff(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	s.start("order-2", order, map[string]any{"amount": 8, "files": []string{"a", "b", "c"}})
	require.NoError(t, s.engine.Fail(t.Context(), s.key("order-2", "quote"), pawl.TaskError{Code: "busy"}))
	diff := textOf(t, s.see("diff?a=order-1&b=order-2"))
	require.Contains(t, diff, "They decide the same 0 times, and part at quote . The first value that differs: input.amount")
	require.Contains(t, diff, "Only here: split load")
	require.Contains(t, s.see("run/order-1?view=family"), `action="../diff"`)
	redacted := as("ann", api.All)
	redacted.Redact = func(_ workflow.RunID, _ string, v any) any { return v }
	for _, o := range []inspector.Options{as("ann", api.View|api.Act), redacted} {
		reader := s.serve(o)
		status, page := reader.get("diff?a=order-1&b=order-2")
		require.Equal(t, 403, status, "whether two values are the same tells what they are, one run after the other")
		require.NotContains(t, textOf(t, page), "amount")
		require.NotContains(t, textOf(t, reader.see("run/order-1?view=family")), "Compare")
	}
	status, _ := s.get("diff?a=order-1&b=nobody")
	require.Equal(t, 404, status)
	for _, address := range []string{"diff", "diff?a=order-1", "diff?a=order-1&b="} {
		ask := s.see(address)
		require.Contains(t, textOf(t, ask), "One run The other one Compare")
		require.Equal(t, address != "diff", strings.Contains(ask, `value="order-1"`))
		require.NotContains(t, textOf(t, ask), "They decide the same")
	}
}

// A run is forked from any of its records.
func TestFork(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	ann := s.serve(as("ann", api.All))
	require.Contains(t, ann.see("run/order-1?at=2"), "act?at=2&amp;do=fork")
	require.Contains(t, textOf(t, ann.see("act?do=fork&target=0+order-1&at=2")), "as this one was after record 2")
	form := url.Values{"do": {"fork"}, "target": {"0 order-1"}, "at": {"2"}, "reason": {"what if"}}
	status, body, _ := ann.post("act", form, "same-origin")
	require.Equal(t, 400, status)
	require.Contains(t, textOf(t, body), "the new run has an id")
	form.Set("name", "order-1b")
	status, _, header := ann.post("act", form, "same-origin")
	require.Equal(t, 303, status)
	require.Contains(t, textOf(t, ann.see(header.Get("Location"))), "It is done: this is the new run.")
	require.Contains(t, textOf(t, ann.see("run/order-1b")), "3 running")
	require.Contains(t, textOf(t, ann.see("run/order-1?view=family")), "order-1b")
}

// Runs are found by what they are about.
func TestLabels(t *testing.T) {
	s := openShop(t)
	for id, customer := range map[workflow.RunID]string{"order-1": "7", "order-2": "8"} {
		d := parse(t, order)
		run := workflow.Run{ID: id, Definition: d, Labels: map[string]string{"customer": customer, "kind": "a b"}}
		require.NoError(t, s.engine.Start(t.Context(), run, map[string]any{"amount": 1, "files": []string{}}))
	}
	page := textOf(t, s.see("runs?"+url.Values{"labels": {`customer=7, kind=a b`}}.Encode()))
	require.Regexp(t, "order-1 .*customer=7", page)
	require.NotContains(t, page, "order-2")
	status, _ := s.get("runs?labels=nonsense")
	require.Equal(t, 400, status)
}

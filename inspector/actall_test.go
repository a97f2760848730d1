package inspector_test

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// hiddenField finds the hidden fields of a form.
var hiddenField = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)">`)

// formOf returns what the forms of a page would send.
func formOf(page string) url.Values {
	out := url.Values{}
	for _, m := range hiddenField.FindAllStringSubmatch(page, -1) {
		if m[1] == "return" { // of the form that changes the colours
			continue
		}
		out.Add(m[1], html.UnescapeString(m[2]))
	}
	return out
}

// All runs that fit the filter of a list can be changed: the act is counted and tried first, done to a few if the
// reader says so, and goes on from where it came to; other runs stay as they are.
func TestActOnAllRunsOfAFilter(t *testing.T) {
	s := openShop(t)
	const waits = "name: waits\nstart: w\nnodes: [{id: w, wait: {event: go}}]\n"
	for i := range 5 {
		s.start(workflow.RunID(fmt.Sprint("w-", i)), waits, nil)
	}
	s.start("other", "name: other\nstart: w\nnodes: [{id: w, wait: {event: go}}]\n", nil)
	ann := s.serve(as("ann", api.All))
	before := s.journals()

	list := ann.see("runs?workflow=waits&status=running")
	require.Contains(t, list, `href="act?all=1&amp;do=pause&amp;status=running&amp;workflow=waits"`)
	require.NotContains(t, s.see("runs?workflow=waits"), "all=1", "of who may only look")
	require.NotContains(t, ann.see("runs?status=failed&status=completed"), "all=1", "of runs that have ended")

	asks := ann.see("act?all=1&do=pause&status=running&workflow=waits")
	require.Contains(t, textOf(t, asks), "Pause all 5 runs?")
	require.Contains(t, textOf(t, asks), "Those are the runs that are of the workflow waits, and are running, and have not ended.")
	require.Contains(t, textOf(t, asks), "w-4 : the run would be paused")
	require.Equal(t, before, s.journals())

	form := formOf(asks)
	require.Equal(t, url.Values{"do": {"pause"}, "all": {"1"}, "workflow": {"waits"}, "status": {"running"}}, form)
	status, body, _ := ann.post("act", form, "same-origin")
	require.Equal(t, 400, status)
	require.Contains(t, textOf(t, body), "say why")
	form.Set("reason", "the bank is down")
	form.Set("most", "2")
	status, _, _ = ann.post("act", form, "cross-site")
	require.Equal(t, 403, status)
	require.Equal(t, before, s.journals())

	status, body, _ = ann.post("act", form, "same-origin")
	require.Equal(t, 200, status)
	require.Contains(t, textOf(t, body), "2 paused")
	require.Contains(t, textOf(t, body), "which began after w-1")
	require.NoError(t, s.engine.Cancel(t.Context(), "w-4", "meanwhile"))
	form = formOf(body)
	require.Equal(t, url.Values{"do": {"pause"}, "all": {"1"}, "workflow": {"waits"}, "status": {"running"}, "reason": {"the bank is down"}, "by": {"ann"}, "cursor": {"w-1"}, "changed": {"2"}}, form)
	status, _, header := ann.post("act", form, "same-origin")
	require.Equal(t, 303, status)
	require.Contains(t, textOf(t, ann.see(header.Get("Location"))), "It is done: 4 paused.")
	require.Equal(t, state.Act{By: "ann", Reason: "the bank is down"}, s.last("w-3"))
	overview, err := s.engine.Overview(t.Context(), "other")
	require.NoError(t, err)
	require.Equal(t, workflow.RunRunning, overview.Status)

	status, body = ann.get("act?all=1&do=pause&status=running&workflow=waits")
	require.Equal(t, 400, status)
	require.Contains(t, textOf(t, body), "no run that has not ended is chosen")
}

// Runs that refuse what is done to all are told, with why; the others are changed.
func TestRefusalsOfAllRunsOfAFilter(t *testing.T) {
	s := openShop(t)
	s.start("hears", "name: hears\nstart: w\nnodes: [{id: w, wait: {event: go}}]\n", nil)
	s.start("deaf", "name: deaf\nstart: w\nnodes: [{id: w, task: w}]\n", nil)
	ann := s.serve(as("ann", api.All))
	asks := ann.see("act?all=1&do=signal&where=true&name=go")
	require.Contains(t, textOf(t, asks), "It would be refused")
	require.Contains(t, asks, `<option value="go">`)
	form := formOf(asks)
	form.Set("name", "go")
	form.Set("reason", "they were paid")
	status, body, _ := ann.post("act", form, "same-origin")
	require.Equal(t, 409, status)
	require.Contains(t, textOf(t, body), "1 signalled, 1 refused")
	require.Regexp(t, `href="run/deaf"`, body)
	require.NotContains(t, body, "Go on with the rest")

	for _, wrong := range []string{"do=retry&all=1", "do=pause&all=1&where=status+%3D", "do=pause&all=1&most=-1", "do=pause&all=1&status=odd", "do=pause&all=1&cursor=nobody", "do=pause&all=1&labels=x"} {
		status, _ := ann.get("act?" + wrong)
		require.GreaterOrEqual(t, status, 400, wrong)
		require.Less(t, status, 500, wrong)
	}
}

// A step that finds no run to change does not say that it is done, and one whose run to begin after was purged does not
// offer what would be refused for ever.
func TestRunsThatEndBetweenTheSteps(t *testing.T) {
	s := openShop(t)
	for i := range 3 {
		s.start(workflow.RunID(fmt.Sprint("w-", i)), "name: waits\nstart: w\nnodes: [{id: w, wait: {event: go}}]\n", nil)
	}
	ann := s.serve(as("ann", api.All))
	form := formOf(ann.see("act?all=1&do=cancel&workflow=waits"))
	form.Set("reason", "they are closed")
	form.Set("most", "2")
	status, body, _ := ann.post("act", form, "same-origin")
	require.Equal(t, 200, status)
	require.NoError(t, s.engine.Purge(t.Context(), "w-1"))
	status, body, _ = ann.post("act", formOf(body), "same-origin")
	require.Equal(t, 409, status)
	require.Contains(t, textOf(t, body), "2 cancelled the run w-1, up to which it was done, was purged meanwhile")
	require.NotContains(t, body, "Go on")
	require.Contains(t, body, `href="runs?workflow=waits"`)

	require.NoError(t, s.engine.Cancel(t.Context(), "w-2", "meanwhile"))
	status, body, _ = ann.post("act", form, "same-origin")
	require.Equal(t, 200, status)
	require.Contains(t, textOf(t, body), "0 cancelled")
	require.NotContains(t, textOf(t, body), "It is done")
	require.NotContains(t, body, "Go on")
}

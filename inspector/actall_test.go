package inspector_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

// hiddenField finds the hidden fields of a form.
var hiddenField = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)">`)

// formOf returns what the forms of a page would send, but for what they draw or take from a clock. A form without a name is done each time.
func formOf(page string) url.Values {
	out := wholeFormOf(page)
	out.Del("once")
	out.Del("asked")
	return out
}

// wholeFormOf returns what the forms of a page would send.
func wholeFormOf(page string) url.Values {
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
	shown := []string{"0 w-0", "0 w-1", "0 w-2", "0 w-3", "0 w-4"}
	require.Equal(t, url.Values{"do": {"pause"}, "all": {"1"}, "workflow": {"waits"}, "status": {"running"}, "counted": {"5"}, "shown": shown}, form)
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
	require.Equal(t, url.Values{"do": {"pause"}, "all": {"1"}, "workflow": {"waits"}, "status": {"running"}, "reason": {"the bank is down"}, "by": {"ann"}, "cursor": {"w-1"}, "changed": {"2"}, "counted": {"3"}, "shown": shown}, form)
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

// askFor starts runs that ask for an approval.
func (s *shop) askFor(ids ...workflow.RunID) {
	for _, id := range ids {
		s.start(id, "name: asks\nstart: w\nnodes: [{id: w, approval: {message: go}}]\n", nil)
	}
}

// Nothing is done to a request that has come after the page was made that asked. If the page does not show each, it asks again, also if as many
// have gone meanwhile, but not for a step of no more than it has said. That fewer are left is no reason to ask again.
func TestActOnAllAsksAgainForMore(t *testing.T) {
	s := openShop(t)
	s.askFor("a", "b", "c", "d", "e", "f")
	ann := s.serve(as("ann", api.All))
	asks := ann.see("act?all=approvals&do=approve")
	require.Contains(t, textOf(t, asks), "If more are like that when it is sent, it asks again, unless you say to how many of them.")
	form := wholeFormOf(asks)
	form.Set("reason", "fine")
	s.askFor("g", "h")
	before := s.journals()
	status, page, _ := ann.post("act", form, "same-origin")
	require.Equal(t, 409, status)
	require.Contains(t, textOf(t, page), "Approve all 8 requests?")
	require.Contains(t, textOf(t, page), "there are more now than this page said, or others: nothing more was done")
	require.Contains(t, page, `name="reason" value="fine"`)
	require.Equal(t, before, s.journals())

	form.Set("most", "7")
	status, _, _ = ann.post("act", form, "same-origin")
	require.Equal(t, 409, status, "seven are more than the page has said")
	require.Equal(t, before, s.journals())
	form.Set("most", "2")
	status, page, _ = ann.post("act", form, "same-origin")
	require.Equal(t, 200, status, page)
	require.Contains(t, textOf(t, page), "2 approved")
	require.NotContains(t, s.journals(), "b running")
	require.Equal(t, before["c running"], s.journals()["c running"])

	form = wholeFormOf(page)
	require.Equal(t, "4", form.Get("counted"))
	status, page, _ = ann.post("act", form, "same-origin")
	require.Equal(t, 409, status, "the rest are six, and four were counted")
	require.Contains(t, textOf(t, page), "Approve all 6 requests?")
	form = wholeFormOf(page)
	form.Set("reason", "fine")
	vote := pawl.Vote{Target: pawl.Target{Token: 1}, By: "bob", Approved: true}
	require.NoError(t, s.engine.Do(t.Context(), "c", vote))
	status, _, header := ann.post("act", form, "same-origin")
	require.Equal(t, 303, status)
	require.Contains(t, textOf(t, ann.see(header.Get("Location"))), "It is done: 7 approved.")
}

// Requests that a page shows one by one are told apart from those that come later, which are left out, also in a step for a part of them.
func TestActOnAllLeavesRequestsOutThatItHasNotShown(t *testing.T) {
	s := openShop(t)
	s.start("a", "name: later\nstart: v\nnodes: [{id: v, wait: {event: go}}, {id: w, approval: {message: go}}]\ntransitions: [{from: v, to: w}]\n", nil)
	s.askFor("b", "c", "d")
	ann := s.serve(as("ann", api.All))
	asks := ann.see("act?all=approvals&do=approve")
	require.Contains(t, textOf(t, asks), "Requests that are made meanwhile are left out.")
	form := wholeFormOf(asks)
	form.Set("reason", "fine")
	form.Set("most", "2")
	require.NoError(t, s.engine.Do(t.Context(), "a", pawl.Signal{Name: "go"})) // the oldest run asks last
	s.askFor("e")
	before := s.journals()
	status, page, _ := ann.post("act", form, "same-origin")
	require.Equal(t, 200, status, page)
	require.Contains(t, textOf(t, page), "2 approved")
	status, page, header := ann.post("act", wholeFormOf(page), "same-origin")
	require.Equal(t, 303, status, page)
	list := textOf(t, ann.see(header.Get("Location")))
	require.Contains(t, list, "It is done: 3 approved.")
	require.Equal(t, before["a running"], s.journals()["a running"])
	require.Equal(t, before["e running"], s.journals()["e running"])

	form.Set("once", "another")
	for range 3 {
		form.Add("shown", "1 x")
	}
	status, page, _ = ann.post("act", form, "same-origin")
	require.Equal(t, 400, status)
	require.Contains(t, textOf(t, page), "a page shows 5 of them, not 6")
}

// Tasks that are parked after the page was made that asked are left out, so that others can be tried again while a service is down.
func TestActOnAllLeavesTasksOutThatAreParkedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: later{}})
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close(context.Background())) }()
		key := func(id workflow.RunID) pawl.Key {
			for token, err := range e.Tokens(t.Context(), id, pawl.TokenFilter{}) {
				require.NoError(t, err)
				return token.Key
			}
			return ""
		}
		n := 0
		park := func() {
			<-time.After(time.Second)
			n++
			id := workflow.RunID(fmt.Sprint("pay-", n))
			d := parse(t, "name: pay\nstart: a\nnodes: [{id: a, task: f, retry: {maxAttempts: 1, exhausted: park}}]\n")
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: d}, nil))
			require.NoError(t, e.Fail(t.Context(), key(id), pawl.TaskError{Code: "boom", Message: "x"}))
		}
		parked := func() (ids []workflow.RunID) {
			for l, err := range e.DeadLetters(t.Context(), pawl.DeadLetterFilter{}) {
				require.NoError(t, err)
				ids = append(ids, l.Run)
			}
			return ids
		}
		for range 7 {
			park()
		}
		ask := askDirectly(t, e)
		_, page, _ := ask("act?all=letters&do=retry", nil)
		require.Contains(t, textOf(t, page), "Retry all 7 parked tasks?")
		require.Contains(t, textOf(t, page), "Tasks that are parked meanwhile are left out.")
		form := wholeFormOf(page)
		form.Set("reason", "it is up")
		form.Set("most", "3")
		park()
		status, page, _ := ask("act", form)
		require.Equal(t, http.StatusOK, status, page)
		require.Equal(t, []workflow.RunID{"pay-4", "pay-5", "pay-6", "pay-7", "pay-8"}, parked())
		park()
		require.NoError(t, e.Fail(t.Context(), key("pay-1"), pawl.TaskError{Code: "boom", Message: "x"}))
		status, page, _ = ask("act", wholeFormOf(page))
		require.Equal(t, http.StatusSeeOther, status, page)
		require.Equal(t, []workflow.RunID{"pay-1", "pay-8", "pay-9"}, parked())
	})
}

// Runs that begin after the page was made that asked are left out. If others fit meanwhile, it asks again.
func TestActOnAllLeavesRunsOutThatBeginLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: later{}})
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close(context.Background())) }()
		start := func(id workflow.RunID) {
			<-time.After(time.Second)
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: parse(t, "name: waits\nstart: w\nnodes: [{id: w, wait: {event: go}}]\n")}, nil))
		}
		ask := askDirectly(t, e)
		start("a")
		start("b")
		_, page, _ := ask("act?all=1&do=pause&status=running", nil)
		require.Contains(t, textOf(t, page), "Runs that start meanwhile are left out.")
		form := wholeFormOf(page)
		form.Set("reason", "lunch")
		start("c")
		status, page, _ := ask("act", form)
		require.Equal(t, http.StatusSeeOther, status, page)
		standing := func() (out string) {
			for r, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
				require.NoError(t, err)
				out += fmt.Sprintf("%s %s, ", r.Run, r.Status)
			}
			return out
		}
		require.Equal(t, "a paused, b paused, c running, ", standing())

		_, page, _ = ask("act?all=1&do=cancel&status=running", nil)
		form = wholeFormOf(page)
		form.Set("reason", "closed")
		require.NoError(t, e.Do(t.Context(), "a", pawl.Resume{}))
		status, page, _ = ask("act", form)
		require.Equal(t, http.StatusConflict, status)
		require.Contains(t, textOf(t, page), "Cancel all 2 runs?")
		require.Equal(t, "a running, b paused, c running, ", standing())
	})
}

package inspector_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// serve returns the shop as another page shows it.
func (s *shop) serve(o inspector.Options) *shop {
	s.t.Helper()
	server := httptest.NewServer(http.StripPrefix("/ops", inspector.Handler(s.engine, o)))
	s.t.Cleanup(server.Close)
	return &shop{s.t, s.engine, server.URL + "/ops/"}
}

func as(who string, rights api.Rights) inspector.Options {
	return inspector.Options{Identify: func(*http.Request) (string, api.Rights, error) { return who, rights, nil }}
}

// post sends a form as a browser would, and returns the answer.
func (s *shop) post(address string, form url.Values, site string) (int, string, http.Header) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.base+address, strings.NewReader(form.Encode()))
	require.NoError(s.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", site)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return resp.StatusCode, string(body), resp.Header
}

// last returns who has sent the last message of a run, and why.
func (s *shop) last(id workflow.RunID) state.Act {
	s.t.Helper()
	var act state.Act
	for r, err := range acts.Records(s.engine.Journal(s.t.Context(), id, pawl.EventsOptions{})) {
		require.NoError(s.t, err)
		act = state.ActOf(r.Message)
	}
	return act
}

// An act is shown before it is done, is done for a reason only, in the name of whoever asks, and
// never because another site asks.
func TestActs(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	ann := s.serve(as("ann", api.All))
	before := s.journals()
	require.Contains(t, ann.see("run/order-1?view=token&token=3"), `href="../act?do=retry&amp;target=p3&#43;order-1"`)
	asks := textOf(t, ann.see("act?do=skip&target=3+order-1"))
	require.Contains(t, asks, "Skip load of order-1 ?")
	require.Contains(t, asks, "token.waiting load t3")

	form := url.Values{"do": {"retry"}, "target": {"3 order-1"}, "reason": {" "}}
	status, body, _ := ann.post("act", form, "same-origin")
	require.Equal(t, 400, status)
	require.Contains(t, textOf(t, body), "say why")
	form.Set("reason", "the row is mended")
	status, _, _ = ann.post("act", form, "cross-site")
	require.Equal(t, 403, status)
	require.Equal(t, before, s.journals())

	status, _, header := ann.post("act", form, "same-origin")
	require.Equal(t, 303, status)
	require.Regexp(t, `^run/order-1\?token=3&told=[A-Z2-7]{26}&view=token$`, header.Get("Location"))
	require.Equal(t, state.Act{By: "ann", Reason: "the row is mended"}, s.last("order-1"))
	require.Contains(t, textOf(t, ann.see(header.Get("Location"))), "It is done: retried.")
	for _, link := range []string{"run/order-1?n=1&told=cancel", "run/order-1?n=1&told=", "inbox" + strings.TrimPrefix(header.Get("Location"), "run/order-1")} {
		require.NotContains(t, textOf(t, ann.see(link)), "It is done", "nobody was told that")
	}

	status, body, _ = ann.post("act", form, "same-origin")
	require.Equal(t, 409, status)
	require.Contains(t, textOf(t, body), "0 retried, 1 refused")
}

// Every act does what the engine's call does.
func TestEachAct(t *testing.T) {
	s := openShop(t)
	ann := s.serve(as("", api.All)) // the host does not know who it is, so the form asks
	do := func(form url.Values) {
		t.Helper()
		form.Set("reason", "because")
		status, body, _ := ann.post("act", form, "same-origin")
		require.Equal(t, 400, status, body)
		require.Contains(t, textOf(t, body), "say who you are")
		form.Set("by", "bob")
		status, body, _ = ann.post("act", form, "same-origin")
		require.Equal(t, 303, status, body)
		require.Equal(t, state.Act{By: "bob", Reason: "because"}, s.last(workflow.RunID(form.Get("target")[2:])))
	}
	status := func(id workflow.RunID) string {
		ov, err := s.engine.Overview(t.Context(), id)
		require.NoError(t, err)
		return ov.Status.String()
	}
	s.start("wait", "name: wait\nstart: a\nnodes: [{id: a, wait: {any: [{event: go}, {event: stop}]}}, {id: b, task: b}]\ntransitions: [{from: a, to: b}]", nil)
	do(url.Values{"do": {"pause"}, "target": {"0 wait"}})
	require.Equal(t, "paused", status("wait"))
	do(url.Values{"do": {"resume"}, "target": {"0 wait"}})
	require.Equal(t, "running", status("wait"))
	require.Contains(t, ann.see("act?do=signal&target=0+wait"), `<option value="stop">`)
	for _, value := range []string{"{", "{}]", "1 2", "{}}", "[]{"} {
		require.Contains(t, textOf(t, ann.see("act?do=signal&target=0+wait&name=go&value="+url.QueryEscape(value))), "the value is not JSON", value)
	}
	require.Contains(t, textOf(t, ann.see("act?do=signal&target=0+wait&name=nobody")), "It would be refused")
	do(url.Values{"do": {"signal"}, "target": {"0 wait"}, "name": {"go"}, "value": {`{"a": 1}`}})
	require.Contains(t, textOf(t, s.see("run/wait?view=tokens")), "b running")
	do(url.Values{"do": {"skip"}, "target": {"2 wait"}, "value": {`[1]`}})
	require.Equal(t, "completed", status("wait"))

	for id, want := range map[workflow.RunID]string{"approve": "completed", "reject": "completed", "cancel": "cancelled"} {
		s.start(id, "name: ask\nstart: a\nnodes: [{id: a, approval: {message: ok}}]", nil)
		token := "1 "
		if id == "cancel" {
			token = "0 "
		}
		do(url.Values{"do": {string(id)}, "target": {token + string(id)}})
		require.Equal(t, want, status(id))
	}
}

// The page of a run says how far its limits are used up, each node what it has reported, and a form raises the limits.
func TestRaise(t *testing.T) {
	s := openShop(t)
	s.start("ask", `
name: ask
start: split
limits: {meta: {cost: 1}}
nodes: [{id: split}, {id: first, task: model, budget: {cost: 0.5}}, {id: second, task: model, budget: {cost: 1}, retry: {maxAttempts: 1, exhausted: park}}]
transitions: [{from: split, to: first}, {from: split, to: second}]`, nil)
	require.NoError(t, s.engine.Complete(t.Context(), s.key("ask", "first"), pawl.Result{Metadata: map[string]any{"cost": 0.5}}))
	ann := s.serve(as("ann", api.All))
	page := ann.see("run/ask")
	require.Contains(t, page, " · reported cost 0.5 of 1")
	require.Contains(t, page, `<span class="sub">cost 0.5</span>`)
	require.Contains(t, page, `href="../act?do=raise&amp;target=0&#43;ask">Raise limits…`)
	require.NotContains(t, s.serve(as("ann", api.View)).see("run/ask"), "cost 0.5")
	require.Regexp(t, `(?s)waits for an operator, who raises the limit or skips: .*?do=raise&amp;target=0&#43;ask.*?do=skip`, ann.see("run/ask?view=why"))
	parked := ann.see("run/ask?view=token&token=3")
	require.Regexp(t, `(?s)parked.*do=raise&amp;target=0&#43;ask.*do=skip&amp;target=p3&#43;ask`, parked)
	inbox := ann.see("inbox")
	require.Regexp(t, `(?s)do=raise&amp;target=0&#43;ask&amp;return=inbox.*do=skip&amp;target=p3&#43;ask`, inbox)
	require.NotContains(t, inbox, "do=retry&amp;target")
	form := textOf(t, ann.see("act?do=raise&target=0+ask"))
	require.Contains(t, form, "The most that results may report of cost, now 1")
	require.Contains(t, textOf(t, ann.see("act?do=raise&target=0+ask&limit.cost=x")), "the limit of cost is no number")
	require.Contains(t, textOf(t, ann.see("act?do=raise&target=0+ask&limit.cost=0.2")), "It would be refused")
	require.Contains(t, textOf(t, ann.see("act?do=raise&target=0+ask&limit.cost=2")), "second is begun")
	raise := url.Values{"do": {"raise"}, "target": {"0 ask"}, "reason": {"paid"}}
	status, body, _ := ann.post("act", raise, "same-origin")
	require.Equal(t, 400, status)
	require.Contains(t, textOf(t, body), "say which limit is raised")
	raise.Set("limit.cost", "2")
	status, body, _ = ann.post("act", raise, "same-origin")
	require.Equal(t, 303, status, body)
	require.Contains(t, ann.see("run/ask"), " · reported cost 0.5 of 2")
	require.Equal(t, state.Act{By: "ann", Reason: "paid"}, s.last("ask"))
}

// The page of an answer says what is asked and what the other answer would do, and leads back to the inbox it came from.
func TestAnswersSideBySide(t *testing.T) {
	s := openShop(t)
	ann := s.serve(as("ann", api.All))
	s.start("loan", "name: loan\nstart: ask\nnodes: [{id: ask, approval: {message: 'Lend 7 pounds?'}, input: {to: '\"bob\"'}}, {id: pay, task: pay}]\ntransitions: [{from: ask, to: pay, condition: result.approved}]", nil)
	inbox := ann.see("inbox")
	require.Contains(t, inbox, `href="act?do=approve&amp;target=1&#43;loan&amp;return=inbox"`)
	page := ann.see("act?do=approve&target=1+loan&return=inbox")
	text := textOf(t, page)
	require.Contains(t, text, "Lend 7 pounds?")
	require.Contains(t, text, "bob")
	require.Regexp(t, `What would happen now .*task.dispatched pay.* If it were rejected instead .*: the run would be completed`, text)
	require.Contains(t, page, `<a class="button" href="inbox">Leave it</a>`)
	status, _, header := ann.post("act", url.Values{"do": {"approve"}, "target": {"1 loan"}, "reason": {"why not"}, "return": {"inbox"}}, "same-origin")
	require.Equal(t, 303, status)
	require.Regexp(t, `^inbox\?told=`, header.Get("Location"))
	require.NotContains(t, textOf(t, ann.see("act?do=approve&target=1+loan")), "Lend 7 pounds?", "it is answered")
}

// Tasks of one fan-out that are parked are told apart by their inputs.
func TestParkedTasksAreToldApart(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	require.Regexp(t, `load of order-1 .*Task load, t[0-9]+, 1 attempt`, textOf(t, s.see("inbox")))
	require.Contains(t, textOf(t, s.see("inbox")), "file a")
}

// Many can be answered at once; those that are refused are told.
func TestManyAtOnce(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	s.startOrder("order-2")
	ann := s.serve(as("ann", api.All))
	inbox := ann.see("inbox?where=" + url.QueryEscape(`run == "order-2"`))
	require.NotContains(t, inbox, `value="p3 order-1"`)
	require.Contains(t, inbox, `value="p3 order-2"`)
	status, inbox := ann.get("inbox?where=" + url.QueryEscape(`run = "order-2"`))
	require.Equal(t, 400, status)
	require.Contains(t, textOf(t, inbox), "1:5")
	inbox = ann.see("inbox?of=letters")
	require.Contains(t, inbox, `name="target" value="p3 order-1"`)
	require.Contains(t, inbox, `name="target" value="p3 order-2"`)
	targets := []string{"3 order-1", "3 order-2", "1 order-2"}
	require.Contains(t, textOf(t, ann.see("act?"+url.Values{"do": {"retry"}, "target": targets}.Encode())), "Retry 3 of them?")
	some := textOf(t, ann.see("act?"+url.Values{"do": {"retry"}, "target": {"3 order-1", "1 nobody"}}.Encode()))
	require.Contains(t, some, `nobody It would be refused: no such run: "nobody"`)
	status, body, _ := ann.post("act", url.Values{"do": {"retry"}, "target": targets, "reason": {"x"}}, "same-origin")
	require.Equal(t, 409, status)
	require.Contains(t, textOf(t, body), "2 retried, 1 refused order-2 t1")
	for _, wrong := range []string{"", "?do=retry", "?do=explode&target=1+a", "?do=retry&target=x", "?do=retry&target=-1+a", "?do=retry&target=1+nobody", "?do=fork&target=0+order-1&at=last", "?do=fork&target=0+order-1&at=-1"} {
		status, _ := ann.get("act" + wrong)
		require.Contains(t, []int{400, 404}, status, wrong)
	}
}

// Rights are kept: a viewer who may only look sees no buttons, one who may not see values sees none.
func TestRights(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	views := []string{"", "inbox", "run/order-1", "run/order-1?view=data", "run/order-1?view=journal", "run/order-1?view=events", "run/order-1?view=token&token=3", "run/order-1?view=tokens", "run/order-1?view=group&group=1", "run/order-1?view=why"}

	looking := s.serve(as("ann", api.View|api.Values))
	for _, view := range views {
		require.NotContains(t, looking.see(view), "act?do=", view)
	}
	key := string(s.key("order-1", "load"))
	require.Contains(t, textOf(t, s.serve(as("ann", api.All)).see("run/order-1?view=events")), key)
	for _, view := range views {
		require.NotContains(t, looking.see(view), key, "whoever has it could complete the task")
	}
	status, _ := looking.get("act?do=cancel&target=0+order-1")
	require.Equal(t, 403, status)
	status, _, _ = looking.post("act", url.Values{"do": {"cancel"}, "target": {"0 order-1"}, "reason": {"x"}}, "same-origin")
	require.Equal(t, 403, status)

	blind := s.serve(as("ann", api.View))
	redacting := as("ann", api.All)
	redacting.Redact = func(_ workflow.RunID, path string, v any) any {
		if strings.HasSuffix(path, "amount") || strings.HasSuffix(path, "file") || strings.Contains(path, "files[") {
			return "[hidden]"
		}
		return v
	}
	for _, view := range views {
		for _, page := range []string{blind.see(view), s.serve(redacting).see(view)} {
			require.NotContains(t, textOf(t, page), "line <i>17</i>", view)
			require.NotContains(t, textOf(t, page), "Ship <b>it</b>", view)
			require.NotContains(t, textOf(t, page), "amount 7", view)
			require.NotContains(t, textOf(t, page), `"amount":7`, view)
		}
	}
	require.Contains(t, textOf(t, s.serve(redacting).see("run/order-1?view=data")), "amount [hidden]")

	status, _ = s.serve(as("ann", api.Act)).get("")
	require.Equal(t, 403, status)
	stranger := inspector.Options{Identify: func(*http.Request) (string, api.Rights, error) { return "", api.All, errors.New("no session") }}
	status, body := s.serve(stranger).get("")
	require.Equal(t, 401, status)
	require.NotContains(t, body, "no session")
}

// A form is done to its last target, though the browser that has sent it is gone.
func TestAFormIsDoneThoughTheBrowserHasGone(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	s.startOrder("order-2")
	form := url.Values{"do": {"cancel"}, "target": {"0 order-1", "0 order-2"}, "reason": {"x"}}
	gone, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequestWithContext(gone, http.MethodPost, "/act", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	inspector.Handler(s.engine, as("ann", api.All)).ServeHTTP(w, r)
	require.Equal(t, 303, w.Code, w.Body)
	for _, id := range []workflow.RunID{"order-1", "order-2"} {
		require.Equal(t, state.Act{By: "ann", Reason: "x"}, s.last(id))
	}
}

// A run that ended while the form was open is not said to be cancelled; one that was cancelled meanwhile is.
func TestCancelOfARunThatHasEnded(t *testing.T) {
	s := openShop(t)
	ann := s.serve(as("ann", api.All))
	ended := "name: short\nstart: a\nnodes: [{id: a}]\n"
	s.start("over", ended, nil)
	s.start("goes", "name: goes\nstart: a\nnodes: [{id: a, wait: {event: go}}]\n", nil)
	status, body, _ := ann.post("act", url.Values{"do": {"cancel"}, "target": {"0 over"}, "reason": {"late"}}, "same-origin")
	require.Equal(t, 409, status)
	require.Contains(t, textOf(t, body), "the run has ended (completed): nothing is changed")
	require.NotContains(t, textOf(t, body), "It is done")
	for range 2 {
		status, _, header := ann.post("act", url.Values{"do": {"cancel"}, "target": {"0 goes"}, "reason": {"late"}}, "same-origin")
		require.Equal(t, 303, status)
		require.Contains(t, textOf(t, ann.see(header.Get("Location"))), "It is done: cancelled.")
	}
}

// A value turns the order of nothing that stands behind it, and hides nothing in it.
func TestDirectionsAreShown(t *testing.T) {
	s := openShop(t)
	s.start("turned", "name: turned\nstart: a\nnodes: [{id: a, wait: {event: go}}]\n", map[string]any{"text": "a\u202eb\u0007c"})
	page := s.see("run/turned?view=data")
	require.Contains(t, page, `a\u202eb\u0007c`)
	require.NotContains(t, page, "\u202e")
}

// The form for a signal offers the signals that the run declares, and those for which it waits.
func TestDeclaredSignalsAreOffered(t *testing.T) {
	s := openShop(t)
	s.start("sig", "name: sig\nstart: a\nsignals: [declared, both]\nnodes: [{id: a, wait: {any: [{event: waited}, {event: both}]}}]", nil)
	page := s.serve(as("ann", api.All)).see("act?do=signal&target=0+sig")
	for _, name := range []string{"declared", "waited", "both"} {
		require.Equal(t, 1, strings.Count(page, `<option value="`+name+`">`), name)
	}
}

// Forms lead back to pages of the inspector alone.
func TestNoAddressLeadsOut(t *testing.T) {
	ann := openShop(t).serve(as("ann", api.All))
	for to, want := range map[string]string{
		"runs": "runs", "run/a/1.1?view=why": "run/a/1.1?view=why", "run/a/../b": "run/a/../b", "": "./",
		"run/../../../evil": "./", "./../evil": "./", "../evil": "./", "../evil/x": "./", "run/%2e%2e/.%2E/evil": "./", "run%2Fa/../../evil": "./", "run//../../evil": "./", "/evil": "./", "//evil": "./", `\evil`: "./",
	} {
		status, _, header := ann.post("theme", url.Values{"theme": {"dark"}, "return": {to}}, "same-origin")
		require.Equal(t, 303, status)
		require.Equal(t, want, header.Get("Location"), to)
	}
}

package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/store/logtest"
	"github.com/pawl-run/pawl/workflow"
)

// send returns status and body of a request with a body.
func send(t testing.TB, h http.Handler, method, path, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, bytes.NewReader([]byte(body)))
	r.RemoteAddr = "127.0.0.1:999"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	checkAnswer(t, r, []byte(body), w)
	return w.Code, w.Body.String()
}

// signed is a body with a name and a reason.
func signed(fields string) string {
	return strings.Replace(`{"by": "bob", "reason": "a test", `+fields+`}`, ", }", "}", 1)
}

// everything is a handler that serves everybody with all rights, who say who they are.
func everything(e *pawl.Engine) http.Handler {
	return api.Handler(e, api.Options{Identify: func(*http.Request) (string, api.Rights, error) { return "", api.All | api.Files, nil }, Rate: api.Rate{PerSecond: -1}})
}

const many = `
name: many
start: ask
limits: {meta: {cost: 1}}
nodes:
  - {id: ask, task: wait}
  - {id: more, task: wait, retry: {exhausted: park}}
  - {id: hold, wait: {event: go}}
  - {id: approve, approval: {}}
  - {id: work, task: wait}
  - {id: sum, task: wait}
transitions:
  - {from: ask, to: more}
  - {from: more, to: hold}
  - {from: hold, to: approve}
  - {from: approve, to: work, foreach: {collection: "[1, 2]"}, siblingGroup: g}
  - {from: work, to: sum, synchronization: {siblingGroup: g}}
`

// Every act does what it says, in somebody's name, and can be tried before.
func TestActs(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	h := everything(e)
	status, body := send(t, h, "PUT", "/v1/runs/m", `{"definition": `+toJSON(t, many)+`, "by": "bob", "reason": "a test"}`)
	require.Equal(t, http.StatusCreated, status, body)
	status, body = send(t, h, "PUT", "/v1/runs/m", `{"definition": `+toJSON(t, many)+`, "input": {}}`)
	require.Equal(t, http.StatusOK, status, body)
	for _, step := range []struct{ path, body, want string }{
		{"tokens/ask/complete", signed(`"output": {"big": 9007199254740991}`), ""},
		{"tokens/2/fail", signed(`"code": "broken", "message": "no luck"`), ""},
		{"tokens/more/retry", signed(`"input": "kept"`), ""},
		{"tokens/more/fail", signed(`"code": "broken"`), ""},
		{"tokens/more/skip", signed(`"output": {"x": 1}`), ""},
		{"pause", signed(""), ""},
		{"resume", signed(""), ""},
		{"signals", signed(`"name": "go", "id": "1", "payload": [1], "ttl": "1h"`), ""},
		{"patches", signed(`"base": 1, "ops": [{"op": "add", "path": "/nodes/sum/timeout", "value": "1h"}]`), `"revision":2`},
		{"tokens/approve/vote", signed(`"approved": true, "comment": "fine", "data": {}`), ""},
		{"branches", signed(`"group": "g", "item": 3`), ""},
		{"cancel-nodes", signed(`"nodes": ["work"]`), ""},
	} {
		before, err := e.Summary(t.Context(), "m")
		require.NoError(t, err)
		status, body := send(t, h, "POST", "/v1/runs/m/"+step.path+"?dryRun=1", step.body)
		require.Equal(t, http.StatusOK, status, "%s: %s", step.path, body)
		require.Contains(t, body, `"applied":false`, step.path)
		require.NotEmpty(t, object(t, body)["steps"], step.path)
		require.Contains(t, body, step.want, step.path)
		after, err := e.Summary(t.Context(), "m")
		require.NoError(t, err)
		require.Equal(t, before.Seq, after.Seq, "nothing was changed")
		status, body = send(t, h, "POST", "/v1/runs/m/"+step.path, step.body)
		require.Equal(t, http.StatusOK, status, "%s: %s", step.path, body)
		require.Contains(t, body, `"applied":true`, step.path)
		require.Contains(t, body, step.want, step.path)
	}
	for r, err := range e.Journal(t.Context(), "m", pawl.EventsOptions{}) {
		require.NoError(t, err)
		_, body := get(t, h, "/v1/runs/m/journal?limit=1&after="+itoa(r.Seq-1))
		if strings.Contains(body, "AlarmFired") {
			continue
		}
		require.Contains(t, body, `"by":"bob","reason":"a test"`)
	}
}

// A dry run of a start or a fork tells what it would make, and makes nothing. It takes the rights to see that.
func TestDryRunOfNewRuns(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	h := everything(e)
	start := `{"definition": ` + toJSON(t, many) + `, "input": {}, "by": "bob", "reason": "a test"}`
	for _, step := range []struct{ method, path, body, run, decides string }{
		{"PUT", "/v1/runs/m", start, "m", `dispatch-task t1 task=wait`},
		{"POST", "/v1/runs/m/forks", signed(`"to": "n", "at": 1`), "n", `fork-run run=n from=m record=1`},
		{"POST", "/v1/runs/m/forks", signed(`"to": "o", "node": "ask", "inFlight": "park"`), "o", `fork-run run=o from=m record=1`},
	} {
		only := api.Handler(e, api.Options{Identify: everybody(api.View | api.Act | api.Define)})
		status, body := send(t, only, step.method, step.path+"?dryRun=1", step.body)
		require.Equal(t, http.StatusForbidden, status, body)
		status, body = send(t, h, step.method, step.path+"?dryRun=1", step.body)
		require.Equal(t, http.StatusOK, status, body)
		require.Regexp(t, `^{"run":"`+step.run+`","status":"running".*"seq":[12],.*"steps":\[{`, body)
		require.Contains(t, body, step.decides)
		_, err := e.Summary(t.Context(), workflow.RunID(step.run))
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
		status, body = send(t, h, step.method, step.path, step.body)
		require.Equal(t, http.StatusCreated, status, body)
		status, body = send(t, h, step.method, step.path+"?dryRun=1", step.body)
		require.Equal(t, http.StatusOK, status, body)
		require.Contains(t, body, `"steps":[]`, "it is there")
	}
	status, body := send(t, h, "POST", "/v1/runs/none/forks?dryRun=1", signed(`"to": "p"`))
	require.Equal(t, http.StatusNotFound, status, body)
	status, body = send(t, h, "PUT", "/v1/runs/p?dryRun=perhaps", start)
	require.Equal(t, http.StatusBadRequest, status, body)
}

// A waiting group can be closed by its name, and a run is cancelled.
func TestCloseGroupAndCancel(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	h := everything(e)
	d := parse(t, "name: fan\nstart: a\nnodes: [{id: a}, {id: work, task: wait}, {id: sum, task: wait}]\ntransitions:\n"+
		"  - {from: a, to: work, foreach: {collection: '[1, 2]'}, siblingGroup: g}\n  - {from: work, to: sum, synchronization: {siblingGroup: g}}")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "f", Definition: d}, nil))
	for i, cursor := range []string{"", "&cursor=1:0"} {
		_, body := get(t, h, "/v1/runs/f/branches?group=1&limit=1&status=running"+cursor)
		require.Contains(t, body, `"index":`+itoa(int64(i)))
	}
	for path, want := range map[string]string{"/v1/runs/f/branches?status=failed": `{"branches":[]}`, "/v1/runs/f/signals?after=1": `{"signals":[]}`} {
		_, body := get(t, h, path)
		require.Equal(t, want+"\n", body)
	}
	status, body := send(t, h, "POST", "/v1/runs/f/close-group", signed(`"group": "g"`))
	require.Equal(t, http.StatusOK, status, body)
	o, err := e.Overview(t.Context(), "f")
	require.NoError(t, err)
	require.Zero(t, o.Gather)
	status, body = send(t, h, "POST", "/v1/runs/f/cancel", signed(""))
	require.Equal(t, http.StatusOK, status, body)
	out, err := e.Wait(t.Context(), "f")
	require.NoError(t, err)
	require.Equal(t, "bob", out.Failure.By)
	status, body = send(t, h, "POST", "/v1/runs/f/cancel", signed(""))
	require.Equal(t, http.StatusOK, status, "a repeated call is none: %s", body)
}

// A run that has ended otherwise is not said to be cancelled, and one that is tried neither.
func TestCancelEndedRun(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	h := everything(e)
	_, err := e.Run(t.Context(), workflow.Run{ID: "over", Definition: parse(t, "name: over\nstart: a\nnodes: [{id: a}]")}, nil)
	require.NoError(t, err)
	before, err := e.Summary(t.Context(), "over")
	require.NoError(t, err)
	for _, path := range []string{"cancel", "cancel?dryRun=1"} {
		status, body := send(t, h, "POST", "/v1/runs/over/"+path, signed(""))
		require.Equal(t, http.StatusConflict, status, "%s: %s", path, body)
		require.Contains(t, body, `"code":"ended","message":"run \"over\": the run has ended (completed): nothing is changed"`)
	}
	after, err := e.Summary(t.Context(), "over")
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func toJSON(t testing.TB, text string) string {
	t.Helper()
	raw, err := json.Marshal(parse(t, text))
	require.NoError(t, err)
	return string(raw)
}

func itoa(n int64) string {
	text, _ := json.Marshal(n)
	return string(text)
}

// An act that is not signed, is another's, or is not what its path takes, changes nothing.
func TestRefusedActs(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	startOrder(t, e, "order-1")
	h := everything(e)
	for _, c := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"POST", "/v1/runs/order-1/cancel", ``, 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/cancel", `{}`, 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/cancel", `{"by": "bob"}`, 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/cancel", `{"reason": "x"}`, 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/cancel", signed(`"do": "pause"`), 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/cancel", signed(`"name": "x"`), 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/cancel", signed(`"By": "x"`), 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/cancel?dryRun=maybe", signed(""), 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/cancel?dryRun", signed(""), 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/cancel?dryRun=", signed(""), 400, "invalid_request"},
		{"POST", "/v1/runs/none/cancel", signed(""), 404, "run_not_found"},
		{"POST", "/v1/runs/none/cancel?dryRun=1", signed(""), 404, "run_not_found"},
		{"POST", "/v1/runs/order-1/tokens/9/retry", signed(""), 409, "not_live"},
		{"POST", "/v1/runs/order-1/tokens/1/complete", signed(`"output": 1`), 409, "not_live"},
		{"POST", "/v1/runs/order-1/tokens/2/vote", signed(""), 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/tokens/2/vote", signed(`"approved": true, "token": 3`), 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/tokens/2/fail", signed(""), 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/signals", signed(`"name": "nobody"`), 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/signals", signed(`"name": "go", "ttl": "soon"`), 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/patches", signed(`"base": 7, "ops": [{"op": "remove", "path": "/nodes/ship"}]`), 409, "conflict"},
		{"POST", "/v1/runs/order-1/patches", signed(`"base": 1, "ops": []`), 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/patches", signed(`"ops": [{"op": "remove", "path": "/nodes/ship"}]`), 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/patches", signed(`"base": 0, "ops": [{"op": "remove", "path": "/nodes/ship"}]`), 400, "invalid_request"},
		{"PUT", "/v1/runs/x", `{"workflow": "none"}`, 404, "not_published"},
		{"PUT", "/v1/runs/x", `{}`, 400, "invalid_request"},
		{"PUT", "/v1/runs/x", `{"definition": {"name": 1}}`, 400, "invalid_request"},
		{"PUT", "/v1/runs/order-1", `{"definition": ` + toJSON(t, order) + `, "input": {"item": "table"}}`, 409, "run_exists"},
		{"PUT", "/v1/definitions/order/2", toJSON(t, order), 400, "invalid_request"},
		{"PUT", "/v1/definitions/order/1", `{`, 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/simulate", `{"acts": [{"do": "dance"}]}`, 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/simulate", `{"acts": [{"do": "elapse", "elapse": "-1s"}]}`, 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/simulate", `{"acts": [{"do": "vote", "node": "approve"}]}`, 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/simulate", `{"acts": [{"do": "patch", "ops": [{"op": "remove", "path": "/nodes/ship"}]}]}`, 400, "invalid_request"},
		{"POST", "/v1/runs/order-1/cancel", `{"by": "` + strings.Repeat("x", 16<<20) + `"}`, 413, "too_large"},
	} {
		status, body := send(t, h, c.method, c.path, c.body)
		require.Equal(t, c.status, status, "%s %s %s: %s", c.method, c.path, c.body[:min(len(c.body), 80)], body)
		require.Contains(t, body, `"code":"`+c.code+`"`, c.path)
	}
	_, body := send(t, h, "PUT", "/v1/definitions/order/1", "\nname: order\n")
	require.Contains(t, body, "the text is read as JSON, and not as YAML")
	s, err := e.Summary(t.Context(), "order-1")
	require.NoError(t, err)
	require.Equal(t, int64(2), s.Seq)
}

// Each right is asked for where it is needed, a page of another site changes nothing, and
// nobody acts for another.
func TestRightsToAct(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	startOrder(t, e, "order-1")
	acts := map[string]string{
		"/v1/runs/order-1/pause":   signed(""),
		"/v1/runs/order-1/patches": signed(`"base": 1, "ops": [{"op": "add", "path": "/nodes/ship/timeout", "value": "1h"}]`),
	}
	for rights, want := range map[api.Rights]map[string]int{
		api.View | api.Values: {"/v1/runs/order-1/pause": 403, "/v1/runs/order-1/patches": 403},
		api.Act:               {"/v1/runs/order-1/pause": 200, "/v1/runs/order-1/patches": 403},
		api.View | api.Values | api.Act | api.Define: {"/v1/runs/order-1/pause": 200, "/v1/runs/order-1/patches": 200},
	} {
		h := api.Handler(e, api.Options{Identify: func(*http.Request) (string, api.Rights, error) { return "bob", rights, nil }})
		for path, status := range want {
			got, body := send(t, h, "POST", path, acts[path])
			require.Equal(t, status, got, "%v %s: %s", rights, path, body)
		}
	}
	h := api.Handler(e, api.Options{Identify: everybody(api.All)})
	status, body := send(t, h, "POST", "/v1/runs/order-1/resume", signed("")) // as bob, by ann
	require.Equal(t, http.StatusForbidden, status, body)
	zoe := api.Handler(e, api.Options{Identify: func(*http.Request) (string, api.Rights, error) { return "Zoë B", api.All, nil }})
	status, body = send(t, zoe, "POST", "/v1/runs/order-1/resume", `{"by": " Zoe\u0308  B ", "reason": "one spelling"}`)
	require.Equal(t, http.StatusOK, status, body)
	for _, by := range []string{"zoë B", "Zoe B", " "} {
		status, body = send(t, zoe, "POST", "/v1/runs/order-1/resume", `{"by": "`+by+`", "reason": "another name"}`)
		require.Equal(t, http.StatusForbidden, status, body)
	}
	status, body = send(t, h, "PUT", "/v1/runs/order-9", `{"by": "bob", "workflow": "order"}`)
	require.Equal(t, http.StatusForbidden, status, body)
	status, _ = send(t, api.Handler(e, api.Options{Identify: everybody(api.Act)}), "PUT", "/v1/runs/order-9", `{"definition": `+toJSON(t, order)+`}`)
	require.Equal(t, http.StatusForbidden, status)
	status, _ = send(t, api.Handler(e, api.Options{}), "POST", "/v1/runs/order-1/resume", signed(""))
	require.Equal(t, http.StatusForbidden, status, "without a hook nothing is changed")

	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/runs/order-1/resume", strings.NewReader(`{"reason": "x"}`))
	r.Header.Set("Origin", "https://elsewhere.example")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusForbidden, w.Code)
}

// A definition is published from YAML where the Content-Type says that it is, and warnings have their places in that text.
func TestPublishYAML(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	h := everything(e)
	put := func(kind, text string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "http://localhost/v1/definitions/y/1", strings.NewReader(text))
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	const text = "name: y\nstart: a\nnodes:\n  - {id: a}\n  - {id: z}\n"
	for _, kind := range []string{"application/yaml", "application/x-yaml", "text/yaml; charset=utf-8", "text/x-yaml"} {
		status, body := put(kind, text)
		require.Equal(t, http.StatusOK, status, body)
		require.Contains(t, body, "line 5:5: warning", kind)
	}
	for _, kind := range []string{"", "application/json", "text/plain", "/"} {
		status, _ := put(kind, text)
		require.Equal(t, http.StatusBadRequest, status, kind)
	}
	status, body := put("application/yaml", "name: y\nstart: a\nnodes: [{id: a}]\n---\nname: y\n")
	require.Equal(t, http.StatusBadRequest, status, body)
	d, err := e.Published(t.Context(), "y", 1)
	require.NoError(t, err)
	require.Len(t, d.Nodes, 2)
}

// A publication that is tried says what would come of it, and publishes nothing.
func TestDryRunOfAPublication(t *testing.T) {
	_, dir := openEngine(t, pawl.Options{Socket: api.Local})
	c, err := api.Dial(t.Context(), dir)
	require.NoError(t, err)
	defer c.Close()
	ctx := t.Context()
	odd := strings.Replace(order, "transitions:", "  - {id: lonely, task: quote}\ntransitions:", 1)
	var tried api.PublishReport
	for range 2 {
		tried, err = c.DryRunPublish(ctx, parse(t, odd))
		require.NoError(t, err)
		require.Equal(t, api.PublishReport{Name: "order", Version: 1, Warnings: tried.Warnings, DryRun: true}, tried, "nothing was published by the first")
	}
	require.Contains(t, strings.Join(tried.Warnings, " "), "lonely")
	made, err := c.Publish(ctx, parse(t, odd))
	require.NoError(t, err)
	require.Equal(t, api.PublishReport{Name: "order", Version: 1, Warnings: tried.Warnings}, made)
	seen, err := c.DryRunPublish(ctx, parse(t, odd))
	require.NoError(t, err)
	require.True(t, seen.Known)
	_, err = c.DryRunPublish(ctx, parse(t, "name: order\nstart: other\nnodes: [{id: other}]\n"))
	require.ErrorIs(t, err, pawl.ErrPublished)
	_, err = c.DryRunPublish(ctx, nil)
	require.ErrorIs(t, err, pawl.ErrInvalid)
}

// A publication goes on when its caller has left. Where the log does not answer in time, nobody knows whether it is published.
func TestPublishOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stores [2]*blob.Files
		for i := range stores {
			files, err := blob.OpenFiles(t.TempDir(), blob.Options{})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, files.Close()) })
			stores[i] = files
		}
		var silent atomic.Bool
		log := new(logtest.Memory).Writer(func(string) logtest.Fault {
			if silent.Load() {
				return logtest.Refused
			}
			return logtest.None
		})
		e, err := pawl.Open(t.Context(), filepath.Join(t.TempDir(), "data"), pawl.Options{
			Durability: pawl.ProcessCrash, Blobs: stores[0], Remote: pawl.RemoteOptions{Log: log, Bases: stores[1], Rebase: time.Minute},
		})
		require.NoError(t, err)
		h := api.Handler(e, api.Options{Identify: func(*http.Request) (string, api.Rights, error) { return "ann", api.All, nil }})
		publish := func(ctx context.Context, version int) chan *httptest.ResponseRecorder {
			path, text := fmt.Sprint("/v1/definitions/a/", version), fmt.Sprintf(`{"name": "a", "version": %d, "start": "a", "nodes": [{"id": "a"}]}`, version)
			r := httptest.NewRequestWithContext(ctx, http.MethodPut, "http://localhost"+path, strings.NewReader(text))
			r.Header.Set("Content-Type", "application/json")
			answered := make(chan *httptest.ResponseRecorder, 1)
			go func() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				answered <- w
			}()
			return answered
		}
		silent.Store(true)
		ctx, leave := context.WithCancel(t.Context())
		answered := publish(ctx, 1)
		synctest.Wait()
		leave()
		synctest.Wait()
		require.Empty(t, answered)
		silent.Store(false)
		w := <-answered
		require.Equal(t, http.StatusOK, w.Code, w.Body)

		silent.Store(true)
		w = <-publish(t.Context(), 2)
		require.Equal(t, http.StatusServiceUnavailable, w.Code, w.Body)
		require.Contains(t, w.Body.String(), `"code":"unknown_outcome"`)
		silent.Store(false)
		require.NoError(t, e.Close(t.Context()))
	})
}

// Over the socket a client starts, tries, acts and compares.
func TestActOverTheSocket(t *testing.T) {
	e, dir := openEngine(t, pawl.Options{Socket: api.Local})
	c, err := api.Dial(t.Context(), dir)
	require.NoError(t, err)
	defer c.Close()
	ctx := t.Context()
	_, err = c.Publish(ctx, parse(t, order))
	require.NoError(t, err)
	about := map[string]string{"customer": "7", "odd": "a=b, &"}
	for _, id := range []workflow.RunID{"order-1", "order-2"} {
		s, err := c.Start(ctx, id, api.Start{Workflow: "order", Input: json.RawMessage(`{"item": "` + string(id) + `"}`), By: "ann", Reason: "a customer", Labels: about})
		require.NoError(t, err)
		require.Equal(t, "order", s.Workflow)
		awaitEvent(t, e, id, workflow.EventApprovalRequested)
	}
	found := 0
	for s, err := range c.Runs(ctx, pawl.RunFilter{Labels: about}) {
		require.NoError(t, err)
		require.Equal(t, about, s.Labels)
		found++
	}
	require.Equal(t, 2, found)
	for range c.Branches(ctx, "order-1", pawl.BranchFilter{Status: "failed"}) {
		require.Fail(t, "it has none")
	}
	for range c.Signals(ctx, "order-1") {
		require.Fail(t, "it keeps none")
	}
	_, err = c.Do(ctx, "order-1", api.Operation{})
	require.ErrorContains(t, err, "there is no act")
	_, err = c.Do(ctx, "order-1", api.Operation{Act: pawl.Vote{}})
	require.ErrorContains(t, err, "token")

	vote := api.Operation{Act: pawl.Vote{Target: pawl.Target{Node: "approve"}, Approved: true}, By: "ann", Reason: "fine"}
	would, err := c.DryRun(ctx, "order-1", vote)
	require.NoError(t, err)
	require.False(t, would.Applied)
	require.Len(t, would.Steps, 1)
	again := vote
	again.By = "bob"
	tried, err := c.Simulate(ctx, "order-1", api.Simulate{
		Acts:    []api.Operation{vote, {Act: pawl.Elapse{Elapse: time.Minute}}, again},
		Results: map[workflow.NodeID]api.Result{"ship": {Output: json.RawMessage(`{"ok": true}`)}},
	})
	require.NoError(t, err)
	require.Equal(t, workflow.RunCompleted, tried.Outcome.Status)
	require.WithinDuration(t, time.Now().Add(time.Minute), tried.At, time.Minute)
	tried, err = c.Simulate(ctx, "order-1", api.Simulate{Acts: []api.Operation{vote, again}, Results: map[workflow.NodeID]api.Result{"ship": {Code: "no", Message: "never"}}})
	require.NoError(t, err)
	require.Equal(t, workflow.RunRunning, tried.Outcome.Status, "it is parked")

	status, body := send(t, everything(e), "POST", "/v1/runs/order-1/simulate?at=1", `{"results": {"quote": {"output": {"price": 0}}}}`)
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, `"code":"unmatched`, "nothing leads on from there")

	done, err := c.Do(ctx, "order-1", vote)
	require.NoError(t, err)
	require.True(t, done.Applied)
	_, err = c.Do(ctx, "order-1", vote)
	require.ErrorIs(t, err, pawl.ErrAlreadyVoted)
	d, err := c.Diff(ctx, "order-1", "order-2")
	require.NoError(t, err)
	var differs replay.Comparison
	require.NoError(t, json.Unmarshal(d, &differs))
	require.True(t, differs.Differs())
}

// A run is forked, and rerun from a node, into runs of other ids.
func TestFork(t *testing.T) {
	e, dir := openEngine(t, pawl.Options{Socket: api.Local})
	startOrder(t, e, "order-1")
	c, err := api.Dial(t.Context(), dir)
	require.NoError(t, err)
	defer c.Close()
	for range 2 {
		s, err := c.Fork(t.Context(), "order-1", api.Fork{To: "order-1b", At: 1, Results: []api.ForkResult{{Node: "quote", Output: json.RawMessage(`{"price": 7}`)}}, By: "ann", Reason: "cheaper"})
		require.NoError(t, err)
		require.Equal(t, workflow.RunID("order-1"), s.ForkedFrom.Run)
	}
	_, err = c.Fork(t.Context(), "order-1", api.Fork{To: "order-1c", Node: "approve", By: "ann", Reason: "again"})
	require.NoError(t, err)
	_, err = c.Fork(t.Context(), "order-1", api.Fork{To: "order-1d", At: 99, By: "ann", Reason: "again"})
	require.ErrorIs(t, err, pawl.ErrInvalid)
	_, err = c.Fork(t.Context(), "order-1", api.Fork{To: "order-1d", By: "ann"})
	require.ErrorIs(t, err, pawl.ErrInvalid)
	large := json.RawMessage(`{"price": 7, "text": "` + strings.Repeat("x", 900_000) + `"}`) // a result may have 1 MiB, here as in the process
	_, err = c.Fork(t.Context(), "order-1", api.Fork{To: "order-1e", At: 1, Results: []api.ForkResult{{Node: "quote", Output: large}}, By: "ann", Reason: "cheaper"})
	require.NoError(t, err)
	data, err := c.Data(t.Context(), "order-1b")
	require.NoError(t, err)
	require.InDelta(t, 7, data.State["offer"].(map[string]any)["price"], 0)
}

// A run that has ended is forgotten, when somebody says why, and who watches is told.
func TestPurge(t *testing.T) {
	e, dir := openEngine(t, pawl.Options{Socket: api.Local})
	startOrder(t, e, "order-1")
	c, err := api.Dial(t.Context(), dir)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Purge(t.Context(), "order-1", api.Purge{By: "ann", Reason: "old"})
	require.ErrorIs(t, err, pawl.ErrNotEnded)
	require.NoError(t, e.Cancel(t.Context(), "order-1", "over"))
	_, err = c.Purge(t.Context(), "order-1", api.Purge{By: "ann"})
	require.ErrorIs(t, err, pawl.ErrInvalid)
	for change, err := range c.Watch(t.Context(), pawl.WatchFilter{}) {
		require.NoError(t, err)
		if change.Lost {
			seen, err := c.DryRunPurge(t.Context(), "order-1", api.Purge{By: "ann", Reason: "old"})
			require.NoError(t, err)
			require.Equal(t, api.PurgeReport{Run: "order-1", Runs: 1, Bytes: seen.Bytes}, seen)
			done, err := c.Purge(t.Context(), "order-1", api.Purge{By: "ann", Reason: "old"})
			require.NoError(t, err)
			require.True(t, done.Applied)
			continue
		}
		if change.Purged {
			require.Equal(t, workflow.RunID("order-1"), change.Run)
			break
		}
	}
	_, err = c.DryRunPurge(t.Context(), "order-1", api.Purge{By: "ann", Reason: "old"})
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
}

// The stream of all runs begins with the word to list them, and the journal goes on until the run ends.
func TestWatchAndFollow(t *testing.T) {
	e, dir := openEngine(t, pawl.Options{Socket: api.Local})
	c, err := api.Dial(t.Context(), dir)
	require.NoError(t, err)
	defer c.Close()
	for change, err := range c.Watch(t.Context(), pawl.WatchFilter{Prefix: "order", Status: []workflow.RunStatus{workflow.RunRunning}}) {
		require.NoError(t, err)
		if !change.Lost {
			require.Equal(t, workflow.RunID("order-1"), change.Run)
			break
		}
		startOrder(t, e, "order-1")
	}
	for where, want := range map[string]int{`run == "order-1" && status == "running"`: 1, `status != "running"`: 0} {
		found := 0
		for _, err := range c.Runs(t.Context(), pawl.RunFilter{Where: where}) {
			require.NoError(t, err)
			found++
		}
		require.Equal(t, want, found, where)
	}
	for _, err := range c.Runs(t.Context(), pawl.RunFilter{Where: "run =="}) {
		require.ErrorIs(t, err, pawl.ErrInvalid)
	}
	for _, err := range c.Watch(t.Context(), pawl.WatchFilter{Where: "run =="}) {
		require.ErrorIs(t, err, pawl.ErrInvalid)
		require.ErrorContains(t, err, "at 1:")
	}
	records := 0
	for r, err := range c.Journal(t.Context(), "order-1", pawl.EventsOptions{After: 1, Follow: true}) {
		require.NoError(t, err)
		if records++; r.Seq == 2 {
			require.NoError(t, e.Cancel(t.Context(), "order-1", "done"))
		}
	}
	require.Equal(t, 2, records)
	status, body := get(t, api.Handler(e, api.Options{}), "/v1/watch")
	require.Equal(t, http.StatusNotAcceptable, status, body)
}

// A result that somebody gives, and that the node refuses, is a mistake of the request, whatever refuses it: the schema
// of the node, its output mapping or its routing.
func TestRefusedResults(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	h := everything(e)
	strict := `
name: strict
start: a
nodes:
  - {id: a, task: wait, unmatched: fail, outputSchema: {type: [object, string]}, output: {state.n: result.n}}
  - {id: b, wait: {event: go}}
transitions:
  - {from: a, to: b, condition: result.n > 1}
`
	status, body := send(t, h, "PUT", "/v1/runs/r", `{"definition": `+toJSON(t, strict)+`, "by": "bob", "reason": "a test"}`)
	require.Equal(t, http.StatusCreated, status, body)
	for _, output := range []string{`[2]`, `"text"`, `{"n": 1}`} {
		status, body := send(t, h, "POST", "/v1/runs/r/tokens/a/skip", signed(`"output": `+output))
		require.Equal(t, http.StatusBadRequest, status, body)
		require.Contains(t, body, `"code":"invalid_request"`)
		status, body = send(t, h, "POST", "/v1/runs/r/forks", signed(`"to": "fork", "results": [{"node": "a", "output": `+output+`}]`))
		require.Equal(t, http.StatusBadRequest, status, body)
		require.Contains(t, body, "the result given for node")
	}
	status, body = send(t, h, "POST", "/v1/runs/r/tokens/a/skip", signed(`"output": {"n": 2}`))
	require.Equal(t, http.StatusOK, status, body)
}

// A dry run of an import names the definition of the run, as the import does, in whatever form the recording is.
func TestDryRunOfAnImport(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	h := everything(e)
	for version := 1; version <= 2; version++ {
		_, err := e.Publish(t.Context(), parse(t, fan+fmt.Sprint("version: ", version)))
		require.NoError(t, err)
	}
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "f", Workflow: "fan", Version: 2, Tenant: "acme", Labels: map[string]string{"a": "b"}}, nil))
	exported := filepath.Join(t.TempDir(), "f.pawl")
	var text bytes.Buffer
	require.NoError(t, e.Export(t.Context(), "f", &text, pawl.ExportOptions{}))
	require.NoError(t, os.WriteFile(exported, text.Bytes(), 0o600))
	var answers []map[string]any
	for _, query := range []string{"?dryRun=1", "", "?dryRun=1"} {
		status, body := send(t, h, "POST", "/v1/import"+query, signed(`"from": "`+exported+`", "to": "g"`))
		require.Less(t, status, 300, body)
		answer := object(t, body)
		for name := range answer {
			if !slices.Contains([]string{"run", "workflow", "version", "tenant", "labels"}, name) {
				delete(answer, name)
			}
		}
		answers = append(answers, answer)
	}
	require.Equal(t, "fan", answers[1]["workflow"])
	require.Equal(t, answers[1], answers[0])
	require.Equal(t, answers[1], answers[2], "the run is there")
}

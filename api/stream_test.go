package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// A stream ends soon after its caller has lost a right, and so is a caller answered who has waited. A run that was started
// before is not refused then, and shows no values.
func TestRightsThatAreRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openEngine(t, pawl.Options{})
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: parse(t, "name: a\nstart: a\nnodes: [{id: a, task: wait}]")}, nil))
		for _, path := range []string{"/v1/runs/a/events", "/v1/runs/a/journal", "/v1/watch", "/v1/runs/a?wait=1m", "PUT /v1/runs/b?wait=1m"} {
			for code, revoked := range map[string]func() (string, api.Rights, error){
				"unauthorized": func() (string, api.Rights, error) { return "", 0, errors.New("logged out") },
				"forbidden":    func() (string, api.Rights, error) { return "ann", api.View, nil },
			} {
				asked := 0
				h := api.Handler(e, api.Options{Identify: func(*http.Request) (string, api.Rights, error) {
					if asked++; asked > 1 {
						return revoked()
					}
					return "ann", api.View | api.Values | api.Act | api.Define, nil
				}})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				method, at, body := http.MethodGet, path, ""
				if of, starts := strings.CutPrefix(path, "PUT "); starts {
					method, at, body = http.MethodPut, of, `{"definition": {"name": "b", "start": "b", "nodes": [{"id": "b", "task": "quote", "output": {"output.offer": "result"}}]}}`
				}
				r := httptest.NewRequestWithContext(ctx, method, "http://localhost"+at, strings.NewReader(body))
				r.Header.Set("Accept", "text/event-stream")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				require.NoError(t, ctx.Err(), "%s goes on", path)
				cancel()
				if method == http.MethodPut {
					require.Less(t, w.Code, http.StatusMultipleChoices, w.Body)
					require.Equal(t, "completed", object(t, w.Body.String())["status"])
					require.NotContains(t, w.Body.String(), "price")
					continue
				}
				require.Contains(t, w.Body.String(), `"code":"`+code+`"`, path)
			}
		}
	})
}

// A panic of the hook of a host is one of the request, also in a stream, where another goroutine calls it.
func TestAPanicOfAHook(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	startOrder(t, e, "order-1")
	_, err := e.Run(t.Context(), workflow.Run{ID: "done", Definition: parse(t, "name: done\nstart: a\nnodes: [{id: a, task: quote, output: {output.offer: result}}]")}, nil)
	require.NoError(t, err)
	broken := true
	h := api.Handler(e, api.Options{Identify: everybody(api.All), Redact: func(_ workflow.RunID, _ string, v any) any {
		if broken {
			panic("no key")
		}
		return v
	}})
	ask := func(method, path, body string) *httptest.ResponseRecorder {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, method, "http://localhost"+path, strings.NewReader(body))
		r.Header.Set("Accept", "text/event-stream")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	require.PanicsWithValue(t, "no key", func() { ask("GET", "/v1/runs/order-1/events", "") })
	large := `{"acts": []` + strings.Repeat(" ", 15<<20) + `}`
	for range 4 { // more than a caller may have at once
		require.PanicsWithValue(t, "no key", func() { ask("POST", "/v1/runs/done/simulate", large) })
	}
	broken = false
	w := ask("POST", "/v1/runs/done/simulate", large)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
}

// fan is a run with two branches, once somebody has said go.
const fan = `
name: fan
start: hold
nodes:
  - {id: hold, wait: {event: go}}
  - {id: work, task: wait}
  - {id: sum, task: wait}
transitions:
  - {from: hold, to: work, foreach: {collection: "[1, 2]"}, siblingGroup: g}
  - {from: work, to: sum, synchronization: {siblingGroup: g}}
`

// A limit bounds the lines of every list. Without one a list of lines has all.
func TestLimitOfLines(t *testing.T) {
	e := openInbox(t, 2, 2)
	h := everything(e)
	for _, version := range []string{"1", "2"} {
		status, body := send(t, h, "PUT", "/v1/definitions/fan/"+version, toJSON(t, fan+"version: "+version))
		require.Equal(t, http.StatusOK, status, body)
	}
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "f", Workflow: "fan", Version: 1}, nil))
	for _, name := range []string{"go", "early", "early"} {
		require.NoError(t, e.Signal(t.Context(), "f", workflow.Signal{Name: name, Early: true}))
	}
	_, err := e.Patch(t.Context(), "f", pawl.Patch{Base: 1, Ops: []any{map[string]any{"op": "add", "path": "/nodes/sum/timeout", "value": "1h"}}})
	require.NoError(t, err)
	status, body := send(t, h, "PUT", "/v1/schedules", signed(`"schedules": [{"id": "r", "workflow": {"name": "fan"}, "every": "1h"}, {"id": "s", "workflow": {"name": "fan"}, "every": "1h"}]`))
	require.Equal(t, http.StatusOK, status, body)
	lines := func(path string) int {
		status, body := get(t, h, path, "Accept", "application/x-ndjson")
		require.Equal(t, http.StatusOK, status, body)
		return strings.Count(body, "\n")
	}
	for _, path := range []string{"/v1/runs", "/v1/runs/f/events", "/v1/runs/f/journal", "/v1/runs/f/tokens", "/v1/runs/f/branches", "/v1/runs/f/signals", "/v1/runs/f/revisions", "/v1/definitions", "/v1/approvals", "/v1/dead-letters", "/v1/schedules"} {
		require.Greater(t, lines(path), 1, path)
		require.Equal(t, 1, lines(path+"?limit=1"), path)
	}
	require.Equal(t, 1, lines("/v1/runs/f/branches?cursor=1:0"), "lines begin behind a cursor too")
}

// A caller gets that of the types of a path which Accept has with the highest weight, of equal ones the first, and none of
// weight 0.
func TestWeightsOfAccept(t *testing.T) {
	e := openInbox(t, 1, 1)
	h := everything(e)
	require.NoError(t, e.Cancel(t.Context(), "asks-0", "so that its stream ends"))
	const json, lines, stream = "application/json", "application/x-ndjson", "text/event-stream"
	for accept, want := range map[string][2]string{ // of a list, and of events
		"": {json, json}, "*/*": {json, json}, "text/html": {json, json}, lines: {lines, lines}, stream: {json, stream},
		lines + ";q=0": {json, json}, lines + ";q=0.0, */*;q=0.1": {json, json}, lines + ";q=x": {json, json},
		stream + ";q=0, " + lines: {lines, lines}, lines + ";q=0.5, " + stream: {lines, stream},
		json + ", " + lines: {json, json}, lines + ", " + json: {lines, lines}, json + ";q=0.8, " + lines + ";q=0.9": {lines, lines},
		json + ";q=0.9, " + lines + ";q=0.8": {json, json}, "*/*, " + lines: {lines, lines}, "*/*, " + lines + ";q=0.5": {json, json},
		json + ";q=0.2, " + stream + ";q=0.3, " + lines + ";q=0.1": {json, stream}, "text/html, " + lines + ";q=0.9": {lines, lines},
	} {
		for i, path := range []string{"/v1/runs", "/v1/runs/asks-0/events"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
			r.Header.Set("Accept", accept)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			require.Equal(t, want[i], w.Header().Get("Content-Type"), "%s: %s", path, accept)
		}
	}
}

// HEAD answers the headers of a stream and nothing more, so that the connection is free for the next request.
func TestHeadOfAStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openEngine(t, pawl.Options{})
		startOrder(t, e, "order-1")
		clients, stop := harness.BusyClients(t, everything(e), time.Minute)
		defer stop()
		for protocol, c := range clients {
			for _, path := range []string{"/v1/watch", "/v1/runs/order-1/events", "/v1/runs/order-1/journal"} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				for _, method := range []string{http.MethodHead, http.MethodGet} {
					r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, nil)
					require.NoError(t, err)
					r.Header.Set("Accept", "text/event-stream")
					answer, err := c.Do(r)
					require.NoError(t, err, "%s %s %s", protocol, method, path)
					require.NoError(t, answer.Body.Close())
					require.Equal(t, http.StatusOK, answer.StatusCode)
					require.Equal(t, "text/event-stream", answer.Header.Get("Content-Type"))
				}
				cancel()
			}
		}
	})
}

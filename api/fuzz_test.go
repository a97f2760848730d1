package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
)

// FuzzRead asks for anything: whatever comes back is in the document, and nothing is at fault here.
func FuzzRead(f *testing.F) {
	e, _ := openEngine(f, pawl.Options{})
	startOrder(f, e, "order-1")
	h := api.Handler(e, api.Options{Rate: api.Rate{PerSecond: -1}})
	for _, path := range []string{
		"/v1/runs?limit=2&order=newest&status=running&prefix=o&cursor=order-1&since=2026-11-22T08:30:00Z&roots=1", "/v1/runs/order-1/tokens?node=quote&group=1&after=1&status=completed",
		"/v1/runs/order-1/events?after=1&limit=1", "/v1/runs/-/why?run=order-1", "/v1/runs/a%2F1.1/journal", "/v1/runs/order-1/graph.svg?width=10", "/v1/diff?a=order-1&b=order-1",
		"/v1/dead-letters?run=x&code=y", "/v1/runs/%2E%2E/data", "/v1/runs/order-1?wait=1ns",
	} {
		f.Add(path, "application/json", "1")
		f.Add(path, "application/x-ndjson", `"2"`)
	}
	f.Fuzz(func(t *testing.T, path, accept, last string) {
		if strings.Contains(accept, "event-stream") || strings.Contains(path, "wait") && !strings.Contains(path, "wait=1ns") {
			return // which would wait
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/"+strings.TrimPrefix(path, "/"), nil)
		if err != nil {
			return
		}
		r.RemoteAddr = "127.0.0.1:999"
		r.Header["Accept"], r.Header["Last-Event-Id"], r.Header["If-None-Match"] = []string{accept}, []string{last}, []string{last}
		requireNoFault(t, h, r, nil)
	})
}

// FuzzAct sends anything to every path that takes a body.
func FuzzAct(f *testing.F) {
	e, _ := openEngine(f, pawl.Options{})
	startOrder(f, e, "order-1")
	h := everything(e)
	paths := []string{
		"PUT /v1/runs/order-2", "PUT /v1/definitions/order/1", "POST /v1/runs/order-1/simulate", "POST /v1/runs/order-1/signals", "POST /v1/runs/order-1/patches",
		"POST /v1/runs/order-1/tokens/approve/vote", "POST /v1/runs/order-1/tokens/1/retry", "POST /v1/runs/order-1/tokens/1/skip", "POST /v1/runs/order-1/tokens/1/complete",
		"POST /v1/runs/order-1/tokens/1/fail", "POST /v1/runs/order-1/cancel-nodes", "POST /v1/runs/order-1/branches", "POST /v1/runs/order-1/close-group", "POST /v1/runs/order-1/forks",
	}
	for i, body := range []string{
		`{"definition": ` + toJSON(f, order) + `, "input": {"item": "x"}}`, toJSON(f, order),
		`{"acts": [{"do": "vote", "node": "approve", "by": "a", "approved": true}, {"do": "elapse", "elapse": "2h"}], "results": {"ship": {"output": 1}}}`,
		signed(`"name": "go", "ttl": "1s"`), signed(`"base": 1, "ops": [{"op": "add", "path": "/nodes/ship/timeout", "value": "1h"}]`), signed(`"approved": true`), signed(`"input": "again"`),
		signed(`"output": {}`), signed(`"output": {}`), signed(`"code": "x"`), signed(`"nodes": ["x"]`), signed(`"group": "g", "item": 1`), signed(`"group": "g"`), signed(`"to": "b", "at": 1`),
	} {
		f.Add(uint8(i), body)
	}
	f.Fuzz(func(t *testing.T, path uint8, body string) {
		method, to, _ := strings.Cut(paths[int(path)%len(paths)], " ")
		if method == "POST" && !strings.HasSuffix(to, "simulate") && !strings.HasSuffix(to, "forks") {
			to += "?dryRun=1"
		}
		r, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+to, strings.NewReader(body))
		require.NoError(t, err)
		requireNoFault(t, h, r, []byte(body))
	})
}

// requireNoFault sends a request, whose answer the document has.
func requireNoFault(t *testing.T, h http.Handler, r *http.Request, body []byte) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.NotEqual(t, http.StatusInternalServerError, w.Code, "%s", w.Body)
	if w.Code >= 400 {
		checkBody(t, []string{"components", "schemas", "Error"}, w.Body.Bytes())
		return
	}
	if pathOf(must(readDocument()), r.URL.EscapedPath()) != "" {
		checkAnswer(t, r, body, w)
	}
}

func must[T, X any](v T, _ X) T { return v }

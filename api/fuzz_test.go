package api_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/schedule"
)

// seeds are a query and a body for each route, by method and path, that its handler takes for what they are.
var seeds = map[string]struct{ query, body string }{
	"GET /v1/runs":                                {query: "limit=2&order=newest&sort=cost&status=running&prefix=o&since=2026-11-22T08:30:00Z&roots=1&label=a%3Db&where=status%3D%3D'failed'"},
	"GET /v1/runs/{run}":                          {query: "wait=1s"},
	"PUT /v1/runs/{run}":                          {body: `{"workflow": "order", "input": {"item": "x"}, "by": "bob", "reason": "a test"}`},
	"GET /v1/runs/{run}/overview":                 {query: "at=1"},
	"GET /v1/runs/{run}/tokens":                   {query: "node=quote&group=0&after=0&status=completed&at=2"},
	"GET /v1/runs/{run}/branches":                 {query: "group=1&status=failed&cursor=1:2&at=1"},
	"GET /v1/runs/{run}/signals":                  {query: "limit=1&after=1&at=1"},
	"GET /v1/runs/{run}/data":                     {query: "at=1"},
	"GET /v1/runs/{run}/definition":               {query: "at=1"},
	"GET /v1/runs/{run}/revisions":                {query: "limit=1&after=0&at=1"},
	"GET /v1/runs/{run}/revisions/{revision}":     {query: "at=1"},
	"GET /v1/runs/{run}/events":                   {query: "limit=1&after=1&at=2"},
	"GET /v1/runs/{run}/journal":                  {query: "limit=1&after=1&at=2"},
	"GET /v1/runs/{run}/export":                   {query: "blobs=1"},
	"GET /v1/runs/{run}/why":                      {query: "at=1"},
	"GET /v1/runs/{run}/graph.svg":                {query: "width=10&at=1"},
	"POST /v1/runs/{run}/forks":                   {body: signed(`"to": "b", "at": 1`)},
	"POST /v1/runs/{run}/purge":                   {query: "dryRun=1", body: signed("")},
	"POST /v1/runs/{run}/simulate":                {query: "at=1", body: `{"acts": [{"do": "elapse", "elapse": "2h"}], "results": {"quote": {"output": {"price": 0}}}}`},
	"POST /v1/backup":                             {body: `{"into": "INTO/backup"}`},
	"POST /v1/follow":                             {body: `{"into": "INTO/follow", "interval": "1h", "keep": "24h"}`},
	"POST /v1/import":                             {body: signed(`"from": "INTO/a.pawl", "to": "x"`)},
	"POST /v1/batch":                              {query: "prefix=none", body: signed(`"do": "pause"`)},
	"GET /v1/definitions":                         {query: "workflow=order&limit=1&cursor=order@0"},
	"GET /v1/definitions/{name}/{version}":        {},
	"GET /v1/schedules":                           {query: "limit=1&cursor=a"},
	"PUT /v1/schedules":                           {query: "dryRun=1&prune=1", body: signed(`"schedules": [{"id": "x", "workflow": {"name": "order"}, "every": "1h"}]`)},
	"GET /v1/schedules/{schedule}":                {},
	"GET /v1/schedules/{schedule}/events":         {query: "since=2026-01-01T00:00:00Z&until=2027-01-01T00:00:00Z"},
	"POST /v1/schedules/{schedule}/pause":         {body: signed("")},
	"POST /v1/schedules/{schedule}/resume":        {body: signed("")},
	"POST /v1/schedules/{schedule}/trigger":       {body: signed("")},
	"POST /v1/schedules/{schedule}/backfill":      {body: signed(`"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T01:00:00Z"`)},
	"POST /v1/schedules/{schedule}/delete":        {body: signed("")},
	"GET /v1/watch":                               {query: "workflow=order&status=running"},
	"GET /v1/diff":                                {query: "a=order-1&b=order-1&aAt=1&bAt=1"},
	"GET /v1/approvals":                           {query: "limit=1&cursor=1:order-1"},
	"POST /v1/approvals/batch":                    {query: "node=none&cursor=1:order-1", body: signed(`"do": "vote", "approved": true`)},
	"POST /v1/dead-letters/batch":                 {query: "code=none&dryRun=1", body: signed(`"do": "retry"`)},
	"GET /v1/dead-letters":                        {query: "run=x&code=y&limit=3"},
	"PUT /v1/definitions/{name}/{version}":        {body: "ORDER"},
	"POST /v1/blobs":                              {query: "type=text/plain", body: "a blob"},
	"GET /v1/blobs/{hash}":                        {},
	"GET /v1/workers":                             {query: "limit=1"},
	"GET /v1/engine":                              {},
	"GET /v1/disk":                                {},
	"GET /v1/timings":                             {query: "workflow=order&by=task&within=hour"},
	"GET /v1/openapi.yaml":                        {},
	"GET /healthz":                                {},
	"GET /readyz":                                 {},
	"POST /v1/runs/{run}/cancel":                  {query: "dryRun=1", body: signed("")},
	"POST /v1/runs/{run}/pause":                   {query: "dryRun=1", body: signed("")},
	"POST /v1/runs/{run}/resume":                  {body: signed("")},
	"POST /v1/runs/{run}/signals":                 {body: signed(`"name": "go", "id": "1", "payload": [1], "ttl": "1h", "early": true`)},
	"POST /v1/runs/{run}/patches":                 {query: "dryRun=1", body: signed(`"base": 1, "ops": [{"op": "add", "path": "/nodes/ship/timeout", "value": "1h"}]`)},
	"POST /v1/runs/{run}/cancel-nodes":            {query: "dryRun=1", body: signed(`"nodes": ["approve"]`)},
	"POST /v1/runs/{run}/branches":                {body: signed(`"group": "g", "item": 1`)},
	"POST /v1/runs/{run}/close-group":             {body: signed(`"group": "g"`)},
	"POST /v1/runs/{run}/raise":                   {body: signed(`"meta": {"cost": 2}`)},
	"POST /v1/runs/{run}/tokens/{token}/retry":    {body: signed(`"input": "again"`)},
	"POST /v1/runs/{run}/tokens/{token}/skip":     {query: "dryRun=1", body: signed(`"output": {}`)},
	"POST /v1/runs/{run}/tokens/{token}/vote":     {query: "dryRun=1", body: signed(`"approved": true, "comment": "fine"`)},
	"POST /v1/runs/{run}/tokens/{token}/complete": {body: signed(`"output": 1`)},
	"POST /v1/runs/{run}/tokens/{token}/fail":     {body: signed(`"code": "x", "message": "y", "retryable": true`)},
}

// blobHash is the hash of the blob of the seeds.
const blobHash = "sha256:5570a3cf02207f1d352d2cfea385be4bc0b2b9414f606baa6f55db60b232f221"

// FuzzRoutes sends anything to any path: no handler panics, and every answer is in the document. The seeds reach each handler.
func FuzzRoutes(f *testing.F) {
	e, _ := openEngine(f, pawl.Options{})
	startOrder(f, e, "order-1")
	into := f.TempDir()
	h := api.Handler(e, api.Options{Rate: api.Rate{PerSecond: -1}, Identify: func(r *http.Request) (string, api.Rights, error) {
		if r.Header.Get("Files") == "yes" {
			return "", api.All | api.Files, nil
		}
		return "", api.All, nil
	}})
	fill := strings.NewReplacer("{run}", "order-1", "{token}", "approve", "{name}", "order", "{version}", "1", "{revision}", "1", "{schedule}", "s", "{hash}", blobHash, "ORDER", toJSON(f, order), "INTO", filepath.ToSlash(into))
	status, text := send(f, h, "PUT", "/v1/definitions/order/1", toJSON(f, order))
	require.Less(f, status, 300, text)
	_, err := e.Schedules().Apply(f.Context(), []schedule.Schedule{{ID: "s", Workflow: schedule.Workflow{Name: "order"}, Every: time.Hour}}, pawl.ApplyOptions{})
	require.NoError(f, err)
	var exported bytes.Buffer
	require.NoError(f, e.Export(f.Context(), "order-1", &exported, pawl.ExportOptions{}))
	require.NoError(f, os.WriteFile(filepath.Join(into, "a.pawl"), exported.Bytes(), 0o600))
	files := map[string]bool{} // bodies that name a place for files which is ours
	answer := func(t testing.TB, r *http.Request, body string) (w *httptest.ResponseRecorder, cut bool) {
		if files[body] {
			r.Header.Set("Files", "yes")
		}
		w = httptest.NewRecorder()
		defer func() {
			if p := recover(); p != nil {
				require.Equal(t, http.ErrAbortHandler, p, "%s %s", r.Method, r.URL)
				require.Error(t, r.Context().Err(), "an answer is cut off when its caller has gone")
				cut = true
			}
		}()
		h.ServeHTTP(w, r)
		if w.Code >= 500 {
			require.Contains(t, []int{http.StatusServiceUnavailable, http.StatusGatewayTimeout}, w.Code, "%s %s: %s", r.Method, r.URL, w.Body)
		}
		return w, false
	}
	for name := range api.RouteParams() {
		seed, ok := seeds[name]
		require.True(f, ok, "%s has no seed: give it one", name)
		method, path, _ := strings.Cut(fill.Replace(name), " ")
		body := fill.Replace(seed.body)
		files[body] = strings.Contains(seed.body, "INTO")
		w, _ := answer(f, requestOf(f, method, path, seed.query, body, "", ""), body)
		for _, outside := range []string{"not_found", "method_not_allowed", "forbidden", "unauthorized", "invalid_request", "busy"} {
			require.NotContains(f, w.Body.String(), `"code":"`+outside+`"`, "%s %s?%s: the seed does not reach what the handler is for", method, path, seed.query)
		}
		for _, accept := range []string{"", "application/x-ndjson", "text/event-stream"} {
			f.Add(method, path, seed.query, body, accept, "1")
		}
	}
	for _, odd := range []string{
		"GET /v1/runs?cursor=order-1", "GET /v1/runs/-/why?run=order-1", "GET /v1/runs/a%2F1.1/journal", "GET /v1/runs/%2E%2E/data", "GET /v1/runs/order-1?at=99", "DELETE /v1/runs/order-1", "HEAD /healthz",
	} {
		method, target, _ := strings.Cut(odd, " ")
		path, query, _ := strings.Cut(target, "?")
		f.Add(method, path, query, "", "application/x-ndjson", `"2"`)
	}
	f.Add("PUT", "/v1/runs/order-2", "", `{"definition": `+toJSON(f, order)+`, "input": {"item": "x"}}`, "", "")
	f.Fuzz(func(t *testing.T, method, path, query, body, accept, last string) {
		r := requestOf(t, method, path, query, body, accept, last)
		if r == nil {
			return
		}
		w, cut := answer(t, r, body)
		switch {
		case cut:
		case w.Code >= 400:
			if r.Method != http.MethodHead {
				checkBody(t, []string{"components", "schemas", "Error"}, w.Body.Bytes())
			}
		case pathOf(must(readDocument()), r.URL.EscapedPath()) != "" && r.Method != http.MethodHead:
			checkAnswer(t, r, []byte(body), w)
		}
	})
}

// requestOf returns a request whose caller has gone if the answer might not end; nil if it cannot be sent.
func requestOf(t testing.TB, method, path, query, body, accept, last string) *http.Request {
	ctx, cancel := context.WithCancel(t.Context())
	if strings.Contains(accept, "event-stream") || strings.Contains(query, "wait") || strings.HasSuffix(path, "watch") || strings.HasSuffix(path, "follow") {
		cancel()
	}
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost/"+strings.TrimPrefix(path, "/")+"?"+query, strings.NewReader(body))
	if err != nil {
		return nil
	}
	r.RemoteAddr = "127.0.0.1:999"
	r.Header["Accept"], r.Header["Last-Event-Id"], r.Header["If-None-Match"] = []string{accept}, []string{last}, []string{last}
	return r
}

func must[T, X any](v T, _ X) T { return v }

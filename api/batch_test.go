package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

// A batch is counted first, done in steps that go on where the last one stopped, and tells each
// run that refuses it; runs that do not fit, or have ended, stay as they are.
func TestBatch(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	const waits = "name: waits\nstart: w\nnodes: [{id: w, wait: {event: go}}]\n"
	for i := range 7 {
		run := workflow.Run{ID: workflow.RunID(fmt.Sprintf("w-%d", i)), Definition: parse(t, waits), Labels: map[string]string{"odd": fmt.Sprint(i%2 == 1)}}
		require.NoError(t, e.Start(t.Context(), run, nil))
	}
	require.NoError(t, e.Cancel(t.Context(), "w-6", "before"))
	server := httptest.NewServer(everything(e))
	defer server.Close()
	c := api.NewClient(server.URL, server.Client())
	even := ofRuns(pawl.RunFilter{Labels: map[string]string{"odd": "false"}})
	act := func(a pawl.Act) api.Operation { return api.Operation{Act: a, By: "ann", Reason: "the move"} }
	status := func(id workflow.RunID) workflow.RunStatus {
		o, err := e.Overview(t.Context(), id)
		require.NoError(t, err)
		return o.Status
	}

	dry := even
	dry.DryRun = true
	counted, err := c.DoAll(t.Context(), dry, act(pawl.Pause{}))
	require.NoError(t, err)
	require.Equal(t, pawl.Report{Found: 3, Targets: []pawl.Target{{Run: "w-0"}, {Run: "w-2"}, {Run: "w-4"}}}, counted)
	require.Equal(t, workflow.RunRunning, status("w-0"))

	done, err := c.DoAll(t.Context(), even, act(pawl.Pause{}))
	require.NoError(t, err)
	require.Equal(t, pawl.Report{Applied: true, Found: 3, Changed: 3}, done)
	require.Equal(t, []workflow.RunStatus{workflow.RunPaused, workflow.RunRunning, workflow.RunCancelled}, []workflow.RunStatus{status("w-0"), status("w-1"), status("w-6")})

	cursor := ""
	for _, want := range []string{`"found":4`, `"found":2`} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/batch?all=1&limit=4&cursor="+cursor, strings.NewReader(signed(`"do": "signal", "name": "late"`)))
		w := httptest.NewRecorder()
		everything(e).ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Contains(t, w.Body.String(), want)
		require.Contains(t, w.Body.String(), `"changed":0`, "no node waits for it, and it is not early")
		require.Contains(t, w.Body.String(), `"run":"w-`)
		_, cursor, _ = strings.Cut(w.Body.String(), `"cursor":"`)
		cursor, _, _ = strings.Cut(cursor, `"`)
	}
	require.Empty(t, cursor)

	require.NoError(t, e.Resume(t.Context(), "w-0"))
	cancelled, err := c.DoAll(t.Context(), ofRuns(pawl.RunFilter{Workflow: "waits"}), act(pawl.Cancel{}))
	require.NoError(t, err)
	require.Equal(t, 6, cancelled.Changed)
	none, err := c.DoAll(t.Context(), ofRuns(pawl.RunFilter{Workflow: "waits"}), act(pawl.Cancel{}))
	require.NoError(t, err)
	require.Zero(t, none.Found)
}

// A patch of many runs is for the revision that each of them has.
func TestBatchOfPatches(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	startOrder(t, e, "order-1")
	startOrder(t, e, "order-2")
	op := func(path, value string) []any {
		return []any{map[string]any{"op": "add", "path": path, "value": value}}
	}
	_, err := e.Patch(t.Context(), "order-2", pawl.Patch{Base: 1, Ops: op("/nodes/approve/timeout", "1h")})
	require.NoError(t, err)
	c, closeClient := dialHandler(t, everything(e))
	defer closeClient()
	done, err := c.DoAll(t.Context(), ofRuns(pawl.RunFilter{}), api.Operation{Act: pawl.Patch{Ops: op("/nodes/approve/timeout", "2h")}, By: "ann", Reason: "slow"})
	require.NoError(t, err)
	require.Equal(t, 2, done.Changed)
	for id, revision := range map[workflow.RunID]int{"order-1": 2, "order-2": 3} {
		d, have, err := e.Definition(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, revision, have)
		require.Contains(t, fmt.Sprintf("%+v", d.Nodes), "Timeout:2h")
	}
}

// A request that is no batch is refused, and changes nothing.
func TestBatchesThatAreRefused(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	startOrder(t, e, "order-1")
	mayAct := api.Handler(e, api.Options{Identify: func(*http.Request) (string, api.Rights, error) { return "ann", api.View | api.Values | api.Act, nil }})
	for _, c := range []struct {
		query, body string
		status      int
		says        string
	}{
		{"", `{"do": "cancel", "reason": "x"}`, 400, "every run that has not ended"},
		{"?limit=10&cursor=", `{"do": "cancel", "reason": "x"}`, 400, "all=1"},
		{"?status=running&workflow=&limit=1", `{"do": "cancel", "reason": "x"}`, 400, "workflow has no value"},
		{"?roots=0", `{"do": "cancel", "reason": "x"}`, 400, "all=1"},
		{"?prefix=order&tenant=", `{"do": "cancel", "reason": "x"}`, 400, "tenant has no value"},
		{"?all=1", `{"do": "vote", "approved": true, "reason": "x"}`, 400, "vote is not done to many runs here: cancel, pause"},
		{"?all=1", `{"do": "cancel"}`, 400, "reason"},
		{"?all=1", `{"do": "cancel", "reason": "x", "payload": 1}`, 400, "payload"},
		{"?status=failed", `{"do": "cancel", "reason": "x"}`, 400, "have ended"},
		{"?where=status+=+1", `{"do": "cancel", "reason": "x"}`, 400, "1:8"},
		{"?order=newest", `{"do": "cancel", "reason": "x"}`, 400, "order"},
		{"?all=1&cursor=nobody", `{"do": "cancel", "reason": "x"}`, 404, "cursor"},
		{"?limit=0", `{"do": "cancel", "reason": "x"}`, 400, "limit"},
		{"?all=1", `{"do": "signal", "reason": "x"}`, 400, "a signal needs a name"},
		{"?all=1&dryRun=1", `{"do": "signal", "reason": "x"}`, 400, "a signal needs a name"},
		{"?all=1&dryRun=1", `{"do": "signal", "name": "go", "id": "pawl:x", "reason": "x"}`, 400, "pawl:"},
		{"?all=1&dryRun=1", `{"do": "signal", "name": "unknown", "reason": "x"}`, 200, `"found":1`},
		{"?all=1&dryRun=1", `{"do": "cancelNodes", "nodes": ["unknown"], "reason": "x"}`, 200, `"found":1`},
		{"?all=1", `{"do": "patch", "ops": [], "reason": "x"}`, 403, "Define"},
		{"?all=1", `{"do": "patch", "base": 1, "ops": [], "reason": "x"}`, 403, "Define"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/batch"+c.query, strings.NewReader(c.body))
		w := httptest.NewRecorder()
		mayAct.ServeHTTP(w, r)
		require.Equal(t, c.status, w.Code, "%s %s: %s", c.query, c.body, w.Body)
		require.Contains(t, w.Body.String(), c.says)
	}
	o, err := e.Overview(t.Context(), "order-1")
	require.NoError(t, err)
	require.Equal(t, workflow.RunRunning, o.Status)
}

// The definitions that are published are listed, and read by version or the latest.
func TestPublishedDefinitions(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	c, closeClient := dialHandler(t, everything(e))
	defer closeClient()
	none, err := c.Definitions(t.Context(), pawl.DefinitionFilter{})
	require.NoError(t, err)
	require.Empty(t, none)
	for v := range 2 {
		_, err := e.Publish(t.Context(), parse(t, fmt.Sprintf("name: \"a b\"\nversion: %d\nstart: w\nnodes: [{id: w, wait: {event: go%d}}]\n", v+1, v+1)))
		require.NoError(t, err)
	}
	both, err := c.Definitions(t.Context(), pawl.DefinitionFilter{})
	require.NoError(t, err)
	require.Equal(t, []any{"a b", 1, "a b", 2}, []any{both[0].Name, both[0].Version, both[1].Name, both[1].Version})
	_, err = e.Publish(t.Context(), parse(t, "name: a\nstart: w\nnodes: [{id: w, wait: {event: go}}]\n"))
	require.NoError(t, err)
	chosen, err := c.Definitions(t.Context(), pawl.DefinitionFilter{Workflow: "a b"})
	require.NoError(t, err)
	require.Equal(t, both, chosen)
	for version, event := range map[int]string{0: "go2", 1: "go1", 2: "go2"} {
		d, err := c.Published(t.Context(), "a b", version)
		require.NoError(t, err)
		require.Equal(t, event, d.Nodes[0].Wait.Event)
	}
	_, err = c.Published(t.Context(), "a b", 3)
	require.ErrorIs(t, err, pawl.ErrNotPublished)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/definitions/a%20b/newest", nil)
	w := httptest.NewRecorder()
	everything(e).ServeHTTP(w, r)
	require.Equal(t, 400, w.Code, w.Body)
	require.Contains(t, w.Body.String(), "latest")
}

// ofRuns selects runs.
func ofRuns(f pawl.RunFilter) pawl.Selection { return pawl.Selection{Runs: &f} }

// dialHandler returns a client of a handler, and what closes both.
func dialHandler(t *testing.T, h http.Handler) (*api.Client, func()) {
	t.Helper()
	server := httptest.NewServer(h)
	return api.NewClient(server.URL, server.Client()), server.Close
}

// DoAll stops at the limit of its filter, with a cursor, and a dry run counts no more.
func TestDoAllUpToALimit(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	for i := range 5 {
		run := workflow.Run{ID: workflow.RunID(fmt.Sprintf("w-%d", i)), Definition: parse(t, "name: waits\nstart: w\nnodes: [{id: w, wait: {event: go}}]\n")}
		require.NoError(t, e.Start(t.Context(), run, nil))
	}
	server := httptest.NewServer(everything(e))
	defer server.Close()
	c := api.NewClient(server.URL, server.Client())
	pause, f := api.Operation{Act: pawl.Pause{}, By: "ann", Reason: "a few first"}, ofRuns(pawl.RunFilter{Status: []workflow.RunStatus{workflow.RunRunning}, Limit: 2})
	f.DryRun = true
	counted, err := c.DoAll(t.Context(), f, pause)
	require.NoError(t, err)
	require.Equal(t, 2, counted.Found)
	f.DryRun = false
	done, err := c.DoAll(t.Context(), f, pause)
	require.NoError(t, err)
	require.Equal(t, pawl.Report{Applied: true, Found: 2, Changed: 2, Cursor: pawl.Target{Run: "w-1"}}, done)
	f.After, f.Runs.Limit = done.Cursor, 3
	done, err = c.DoAll(t.Context(), f, pause)
	require.NoError(t, err)
	require.Equal(t, pawl.Report{Applied: true, Found: 3, Changed: 3}, done)
	_, err = c.DoAll(t.Context(), ofRuns(pawl.RunFilter{Newest: true, Limit: 2}), pause)
	require.ErrorContains(t, err, "order", "they come the oldest first")
}

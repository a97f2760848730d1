package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

func TestMain(m *testing.M) { os.Exit(harness.RunWithoutLeaks(m)) }

// order quotes three times side by side, and asks people.
const order = `
name: order
start: quote
nodes:
  - {id: quote, task: quote, unmatched: fail, input: {item: string(input.item)}, output: {"state.offer": result}}
  - {id: approve, input: {offer: state.offer}, approval: {quorum: 2, message: "ship it?"}}
  - {id: ship, task: ship, retry: {exhausted: park}}
transitions:
  - {from: quote, to: approve, condition: result.price > 1}
  - {from: approve, to: ship}
`

func parse(t testing.TB, text string) *workflow.Definition {
	t.Helper()
	d, err := workflow.Parse([]byte(text))
	require.NoError(t, err)
	return d
}

// openEngine opens an engine in which quotes are made, and nothing is shipped.
func openEngine(t testing.TB, o pawl.Options) (*pawl.Engine, string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "api")
	require.NoError(t, err)
	t.Cleanup(func() {
		_, differences := replays.Check(dir)
		require.NoError(t, errors.Join(differences, os.RemoveAll(dir)))
	})
	o.Durability = pawl.ProcessCrash
	o.Executor = pawl.Handlers{
		"quote": func(_ context.Context, task pawl.Task) (any, error) {
			return map[string]any{"price": 42, "card": "4111", "lines": []any{map[string]any{"card": "4222"}}}, nil
		},
		"wait": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending },
		"ship": func(context.Context, pawl.Task) (any, error) {
			return nil, pawl.TaskError{Code: "closed", Message: "at 4111"}
		},
	}
	e, err := pawl.Open(t.Context(), dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
	return e, dir
}

// startOrder starts an order, and returns when it waits for people.
func startOrder(t testing.TB, e *pawl.Engine, id workflow.RunID) {
	t.Helper()
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: parse(t, order)}, map[string]any{"item": "chair"}))
	awaitEvent(t, e, id, workflow.EventApprovalRequested)
}

func awaitEvent(t testing.TB, e *pawl.Engine, id workflow.RunID, kind workflow.EventType) {
	t.Helper()
	for ev, err := range e.Events(t.Context(), id, pawl.EventsOptions{Follow: true}) {
		require.NoError(t, err)
		if ev.Type == kind {
			return
		}
	}
	require.Fail(t, "the run has ended")
}

func vote(t testing.TB, e *pawl.Engine, id workflow.RunID, by ...string) {
	t.Helper()
	for _, who := range by {
		require.NoError(t, e.Vote(t.Context(), pawl.Target{Run: id, Node: "approve"}, workflow.Ballot{By: who, Approved: true}))
	}
}

// everybody is a hook that gives rights to all.
func everybody(rights api.Rights) func(*http.Request) (string, api.Rights, error) {
	return func(*http.Request) (string, api.Rights, error) { return "ann", rights, nil }
}

// get returns status and body of a request.
func get(t testing.TB, h http.Handler, path string, header ...string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
	r.RemoteAddr = "127.0.0.1:999"
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	checkAnswer(t, r, nil, w)
	return w.Code, w.Body.String()
}

// object decodes a body that is one.
func object(t testing.TB, text string) map[string]any {
	t.Helper()
	var out map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &out), text)
	return out
}

// A handler without a hook answers everything about a run that waits.
func TestReadARun(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	startOrder(t, e, "order-1")
	h := api.Handler(e, api.Options{})
	for path, want := range map[string]string{
		"/v1/runs":                                    `{"runs":[{"run":"order-1","status":"running"`,
		"/v1/runs/order-1":                            `{"run":"order-1","status":"running"`,
		"/v1/runs/-?run=order-1":                      `{"run":"order-1","status":"running"`,
		"/v1/runs/order-1?wait=1ms":                   `"status":"running"`,
		"/v1/runs/order-1/overview":                   `{"node":"approve","tokens":{"waiting_for_approval":1}}`,
		"/v1/runs/order-1/tokens":                     `"status":"completed"`,
		"/v1/runs/order-1/tokens?node=approve":        `{"tokens":[{"id":2,"node":"approve","status":"waiting_for_approval"`,
		"/v1/runs/order-1/tokens?status=dispatched":   `{"tokens":[]}`,
		"/v1/runs/order-1/data":                       `"offer":{"card":"4111"`,
		"/v1/runs/order-1/definition":                 `"name":"order"`,
		"/v1/runs/order-1?at=1":                       `"seq":1`,
		"/v1/runs/order-1/overview?at=1":              `"nodes":[{"node":"quote","tokens":{"dispatched":1}}]`,
		"/v1/runs/order-1/tokens?at=1&node=quote":     `{"tokens":[{"id":1,"node":"quote","status":"dispatched","path":"root","attempt":1}]}`,
		"/v1/runs/order-1/data?at=1":                  `{"record":1,"input":{"item":"chair"},"state":{}}`,
		"/v1/runs/order-1/definition?at=2":            `"revision":1`,
		"/v1/runs/order-1/graph.svg?at=1":             `at record 1`,
		"/v1/runs/order-1/why?at=1":                   `"record":1,`,
		"/v1/runs/order-1/events?at=1&after=1":        `"after":3,"more":false}`,
		"/v1/runs/order-1/journal?at=1":               `"after":1,"more":false}`,
		"/v1/runs/order-1/branches?at=1":              `{"branches":[]}`,
		"/v1/runs/order-1/signals?at=1":               `{"signals":[]}`,
		"/v1/runs/order-1/events":                     `"type":"approval.requested"`,
		"/v1/runs/order-1/events?limit=1":             `"after":1,"more":true}`,
		"/v1/runs/order-1/journal":                    `"kind":"TaskCompleted"`,
		"/v1/runs/order-1/journal?after=1&limit=1":    `{"records":[{"record":2,`,
		"/v1/runs/order-1/why":                        `"for":"people: 0 of 2 approvals"`,
		"/v1/runs/order-1/graph.svg?width=400":        `<svg xmlns=`,
		"/v1/diff?a=order-1&b=order-1":                `"equal":`,
		"/v1/approvals":                               `"message":"ship it?"`,
		"/v1/dead-letters?workflow=order":             `{"deadLetters":[],"more":false}`,
		"/v1/engine":                                  `"counts":[{"workflow":"order","status":"running","runs":1}]`,
		"/healthz":                                    `{"status":"ok"}`,
		"/readyz":                                     `{"status":"ready"}`,
		"/v1/runs?status=failed&status=completed":     `{"runs":[]}`,
		"/v1/runs?where=status=='failed'":             `{"runs":[]}`,
		"/v1/runs?where=status=='running'":            `"run":"order-1"`,
		"/v1/runs?order=newest&prefix=order&limit=10": `"run":"order-1"`,
	} {
		status, body := get(t, h, path)
		require.Equal(t, http.StatusOK, status, "%s: %s", path, body)
		require.Contains(t, body, want, path)
	}
}

// Every refusal has the form of an error, with a status and a code.
func TestRefusals(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	h := api.Handler(e, api.Options{})
	for path, want := range map[string]api.Error{
		"/v1/runs/none":                {Status: 404, Code: "run_not_found"},
		"/v1/runs/none?wait=1s":        {Status: 404, Code: "run_not_found"},
		"/v1/runs/none/overview":       {Status: 404, Code: "run_not_found"},
		"/v1/runs/none/tokens":         {Status: 404, Code: "run_not_found"},
		"/v1/runs/none/events":         {Status: 404, Code: "run_not_found"},
		"/v1/runs/none/journal":        {Status: 404, Code: "run_not_found"},
		"/v1/runs/none/why":            {Status: 404, Code: "run_not_found"},
		"/v1/runs/none/graph.svg":      {Status: 404, Code: "run_not_found"},
		"/v1/runs/none/nothing":        {Status: 404, Code: "not_found"},
		"/v1//runs":                    {Status: 404, Code: "not_found"},
		"/v1/runs/../runs":             {Status: 404, Code: "not_found"},
		"/":                            {Status: 404, Code: "not_found"},
		"/v1/runs?limit=0":             {Status: 400, Code: "invalid_request"},
		"/v1/runs?limit=1001":          {Status: 400, Code: "invalid_request"},
		"/v1/runs?limit=-1":            {Status: 400, Code: "invalid_request"},
		"/v1/runs?order=up":            {Status: 400, Code: "invalid_request"},
		"/v1/runs?status=odd":          {Status: 400, Code: "invalid_request"},
		"/v1/runs?since=yesterday":     {Status: 400, Code: "invalid_request"},
		"/v1/runs?roots=maybe":         {Status: 400, Code: "invalid_request"},
		"/v1/runs?unknown=1":           {Status: 400, Code: "invalid_request"},
		"/v1/runs?prefix=a&prefix=b":   {Status: 400, Code: "invalid_request"},
		"/v1/runs?where=status+is+odd": {Status: 400, Code: "invalid_request"},
		"/v1/runs?cursor=none":         {Status: 404, Code: "run_not_found"},
		"/v1/runs/none?wait=-1s":       {Status: 400, Code: "invalid_request"},
		"/v1/runs/none?run=other":      {Status: 400, Code: "invalid_request"},
		"/v1/runs/none/events?after=x": {Status: 400, Code: "invalid_request"},
		"/v1/runs/order-1?at=0":        {Status: 400, Code: "invalid_request"},
		"/v1/runs/order-1/events?at=0": {Status: 400, Code: "invalid_request"},
		"/v1/runs/none/why?at=1":       {Status: 404, Code: "run_not_found"},
		"/v1/runs/none/overview?at=1":  {Status: 404, Code: "run_not_found"},
		"/v1/diff?a=x":                 {Status: 400, Code: "invalid_request"},

		"/v1/runs?limit=":                       {Status: 400, Code: "invalid_request"},
		"/v1/runs?since=":                       {Status: 400, Code: "invalid_request"},
		"/v1/runs?order=":                       {Status: 400, Code: "invalid_request"},
		"/v1/runs/order-1?wait=":                {Status: 400, Code: "invalid_request"},
		"/v1/runs/order-1?at=":                  {Status: 400, Code: "invalid_request"},
		"/v1/runs/order-1/tokens?group=":        {Status: 400, Code: "invalid_request"},
		"/v1/runs/order-1/events?after":         {Status: 400, Code: "invalid_request"},
		"/v1/runs/order-1/graph.svg?width=":     {Status: 400, Code: "invalid_request"},
		"/v1/runs/order-1/branches?cursor=1:2x": {Status: 400, Code: "invalid_request"},
		"/v1/watch?where=status+is+odd":         {Status: 400, Code: "invalid_request"},
		"/v1/watch?where=run":                   {Status: 400, Code: "invalid_request"},
		"/v1/watch?status=":                     {Status: 400, Code: "invalid_request"},
		"/v1/watch?tenant=":                     {Status: 400, Code: "invalid_request"},
		"/v1/runs?workflow=":                    {Status: 400, Code: "invalid_request"},
		"/v1/runs?where=":                       {Status: 400, Code: "invalid_request"},
		"/v1/runs?forkedFrom=&prefix=order":     {Status: 400, Code: "invalid_request"},
		"/v1/runs/order-1/tokens?node=":         {Status: 400, Code: "invalid_request"},
		"/v1/definitions?workflow=":             {Status: 400, Code: "invalid_request"},
		"/v1/timings?workflow=":                 {Status: 400, Code: "invalid_request"},
		"/v1/approvals?run=":                    {Status: 400, Code: "invalid_request"},
		"/v1/dead-letters?code=":                {Status: 400, Code: "invalid_request"},
		"/v1/runs?label=%3Dx":                   {Status: 400, Code: "invalid_request"},
	} {
		status, body := get(t, h, path)
		var got struct{ Error api.Error }
		require.NoError(t, json.Unmarshal([]byte(body), &got), body)
		require.Equal(t, want.Status, status, "%s: %s", path, body)
		require.Equal(t, want.Status, got.Error.Status, path)
		require.Equal(t, want.Code, got.Error.Code, path)
		require.NotEmpty(t, got.Error.Message, path)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "http://localhost/v1/runs", nil)
	r.RemoteAddr = "127.0.0.1:999"
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
	require.Equal(t, "GET", w.Header().Get("Allow"))
}

// Pages of a list follow each other without a gap, newest first as well.
func TestPages(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	var ids []string
	waits := parse(t, "name: waits\nstart: a\nnodes: [{id: a, wait: {event: go}}]")
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(id), Definition: waits}, nil))
		ids = append(ids, id)
	}
	h := api.Handler(e, api.Options{})
	for _, order := range []string{"oldest", "newest"} {
		var got []string
		for cursor := ""; ; {
			status, body := get(t, h, "/v1/runs?limit=2&order="+order+"&cursor="+cursor)
			require.Equal(t, http.StatusOK, status, body)
			page := object(t, body)
			for _, r := range page["runs"].([]any) {
				got = append(got, r.(map[string]any)["run"].(string))
			}
			cursor, _ = page["cursor"].(string)
			if cursor == "" {
				break
			}
		}
		require.Equal(t, ids, got)
		slices.Reverse(ids)
	}
	status, body := get(t, h, "/v1/runs", "Accept", "application/x-ndjson")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, 5, strings.Count(body, "\n"))
}

// Without a hook only this machine is served, to read; with one, whom it knows, to what it may see.
func TestRights(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	startOrder(t, e, "order-1")
	h := api.Handler(e, api.Options{})
	for _, change := range []func(*http.Request){
		func(r *http.Request) { r.RemoteAddr = "192.0.2.7:80" },
		func(r *http.Request) { r.Host = "pawl.example.com" },
		func(r *http.Request) { r.Header.Set("X-Forwarded-For", "192.0.2.7") },
		func(r *http.Request) { r.Header.Set("Forwarded", "for=192.0.2.7") },
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/runs", nil)
		r.RemoteAddr = "127.0.0.1:999"
		change(r)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusForbidden, w.Code)
	}
	for rights, want := range map[api.Rights]int{0: 403, api.Act: 403, api.View: 200, api.All: 200} {
		status, _ := get(t, api.Handler(e, api.Options{Identify: everybody(rights)}), "/v1/runs")
		require.Equal(t, want, status)
	}
	stranger := api.Options{Identify: func(*http.Request) (string, api.Rights, error) { return "", api.All, io.ErrUnexpectedEOF }}
	status, body := get(t, api.Handler(e, stranger), "/v1/runs")
	require.Equal(t, http.StatusUnauthorized, status)
	require.NotContains(t, body, "unexpected EOF")
	status, _ = get(t, api.Handler(e, stranger), "/readyz")
	require.Equal(t, http.StatusOK, status)
}

// A caller who may not see values sees none of them, wherever they stand; a caller who sees
// redacted ones sees no others.
func TestNoValueIsShown(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	startOrder(t, e, "order-1")
	startOrder(t, e, "order-2")
	vote(t, e, "order-2", "bob", "eve")
	awaitEvent(t, e, "order-2", workflow.EventTaskParked)
	again := parse(t, "name: again\nstart: a\nnodes: [{id: a, task: wait, retry: {maxAttempts: 2, initialInterval: 1h}}]")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "again-1", Definition: again}, nil))
	for token, err := range e.Tokens(t.Context(), "again-1", pawl.TokenFilter{}) {
		require.NoError(t, err)
		require.NoError(t, e.Fail(t.Context(), token.Key, pawl.TaskError{Code: "closed", Message: "at 4111", Retryable: true}))
	}
	awaitEvent(t, e, "again-1", workflow.EventTaskRetrying)
	gone := parse(t, "name: gone\nstart: a\nnodes: [{id: a, task: ship}, {id: z, end: {fail: gone}}]\ntransitions: [{from: a, to: z, outcome: error}]")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "gone-1", Definition: gone}, nil))
	awaitEvent(t, e, "gone-1", workflow.EventWorkflowFailed)
	hide := func(_ workflow.RunID, path string, v any) any {
		if strings.HasSuffix(path, ".card") {
			return "***"
		}
		return v
	}
	for name, o := range map[string]api.Options{
		"no values": {Identify: everybody(api.View)},
		"redacted":  {Identify: everybody(api.View | api.Values), Redact: hide},
	} {
		h := api.Handler(e, o)
		for _, path := range []string{
			"/v1/runs", "/v1/approvals", "/v1/dead-letters",
			"/v1/runs/order-2", "/v1/runs/order-2/overview", "/v1/runs/order-2/tokens", "/v1/runs/order-2/events", "/v1/runs/order-2/journal", "/v1/runs/order-2/why",
			"/v1/runs/order-1/why", "/v1/runs/order-1/tokens", "/v1/runs/order-2/data", "/v1/runs/again-1/events", "/v1/runs/again-1/tokens",
			"/v1/runs/gone-1", "/v1/runs/gone-1/events", "/v1/runs/gone-1/why",
		} {
			status, body := get(t, h, path)
			if name == "no values" && strings.HasSuffix(path, "/data") {
				require.Equal(t, http.StatusForbidden, status)
				continue
			}
			require.Equal(t, http.StatusOK, status, body)
			require.NotContains(t, body, "4111", "%s: %s", name, path)
			require.NotContains(t, body, "4222", "%s: %s", name, path)
		}
	}
	_, body := get(t, api.Handler(e, api.Options{Identify: everybody(api.View | api.Values), Redact: hide}), "/v1/runs/order-1/data")
	require.Contains(t, body, `"offer":{"card":"***","lines":[{"card":"***"}],"price":42}`)
}

// An answer has a tag of what it says, and is not sent twice; a run under the id of one that was purged has others.
func TestTags(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	h := api.Handler(e, api.Options{})
	tags := map[string]string{}
	for range 2 {
		startOrder(t, e, "order-1")
		for _, path := range []string{"/v1/runs/order-1", "/v1/runs/order-1/overview", "/v1/runs/order-1/data", "/v1/runs/order-1/why"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
			r.RemoteAddr = "127.0.0.1:999"
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			tag := w.Header().Get("ETag")
			if had := tags[path]; had != "" && path != "/v1/runs/order-1/data" { // which says the same again
				status, _ := get(t, h, path, "If-None-Match", had)
				require.Equal(t, http.StatusOK, status, path)
			}
			tags[path] = tag
			for _, has := range []string{tag, "W/" + tag, `"1",` + tag} {
				status, body := get(t, h, path, "If-None-Match", has)
				require.Equal(t, http.StatusNotModified, status, body)
				require.Empty(t, body)
			}
			status, _ := get(t, h, path, "If-None-Match", `"1"`)
			require.Equal(t, http.StatusOK, status)
		}
		require.NoError(t, e.Cancel(t.Context(), "order-1", "over"))
		require.NoError(t, e.Purge(t.Context(), "order-1"))
	}
}

// A stream tells what has happened and what happens, and says when the run has ended.
func TestStreamOfEvents(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	startOrder(t, e, "order-1")
	s := httptest.NewServer(api.Handler(e, api.Options{}))
	defer s.Close()
	c := api.NewClient(s.URL, s.Client())
	var got []history.Event
	for ev, err := range c.Events(t.Context(), "order-1", pawl.EventsOptions{Follow: true}) {
		require.NoError(t, err)
		got = append(got, ev)
		if ev.Type == workflow.EventApprovalRequested {
			require.NoError(t, e.Cancel(t.Context(), "order-1", "done"))
		}
	}
	var want []history.Event
	for ev, err := range e.Events(t.Context(), "order-1", pawl.EventsOptions{}) {
		require.NoError(t, err)
		want = append(want, ev)
	}
	require.Equal(t, len(want), len(got))
	require.Equal(t, workflow.EventWorkflowCancelled, got[len(got)-1].Type)

	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/runs/order-1/events", nil)
	require.NoError(t, err)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Last-Event-ID", "1")
	a, err := s.Client().Do(r)
	require.NoError(t, err)
	text, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	require.NoError(t, a.Body.Close())
	require.True(t, strings.HasPrefix(string(text), ":\n\nid: 2\ndata: {"), string(text))
	require.True(t, strings.HasSuffix(string(text), "event: end\ndata: {}\n\n"), string(text))
}

// A client over the socket of the directory reads what the engine would return.
func TestSocket(t *testing.T) {
	_, err := api.Dial(t.Context(), t.TempDir())
	require.ErrorIs(t, err, api.ErrNoEngine)
	e, dir := openEngine(t, pawl.Options{Socket: api.Local})
	startOrder(t, e, "order-1")
	c, err := api.Dial(t.Context(), dir)
	require.NoError(t, err)
	defer c.Close()
	ctx := t.Context()

	info, err := c.Engine(ctx)
	require.NoError(t, err)
	require.Equal(t, os.Getpid(), info.PID)
	workers, err := c.Workers(ctx)
	require.NoError(t, err)
	require.Nil(t, workers.Pool, "its executor is no pool")
	timings, err := c.Timings(ctx, history.TimingFilter{By: "task", Within: "hour"})
	require.NoError(t, err)
	require.Equal(t, "hour", timings.Within)
	require.Equal(t, "task", timings.By)
	_, err = c.Timings(ctx, history.TimingFilter{By: "run"})
	require.ErrorIs(t, err, pawl.ErrInvalid)
	for s, err := range c.Runs(ctx, pawl.RunFilter{Status: []workflow.RunStatus{workflow.RunRunning}, Since: time.Unix(1, 0), Newest: true, Roots: true, Workflow: "order", Limit: 1}) {
		require.NoError(t, err)
		require.Equal(t, workflow.RunID("order-1"), s.Run)
	}
	o, err := c.Overview(ctx, "order-1")
	require.NoError(t, err)
	want, err := e.Overview(ctx, "order-1")
	require.NoError(t, err)
	require.Equal(t, want.Nodes, o.Nodes)
	_, err = c.Summary(ctx, "none/1.1")
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
	d, revision, err := c.Definition(ctx, "order-1")
	require.NoError(t, err)
	require.Equal(t, 1, revision)
	require.Equal(t, "order", d.Name)
	x, err := c.Why(ctx, "order-1")
	require.NoError(t, err)
	require.Len(t, x.Waits, 1)
	svg, err := c.Graph(ctx, "order-1", 0)
	require.NoError(t, err)
	require.Contains(t, string(svg), "<svg")
	data, err := c.Data(ctx, "order-1")
	require.NoError(t, err)
	require.Contains(t, data.State, "offer")

	vote(t, e, "order-1", "bob", "eve")
	awaitEvent(t, e, "order-1", workflow.EventTaskParked)
	letters := 0
	for _, err := range c.DeadLetters(ctx, pawl.DeadLetterFilter{Where: `run == "nobody"`}) {
		require.NoError(t, err)
		t.Fatal("there is no such run")
	}
	for _, err := range c.Approvals(ctx, pawl.ApprovalFilter{Where: `run =`}) {
		require.ErrorIs(t, err, pawl.ErrInvalid)
	}
	for l, err := range c.DeadLetters(ctx, pawl.DeadLetterFilter{Node: "ship"}) {
		require.NoError(t, err)
		require.Equal(t, "closed", l.Failure.Code)
		letters++
	}
	require.Equal(t, 1, letters)
	for range c.Approvals(ctx, pawl.ApprovalFilter{}) {
		require.Fail(t, "it was decided")
	}
	tokens := 0
	for _, err := range c.Tokens(ctx, "order-1", pawl.TokenFilter{Status: []workflow.TokenStatus{workflow.Completed}, After: 1}) {
		require.NoError(t, err)
		tokens++
	}
	require.Equal(t, 1, tokens)
	for _, err := range c.Tokens(ctx, "none", pawl.TokenFilter{Node: "a", Group: 1}) {
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
	}
	records := 0
	for r, err := range c.Journal(ctx, "order-1", pawl.EventsOptions{After: 1}) {
		require.NoError(t, err)
		require.NotEmpty(t, r.Decisions)
		records++
	}
	require.Equal(t, int(o.Seq)+2, records)
	require.NoError(t, e.Cancel(ctx, "order-1", "enough"))
	out, err := c.Wait(ctx, "order-1")
	require.NoError(t, err)
	require.Equal(t, workflow.RunCancelled, out.Status)
}

// Close ends streams and waits, and nobody answers any more.
func TestCloseEndsStreams(t *testing.T) {
	e, dir := openEngine(t, pawl.Options{Socket: api.Local})
	startOrder(t, e, "order-1")
	c, err := api.Dial(t.Context(), dir)
	require.NoError(t, err)
	defer c.Close()
	closed := false
	for ev, err := range c.Events(t.Context(), "order-1", pawl.EventsOptions{Follow: true}) {
		if err != nil {
			require.True(t, closed, "the stream ends with the engine")
			break
		}
		if ev.Type == workflow.EventApprovalRequested {
			closed = true
			require.NoError(t, e.Close(t.Context()))
		}
	}
	_, err = api.Dial(t.Context(), dir)
	require.ErrorIs(t, err, api.ErrNoEngine)
}

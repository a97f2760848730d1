package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// A run of the past waits for what it waited for then, had the branches and kept the signals that it had then, and had told what it had told.
func TestThePastOfARun(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: parse(t, `
name: a
start: first
nodes:
  - {id: first, task: wait}
  - {id: each, task: wait}
transitions:
  - {from: first, to: each, foreach: {collection: input.items}}
`)}, map[string]any{"items": []any{"x", "y", "z"}}))
	require.NoError(t, e.Signal(t.Context(), "a", workflow.Signal{Name: "go", ID: "1", Early: true})) // record 2
	now, err := e.Inspect(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, e.Complete(t.Context(), now.Tokens[0].Key, nil)) // record 3
	require.NoError(t, e.Pause(t.Context(), "a"))                       // record 4
	h := api.Handler(e, api.Options{})
	for at, want := range map[int]struct {
		branches, signals int
		why               string
	}{1: {0, 0, "first"}, 2: {0, 1, "first"}, 3: {3, 1, "each"}, 4: {3, 1, "each"}} {
		ask := func(what string) string {
			status, body := get(t, h, fmt.Sprintf("/v1/runs/a/%s?at=%d", what, at))
			require.Equal(t, http.StatusOK, status, "%s: %s", what, body)
			return body
		}
		require.Equal(t, want.branches, strings.Count(ask("branches"), `"index":`), "record %d", at)
		require.Equal(t, want.signals, strings.Count(ask("signals"), `"name":"go"`), "record %d", at)
		require.Contains(t, ask("why"), `"place":"`+want.why, "record %d", at)
		require.Contains(t, ask("why"), fmt.Sprintf(`"record":%d,`, at))
		require.Equal(t, at, strings.Count(ask("journal"), `"kind":`), "record %d", at)
		told := object(t, ask("events"))["events"].([]any)
		require.EqualValues(t, at, told[len(told)-1].(map[string]any)["record"])
	}
	for _, what := range []string{"why", "events", "journal", "branches", "signals"} {
		status, body := get(t, h, "/v1/runs/a/"+what+"?at=5")
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, body, "no record 5: there are 1 to 4")
	}
	for _, what := range []string{"events", "journal"} {
		status, body := get(t, h, "/v1/runs/a/"+what+"?at=1", "Accept", "text/event-stream")
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, body, "a stream goes on")
	}

	same := func(query string) map[string]any {
		status, body := get(t, h, "/v1/diff?a=a&b=a"+query)
		require.Equal(t, http.StatusOK, status, body)
		return object(t, body)
	}
	require.Less(t, same("&bAt=2")["equal"], same("")["equal"])
	require.Nil(t, same("&aAt=3&bAt=3")["parting"])
	require.Equal(t, same("&aAt=1&bAt=1")["equal"], same("&aAt=1")["equal"], "the decisions that both had")
	for query, says := range map[string]string{"&aAt=5": "no record 5: there are 1 to 4", "&bAt=0": "from 1", "&bAt=x": "bAt"} {
		status, body := get(t, h, "/v1/diff?a=a&b=a"+query)
		require.Equal(t, http.StatusBadRequest, status, query)
		require.Contains(t, body, says)
	}
}

// A request whose dryRun is false is no dry run: it takes no place from those that read a whole run. Every route that has it refuses a
// value that is neither true nor false.
func TestWhatIsADryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := openEngine(t, pawl.Options{})
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: parse(t, "name: a\nstart: a\nnodes: [{id: a, task: wait}]")}, nil))
		h := api.Handler(e, api.Options{Identify: func(*http.Request) (string, api.Rights, error) { return "bob", api.All | api.Files, nil }})
		gate := make(chan struct{})
		var open sync.WaitGroup
		for range 8 { // which is as many as there may be
			open.Go(func() {
				h.ServeHTTP(heldWriter{httptest.NewRecorder(), gate}, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/runs/a/why", http.NoBody))
			})
		}
		synctest.Wait()
		for dry, want := range map[string]int{"1": http.StatusServiceUnavailable, "true": http.StatusServiceUnavailable, "0": http.StatusOK, "false": http.StatusOK} {
			status, body := send(t, h, http.MethodPost, "/v1/runs/a/pause?dryRun="+dry, signed(""))
			require.Equal(t, want, status, "%s: %s", dry, body)
		}
		close(gate)
		open.Wait()
		tried := 0
		for route, params := range api.RouteParams() {
			if !slices.Contains(params, "dryRun") {
				continue
			}
			tried++
			method, path, _ := strings.Cut(route, " ")
			path = strings.NewReplacer("{run}", "a", "{token}", "1", "{name}", "order", "{version}", "1").Replace(path)
			for _, odd := range []string{"no", "yes", "2"} {
				status, body := send(t, h, method, path+"?dryRun="+odd, strings.ReplaceAll(seeds[route].body, "ORDER", order))
				require.Equal(t, http.StatusBadRequest, status, "%s: %s", route, body)
				require.Contains(t, body, "dryRun is", route)
			}
		}
		require.Greater(t, tried, 15)
	})
}

// A definition that the engine has accepted is drawn, and played on, however large it is.
func TestTheGraphOfADefinitionAboveTheDefaultBounds(t *testing.T) {
	d := &workflow.Definition{Name: "large", Start: "n0"}
	for i := range limits.MaxNodes + 1 {
		d.Nodes = append(d.Nodes, workflow.Node{ID: workflow.NodeID(fmt.Sprint("n", i)), Wait: &workflow.WaitSpec{Event: "x"}})
		if i > 0 {
			d.Transitions = append(d.Transitions, workflow.Transition{From: d.Nodes[i-1].ID, To: d.Nodes[i].ID})
		}
	}
	e, _ := openEngine(t, pawl.Options{Bounds: workflow.Bounds{Nodes: 2 * limits.MaxNodes}})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "large", Definition: d}, nil))
	h := api.Handler(e, api.Options{Identify: func(*http.Request) (string, api.Rights, error) { return "bob", api.All, nil }})
	status, body := send(t, h, http.MethodGet, "/v1/runs/large/graph.svg", "")
	require.Equal(t, http.StatusOK, status, body)
	r, err := e.Recording(t.Context(), "large")
	require.NoError(t, err)
	s, err := replay.Substitute(r.(*replay.Recording), d)
	require.NoError(t, err)
	require.Nil(t, s.Difference)
}

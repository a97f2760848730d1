package browsertest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// Names as nobody gives them who means well: HTML, a turn of the writing direction, emoji joined of several, and no place to break a line.
const (
	turned  = "na\u202eme שלום 👩‍👩‍👧‍👦😀"
	program = `id <img src=x onerror="document.title='owned'">&'?#%2f`
)

var endless = strings.Repeat("b", 120)

// openHostileShop opens an engine whose runs, workflows, nodes, labels, values and errors are hostile: each workflow has a run
// that waits for a person and one whose task is parked.
func openHostileShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{}
	message := turned + hostile + strings.Repeat("z", 3000)
	var err error
	s.engine, err = pawl.Open(t.Context(), t.TempDir(), pawl.Options{Executor: pawl.Handlers{hostile: func(context.Context, pawl.Task) (any, error) {
		return nil, pawl.TaskError{Code: "boom", Message: message}
	}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.engine.Close(context.Background())) })
	value := map[string]any{"rtl": turned, "html": hostile, "<b>key": "x", strings.Repeat("k", 300): 1, "large": strings.Repeat("w", 1<<20-4000)}
	for _, name := range []string{hostile, turned, endless} {
		ask, load := workflow.NodeID("ask "+name), workflow.NodeID(name)
		d := &workflow.Definition{Name: name, Start: ask, Nodes: []workflow.Node{
			{ID: ask, Approval: &workflow.ApprovalSpec{Message: message[:1000], Quorum: 1}, Input: map[string]string{"v": "input"}},
			{ID: load, Task: hostile, Input: map[string]string{"v": "input"}, Retry: &workflow.RetrySpec{MaxAttempts: 1, Exhausted: workflow.ExhaustedPark}},
		}, Transitions: []workflow.Transition{{From: ask, To: load}}}
		_, err := s.engine.Publish(t.Context(), d)
		require.NoError(t, err)
		// An id may have no slash: those are of child runs.
		waits, parked := workflow.RunID(strings.ReplaceAll(program+name, "/", "|")), workflow.RunID(strings.ReplaceAll("parked "+turned+name, "/", "|"))
		for _, id := range []workflow.RunID{waits, parked} {
			run := workflow.Run{ID: id, Workflow: name, Labels: map[string]string{"k": hostile, "turned": "שלום 😀", "long": strings.Repeat("q", 200)}}
			require.NoError(t, s.engine.Start(t.Context(), run, value))
			s.await(t, id, workflow.EventApprovalRequested, 1)
		}
		require.NoError(t, s.engine.Vote(t.Context(), pawl.Target{Run: parked, Node: ask}, workflow.Ballot{By: "שלום 😀", Comment: turned, Approved: true}))
		s.await(t, parked, workflow.EventTaskParked, 1)
	}
	server := httptest.NewServer(http.StripPrefix("/ops", inspector.Handler(s.engine, forAnn())))
	t.Cleanup(server.Close)
	s.url = server.URL + "/ops/"
	return s
}

// Runs, workflows, nodes, labels and values may have any name, and every kind of page can be read on a telephone: nothing of it is
// taken for HTML, nothing is cut or stands on other texts, axe-core finds nothing, and a value of a megabyte does not make a page
// long. Quick runs of six days see a page of every kind.
func TestHostileNames(t *testing.T) {
	s := openHostileShop(t)
	p := openTab(t, openBrowser(t), view{width: 360})
	pages := s.crawl(t, "")
	require.NoError(t, s.engine.Start(t.Context(), workflow.Run{ID: "..", Workflow: turned}, nil)) // which no path can name
	var kinds []string                                                                             // a page of each
	seen := map[string]bool{}
	for _, page := range append(pages, "run/?id=..") {
		if !seen[kindOf(page)] {
			kinds = append(kinds, page)
		}
		seen[kindOf(page)] = true
	}
	require.Greater(t, len(kinds), 25)
	for _, page := range harness.SampleOfDay(t, harness.Figure(6, 3, 1), kinds) {
		name := page[:min(len(page), 150)]
		p.open(s.url + page)
		assert.Empty(t, p.cutOff(), name)
		assert.Empty(t, p.overlaps(), name)
		assert.Empty(t, p.violations(), name)
		assert.Empty(t, p.heard(), name)
		assert.NotEqual(t, "owned", evaluate[string](p, "document.title"), name)
		assert.Zero(t, evaluate[int](p, `document.querySelectorAll("main img[onerror], main b b").length`), name)
		_, body := get(t, s.url+page)
		assert.Less(t, len(body), 200_000, name)
		p.shoot("hostile-" + fileName(page))
	}
}

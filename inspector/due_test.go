package inspector_test

import (
	"html"
	"net/url"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

// actsOf returns what a page offers to do, by the names of the acts.
func actsOf(page string) (names []string) {
	for _, m := range regexp.MustCompile(`href="[^"]*act\?([^"]*)"`).FindAllStringSubmatch(page, -1) {
		q, _ := url.ParseQuery(html.UnescapeString(m[1]))
		names = append(names, q.Get("do"))
	}
	return names
}

// Readers who may act can do what the first lines of a run say is due.
func TestWhatIsDueCanBeDoneThere(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	s.start("ask", "name: ask\nstart: a\nnodes: [{id: a, approval: {message: 'Ship it?'}, input: {to: '\"bob\"'}}, {id: ship, task: ship}]\ntransitions: [{from: a, to: ship, condition: result.approved}]", nil)
	s.start("event", "name: event\nstart: a\nnodes: [{id: a, wait: {event: paid}}]", nil)
	s.start("broken", "name: broken\nstart: a\nnodes: [{id: a, task: t}]\n", nil)
	require.NoError(t, s.engine.Fail(t.Context(), s.key("broken", "a"), pawl.TaskError{Code: "no", Message: "not today"}))
	_, err := s.engine.Wait(t.Context(), "broken")
	require.NoError(t, err)
	ann := s.serve(as("ann", api.All))
	for id, want := range map[string][]string{
		"order-1": {"signal", "pause", "cancel", "retry", "skip"},
		"ask":     {"signal", "pause", "cancel", "approve", "reject"},
		"event":   {"signal", "pause", "cancel", "signal"},
		"broken":  {"rerun", "fork", "rerun", "rerun"}, // of the run, of what has failed, of its node
	} {
		require.Equal(t, want, actsOf(ann.see("run/"+id)), id)
		require.Empty(t, actsOf(s.see("run/"+id)), "of who may only look")
	}
	ask := textOf(t, ann.see("run/ask"))
	require.Contains(t, ask, "Ship it?")
	require.Contains(t, ask, "to bob")
	require.Contains(t, textOf(t, ann.see("act?do=approve&target=1+ask")), "ship is begun")
	require.Contains(t, textOf(t, ann.see("act?do=approve&target=1+ask")), "If it were rejected instead a of ask : the run would be")
	require.Equal(t, 1, len(regexp.MustCompile("not today").FindAllString(textOf(t, ann.see("run/broken")), -1)), "one failure is told once")
}

// A task that a pause holds back from its next attempt can be retried, which keeps it in its place, or skipped; one that has
// not begun has nothing to repeat.
func TestATaskThatIsHeldBackCanBeSkipped(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	require.NoError(t, s.engine.Pause(t.Context(), "order-1"))
	ann := s.serve(as("ann", api.All))
	require.NoError(t, s.engine.Retry(t.Context(), pawl.Target{Run: "order-1", Token: 3}, pawl.RetryOptions{}))
	page := ann.see("run/order-1?view=token&token=3")
	require.Contains(t, textOf(t, page), "pending")
	require.Equal(t, []string{"resume", "signal", "cancel", "retry", "skip"}, actsOf(page), "of the run, of its token")
	status, body, _ := ann.post("act", url.Values{"do": {"skip"}, "target": {"3 order-1"}, "reason": {"sent by hand"}}, "same-origin")
	require.Equal(t, 303, status, body)
	require.Contains(t, textOf(t, ann.see("run/order-1?view=token&token=3")), "1 skipped")
}

// Several parked tasks of one node are retried together from the page of their run, and no others.
func TestParkedTasksOfARunAreRetriedTogether(t *testing.T) {
	s := openShop(t)
	s.parkMany("import-1", 3)
	s.parkMany("import-2", 2)
	ann := s.serve(as("ann", api.All))
	link := regexp.MustCompile(`href="\.\./(act\?[^"]*do=retry[^"]*)"[^>]*>Retry all 3 tasks…`).FindStringSubmatch(ann.see("run/import-1"))
	require.NotNil(t, link)
	asks := ann.see(html.UnescapeString(link[1]))
	require.Contains(t, textOf(t, asks), "Retry all 3 parked tasks?")
	form := formOf(asks)
	form.Set("reason", "mended")
	status, body, _ := ann.post("act", form, "same-origin")
	require.Equal(t, 303, status, body)
	require.Equal(t, 0, s.parked("import-1"))
	require.Equal(t, 2, s.parked("import-2"))
}

// A run that has ended is performed again from a node on; the new run says of what it was made, and keeps labels and tenant.
func TestRerunFromANode(t *testing.T) {
	s := openShop(t)
	chain := parse(t, "name: chain\nstart: a\nnodes: [{id: a, task: t}, {id: b, task: t}]\ntransitions: [{from: a, to: b}]")
	require.NoError(t, s.engine.Start(t.Context(), workflow.Run{ID: "chain-1", Definition: chain, Tenant: "acme", Labels: map[string]string{"customer": "7"}}, nil))
	require.NoError(t, s.engine.Complete(t.Context(), s.key("chain-1", "a"), nil))
	require.NoError(t, s.engine.Fail(t.Context(), s.key("chain-1", "b"), pawl.TaskError{Code: "no"}))
	_, err := s.engine.Wait(t.Context(), "chain-1")
	require.NoError(t, err)
	ann := s.serve(as("ann", api.All))
	asks := ann.see("act?do=rerun&target=0+chain-1")
	require.Contains(t, asks, `<option value="b">b</option>`)
	require.Contains(t, textOf(t, asks), "Not tried yet")
	require.Regexp(t, `<button class="primary" formmethod="get" formnovalidate>Show what would happen</button><button>Make the new run`, asks)
	asks = ann.see("act?do=rerun&target=0+chain-1&node=b")
	require.Contains(t, textOf(t, asks), "b is begun")
	require.Contains(t, asks, `<button class="primary">Make the new run`)
	form := formOf(asks)
	require.Contains(t, asks, `name="name" value="chain-1-2"`)
	form.Set("name", "chain-1-2")
	form.Set("node", "b")
	form.Set("reason", "it was mended")
	status, body, header := ann.post("act", form, "same-origin")
	require.Equal(t, 303, status, body)
	page := ann.see(header.Get("Location"))
	require.Contains(t, textOf(t, page), "Forked from chain-1 as it was after record 2.")
	require.Contains(t, page, `href="../run/chain-1?at=2"`)
	require.Contains(t, textOf(t, page), "tenant acme")
	require.Contains(t, textOf(t, page), "customer=7")
	link := regexp.MustCompile(`class="tag" href="\.\./([^"]+)"`).FindStringSubmatch(page)
	require.NotNil(t, link)
	require.Contains(t, textOf(t, ann.see(html.UnescapeString(link[1]))), "chain-1-2")
	require.NotEmpty(t, s.key("chain-1-2", "b"))
}

// A completed run says how many of its steps have failed all the same.
func TestACompletedRunTellsToleratedFailures(t *testing.T) {
	s := openShop(t)
	s.start("wide", "name: wide\nstart: split\nnodes: [{id: split}, {id: load, task: load}, {id: sum}]\n"+
		"transitions: [{from: split, to: load, foreach: {collection: input.files}, siblingGroup: files}, {from: load, to: sum, synchronization: {siblingGroup: files, tolerate: {failures: 2}}}]",
		map[string]any{"files": make([]int, 3)})
	for range 2 {
		require.NoError(t, s.engine.Fail(t.Context(), s.key("wide", "load"), pawl.TaskError{Code: "bad_row"}))
	}
	require.NotContains(t, textOf(t, s.see("run/wide")), "tolerated")
	require.NoError(t, s.engine.Complete(t.Context(), s.key("wide", "load"), nil))
	_, err := s.engine.Wait(t.Context(), "wide")
	require.NoError(t, err)
	require.Contains(t, textOf(t, s.see("run/wide")), "2 failures which the run tolerated")
}

// A run is taken to the latest published version of its definition: the form has the operations, and draws the difference first.
func TestMigrate(t *testing.T) {
	s := openShop(t)
	for _, text := range []string{
		"name: m\nversion: 1\nstart: a\ntimeout: 1h\nnodes: [{id: a, wait: {event: go}}, {id: old, task: t}]\ntransitions: [{from: a, to: old}]",
		"name: m\nversion: 2\nstart: a\ntimeout: 2h\nnodes: [{id: a, wait: {event: go}}, {id: b/c, task: t}]\ntransitions: [{from: a, to: b/c}]",
	} {
		_, err := s.engine.Publish(t.Context(), parse(t, text))
		require.NoError(t, err)
	}
	require.NoError(t, s.engine.Start(t.Context(), workflow.Run{ID: "m-1", Workflow: "m", Version: 1}, nil))
	ann := s.serve(as("ann", api.All))
	link := regexp.MustCompile(`href="\.\./([^"]+)">Migrate to the latest version…`).FindStringSubmatch(ann.see("run/m-1?view=definition"))
	require.NotNil(t, link)
	asks := ann.see(html.UnescapeString(link[1]))
	require.Contains(t, textOf(t, asks), "Tried on a copy")
	require.NotContains(t, textOf(t, asks), "would be refused")
	form := formOf(asks)
	ops := regexp.MustCompile(`(?s)<textarea name="value"[^>]*>(.*?)</textarea>`).FindStringSubmatch(asks)
	form.Set("value", html.UnescapeString(ops[1]))
	form.Set("reason", "the new version")
	status, body, _ := ann.post("act", form, "same-origin")
	require.Equal(t, 303, status, body)
	has, _, err := s.engine.Definition(t.Context(), "m-1")
	require.NoError(t, err)
	want, err := s.engine.Published(t.Context(), "m", 2)
	require.NoError(t, err)
	changes, err := workflow.CompareDefinitions(has, want)
	require.NoError(t, err)
	for _, c := range changes { // the version is that which the run began with
		require.Equal(t, []string{"version"}, []string{c.Fields[0].Field}[:len(c.Fields)])
	}
	_, again := ann.get("act?do=patch&target=0+m-1&to=latest")
	require.Contains(t, textOf(t, again), "the run has the latest version of m already")
}

// The id of a node may have brackets, as the place of a thread has: what is done to all that wait there is not done at another node.
func TestActsOfANodeWithBrackets(t *testing.T) {
	s := openShop(t)
	s.start("br", `
name: br
start: s
nodes: [{id: s}, {id: a, task: t}, {id: "a[x]", task: t, retry: {maxAttempts: 1, exhausted: park}}]
transitions: [{from: s, to: a}, {from: s, to: "a[x]", spawnCount: 2}]`, nil)
	for range 2 {
		require.NoError(t, s.engine.Fail(t.Context(), s.key("br", "a[x]"), pawl.TaskError{Code: "no"}))
	}
	page := s.serve(as("ann", api.All)).see("run/br")
	links := regexp.MustCompile(`href="\.\./act\?([^"]*all=letters[^"]*)"`).FindAllStringSubmatch(page, -1)
	require.NotEmpty(t, links)
	for _, link := range links {
		q, err := url.ParseQuery(html.UnescapeString(link[1]))
		require.NoError(t, err)
		require.Equal(t, "a[x]", q.Get("node"))
	}
}

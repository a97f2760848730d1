package inspector

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/loopback"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/internal/texts"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// pendingTasks is an executor whose results do not come.
type pendingTasks struct{}

func (pendingTasks) Execute(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }

// openBounded serves the pages of an engine to callers whom a header names.
func openBounded(t *testing.T) (*server, *pawl.Engine) {
	t.Helper()
	engine, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: pendingTasks{}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close(context.Background())) })
	return newServer(engine, Options{Identify: func(r *http.Request) (string, api.Rights, error) {
		return r.Header.Get("User"), api.View | api.Values | api.Act, nil
	}}), engine
}

func ask(s *server, who, method, address, form string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/"+address, strings.NewReader(form))
	r.Header.Set("User", who)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// dense is a definition in which each of n nodes leads to each of the reach nodes behind it.
func dense(n, reach int) *workflow.Definition {
	d := &workflow.Definition{Name: "dense", Start: "n0"}
	for i := range n {
		d.Nodes = append(d.Nodes, workflow.Node{ID: workflow.NodeID(fmt.Sprint("n", i)), Task: "work"})
		for k := i + 1; k < min(n, i+1+reach); k++ {
			d.Transitions = append(d.Transitions, workflow.Transition{
				ID: workflow.TransitionID(fmt.Sprint(i, "-", k)), From: d.Nodes[i].ID, To: workflow.NodeID(fmt.Sprint("n", k)), Priority: k,
			})
		}
	}
	return d
}

// Forty at once look at the picture of a definition with 280 nodes and 19,740 transitions. It is drawn once, in part, and each page is as
// large as its bounds; nobody asks for the memory of a drawing of all of it.
func TestPicturesAreBounded(t *testing.T) {
	harness.InTurn(t, 4)
	s, engine := openBounded(t)
	d := dense(280, 73)
	require.Len(t, d.Transitions, 17739)
	for i := range 2001 {
		d.Transitions = append(d.Transitions, workflow.Transition{ID: workflow.TransitionID(fmt.Sprint("more-", i)), From: "n0", To: "n1", Priority: 1000 + i})
	}
	require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil))
	require.Equal(t, http.StatusOK, ask(s, "ann", "GET", "run/r?view=tokens", "").Code, "it is compiled and read")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var wg sync.WaitGroup
	pages := make([]*httptest.ResponseRecorder, 40)
	for i := range pages {
		wg.Go(func() { pages[i] = ask(s, "viewer", "GET", "run/r", "") })
	}
	wg.Wait()
	runtime.ReadMemStats(&after)
	shown := 0
	for _, w := range pages {
		if w.Code == http.StatusServiceUnavailable { // the run is read for the first of them
			require.Equal(t, "1", w.Header().Get("Retry-After"))
			continue
		}
		shown++
		require.Equal(t, http.StatusOK, w.Code)
		require.Less(t, w.Body.Len(), pictureBytes+64<<10)
	}
	require.Positive(t, shown)
	require.Len(t, s.pictures.kept, 1)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(700), "MiB, all that was allocated")
}

// A drawing has bounds in nodes, transitions and bytes, whichever of them a definition has too many of.
func TestPartsThatAreDrawn(t *testing.T) {
	long := dense(300, 2)
	for i := range long.Transitions {
		long.Transitions[i].Condition = `"` + strings.Repeat("<é>", 1500) + `" == input.x`
	}
	for name, d := range map[string]*workflow.Definition{"nodes": dense(1000, 1), "edges": dense(200, 20), "texts": long} {
		g, err := compiled.Compile(workflow.Bounds{}, d)
		require.NoError(t, err)
		of := diagram.New(g, nil)
		p := paintPart(of, "n7", nil)
		require.LessOrEqual(t, len(p.SVG), pictureBytes, name)
		require.Greater(t, len(p.SVG), 10<<10, name)
		require.True(t, p.Part(), name)
		require.True(t, p.drawsNode("n7"), name)
		require.LessOrEqual(t, strings.Count(string(p.SVG), `class="edge`), 2*wholeEdges, name)
	}
}

// Pages for which whole runs are read are refused where there are as many as may be; other pages are shown beside them.
func TestPagesOfWholeRunsAreBounded(t *testing.T) {
	s, engine := openBounded(t)
	for _, id := range []workflow.RunID{"a", "b"} {
		require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: id, Definition: dense(3, 1)}, nil))
	}
	addresses := []string{
		"diff?a=a&b=b", "run/a?at=1", "run/a?view=data", "run/a?view=steps", "run/a?view=timeline", "run/a?view=groups", "run/a?view=whatif&do=cancel&on=&value=",
	}
	var leave []func()
	for {
		one, err := s.bounds.Replays.Admit("ann")
		if err != nil {
			break
		}
		leave = append(leave, one)
	}
	for _, address := range addresses {
		w := ask(s, "ann", "GET", address, "")
		require.Equal(t, http.StatusServiceUnavailable, w.Code, address)
		require.Equal(t, "1", w.Header().Get("Retry-After"), address)
		require.Contains(t, w.Body.String(), "requests that read whole runs", address)
	}
	for _, address := range []string{"act?do=pause&target=0+a", "act?do=fork&target=0+a&at=1"} {
		w := ask(s, "ann", "GET", address, "")
		require.Equal(t, http.StatusOK, w.Code, "whoever needs to act can")
		require.Contains(t, w.Body.String(), "Not tried, as too many requests read whole runs at once")
	}
	form := url.Values{"do": {"pause"}, "target": {"0 a"}, "reason": {"test"}}
	require.Equal(t, http.StatusSeeOther, ask(s, "ann", "POST", "act", form.Encode()).Code)
	require.Equal(t, http.StatusOK, ask(s, "ann", "GET", "run/a?view=tokens", "").Code)
	require.Equal(t, http.StatusOK, ask(s, "bob", "GET", addresses[0], "").Code, "another has places of his own")
	for _, one := range leave {
		one()
	}
	for _, address := range addresses {
		require.Equal(t, http.StatusOK, ask(s, "ann", "GET", address, "").Code, address)
	}
	for range 8 { // every page has given its place back
		_, err := s.bounds.Replays.Admit("ann")
		require.NoError(t, err)
	}
}

// Requests have the rate and the number of the API, and say after which time to come again. The clock of the rate stands still here.
func TestRequestsOfPagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := openBounded(t)
		var w *httptest.ResponseRecorder
		for range 5000 {
			if w = ask(s, "ann", "GET", "nothing", ""); w.Code != http.StatusNotFound {
				break
			}
		}
		require.Equal(t, http.StatusTooManyRequests, w.Code)
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		require.Equal(t, http.StatusOK, ask(s, "ann", "GET", "static/inspector.css", "").Code, "files have no bound")
		for range 1024 {
			_, err := s.bounds.Calls.Admit("bob")
			require.NoError(t, err)
		}
		w = ask(s, "bob", "GET", "nothing", "")
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		require.Equal(t, http.StatusNotFound, ask(s, "cid", "GET", "nothing", "").Code)
	})
}

// A page of a list whose condition costs too much has what was found, and leads to the rest. Such pages count among those of whole runs.
func TestAListOfAPageEndsAtItsEffort(t *testing.T) {
	s, engine := openBounded(t)
	s.effort = 300 * time.Microsecond
	const runs = 60
	for i := range runs {
		require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: dense(3, 1)}, nil))
	}
	where := url.QueryEscape(`[1,2,3,4,5,6,7,8].all(x, [1,2,3,4,5,6,7,8].exists(y, x == y)) && !run.endsWith("0")`)
	next := regexp.MustCompile(`rel="next" href="([^"]*)"`)
	row := regexp.MustCompile(`href="run/r[0-9]+"`)
	found, pages := map[string]bool{}, 0
	for address := "runs?where=" + where; address != ""; pages++ {
		w := ask(s, "ann", "GET", address, "")
		require.Equal(t, http.StatusOK, w.Code)
		for _, one := range row.FindAllString(w.Body.String(), -1) {
			found[one] = true
		}
		address = ""
		if to := next.FindStringSubmatch(w.Body.String()); to != nil {
			require.Contains(t, w.Body.String(), "has taken as long as it may for one page")
			address = html.UnescapeString(to[1])
		}
	}
	require.Len(t, found, runs-runs/10)
	require.Greater(t, pages, 3)
	for range 8 {
		_, err := s.bounds.Replays.Admit("ann")
		require.NoError(t, err)
	}
	for _, address := range []string{"runs?where=" + where, "inbox?where=" + where, "act?do=pause&all=1&where=" + where} {
		require.Equal(t, http.StatusServiceUnavailable, ask(s, "ann", "GET", address, "").Code, address)
	}
	require.Equal(t, http.StatusOK, ask(s, "ann", "GET", "runs", "").Code)
	require.Equal(t, http.StatusOK, ask(s, "bob", "GET", "inbox?where="+where, "").Code)
}

// A definition that the engine has accepted is shown, however large it is.
func TestDefinitionsAboveTheDefaultBounds(t *testing.T) {
	d := &workflow.Definition{Name: "large", Start: "n0"}
	for i := range limits.MaxNodes + 1 {
		d.Nodes = append(d.Nodes, workflow.Node{ID: workflow.NodeID(fmt.Sprint("n", i)), Wait: &workflow.WaitSpec{Event: "x"}})
		if i > 0 {
			d.Transitions = append(d.Transitions, workflow.Transition{From: d.Nodes[i-1].ID, To: d.Nodes[i].ID})
		}
	}
	engine, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: pendingTasks{}, Bounds: workflow.Bounds{Nodes: 2 * limits.MaxNodes}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close(context.Background())) })
	s := newServer(engine, Options{Identify: func(*http.Request) (string, api.Rights, error) { return "ann", api.All, nil }})
	_, err = engine.Publish(t.Context(), d)
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "large", Workflow: "large"}, nil))
	const ops = `[{"op":"add","path":"/nodes/n0/priority","value":%d}]`
	asks := ask(s, "ann", http.MethodGet, "act?do=patch&target=0+large&value="+url.QueryEscape(fmt.Sprintf(ops, 1)), "")
	require.Equal(t, http.StatusOK, asks.Code, asks.Body)
	for i := range 2 {
		_, err = engine.Patch(t.Context(), "large", pawl.Patch{Base: i + 1, Ops: []any{map[string]any{"op": "add", "path": "/nodes/n0/priority", "value": i + 1}}})
		require.NoError(t, err)
	}
	for _, address := range []string{"definitions?workflow=large&version=1", "run/large", "run/large?view=definition", "run/large?view=definition&revision=1", "run/large?view=definition&revision=2"} {
		page := ask(s, "ann", http.MethodGet, address, "")
		require.Equal(t, http.StatusOK, page.Code, "%s: %s", address, page.Body)
	}
}

// A timeline on which each node is a lane has a page of them, and leads to the others.
func TestATimelineOfManyNodesHasPages(t *testing.T) {
	s, engine := openBounded(t)
	const nodes = 1000
	d := &workflow.Definition{Name: "long", Start: "n0", Nodes: []workflow.Node{{ID: "n0"}}}
	for i := range nodes - 1 {
		to := workflow.NodeID(fmt.Sprint("n", i+1))
		d.Transitions = append(d.Transitions, workflow.Transition{From: d.Nodes[i].ID, To: to})
		d.Nodes = append(d.Nodes, workflow.Node{ID: to})
	}
	require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil))
	next := regexp.MustCompile(`rel="next" href="\.\./([^"]*)"`)
	lanes, pages := 0, 0
	for address := "run/r?view=timeline"; address != ""; pages++ {
		page := ask(s, "ann", http.MethodGet, address, "").Body.String()
		n := strings.Count(page, `<div class="lane band-lane">`)
		require.LessOrEqual(t, n, laneTokens)
		lanes += n
		address = ""
		if to := next.FindStringSubmatch(page); to != nil {
			address = html.UnescapeString(to[1])
		}
	}
	require.Equal(t, nodes, lanes)
	require.Equal(t, nodes/shownLanes, pages)
}

// The page of a fan-out of a run with too many threads says so, and what is known of all branches together.
func TestBranchesThatAreNotToldApart(t *testing.T) {
	s, engine := openBounded(t)
	d, err := workflow.ParseYAML([]byte("name: wide\nstart: split\nnodes: [{id: split}, {id: load, task: load}]\n" +
		"transitions: [{from: split, to: load, siblingGroup: files, spawnCount: 8}]"))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil))
	require.NotContains(t, ask(s, "ann", http.MethodGet, "run/r?view=group&group=1", "").Body.String(), "too many threads")
	s.tokens = 5
	page := ask(s, "ann", http.MethodGet, "run/r?view=group&group=1", "").Body.String()
	require.Contains(t, page, "The run has too many threads to tell branches apart.")
	require.Contains(t, page, "<b>8</b> running")
	require.Contains(t, page, `<svg class="bar"`)
	require.NotContains(t, page, "No branch is like that.")
}

// Lists have a part of many workflows, in which the one that is chosen is.
func TestListsOfWorkflowsAreBounded(t *testing.T) {
	s, engine := openBounded(t)
	const workflows = 1500
	var wg sync.WaitGroup
	for i := range workflows {
		wg.Go(func() {
			d := &workflow.Definition{Name: fmt.Sprintf("w%04d", i), Start: "a", Nodes: []workflow.Node{{ID: "a", Wait: &workflow.WaitSpec{Event: "go"}}}}
			assert.NoError(t, engine.Start(t.Context(), workflow.Run{ID: workflow.RunID(d.Name), Definition: d}, nil))
		})
	}
	wg.Wait()
	page := ask(s, "ann", http.MethodGet, "runs?workflow=w1499", "").Body.String()
	require.Equal(t, listedFlows+1, strings.Count(page, `<option value="w`))
	require.Contains(t, page, `<option value="w1499" selected>w1499</option>`)
	require.Contains(t, page, "and 1,299 more: choose them by a condition")
	page = ask(s, "ann", http.MethodGet, "definitions", "").Body.String()
	require.Equal(t, listedFlows, strings.Count(page, `<div class="flow">`))
	require.Contains(t, page, "1,300 more have runs")
	require.Contains(t, ask(s, "ann", http.MethodGet, "definitions?workflow=w1499", "").Body.String(), "w1499")
}

// A page of schedules is made anew now and then: no commit of a run tells that one was paused.
func TestSchedulesAreLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, engine := openBounded(t)
		d, err := workflow.ParseYAML([]byte("name: w\nstart: a\nnodes: [{id: a}]"))
		require.NoError(t, err)
		_, err = engine.Publish(t.Context(), d)
		require.NoError(t, err)
		set, err := schedule.Parse([]byte("schedules: [{id: rare, workflow: {name: w}, every: 1000h}]"))
		require.NoError(t, err)
		_, err = engine.Schedules().Apply(t.Context(), set, pawl.ApplyOptions{})
		require.NoError(t, err)
		for _, address := range []string{"schedules", "schedule?id=rare"} {
			p := s.newPage(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/live/"+address, nil))
			p.rights = api.All
			frames, leave, err := s.joinHub(p, address)
			require.NoError(t, err)
			require.NotContains(t, string(<-frames), "It is paused since")
			require.NoError(t, engine.Schedules().Pause(pawl.Because(pawl.As(t.Context(), "ann"), "lunch"), "rare"))
			select {
			case frame := <-frames:
				require.Contains(t, string(frame), "It is paused since", address)
			case <-time.After(2 * tasksEvery):
				require.Fail(t, "there is no frame", address)
			}
			leave()
			require.NoError(t, engine.Schedules().Resume(pawl.As(t.Context(), "ann"), "rare"))
		}
	})
}

// The id that is proposed for a run which is made of another one is such that a run may have it.
func TestIDsThatAreProposed(t *testing.T) {
	s, engine := openBounded(t)
	require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "order-42-2", Definition: dense(3, 1)}, nil))
	p := s.newPage(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/act", nil))
	for of, want := range map[workflow.RunID]workflow.RunID{
		"order-42": "order-42-3", "order-42/3.1": "order-42-3.1-2", "order-42/3.1/1.1": "order-42-3.1-1.1-2",
		workflow.RunID(strings.Repeat("é", 127)):       workflow.RunID(strings.Repeat("é", 126) + "-2"),
		workflow.RunID(strings.Repeat("x", 253)):       workflow.RunID(strings.Repeat("x", 253) + "-2"),
		workflow.RunID(strings.Repeat("x", 254) + "y"): workflow.RunID(strings.Repeat("x", 253) + "-2"),
	} {
		require.Equal(t, want, s.freeID(p, of))
		require.NoError(t, texts.CheckRunID(want))
	}
}

// A frame of a page of runs without values is what the page is.
func TestFramesOfARedactedExport(t *testing.T) {
	s, engine := openBounded(t)
	s.local, s.options.Identify = true, func(*http.Request) (string, api.Rights, error) { return "ann", api.All, nil }
	d, err := workflow.ParseYAML([]byte("name: w\nstart: a\nnodes: [{id: a, wait: {event: x}}]"))
	require.NoError(t, err)
	require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil))
	r := httptest.NewRequest(http.MethodGet, "/live/run/r", nil)
	loopback.MarkRedacted(r)
	p := s.newPage(httptest.NewRecorder(), r)
	p.rights, p.redacted = api.All, true
	frames, leave, err := s.joinHub(p, "run/r")
	require.NoError(t, err)
	defer leave()
	frame := string(<-frames)
	require.Contains(t, frame, "was exported without its values")
	require.NotContains(t, frame, "view=whatif")
}

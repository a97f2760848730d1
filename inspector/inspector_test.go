package inspector_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

func TestMain(m *testing.M) { os.Exit(harness.RunInMemory(m)) }

// later is an executor whose results come when a test delivers them. It sends each task that has begun, if someone wants to know.
type later struct{ begun chan<- pawl.Key }

func (l later) Execute(_ context.Context, task pawl.Task) (any, error) {
	if l.begun != nil {
		l.begun <- task.Key
	}
	return nil, pawl.ErrPending
}

const order = `
name: order
start: quote
nodes:
  - {id: quote, task: quote, input: {amount: input.amount}}
  - {id: split}
  - {id: load, task: load, input: {file: file}, retry: {maxAttempts: 1, exhausted: park}}
  - {id: approve, approval: {message: "Ship <b>it</b>?", quorum: 2}, input: {amount: input.amount}}
  - {id: ship, task: ship}
transitions:
  - {from: quote, to: split}
  - {from: split, to: load, foreach: {collection: input.files, as: file}, siblingGroup: files}
  - {from: load, to: approve, synchronization: {siblingGroup: files}}
  - {from: approve, to: ship}
`

func parse(t *testing.T, text string) *workflow.Definition {
	t.Helper()
	d, err := workflow.ParseYAML([]byte(text))
	require.NoError(t, err)
	return d
}

// A shop is an engine with a page.
type shop struct {
	t      *testing.T
	engine *pawl.Engine
	base   string // address of the first page
}

// openShop serves the page of an engine below a path, through a proxy that takes the path away.
func openShop(t *testing.T) *shop { return openShopWith(t, later{}) }

func openShopWith(t *testing.T, executor pawl.Executor) *shop {
	t.Helper()
	engine, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: executor})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close(context.Background())) })
	server := httptest.NewServer(http.StripPrefix("/a/b", inspector.Handler(engine, inspector.Options{Name: "test"})))
	t.Cleanup(server.Close)
	return &shop{t, engine, server.URL + "/a/b/"}
}

func (s *shop) start(id workflow.RunID, text string, input any) {
	s.t.Helper()
	require.NoError(s.t, s.engine.Start(s.t.Context(), workflow.Run{ID: id, Definition: parse(s.t, text)}, input))
}

// key returns that of the first attempt that runs at a node.
func (s *shop) key(id workflow.RunID, node workflow.NodeID) pawl.Key {
	s.t.Helper()
	for tok, err := range s.engine.Tokens(s.t.Context(), id, pawl.TokenFilter{Node: node, Status: []workflow.TokenStatus{workflow.Dispatched}}) {
		require.NoError(s.t, err)
		return tok.Key
	}
	s.t.Fatalf("nothing runs at %s", node)
	return ""
}

// startOrder brings an order to where one of its tasks is parked and one waits.
func (s *shop) startOrder(id workflow.RunID) {
	s.t.Helper()
	s.start(id, order, map[string]any{"amount": 7, "files": []string{"a", "b", "c"}})
	require.NoError(s.t, s.engine.Complete(s.t.Context(), s.key(id, "quote"), map[string]any{"price": 12}))
	require.NoError(s.t, s.engine.Fail(s.t.Context(), s.key(id, "load"), pawl.TaskError{Code: "bad_row", Message: "line <i>17</i>"}))
	require.NoError(s.t, s.engine.Complete(s.t.Context(), s.key(id, "load"), nil))
}

func (s *shop) get(address string) (int, string) {
	s.t.Helper()
	resp, err := http.Get(s.base + address)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return resp.StatusCode, string(body)
}

// see returns a page that must be there.
func (s *shop) see(address string) string {
	s.t.Helper()
	status, body := s.get(address)
	require.Equal(s.t, 200, status, "%s: %s", address, textOf(s.t, body))
	return body
}

// textOf returns what people read of a page, with single spaces.
func textOf(t *testing.T, page string) string {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	require.NoError(t, err)
	var b strings.Builder
	for n := range doc.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// The first page says what needs people; the page of a run says why it stands where it stands.
func TestPagesSayWhatThereIs(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	home := textOf(t, s.see(""))
	require.Contains(t, home, "1 parked task")
	require.Contains(t, home, "bad_row line <i>17</i>")
	require.Contains(t, home, "1 running")

	run := textOf(t, s.see("run/order-1"))
	require.Contains(t, run, "order-1 running")
	require.Contains(t, run, "load[0] waits for an operator: attempt 1 of task load has failed and was the last")
	require.Contains(t, run, "It came from split by split->load in record 2.")
	require.Contains(t, s.see("run/order-1"), `<title>load, task: 1 done, 1 parked, 1 running</title>`)
	require.Contains(t, run, "files from split · gathering 1 of 3 arrived")

	require.Contains(t, textOf(t, s.see("runs?status=running&workflow=order")), "order-1")
	require.NotContains(t, textOf(t, s.see("runs?status=failed")), "order-1")
	require.Contains(t, textOf(t, s.see("run/order-1?view=token&token=3")), "1 failed")
	require.Contains(t, textOf(t, s.see("run/order-1?view=journal")), "park")
	require.Contains(t, textOf(t, s.see("run/order-1?view=data")), "amount 7")
	require.Contains(t, textOf(t, s.see("run/order-1?view=group&group=1&status=parked")), "bad_row")
	status, body := s.get("run/order-2")
	require.Equal(t, 404, status)
	require.Contains(t, textOf(t, body), "404 Not Found")
}

// crawl follows every link below the first page, and returns the pages by their addresses.
func (s *shop) crawl() map[string]string {
	s.t.Helper()
	pages := map[string]string{}
	todo := []string{s.base}
	for len(todo) > 0 {
		address := todo[0]
		todo = todo[1:]
		if _, ok := pages[address]; ok {
			continue
		}
		resp, err := http.Get(address)
		require.NoError(s.t, err)
		var body bytes.Buffer
		_, err = body.ReadFrom(resp.Body)
		require.NoError(s.t, err)
		require.NoError(s.t, resp.Body.Close())
		require.Equal(s.t, 200, resp.StatusCode, "%s: %s", address, body.String())
		pages[address] = body.String()
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			continue
		}
		require.Contains(s.t, resp.Header.Get("Content-Security-Policy"), "default-src 'none'")
		todo = append(todo, s.links(address, body.String())...)
	}
	return pages
}

// links returns where a page leads and what it loads. Nothing leads out, and nothing of it is
// a script or a style that the policy would refuse.
func (s *shop) links(address, page string) (out []string) {
	from, err := url.Parse(address)
	require.NoError(s.t, err)
	doc, err := html.Parse(strings.NewReader(page))
	require.NoError(s.t, err)
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		require.False(s.t, n.Data == "style" || n.Data == "script" && n.FirstChild != nil, "%s has a %s", address, n.Data)
		for _, a := range n.Attr {
			require.False(s.t, strings.HasPrefix(a.Key, "on") || a.Key == "style", "%s has an attribute %s", address, a.Key)
			if a.Key != "href" && a.Key != "src" && a.Key != "action" || strings.HasPrefix(a.Val, "#") || a.Val == "" {
				continue
			}
			to, err := from.Parse(a.Val)
			require.NoError(s.t, err)
			to.Fragment = ""
			require.True(s.t, strings.HasPrefix(to.String(), s.base), "%s leads to %s", address, a.Val)
			if a.Key != "action" {
				out = append(out, to.String())
			}
		}
	}
	return out
}

// Every link of every page answers, below a path that a proxy takes away, for any names of runs,
// nodes and values; nothing of a value becomes HTML; and after all these requests the runs are as
// they were.
func TestCrawl(t *testing.T) {
	s := openShop(t)
	hostile := []workflow.RunID{
		"order-1", "<script>alert(1)</script>%25 b?c=d&e#f", "..", `"><img src=x onerror=alert(1)>{{.}}\`, "javascript:alert('\u202eevil\u202c 😀')",
	}
	for _, id := range hostile[1:] {
		if strings.Contains(string(id), "/") { // which ids may not have
			id = workflow.RunID(strings.ReplaceAll(string(id), "/", "|"))
		}
		s.startOrder(id)
	}
	s.startOrder(hostile[0])
	_, err := s.engine.Publish(t.Context(), parse(t, "name: child\nstart: a\nnodes: [{id: a, task: a}]"))
	require.NoError(t, err)
	s.start("parent", "name: parent</title>\nstart: c\nnodes: [{id: c, subworkflow: {name: child}, input: {}}]", map[string]any{
		"<b>": "</script><script>alert(2)</script>", "long": strings.Repeat("x", 1<<19), "wide": make([]int, 5000), "nul": nil, "deep": map[string]any{"a": map[string]any{"b": []any{map[string]any{"c": strings.Repeat("y", 100)}}}},
	})
	require.Eventually(t, func() bool { // the child begins on its own
		ov, err := s.engine.Overview(t.Context(), "parent/1.1")
		return err == nil && ov.Seq == 1
	}, time.Minute, time.Millisecond)
	before := s.journals()
	pages := s.crawl()
	require.Greater(t, len(pages), 100)
	for address, page := range pages {
		require.NotContains(t, page, "<script>alert", address)
		require.NotContains(t, page, "<img src=x", address)
		require.NotContains(t, page, "<i>17", address)
		require.Less(t, len(page), 200<<10, address)
	}
	require.Equal(t, before, s.journals())
}

// journals returns how many records each run has.
func (s *shop) journals() map[string]int64 {
	s.t.Helper()
	out := map[string]int64{}
	for r, err := range s.engine.Runs(s.t.Context(), pawl.RunFilter{}) {
		require.NoError(s.t, err)
		out[fmt.Sprintf("%s %v", r.Run, r.Status)] = r.Seq
	}
	return out
}

// A fan-out of ten thousand fits into small pages.
func TestWideFanOut(t *testing.T) {
	harness.InTurn(t, 4)
	s := openShop(t)
	branches := 10_000
	if harness.Raced {
		branches = 1000
	}
	s.start("wide", "name: wide\nstart: split\nnodes: [{id: split}, {id: load, task: load}, {id: sum}]\n"+
		"transitions: [{from: split, to: load, foreach: {collection: input.files}, siblingGroup: files, maxConcurrency: 20}, {from: load, to: sum, synchronization: {siblingGroup: files}}]",
		map[string]any{"files": make([]int, branches)})
	require.NoError(t, s.engine.Fail(t.Context(), s.key("wide", "load"), pawl.TaskError{Code: "no", Message: "no"}))
	for _, view := range []string{"", "?view=timeline", "?view=tokens", "?view=groups", "?view=group&group=1", "?view=events", "?view=journal", "?view=data", "?view=token&token=2"} {
		require.Less(t, len(s.see("run/wide"+view)), 200<<10, view)
	}
	page := s.see("run/wide?view=group&group=1&status=failed")
	require.Contains(t, textOf(t, page), "1 failed")
	image := s.see("run/wide?view=cells&group=1")
	require.True(t, strings.HasPrefix(image, "\x89PNG"))

	// A click on the picture leads to the token of the branch.
	resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Get(s.base + "run/wide?view=cells&group=1?9,1")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 303, resp.StatusCode)
	require.Equal(t, "../run/wide?token=3&view=token", resp.Header.Get("Location"))
}

// Only this machine is served, and nothing is answered to what is not a GET.
func TestStrangersAreRefused(t *testing.T) {
	s := openShop(t)
	h := inspector.Handler(s.engine, inspector.Options{})
	ask := func(method, host, remote string) int {
		r := httptest.NewRequest(method, "http://"+host+"/runs", nil)
		r.RemoteAddr = remote
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	require.Equal(t, 200, ask("GET", "localhost:80", "127.0.0.1:1"))
	require.Equal(t, 200, ask("HEAD", "[::1]:80", "[::1]:1"))
	require.Equal(t, 403, ask("GET", "evil.example", "127.0.0.1:1"))
	require.Equal(t, 403, ask("GET", "127.0.0.1", "192.0.2.1:1"))
	require.Equal(t, 405, ask("POST", "127.0.0.1", "127.0.0.1:1"))
	require.Equal(t, 405, ask("DELETE", "127.0.0.1", "127.0.0.1:1"))
}

// The choice of colours is kept in a cookie, and leads back to where it was made, never out.
func TestTheme(t *testing.T) {
	s := openShop(t)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for back, want := range map[string]string{
		"run/a%20b?view=data": "run/a%20b?view=data", "": "./", "//evil.example": "./", "https://evil.example/": "./", `\\evil.example`: "./", "../x": "./", "/x": "./", "javascript:alert(1)": "./",
	} {
		resp, err := client.PostForm(s.base+"theme", url.Values{"theme": {"dark"}, "return": {back}})
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 303, resp.StatusCode)
		require.Equal(t, want, resp.Header.Get("Location"), back)
		require.Equal(t, "dark", resp.Cookies()[0].Value)
	}
	r, err := http.NewRequest(http.MethodGet, s.base, nil)
	require.NoError(t, err)
	r.AddCookie(&http.Cookie{Name: "pawl-theme", Value: "dark"})
	resp, err := client.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), `data-theme="dark"`)
	require.Contains(t, string(body), `<button name="theme" value="auto" title="Dark"`, "it undoes the choice")
	require.Contains(t, string(body), `<button name="theme" value="light" title="Light"`)
}

// A countingBody is a body that has no end, and counts what is read of it.
type countingBody struct {
	io.Reader
	read int64
}

func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read += int64(n)
	return n, err
}

// endless is a text without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// A caller who may only look can send no files, which would be put on the disk, and no endless
// form.
func TestTheFormOfColoursIsBounded(t *testing.T) {
	s := openShop(t)
	h := inspector.Handler(s.engine, inspector.Options{})
	for kind, begin := range map[string]string{
		"multipart/form-data; boundary=b":   "--b\r\nContent-Disposition: form-data; name=\"theme\"; filename=\"f\"\r\n\r\n",
		"application/x-www-form-urlencoded": "theme=dark&return=",
	} {
		body := &countingBody{Reader: io.LimitReader(io.MultiReader(strings.NewReader(begin), endless{}), 64<<20)}
		r := httptest.NewRequest(http.MethodPost, "http://localhost/theme", body)
		r.Header.Set("Content-Type", kind)
		r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
		h.ServeHTTP(httptest.NewRecorder(), r)
		require.Less(t, body.read, int64(1<<20), kind)
	}
}

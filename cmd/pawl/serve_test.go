package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// startWaiting opens an engine with a run that waits for a signal.
func startWaiting(t *testing.T, o pawl.Options) (*pawl.Engine, string) {
	t.Helper()
	dir := replays.Dir(t)
	e, err := pawl.Open(t.Context(), dir, o)
	require.NoError(t, err)
	d := &workflow.Definition{Name: "wait", Start: "w", Nodes: []workflow.Node{{ID: "w", Wait: &workflow.WaitSpec{Event: "go"}}}}
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r-1", Definition: d}, nil))
	return e, dir
}

// A servingCommand is pawl serve while it runs.
type servingCommand struct {
	t     *testing.T
	said  serving
	base  string // without path and key
	key   string
	stop  context.CancelFunc
	ended chan int
}

// serveDir runs pawl serve on any port until the test stops it.
func serveDir(t *testing.T, dir string, args ...string) *servingCommand {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	out, in := io.Pipe()
	con := &console{In: strings.NewReader(""), Out: in, Errs: io.Discard, Now: time.Now}
	s := &servingCommand{t: t, stop: stop, ended: make(chan int, 1)}
	go func() {
		s.ended <- con.runArguments(ctx, append([]string{"serve", "--dir", dir, "--addr", "127.0.0.1:0", "--by", "ann", "--json"}, args...))
		_ = in.Close()
	}()
	require.NoError(t, json.NewDecoder(out).Decode(&s.said))
	at, err := url.Parse(s.said.URL)
	require.NoError(t, err)
	s.base, s.key = "http://"+at.Host, at.Query().Get("key")
	return s
}

// ask sends a request and returns its status and body.
func (s *servingCommand) ask(c *http.Client, method, path, body string, header ...string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(body))
	require.NoError(s.t, err)
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := c.Do(r)
	require.NoError(s.t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(s.t, err)
	require.NoError(s.t, answer.Body.Close())
	return answer.StatusCode, string(text)
}

func newBrowser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
}

// Pages and API of a live engine are served to requests with the key, in the name of the user,
// until the command is interrupted; the engine goes on.
func TestServeLive(t *testing.T) {
	e, dir := startWaiting(t, pawl.Options{Socket: inspector.Local})
	s := serveDir(t, dir)
	require.True(t, s.said.Acts)
	require.Contains(t, s.said.Source, "live, pid")

	b := newBrowser(t)
	status, page := s.ask(b, "GET", "/run/r-1", "")
	require.Equal(t, http.StatusUnauthorized, status)
	require.Contains(t, page, "The key, please")
	status, _ = s.ask(b, "GET", "/run/r-1?key=wrong", "")
	require.Equal(t, http.StatusUnauthorized, status)
	status, page = s.ask(http.DefaultClient, "GET", "/v1/runs", "", "Authorization", "Bearer wrong")
	require.Equal(t, http.StatusUnauthorized, status)
	require.Equal(t, "unauthorized", codeIn(t, page))
	status, page = s.ask(b, "GET", "/run/r-1?key="+s.key, "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, "r-1")
	require.Contains(t, page, `<span class="name">`+filepath.Base(dir)+`, live</span>`)
	require.NotContains(t, page, s.key)
	status, _ = s.ask(b, "GET", "/inbox", "")
	require.Equal(t, http.StatusOK, status, "by the cookie")
	typed := newBrowser(t)
	status, page = s.ask(typed, "POST", "/", "key="+s.key, "Content-Type", "application/x-www-form-urlencoded")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, "Runs")

	bearer := []string{"Authorization", "Bearer " + s.key, "Content-Type", "application/json"}
	status, page = s.ask(http.DefaultClient, "POST", "/v1/runs/r-1/pause", `{"reason": "lunch"}`, bearer...)
	require.Equal(t, http.StatusOK, status, page)
	var paused map[string]any
	for v, err := range e.Events(t.Context(), "r-1", pawl.EventsOptions{}) {
		require.NoError(t, err)
		if v.Type == workflow.EventWorkflowPaused {
			paused = v.Data
		}
	}
	require.Equal(t, map[string]any{"by": "ann", "reason": "lunch"}, paused)
	for name, header := range map[string][]string{
		"a stranger's name that leads here": {"Host", "pawl.example"},
		"a proxy":                           {"X-Forwarded-For", "192.0.2.1"},
		"another page of this machine":      {"Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"},
	} {
		status, page = s.ask(b, "POST", "/v1/runs/r-1/resume", `{"reason": "x"}`, header...)
		require.Equal(t, http.StatusForbidden, status, name)
		require.Equal(t, "forbidden", codeIn(t, page))
	}
	o, err := e.Overview(t.Context(), "r-1")
	require.NoError(t, err)
	require.Equal(t, workflow.RunPaused, o.Status)

	require.NoError(t, e.Close(t.Context()))
	status, page = s.ask(b, "GET", "/run/r-1", "")
	require.Equal(t, http.StatusBadGateway, status)
	require.Contains(t, page, "load this page again")
	status, page = s.ask(http.DefaultClient, "POST", "/v1/runs/r-1/resume", `{"reason": "x"}`, bearer...)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "closed", codeIn(t, page), page)
	require.Contains(t, page, api.ErrNoEngine.Error())
	s.stop()
	require.Equal(t, exitDone, <-s.ended)
}

// codeIn returns the code of an error as docs/api.md has it.
func codeIn(t *testing.T, body string) string {
	t.Helper()
	var answer struct{ Error api.Error }
	require.NoError(t, json.Unmarshal([]byte(body), &answer), body)
	require.NotEmpty(t, answer.Error.Message)
	return answer.Error.Code
}

// A program whose request may have reached an engine before the connection broke is told that nobody knows what was done, unless it only looked.
func TestServeWhenTheConnectionBreaks(t *testing.T) {
	dir := listenAsEngine(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/static/icon.svg" {
			return
		}
		panic(http.ErrAbortHandler)
	})
	s := serveDir(t, dir)
	bearer := []string{"Authorization", "Bearer " + s.key}
	status, body := s.ask(http.DefaultClient, "POST", "/v1/runs/r-1/resume", `{"reason": "x"}`, bearer...)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "unknown_outcome", codeIn(t, body))
	for _, ask := range []string{"GET /v1/runs", "POST /v1/runs/r-1/simulate", "POST /v1/batch?dryRun=1", "PUT /v1/runs/r-2?dryRun=true"} {
		method, path, _ := strings.Cut(ask, " ")
		status, body = s.ask(http.DefaultClient, method, path, "", bearer...)
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Equal(t, "closed", codeIn(t, body), ask)
	}
	status, body = s.ask(http.DefaultClient, "PUT", "/v1/runs/simulate", "{}", bearer...)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "unknown_outcome", codeIn(t, body), "a run of that name")
	s.stop()
	require.Equal(t, exitDone, <-s.ended)
}

// With --read-only, and of files without --offline, nothing can be changed, by a page or the API.
func TestServeForReading(t *testing.T) {
	e, dir := startWaiting(t, pawl.Options{Socket: inspector.Local})
	for _, live := range []bool{true, false} {
		var s *servingCommand
		if live {
			s = serveDir(t, dir, "--read-only")
		} else {
			require.NoError(t, e.Close(t.Context()))
			s = serveDir(t, dir)
		}
		require.False(t, s.said.Acts)
		bearer := []string{"Authorization", "Bearer " + s.key, "Pawl-Rights", "", "Pawl-By", "eve"}
		for _, path := range []string{"/v1/runs/r-1/cancel", "/v1/runs/r-1/cancel?dryRun=1"} {
			status, text := s.ask(http.DefaultClient, "POST", path, `{"reason": "x"}`, append(bearer, "Content-Type", "application/json")...)
			require.Equal(t, http.StatusForbidden, status, "%s: %s", path, text)
		}
		status, _ := s.ask(http.DefaultClient, "POST", "/act", "do=cancel&target=r-1&reason=x", append(bearer, "Content-Type", "application/x-www-form-urlencoded")...)
		require.Equal(t, http.StatusForbidden, status)
		status, page := s.ask(http.DefaultClient, "GET", "/run/r-1", "", append(bearer, "Pawl-Name", "mine")...)
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, page, `<span class="name">`+filepath.Base(dir)+map[bool]string{true: ", live", false: ", files"}[live]+`</span>`)
		require.NotContains(t, page, "do=cancel")
		s.stop()
		require.Equal(t, exitDone, <-s.ended)
	}
	s := serveDir(t, dir, "--offline")
	require.True(t, s.said.Acts)
	s.stop()
	require.Equal(t, exitDone, <-s.ended)
}

// A directory that cannot be served is refused with why, and with what to do.
func TestServeRefuses(t *testing.T) {
	e, dir := startWaiting(t, pawl.Options{Socket: api.Local})
	taken := serveDir(t, func() string {
		f, d := startWaiting(t, pawl.Options{})
		require.NoError(t, f.Close(t.Context()))
		return d
	}())
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"--dir", dir}, exitNoEngine, "inspector.Local"},
		{[]string{"--dir", dir, "--addr", "0.0.0.0:0"}, exitUnusable, "ssh -L"},
		{[]string{"--dir", t.TempDir()}, exitNotFound, "no engine directory"},
	} {
		var errs bytes.Buffer
		con := &console{In: strings.NewReader(""), Out: io.Discard, Errs: &errs, Now: time.Now}
		require.Equal(t, c.status, con.runArguments(t.Context(), append([]string{"serve"}, c.args...)), errs.String())
		require.Contains(t, errs.String(), c.says)
	}
	require.NoError(t, e.Close(t.Context()))
	var errs bytes.Buffer
	con := &console{In: strings.NewReader(""), Out: io.Discard, Errs: &errs, Now: time.Now}
	require.Equal(t, exitUnusable, con.runArguments(t.Context(), []string{"serve", "--dir", dir, "--addr", strings.TrimPrefix(taken.base, "http://")}))
	require.Contains(t, errs.String(), "--addr names another port")
	taken.stop()
	require.Equal(t, exitDone, <-taken.ended)
}

// The runs of an export are served from a copy that goes with the command, and nobody changes them.
func TestServeAnExport(t *testing.T) {
	e, _ := startWaiting(t, pawl.Options{})
	path, temporary := filepath.Join(t.TempDir(), "r-1.pawl"), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	t.Setenv("TMP", temporary) // as Windows calls it
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, errors.Join(e.Export(t.Context(), "r-1", f, pawl.ExportOptions{}), f.Close(), e.Close(t.Context())))
	s := serveDir(t, path, "--offline")
	require.False(t, s.said.Acts)
	require.Equal(t, "r-1.pawl, 1 run", s.said.Source)
	bearer := []string{"Authorization", "Bearer " + s.key}
	status, page := s.ask(http.DefaultClient, "GET", "/run/r-1", "", bearer...)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, "waits for the signal")
	require.Contains(t, page, `<span class="name">r-1.pawl, 1 run</span>`)
	status, _ = s.ask(http.DefaultClient, "POST", "/v1/runs/r-1/cancel", `{"reason": "x"}`, append(bearer, "Content-Type", "application/json")...)
	require.Equal(t, http.StatusForbidden, status)
	entries, err := os.ReadDir(temporary)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	s.stop()
	require.Equal(t, exitDone, <-s.ended)
	entries, err = os.ReadDir(temporary)
	require.NoError(t, err)
	require.Empty(t, entries, "nothing is left behind")
}

// The pages of runs without values explain and try nothing, since other values would decide otherwise.
func TestServeWithoutValues(t *testing.T) {
	e, dir := startWaiting(t, pawl.Options{})
	require.NoError(t, e.Close(t.Context()))
	path := filepath.Join(t.TempDir(), "r-1.pawl")
	con := &console{Out: io.Discard, Errs: io.Discard, Now: time.Now}
	require.Equal(t, exitDone, con.runArguments(t.Context(), []string{"export", "r-1", "--redact", "--to", path, "--dir", dir}))
	s := serveDir(t, path)
	require.Equal(t, "r-1.pawl, 1 run, without values", s.said.Source)
	bearer := []string{"Authorization", "Bearer " + s.key}
	status, page := s.ask(http.DefaultClient, "GET", "/run/r-1", "", bearer...)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, "was exported without its values")
	require.NotContains(t, page, "waits for the signal")
	require.NotContains(t, page, "view=whatif")
	for _, address := range []string{"/run/r-1?view=whatif", "/diff?a=r-1&b=r-1", "/v1/runs/r-1/why"} {
		status, page = s.ask(http.DefaultClient, "GET", address, "", bearer...)
		require.Equal(t, http.StatusBadRequest, status, address)
		require.Contains(t, page, "it was exported without values", address)
	}
	s.stop()
	require.Equal(t, exitDone, <-s.ended)
}

const sums = `name: sum
start: sum
nodes: [{id: sum, task: transform, input: {expression: '"1 + 2"'}, output: {output.sum: result}}]
`

// openPool opens a directory until the end of the script, serves the command, and starts the run sum-1, whose task is for the
// workers of a pool. The variable POOL has its address, and secret is its token.
func openPool(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	pool, err := worker.New(worker.Options{Token: "secret"})
	ts.Check(err)
	engine, err := pawl.Open(ctx, ts.MkAbs(args[0]), pawl.Options{Socket: api.Local, Executor: pool})
	ts.Check(err)
	*ts.Value(isOpen).(*bool) = true
	pool.Attach(engine)
	address, err := pool.Listen("127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() {
		ts.Check(pool.Close(ctx))
		ts.Check(engine.Close(ctx))
	})
	ts.Setenv("POOL", "http://"+address.String())
	def, err := workflow.ParseYAML([]byte(sums))
	ts.Check(err)
	ts.Check(engine.Start(ctx, workflow.Run{ID: "sum-1", Definition: def}, nil))
}

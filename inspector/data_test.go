package inspector_test

import (
	"context"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/workflow"
)

// An artifact of a run can be saved from its page by those who may see values, under its name alone, and is never shown: it may be a page.
func TestArtifactsAreSaved(t *testing.T) {
	const content = "<script>alert(1)</script>"
	s := openShopWith(t, pawl.Handlers{"w": func(ctx context.Context, task pawl.Task) (any, error) {
		ref, err := task.Put(ctx, strings.NewReader(content), "text/html")
		return pawl.Result{Artifacts: []pawl.Artifact{{Name: "../../x/report.html", Blob: ref}}}, err
	}})
	s.start("one", "name: one\nstart: w\nnodes: [{id: w, task: w}]\n", nil)
	_, err := s.engine.Wait(t.Context(), "one")
	require.NoError(t, err)
	page := s.see("run/one?view=data")
	link := regexp.MustCompile(`<a href="\.\./([^"]+)" download>../../x/report.html</a> <span class="meta">25 bytes`).FindStringSubmatch(page)
	require.NotNil(t, link, page)
	resp, err := http.Get(s.base + html.UnescapeString(link[1]))
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, content, string(body))
	require.Equal(t, "application/octet-stream", resp.Header.Get("Content-Type"))
	require.Equal(t, "attachment; filename=report.html", resp.Header.Get("Content-Disposition"))
	for _, n := range []string{"1", "-1", "x", ""} {
		status, _ := s.get("run/one?view=artifact&n=" + n)
		require.Equal(t, http.StatusNotFound, status, n)
	}
	head, err := http.Head(s.base + html.UnescapeString(link[1]))
	require.NoError(t, err)
	require.NoError(t, head.Body.Close())
	require.Equal(t, http.StatusOK, head.StatusCode)
	for name, o := range map[string]inspector.Options{
		"no right": as("ann", api.View),
		"redacted": {Redact: func(workflow.RunID, string, any) any { return "x" }},
	} {
		status, _ := s.serve(o).get("run/one?view=artifact&n=0")
		require.Equal(t, http.StatusNotFound, status, name)
	}
}

// A page of a value that is large and deep is small.
func TestADeepValueIsASmallPage(t *testing.T) {
	s := openShop(t)
	var v any = strings.Repeat("x", 1<<19)
	for range 120 {
		v = map[string]any{"within": v, strings.Repeat("key", 1000): 1}
	}
	s.start("deep", "name: deep\nstart: a\nnodes: [{id: a, task: f, input: {x: input}, retry: {maxAttempts: 1, exhausted: park}}]", v)
	require.NoError(t, s.engine.Fail(t.Context(), s.key("deep", "a"), pawl.TaskError{Code: "no"}))
	for _, address := range []string{"run/deep?view=data", "run/deep?view=token&token=1", "inbox"} {
		require.Less(t, len(s.see(address)), 200<<10, address)
	}
}

// The first page names the runs that cannot be loaded, before all else.
func TestDamagedRunsNeedPeople(t *testing.T) {
	dir := t.TempDir()
	opened := func() *pawl.Engine {
		e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: later{}})
		require.NoError(t, err)
		return e
	}
	e := opened()
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "lost", Definition: parse(t, "name: one\nstart: w\nnodes: [{id: w, wait: {event: go}}]\n")}, nil))
	require.NoError(t, e.Close(t.Context()))
	files, err := filepath.Glob(filepath.Join(dir, "runs", "*", "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.NoError(t, os.WriteFile(files[0], []byte("no database"), 0o600))
	e = opened()
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
	require.Error(t, e.Signal(t.Context(), "lost", workflow.Signal{Name: "go"}))
	server := httptest.NewServer(inspector.Handler(e, inspector.Options{}))
	t.Cleanup(server.Close)
	page := textOf(t, (&shop{t, e, server.URL + "/"}).see(""))
	require.Contains(t, page, "Needs you 1 damaged run cannot be loaded: pawl verify tells")
	require.Contains(t, page, "Damaged: cannot be loaded")
	require.Regexp(t, `Damaged: cannot be loaded .* lost running one @1 it stands still: its file is damaged, or of another version`, page)
}

// A live page is no way to an artifact: nobody would answer for one that breaks off, and it would be kept in memory.
func TestAFrameHasNoArtifact(t *testing.T) {
	dir := t.TempDir()
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{"w": func(ctx context.Context, task pawl.Task) (any, error) {
		ref, err := task.Put(ctx, strings.NewReader(strings.Repeat("x", 1<<20)), "")
		return pawl.Result{Artifacts: []pawl.Artifact{{Name: "big", Blob: ref}}}, err
	}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
	_, err = e.Run(t.Context(), workflow.Run{ID: "one", Definition: parse(t, "name: one\nstart: w\nnodes: [{id: w, task: w}]\n")}, nil)
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(dir, "blobs", "??", "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.NoError(t, os.Chmod(files[0], 0o600))
	require.NoError(t, os.WriteFile(files[0], []byte(strings.Repeat("y", 1<<20)), 0o600)) // whoever reads it breaks off at its end
	server := httptest.NewServer(inspector.Handler(e, inspector.Options{}))
	t.Cleanup(server.Close)
	_, frame := (&shop{t, e, server.URL + "/"}).get("live/run/one?view=artifact&n=0")
	require.NotContains(t, frame, "yyyy")
}

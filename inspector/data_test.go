package inspector_test

import (
	"context"
	"html"
	"io"
	"net/http"
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
	for name, o := range map[string]inspector.Options{
		"no right": as("ann", api.View),
		"redacted": {Redact: func(workflow.RunID, string, any) any { return "x" }},
	} {
		status, _ := s.serve(o).get("run/one?view=artifact&n=0")
		require.Equal(t, http.StatusNotFound, status, name)
	}
}

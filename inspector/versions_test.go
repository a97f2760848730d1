package inspector_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/workflow"
)

// A published name is listed, also if it has no run yet, is drawn by version with what each version has changed, and
// leads to its runs.
func TestPublishedVersions(t *testing.T) {
	s := openShop(t)
	require.Contains(t, textOf(t, s.see("definitions")), "No definition is published")
	for v := 1; v <= 60; v++ {
		d, err := workflow.ParseYAML(fmt.Appendf(nil, "name: stock\nversion: %d\nstart: a\nnodes: [{id: a, task: count, timeout: %ds}, {id: \"<b>\"}]\ntransitions: [{from: a, to: \"<b>\"}]\n", 2*v, v))
		require.NoError(t, err)
		_, err = s.engine.Publish(t.Context(), d)
		require.NoError(t, err)
	}
	require.Contains(t, textOf(t, s.see("definitions")), "stock 120 60")

	page := s.see("definitions?workflow=stock")
	text := textOf(t, page)
	require.Contains(t, text, "stock @120")
	require.Contains(t, text, "What version 120 changed, against version 118")
	require.Contains(t, text, "changed node a timeout \"59s\" → \"1m\"")
	require.Contains(t, text, `"to": "<b>"`, "a name is text")
	require.NotContains(t, page, "<b>\"")
	require.Contains(t, page, "version=22&amp;")
	require.NotContains(t, page, "version=20&amp;", "the last fifty are linked")

	text = textOf(t, s.see("definitions?workflow=stock&version=2"))
	require.Contains(t, text, "stock @2")
	require.NotContains(t, text, "changed, against")

	require.NoError(t, s.engine.Start(t.Context(), workflow.Run{ID: "s-1", Workflow: "stock", Version: 4}, nil))
	page = s.see("definitions?workflow=stock")
	require.Contains(t, textOf(t, page), "stock @4")
	require.Contains(t, page, "version=120&amp;", "of those that are published, too")
	page = s.see("definitions?workflow=stock&version=4")
	require.Contains(t, textOf(t, page), "Runs of this version")
	require.Contains(t, textOf(t, s.see("runs?workflow=stock&where=version+%3D%3D+4")), "s-1")
	require.NotContains(t, textOf(t, s.see("runs?workflow=stock&where=version+%3D%3D+6")), "s-1")

	for _, path := range []string{"definitions?workflow=stock&version=3", "definitions?workflow=stock&version=x", "definitions?workflow=none", "definitions?workflow=none&version=1"} {
		status, _ := s.get(path)
		require.Equal(t, http.StatusNotFound, status, path)
	}
}

package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

// The revisions of a run are listed by pages, and each is a resource.
func TestRevisionsOfARun(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	startOrder(t, e, "order-1")
	for i := range 3 {
		ops := []any{map[string]any{"op": "add", "path": "/nodes/approve/timeout", "value": fmt.Sprint(i+1, "h")}}
		_, err := e.Patch(pawl.Because(pawl.As(t.Context(), "ann"), "slow"), "order-1", pawl.Patch{Base: i + 1, Ops: ops})
		require.NoError(t, err)
	}
	ask := func(path string) (int, string) {
		w := httptest.NewRecorder()
		everything(e).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/runs/order-1/revisions"+path, nil))
		return w.Code, w.Body.String()
	}
	status, body := ask("?limit=3")
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, `"by":"ann","reason":"slow","ops":1}`)
	require.Contains(t, body, `"after":3}`)
	status, body = ask("?after=3&limit=3")
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, `{"revisions":[{"revision":4,`)
	require.NotContains(t, body, "after")
	for path, want := range map[string]int{"/0": 400, "/x": 400, "/5": 404, "/4": 200} {
		status, body = ask(path)
		require.Equal(t, want, status, body)
	}

	status, body = ask("?at=1")
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, `{"revisions":[{"revision":1,`)
	require.NotContains(t, body, `"revision":2`, "which came later")
	for path, want := range map[string]int{"?at=99": 400, "?at=0": 400, "/1?at=1": 200, "/2?at=1": 404} {
		status, body = ask(path)
		require.Equal(t, want, status, body)
	}

	c, closeClient := dialHandler(t, everything(e))
	defer closeClient()
	var revisions []int
	for r, err := range c.Revisions(t.Context(), "order-1", 1) {
		require.NoError(t, err)
		revisions = append(revisions, r.Revision)
	}
	require.Equal(t, []int{2, 3, 4}, revisions)
	for revision, want := range map[int]time.Duration{1: 0, 2: time.Hour, 4: 3 * time.Hour} {
		d, err := c.Revision(t.Context(), "order-1", revision)
		require.NoError(t, err)
		for _, n := range d.Nodes {
			if n.ID == "approve" {
				require.Equal(t, want, n.Timeout, revision)
			}
		}
	}
	_, err := c.Revision(t.Context(), "order-1", 5)
	require.ErrorIs(t, err, &api.Error{Code: "not_found"})
	_, err = c.Revision(t.Context(), "nobody", 1)
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
}

// Published definitions are listed by pages, each with a cursor to the next one, and as lines.
func TestPagesOfDefinitions(t *testing.T) {
	e, _ := openEngine(t, pawl.Options{})
	for _, name := range []string{"b", "a@1", "a"} {
		for version := range 2 {
			d := &workflow.Definition{Name: name, Version: version + 1, Start: "x", Nodes: []workflow.Node{{ID: "x"}}}
			_, err := e.Publish(t.Context(), d)
			require.NoError(t, err)
		}
	}
	c, closeClient := dialHandler(t, everything(e))
	defer closeClient()
	all, err := c.Definitions(t.Context(), pawl.DefinitionFilter{})
	require.NoError(t, err)
	require.Len(t, all, 6)
	var paged []pawl.PublishedDefinition
	for cursor := ""; ; {
		status, body := send(t, everything(e), "GET", "/v1/definitions?limit=4&cursor="+cursor, "")
		require.Equal(t, http.StatusOK, status, body)
		var page struct {
			Definitions []pawl.PublishedDefinition
			Cursor      string
		}
		require.NoError(t, json.Unmarshal([]byte(body), &page))
		paged = append(paged, page.Definitions...)
		if cursor = page.Cursor; cursor == "" {
			break
		}
		require.Len(t, page.Definitions, 4)
	}
	require.Equal(t, all, paged)
	for _, cursor := range []string{"x", "x@", "x@y"} {
		status, _ := send(t, everything(e), "GET", "/v1/definitions?cursor="+cursor, "")
		require.Equal(t, http.StatusBadRequest, status, cursor)
	}
}

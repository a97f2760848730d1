package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/testing/spantest"
	"github.com/pawl-run/pawl/workflow"
)

// A run that is started by a request belongs to the trace that the request names, unless the host has put it into a span of its own. A
// header that the standard refuses is as none.
func TestRequestsHaveATrace(t *testing.T) {
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	var p spantest.Provider
	e, _ := openEngine(t, pawl.Options{TracerProvider: &p})
	_, err := e.Publish(t.Context(), parse(t, "name: small\nstart: a\nnodes: [{id: a, task: quote}]"))
	require.NoError(t, err)
	h := api.Handler(e, api.Options{Identify: everybody(api.All)})
	start := func(h http.Handler, id string, header http.Header) spantest.Span {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "http://localhost/v1/runs/"+id, strings.NewReader(`{"workflow": "small"}`))
		r.Header = header
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusCreated, w.Code, w.Body)
		for _, s := range p.Await(t, "start small", 1) {
			if s.Attributes["pawl.run.id"] == id {
				return s
			}
		}
		require.FailNow(t, "there is no span", id)
		return spantest.Span{}
	}
	good := "00-" + trace + "-" + span + "-01"
	s := start(h, "named", http.Header{"Traceparent": {good}, "Tracestate": {"a=1", "b=2"}})
	require.Equal(t, trace, s.Trace)
	require.Equal(t, span, s.Parent)
	require.Equal(t, "a=1,b=2", s.State)
	for id, header := range map[string][]string{"none": nil, "short": {good[:54]}, "zero": {"00-" + strings.Repeat("0", 32) + "-" + span + "-01"}, "twice": {good, good}} {
		s := start(h, id, http.Header{"Traceparent": header})
		require.Empty(t, s.Parent, id)
	}

	host := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := p.Tracer("host").Start(r.Context(), "host")
		defer span.End()
		h.ServeHTTP(w, r.WithContext(ctx))
	})
	s = start(host, "inside", http.Header{"Traceparent": {good}})
	require.Equal(t, p.Find(t, "host").ID, s.Parent)

	// The client names the span that its caller is in.
	server := httptest.NewServer(h)
	defer server.Close()
	ctx, outer := p.Tracer("caller").Start(t.Context(), "caller")
	_, err = api.NewClient(server.URL, server.Client()).Start(ctx, "far", api.Start{Workflow: "small"})
	require.NoError(t, err)
	outer.End()
	starts := p.Named("start small")
	require.Equal(t, workflow.RunID("far"), workflow.RunID(starts[len(starts)-1].Attributes["pawl.run.id"].(string)))
	require.Equal(t, p.Find(t, "caller").ID, starts[len(starts)-1].Parent)
}

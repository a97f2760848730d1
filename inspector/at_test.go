package inspector_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

// A run can be looked at as it stood after any of its records, and what the browser folds for
// each is what the server says.
func TestAsItWas(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1")
	first := textOf(t, s.see("run/order-1?at=1"))
	require.Contains(t, first, "1 running")
	require.Contains(t, first, "not reached")
	require.Contains(t, first, "dispatch-task t1 task=quote")
	require.Contains(t, textOf(t, s.see("run/order-1?at=3")), "1 parked 2 running")
	then := textOf(t, s.see("run/order-1?at=2"))
	require.Regexp(t, `load\[0\] waits for the result of task load, attempt 1`, then, "what it waited for then")
	require.NotContains(t, then, "waits for an operator", "which it does now")
	require.NotContains(t, then, "In a terminal")
	require.Contains(t, s.see("run/order-1?at=400"), `value="4"`)
	for _, wrong := range []string{"run/order-1?at=x", "run/order-1?at=", "runs?status=odd"} {
		status, _ := s.get(wrong)
		require.Equal(t, 404, status, wrong)
	}
	require.Contains(t, s.see("run/order-1?at=3"), `data-key="]" href="../run/order-1?at=4"`)
	require.Contains(t, s.see("run/order-1"), `data-key="[" href="../run/order-1?at=3"`)

	var past struct {
		Seq   int64
		Nodes []workflow.NodeID
		Steps [][4]int
	}
	require.NoError(t, json.Unmarshal([]byte(s.see("run/order-1?view=steps")), &past))
	counts := map[workflow.NodeID]int{}
	for _, step := range past.Steps {
		counts[past.Nodes[step[1]]] += step[3]
	}
	require.Equal(t, int64(4), past.Seq)
	require.Equal(t, map[workflow.NodeID]int{"quote": 1, "split": 1, "load": 3}, counts)

	require.NoError(t, s.engine.Complete(t.Context(), s.key("order-1", "load"), nil))
	require.Contains(t, textOf(t, s.see("run/order-1?at=5")), "2 done 1 parked", "what came since is read anew")
}

// One key leads from each branch that needs somebody to the next, and round.
func TestNextFailed(t *testing.T) {
	s := openShop(t)
	s.startOrder("order-1") // whose branch 0 is parked
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, after := range []string{"", "&after=-7", "&after=0", "&after=2", "&after=99999"} {
		resp, err := client.Get(s.base + "run/order-1?view=nextfailed&group=1" + after)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, "../run/order-1?token=3&view=token", resp.Header.Get("Location"), after)
	}
	require.Contains(t, s.see("run/order-1?view=group&group=1"), `data-key="n"`)
}

// A run under the id of one that was purged is shown as itself, in every view.
func TestARunUnderAPurgedID(t *testing.T) {
	s := openShop(t)
	views := []string{"", "?at=1", "?at=2", "?view=why", "?view=steps", "?view=definition", "?view=token&token=1"}
	s.start("order-1", "name: old\nstart: before\nnodes: [{id: before, task: before}]", nil)
	require.NoError(t, s.engine.Fail(t.Context(), s.key("order-1", "before"), pawl.TaskError{Code: "no"}))
	for _, view := range views {
		require.Contains(t, s.see("run/order-1"+view), "before", view)
	}
	require.NoError(t, s.engine.Purge(t.Context(), "order-1"))
	s.start("order-1", "name: new\nstart: after\nnodes: [{id: after, task: after}]", nil)
	require.NoError(t, s.engine.Fail(t.Context(), s.key("order-1", "after"), pawl.TaskError{Code: "no"}))
	for _, view := range views {
		page := s.see("run/order-1" + view)
		require.Contains(t, page, "after", view)
		require.NotContains(t, page, "before", view)
	}
}

// Forks of one run under one id have the start of that run. Each is shown as itself.
func TestAForkUnderAPurgedID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: later{}})
		require.NoError(t, err)
		defer func() { require.NoError(t, engine.Close(context.Background())) }()
		h := inspector.Handler(engine, as("ann", api.All))
		see := func() string {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/run/again", nil))
			return textOf(t, w.Body.String())
		}
		ctx := pawl.As(t.Context(), "ann")
		require.NoError(t, engine.Start(ctx, workflow.Run{ID: "one", Definition: parse(t, "name: one\nstart: a\nnodes: [{id: a, wait: {event: go}}]")}, nil))
		<-time.After(time.Second)
		require.NoError(t, engine.Fork(ctx, "one", "again", pawl.ForkOptions{}))
		require.NoError(t, engine.Cancel(ctx, "again", "enough"))
		require.Contains(t, see(), `cancelled by "ann"`)
		require.NoError(t, engine.Purge(ctx, "again"))
		<-time.After(time.Second)
		require.NoError(t, engine.Fork(ctx, "one", "again", pawl.ForkOptions{}))
		page := see()
		require.Contains(t, page, "waits for the signal go")
		require.NotContains(t, page, `cancelled by "ann"`)
	})
}

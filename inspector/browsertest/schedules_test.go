package browsertest

import (
	"context"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// fireFor has an engine with schedules that has been there for some days, by a clock that a test moves on.
func fireFor(t *testing.T, days int, set ...schedule.Schedule) *pawl.Engine {
	t.Helper()
	var now atomic.Int64
	begun := time.Now().Add(-time.Duration(days) * 24 * time.Hour)
	now.Store(begun.UnixNano())
	hook := &testhook.Hook{}
	hook.OnNow(func() time.Time { return time.Unix(0, now.Load()) })
	hook.SetMaxNap(time.Millisecond)
	handlers := pawl.Handlers{
		"do":   func(context.Context, pawl.Task) (any, error) { return nil, nil },
		"fail": func(context.Context, pawl.Task) (any, error) { return nil, pawl.TaskError{Code: "no_paper"} },
	}
	engine, err := pawl.Open(testhook.With(t.Context(), hook), t.TempDir(), pawl.Options{Executor: handlers})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close(context.Background())) })
	for _, text := range []string{
		"{name: fine, start: a, nodes: [{id: a, task: do}]}", "{name: broken, start: a, nodes: [{id: a, task: fail, retry: {maxAttempts: 1}}]}",
		"{name: long, start: a, nodes: [{id: a, wait: {for: 4000h}}]}",
	} {
		d, err := workflow.ParseYAML([]byte(text))
		require.NoError(t, err)
		_, err = engine.Publish(t.Context(), d)
		require.NoError(t, err)
	}
	_, err = engine.Schedules().Apply(t.Context(), set, pawl.ApplyOptions{})
	require.NoError(t, err)
	for day := range days {
		now.Store(begun.Add(time.Duration(day+1) * 24 * time.Hour).UnixNano())
		for !isAtRest(t, engine, time.Unix(0, now.Load())) {
			<-time.After(10 * time.Millisecond)
		}
	}
	return engine
}

// isAtRest reports whether all firings of an engine up to an instant are decided, and all quick runs over.
func isAtRest(t *testing.T, engine *pawl.Engine, now time.Time) bool {
	t.Helper()
	for st, err := range engine.Schedules().List(t.Context(), "") {
		require.NoError(t, err)
		if st.Schedule.Workflow.Name != "long" && len(st.Running) > 0 || len(st.Next) == 0 || !st.Next[0].At.After(now) {
			return false
		}
	}
	return true
}

// TestSchedulePages looks at the pages of schedules, of which one has a hostile name and others fail, take long or are paused.
// Quick runs of four days look at them all.
func TestSchedulePages(t *testing.T) {
	hostile := strings.ReplaceAll(hostile, "/", "|") // which no id has
	daily := []string{"30 2 * * *"}
	engine := fireFor(t, 8,
		schedule.Schedule{ID: "nightly " + hostile, Workflow: schedule.Workflow{Name: "fine"}, Cron: daily, Timezone: "Europe/Berlin", Except: []string{"* * * * SUN"}},
		schedule.Schedule{ID: "reports", Workflow: schedule.Workflow{Name: "broken"}, Cron: []string{"0 6 * * MON-FRI", "0 9 * * SAT"}, PauseAfterFailures: 5},
		schedule.Schedule{ID: "import-of-a-customer-with-a-long-name-that-goes-on", Workflow: schedule.Workflow{Name: "long"}, Every: 24 * time.Hour},
		schedule.Schedule{ID: "poll", Workflow: schedule.Workflow{Name: "fine"}, Every: 2 * time.Hour, CatchUp: schedule.CatchUp{Most: 12}, Overlap: schedule.OverlapAllow},
	)
	require.NoError(t, engine.Schedules().Pause(pawl.Because(pawl.As(t.Context(), "ann"), "the import is mended tomorrow"), "import-of-a-customer-with-a-long-name-that-goes-on"))
	server := httptest.NewServer(inspector.Handler(engine, inspector.Options{Name: "the shop", Identify: inspector.FromThisMachine("ann", api.All)}))
	t.Cleanup(server.Close)
	p := openTab(t, openBrowser(t), view{width: 1400})
	query := func(pairs ...string) string {
		q := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			q.Set(pairs[i], pairs[i+1])
		}
		return "?" + q.Encode()
	}
	for _, page := range harness.SampleOfDay(t, harness.Figure(4, 2, 1), []string{
		"schedules", "schedule" + query("id", "nightly "+hostile), "schedule" + query("id", "reports"), "schedule" + query("id", "poll"),
		"schedule" + query("id", "import-of-a-customer-with-a-long-name-that-goes-on"), "schedule-act" + query("do", "pause", "id", "nightly "+hostile),
		"schedule-act" + query("do", "resume", "id", "import-of-a-customer-with-a-long-name-that-goes-on"),
		"schedule-act" + query("do", "backfill", "id", "poll", "from", "2026-01-01T00:00", "to", "2026-01-03T00:00"), "schedule-act" + query("do", "delete", "id", "reports"),
	}) {
		p.inspect(server.URL+"/", page)
	}
}

package inspector_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/workflow"
)

// TestTimesOfTasks: the first page says what runs and how long tasks took, the page of a definition says so of each node, in the picture as
// well, and that of the workers says what there is to do by type.
func TestTimesOfTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{Concurrency: 1, Executor: pawl.Handlers{
			"pack": func(_ context.Context, task pawl.Task) (any, error) {
				if <-time.After(2 * time.Second); task.Run == "r1" {
					return nil, errors.New("the box is torn")
				}
				return pawl.Result{Metadata: map[string]any{"cost": 0.25, "tokens": 1200}}, nil
			},
		}})
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close(context.Background())) }()
		pages := inspector.Handler(e, inspector.Options{})
		see := func(address string) string {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1/"+address, nil)
			r.RemoteAddr = "127.0.0.1:1"
			w := httptest.NewRecorder()
			pages.ServeHTTP(w, r)
			return w.Body.String()
		}
		require.NotContains(t, textOf(t, see("")), "Last hour")
		require.Contains(t, textOf(t, see("workers")), "No task runs or waits in this process.")

		def, err := workflow.ParseYAML([]byte(oneTask))
		require.NoError(t, err)
		for _, id := range []workflow.RunID{"r0", "r1", "r2", "r3"} {
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: def}, nil))
		}
		<-time.After(5 * time.Second)
		home := see("")
		for _, text := range []string{"1 running", "1 waiting, the oldest came 5 s ago", "2 ended", "1 (50 %) failed"} {
			require.Contains(t, textOf(t, home), text)
		}
		require.Contains(t, home, `aria-label="2 attempts ended, 1 of them failed, at most 2 a minute"`)
		require.Contains(t, textOf(t, see("workers")), "pack 1 1 s ago 1 5 s ago 0")
		require.NotContains(t, textOf(t, see("engine")), "KiB")
		require.Regexp(t, `Disk by workflow .* one 4 [0-9.]+ KiB [0-9.]+ KiB all 4 [0-9.]+ KiB`, textOf(t, see("engine?disk=1")))
		page := see("definitions?workflow=one&within=hour")
		require.Contains(t, page, "95 % within 1.9 s, 1 failed", "in the picture")
		require.Contains(t, textOf(t, page), "pack 2 1 (50 %)")
		require.Regexp(t, `whole run from start to end 2 1 \(50 %\) [0-9.]+ s `, textOf(t, page))
		require.Contains(t, textOf(t, page), "2 tasks ended")
		require.Contains(t, textOf(t, page), "2 runs ended, 95 % within")
		require.Equal(t, 1, strings.Count(page, `aria-current="true">Last hour`))
		require.Contains(t, page, `aria-current="true">Last hour`)
		require.Contains(t, textOf(t, page), "What its tasks reported Node Number Sum today yesterday last week all nodes cost 0.25 0.25 all nodes tokens 1200 1200 pack cost 0.25 0.25 pack tokens 1200 1200 By minute Time cost tokens 00:00 UTC 0.25 1200")
		require.Contains(t, textOf(t, see("definitions?workflow=one&within=month")), "By day Time cost tokens 2000-01-01 0.25 1200")
		require.Contains(t, see("definitions?workflow=one&within=year"), `aria-current="true">Last 24 hours`)
	})
}

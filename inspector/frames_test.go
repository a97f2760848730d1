package inspector_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/workflow"
)

// A page that moves twenty times a second is made at most four times a second, and once for all of its twenty viewers:
// the hook that redacts values is asked when it is made, and notes the instants.
func TestFramesAreFewAndForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{Executor: later{}})
		require.NoError(t, err)
		defer func() { require.NoError(t, engine.Close(context.Background())) }()
		d := parse(t, "name: waits\nstart: w\nnodes: [{id: w, wait: {event: go}}]\n")
		require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "a", Definition: d}, map[string]any{"customer": "Ada"}))
		var mu sync.Mutex
		var made []time.Time
		h := inspector.Handler(engine, inspector.Options{
			Identify: func(*http.Request) (string, api.Rights, error) { return "", api.View | api.Values, nil },
			Redact: func(_ workflow.RunID, _ string, v any) any {
				mu.Lock()
				defer mu.Unlock()
				if now := time.Now(); len(made) == 0 || !made[len(made)-1].Equal(now) {
					made = append(made, now)
				}
				return v
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		var viewers sync.WaitGroup
		var pages [20]*httptest.ResponseRecorder
		for i := range pages {
			pages[i] = httptest.NewRecorder()
			viewers.Go(func() {
				h.ServeHTTP(pages[i], httptest.NewRequestWithContext(ctx, http.MethodGet, "/live/run/a?view=data", http.NoBody))
			})
		}
		for range 100 { // for ten seconds
			require.NoError(t, engine.Pause(t.Context(), "a"))
			<-time.After(50 * time.Millisecond) // virtual
			require.NoError(t, engine.Resume(t.Context(), "a"))
			<-time.After(50 * time.Millisecond) // virtual
		}
		<-time.After(3 * time.Second) // virtual: the last frame comes
		cancel()
		viewers.Wait()
		require.Greater(t, len(made), 4)
		// A frame is asked for values when it has waited for its run, so the instants are not quite a quarter of a second apart.
		require.Less(t, len(made), 4*13+2)
		for i := 1; i < len(made); i++ {
			require.GreaterOrEqual(t, made[i].Sub(made[i-1]), 200*time.Millisecond, "frame %d of %d", i, len(made))
		}
		for _, page := range pages {
			frames := strings.Count(page.Body.String(), "event: frame\n")
			require.Greater(t, frames, 4)
			require.LessOrEqual(t, frames, len(made))
			require.Contains(t, page.Body.String(), "\nid: 201\n", "the last record")
		}
	})
}

package inspector_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

// A page that takes long is shown, however little time the server of the host gives to a request, and a connection that rests
// between two pages serves the second as well.
func TestPagesThatTakeLong(t *testing.T) {
	for name, within := range map[string]time.Duration{"a server with short timeouts": time.Second, "a server without timeouts": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{})
				require.NoError(t, err)
				h := inspector.Handler(e, inspector.Options{Identify: func(*http.Request) (string, api.Rights, error) {
					<-time.After(5 * time.Second) // a service that knows who it is
					return "ann", api.All, nil
				}})
				clients, stop := harness.BusyClients(t, h, within)
				for protocol, c := range clients {
					for _, at := range []string{"", "runs", "nothing", "inbox"} {
						r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/"+at, nil)
						require.NoError(t, err)
						answer, err := c.Do(r)
						require.NoError(t, err, "%s %q", protocol, at)
						text, err := io.ReadAll(answer.Body)
						require.NoError(t, err, "%s %q", protocol, at)
						require.NoError(t, answer.Body.Close())
						require.Equal(t, protocol, answer.Proto)
						require.Contains(t, string(text), "</html>", "%s %q", protocol, at)
						<-time.After(time.Minute)
					}
				}
				stop()
				require.NoError(t, e.Close(t.Context()))
			})
		})
	}
}

package worker

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
)

// logged is what a pool or a client has logged so far, for tests that read it while timers or other goroutines may write.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A type that no worker takes is told once, and again after a worker has come and gone.
func TestTypesWithoutAWorkerAreLoggedOnce(t *testing.T) {
	var log logged
	o := Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	bubble(t, o, func(t *testing.T, p *Pool, f *fake) {
		told := func(kind string) int {
			synctest.Wait()
			return strings.Count(log.String(), "task="+kind+" ")
		}
		done := pawl.Handlers{"a": func(context.Context, pawl.Task) (any, error) { return nil, nil }}
		f.dispatch("a", "k1")
		pass(9 * time.Second)
		require.NoError(t, p.Start(Registration{ID: "soon enough"}, done))
		require.NoError(t, p.Leave("soon enough"))
		pass(time.Hour)
		require.Zero(t, told("a"))

		require.NoError(t, p.Start(Registration{ID: "another"}, pawl.Handlers{"b": done["a"]}))
		f.dispatch("a", "k2", "k3")
		pass(9 * time.Second)
		require.Zero(t, told("a"))
		pass(time.Second)
		require.Equal(t, 1, told("a"))
		require.Contains(t, log.String(), "start one with Pool.Start")
		require.Contains(t, log.String(), "queued=2 workers=1")
		f.end("k2")
		f.end("k3")
		pass(time.Minute)
		f.dispatch("a", "k4")
		pass(time.Hour)
		require.Equal(t, 1, told("a"), "once")

		require.NoError(t, p.Start(Registration{ID: "all", Types: []string{every}}, pawl.Handlers{every: done["a"]}))
		pass(time.Minute)
		require.NoError(t, p.Drain(t.Context(), "all"))
		f.dispatch("a", "k5")
		pass(time.Minute)
		require.Equal(t, 2, told("a"), "a worker had come and gone")
		require.Zero(t, told("b"))
		require.Empty(t, p.queue.missing)
	})
}

// A remote worker that is not heard of any more is missed when it is forgotten, a pool that
// hands out nothing misses none.
func TestAWorkerIsMissedWhenItIsForgotten(t *testing.T) {
	var log logged
	o := Options{Expiry: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	bubble(t, o, func(t *testing.T, p *Pool, f *fake) {
		joined(t, p, "ann", 1, "a")
		f.dispatch("a", "k1")
		pass(69 * time.Second)
		synctest.Wait()
		require.Empty(t, log.String())
		pass(2 * time.Second)
		synctest.Wait()
		require.Contains(t, log.String(), "workers=0")
		require.NoError(t, p.Drain(t.Context()))
		f.dispatch("b", "k2")
		pass(time.Minute)
		synctest.Wait()
		require.NotContains(t, log.String(), "task=b")
	})
}

// The log hears of wrong tokens, in one line a minute however many come.
func TestRefusedCallersAreTold(t *testing.T) {
	var log logged
	bubble(t, Options{Token: secret, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, p *Pool, _ *fake) {
		knock := func() {
			r := httptest.NewRequest("POST", "/v1/poll", strings.NewReader(`{}`))
			r.Header.Set("Authorization", "Bearer guessed")
			p.Handler().ServeHTTP(httptest.NewRecorder(), r)
		}
		for range 3 {
			knock()
		}
		require.Equal(t, 1, strings.Count(log.String(), "callers are refused"))
		require.Contains(t, log.String(), "requests=1 ")
		<-time.After(time.Minute) // in virtual time
		knock()
		require.Equal(t, 2, strings.Count(log.String(), "callers are refused"))
		require.Contains(t, log.String(), "requests=3 ")
		require.NotContains(t, log.String(), "guessed")
	})
}

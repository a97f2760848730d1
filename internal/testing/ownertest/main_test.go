package ownertest

import (
	"bytes"
	"context"
	"flag"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

var seed = flag.Uint64("owner.seed", 1, "of what is drawn")

func TestMain(m *testing.M) { harness.Main(m, childRole, child) }

// open opens an engine that is closed with the test.
func open(t *testing.T, dir string, o pawl.Options) *pawl.Engine {
	t.Helper()
	return openWith(t, nil, dir, o)
}

// openWith is open for an engine with a hook.
func openWith(t *testing.T, hook *testhook.Hook, dir string, o pawl.Options) *pawl.Engine {
	t.Helper()
	e, err := pawl.Open(testhook.With(t.Context(), hook), dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
	return e
}

// A faultLog keeps what engines log: what no caller could be told.
type faultLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (f *faultLog) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.buf.Write(p)
}

func (f *faultLog) logger() *slog.Logger { return slog.New(slog.NewTextHandler(f, nil)) }

func (f *faultLog) lines() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.buf.String()
}

// race calls f with 0 to n-1 at the same time.
func race(n int, f func(k int)) {
	var group sync.WaitGroup
	start := make(chan struct{})
	for k := range n {
		group.Go(func() {
			<-start
			f(k)
		})
	}
	close(start)
	group.Wait()
}

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
	"github.com/pawl-run/pawl/internal/failpoint"
	"github.com/pawl-run/pawl/internal/harness"
)

var (
	all  = flag.Bool("owner.all", false, "the figures of a release, not a sample")
	part = flag.Int("owner.part", 100, "percent of those figures")
	seed = flag.Uint64("owner.seed", 1, "of what is drawn")
)

func TestMain(m *testing.M) { harness.Main(m, childRole, child) }

// times returns how often to do something: in the gate, in a release run, and a
// small part of the gate where the race detector is on.
func times(gate, release int) int {
	switch {
	case *all:
		return max(release**part/100, 2)
	case harness.Raced:
		return max(gate/10, 2)
	case testing.Short():
		return max(gate/4, 2)
	}
	return gate
}

// open opens an engine that is closed with the test.
func open(t *testing.T, dir string, o pawl.Options) *pawl.Engine {
	t.Helper()
	e, err := pawl.Open(t.Context(), dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
	return e
}

// onHit has f told of failpoints until reset is called.
func onHit(f func(name string)) (reset func()) { return failpoint.Set(f) }

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

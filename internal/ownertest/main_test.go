package ownertest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/failpoint"
	"github.com/pawl-run/pawl/workflow"
)

var (
	all  = flag.Bool("owner.all", false, "the figures of a release, not a sample")
	part = flag.Int("owner.part", 100, "percent of those figures")
	seed = flag.Uint64("owner.seed", 1, "of what is drawn")
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		if err := child(role); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(2)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// times returns how often to do something: in the gate, in a release run, and a
// small part of the gate where the race detector is on.
func times(gate, release int) int {
	switch {
	case *all:
		return max(release**part/100, 2)
	case raced:
		return max(gate/10, 2)
	case testing.Short():
		return max(gate/4, 2)
	}
	return gate
}

// define parses a definition of a test.
func define(text string) *workflow.Definition {
	d, err := workflow.ParseYAML([]byte(text))
	if err != nil {
		panic(fmt.Sprintf("%v in %s", err, text))
	}
	return d
}

// open opens an engine that is closed with the test.
func open(t *testing.T, dir string, o pawl.Options) *pawl.Engine {
	t.Helper()
	e, err := pawl.Open(t.Context(), dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
	return e
}

// workspace returns an empty directory, in memory if there is a file system
// there: what is tested here does not depend on the disk.
func workspace(t *testing.T) string {
	t.Helper()
	const memory = "/dev/shm"
	if info, err := os.Stat(memory); err != nil || !info.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "pawl-ownertest-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
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

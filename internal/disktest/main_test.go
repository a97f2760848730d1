package disktest

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// childMode is the variable that makes the test binary a child: how it limits
// itself, or "host".
const childMode = "PAWL_DISKTEST_CHILD"

// patience is how long anything may take before it counts as stuck.
const patience = 60 * time.Second

var all = flag.Bool("disk.all", false, "all workflows and the long stalls, not the gate sample")

// gate is a figure of the gate, and that of the release run.
func gate[T any](sample, release T) T {
	if *all {
		return release
	}
	return sample
}

// workspace returns an empty directory, in memory if there is a file system in
// memory: what is not told of a sync is told of the real disk in the same way.
func workspace(t *testing.T) string {
	const memory = "/dev/shm"
	info, err := os.Stat(memory)
	if err != nil || !info.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "pawl-disktest-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func TestMain(m *testing.M) {
	mode := os.Getenv(childMode)
	if mode == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := childMain(mode); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(2)
	}
}

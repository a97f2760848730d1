package harness

import (
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

// VerifyTestMain is for TestMain of a package whose tests sync files. They run with
// their temporary directories in memory, if there is any that is fit for it and
// TMPDIR names no other place, and no goroutine may be left. The reports of engines
// without a logger about injected faults are discarded.
func VerifyTestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	remove := useMemory()
	status := RunWithoutLeaks(m)
	remove()
	os.Exit(status)
}

// RunInMemory runs the tests of a package with their temporary directories in memory, as [VerifyTestMain] has them, and returns the exit
// status. Goroutines may be left.
func RunInMemory(m *testing.M) int {
	defer useMemory()()
	return m.Run()
}

// useMemory sets TMPDIR to a new directory in memory, and returns what removes it.
func useMemory() (remove func()) {
	if os.Getenv("TMPDIR") != "" {
		return func() {}
	}
	dir, err := memoryDirectory()
	if err != nil {
		return func() {}
	}
	remove = func() { _ = os.RemoveAll(dir) }
	if os.Setenv("TMPDIR", dir) != nil {
		remove()
		return func() {}
	}
	return remove
}

// memoryDirectory makes an empty directory in memory. It fails where there is no
// memory for files, or less than a gibibyte of it, as in many containers.
func memoryDirectory() (string, error) {
	const memory, least = "/dev/shm", 1 << 30
	free, err := freeBytes(memory)
	if err != nil {
		return "", err
	}
	if free < least {
		return "", os.ErrNotExist
	}
	program := strings.TrimSuffix(filepath.Base(os.Args[0]), ".test")
	return os.MkdirTemp(memory, "pawl-"+program+"-")
}

// The collector of a test binary, and of the children that it makes of itself, rests until there is five times
// as much memory as was in use, or half a gibibyte of it: a quarter of the time of tests went into
// collecting what their end frees. A user who sets GOGC or GOMEMLIMIT decides that alone. Above Gate, and in tests
// that measure time or memory, the collector is as hosts have it.
const (
	restingPercent = 400
	restingMemory  = 512 << 20
)

// collectorRests says whether the collector of this process rests.
var collectorRests bool

// init is called in every test binary that knows of levels, before any of its tests.
func init() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" || CurrentLevel() > Gate {
		return
	}
	collectorRests = true
	debug.SetGCPercent(restingPercent)
	debug.SetMemoryLimit(restingMemory)
}

// collectAsHosts has the collector work as in the programs of hosts until the test is over.
func collectAsHosts(t testing.TB) {
	if !collectorRests {
		return
	}
	debug.SetGCPercent(100)
	debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() {
		debug.SetGCPercent(restingPercent)
		debug.SetMemoryLimit(restingMemory)
	})
}

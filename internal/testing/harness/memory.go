package harness

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// VerifyTestMain is for TestMain of a package whose tests sync files. They run with
// their temporary directories in memory, if there is any that is fit for it and
// TMPDIR names no other place, and no goroutine may be left. The reports of engines
// without a logger about injected faults are discarded.
func VerifyTestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	remove := useMemory()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		remove()
		os.Exit(code)
	}))
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

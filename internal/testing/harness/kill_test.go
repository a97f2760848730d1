package harness

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be the process that is killed.
func TestMain(m *testing.M) {
	if os.Getenv(KillVariable) == "" {
		os.Exit(m.Run())
	}
	hit, err := Killer()
	if err != nil {
		os.Exit(3)
	}
	for range 3 {
		hit("other")
		hit("here")
	}
}

func TestOnNthHit(t *testing.T) {
	done := 0
	hit := onNthHit("a", 2, func() { done++ })
	for _, point := range []string{"a", "b", "b"} {
		hit(point)
	}
	require.Zero(t, done)
	for range 3 {
		hit("a")
	}
	require.Equal(t, 1, done)
}

// The process dies at the hit that is named, and at no other.
func TestKiller(t *testing.T) {
	tests := []struct {
		value  string
		signal syscall.Signal
		exit   int
	}{
		{"here:3", syscall.SIGKILL, -1},
		{"other:1", syscall.SIGKILL, -1},
		{"here:4", -1, 0},
		{"nowhere:1", -1, 0},
		{"here", -1, 3},
		{"here:0", -1, 3},
		{":1", -1, 3},
	}
	for _, tt := range tests {
		cmd := exec.Command(os.Args[0])
		cmd.Env = Environment(KillVariable + "=" + tt.value)
		err := cmd.Run()
		var exit *exec.ExitError
		if tt.exit == 0 {
			require.NoError(t, err, tt.value)
			continue
		}
		require.True(t, errors.As(err, &exit), tt.value)
		status := exit.Sys().(syscall.WaitStatus)
		require.Equal(t, tt.exit, exit.ExitCode(), tt.value)
		require.Equal(t, tt.signal, status.Signal(), tt.value)
	}
	hit, err := Killer()
	require.NoError(t, err)
	hit("here") // the variable is not set
}

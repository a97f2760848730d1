package failpoint

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be the process that kills itself.
func TestMain(m *testing.M) {
	if os.Getenv(Variable) != "" {
		if err := FromEnv(); err != nil {
			os.Exit(3)
		}
		for range 3 {
			Hit("other")
			Hit("here")
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestSet(t *testing.T) {
	var hits []string
	Hit("before")
	reset := Set(func(name string) { hits = append(hits, name) })
	Hit("a")
	Hit("b")
	reset()
	Hit("after")
	require.Equal(t, []string{"a", "b"}, hits)
}

func TestSetTurn(t *testing.T) {
	var turns []string
	Turn("before")
	reset := SetTurn(func(run string) { turns = append(turns, run) })
	Turn("r1")
	reset()
	Turn("after")
	require.Equal(t, []string{"r1"}, turns)
}

func TestSetAsk(t *testing.T) {
	asked := map[string]any{}
	Ask("before", 1)
	reset := SetAsk(func(run string, message any) { asked[run] = message })
	Ask("r1", 2)
	reset()
	Ask("after", 3)
	require.Equal(t, map[string]any{"r1": 2}, asked)
}

func TestAt(t *testing.T) {
	done := 0
	hit := at("a", 2, func() { done++ })
	for _, name := range []string{"a", "b", "b"} {
		hit(name)
	}
	require.Zero(t, done)
	for range 3 {
		hit("a")
	}
	require.Equal(t, 1, done)
}

// The process dies at the hit that is named, and at no other.
func TestFromEnv(t *testing.T) {
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
		cmd.Env = append(os.Environ(), Variable+"="+tt.value)
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
}

func BenchmarkHit(b *testing.B) {
	for b.Loop() {
		Hit("bench")
	}
}

func TestAlso(t *testing.T) {
	var got []string
	reset := Set(func(name string) { got = append(got, "first "+name) })
	Also(func(name string) { got = append(got, "also "+name) })
	Hit("a")
	reset()
	Hit("b")
	Also(func(name string) { got = append(got, "alone "+name) })
	defer reset()
	Hit("c")
	require.Equal(t, []string{"also a", "first a", "alone c"}, got)
}

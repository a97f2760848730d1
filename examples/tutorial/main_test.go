package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/pawltest"
)

// childVariable makes the test binary the program.
const childVariable = "PAWL_TUTORIAL_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func program(t *testing.T, dir string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), childVariable+"=1")
	return cmd
}

// The program is killed while it weighs the second item. Started again, it weighs
// that one again, and the first no more.
func TestParcels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := program(t, dir)
	out, err := first.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, first.Start())
	var lines []string
	for s := bufio.NewScanner(out); len(lines) < 2 && s.Scan(); {
		lines = append(lines, s.Text())
	}
	require.NoError(t, first.Process.Kill())
	require.Error(t, first.Wait())
	require.Equal(t, []string{"weighing tea", "weighing cups"}, lines)

	for _, want := range []string{
		"weighing cups\nweighing kettle\nweighing spoons\ncompleted order-1: 4 items, 1900 g\n",
		"completed order-1: 4 items, 1900 g\n",
	} {
		var stdout bytes.Buffer
		again := program(t, dir)
		again.Stdout = &stdout
		require.NoError(t, again.Run())
		require.Equal(t, want, stdout.String())
	}
}

func TestScenarios(t *testing.T) { pawltest.Run(t, "scenarios") }

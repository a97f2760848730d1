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

// The program is killed while it weighs the third item. Started again, it weighs that
// one again, and the first no more; the second may have been done and not yet said so.
func TestParcels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := program(t, dir)
	out, err := first.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, first.Start())
	var lines []string
	for s := bufio.NewScanner(out); len(lines) < 3 && s.Scan(); {
		lines = append(lines, s.Text())
	}
	require.NoError(t, first.Process.Kill())
	require.Error(t, first.Wait())
	require.Equal(t, []string{"weighing tea", "weighing cups", "weighing kettle"}, lines)

	// The next one may weigh again what was being weighed, and all that was not committed.
	const last, kettle = "weighing spoons\ncompleted order-1: 4 items, 1900 g\n", "weighing kettle\n"
	require.Contains(t, []string{last, kettle + last, "weighing cups\n" + kettle + last}, output(t, dir))
	require.Equal(t, "completed order-1: 4 items, 1900 g\n", output(t, dir))
}

// output runs the program to its end and returns what it prints.
func output(t *testing.T, dir string) string {
	t.Helper()
	var stdout bytes.Buffer
	again := program(t, dir)
	again.Stdout = &stdout
	require.NoError(t, again.Run())
	return stdout.String()
}

func TestScenarios(t *testing.T) { pawltest.Run(t, "scenarios") }

package main

import (
	"bufio"
	"bytes"
	"errors"
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

// killProgram kills the program while it weighs the third item, and reports whether it has not come to its end before.
func killProgram(t *testing.T, dir string) bool {
	t.Helper()
	first := program(t, dir)
	out, err := first.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, first.Start())
	var lines []string
	for s := bufio.NewScanner(out); len(lines) < 3 && s.Scan(); {
		lines = append(lines, s.Text())
	}
	if err := first.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		require.NoError(t, err)
	}
	killed := first.Wait() != nil
	require.Equal(t, []string{"weighing tea", "weighing cups", "weighing kettle"}, lines)
	return killed
}

// The program is killed while it weighs the third item. Started again, it weighs that
// one again, and the first no more; the second may have been done and not yet said so.
func TestParcels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for tries := 1; !killProgram(t, dir); tries++ { // the machine does much else
		require.Less(t, tries, 20, "it ends before it is killed")
		dir = t.TempDir()
	}

	// The next one may weigh again what was being weighed, and all that was not committed.
	const end, kettle = "completed order-1: 4 items, 1900 g\n", "weighing kettle\n"
	const last = "weighing spoons\n" + end
	rests := []string{last, kettle + last, "weighing cups\n" + kettle + last, end} // end if the kill came late
	require.Contains(t, rests, output(t, dir))
	require.Equal(t, end, output(t, dir))
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

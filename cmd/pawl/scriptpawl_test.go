package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
)

// The names of values of a script: whether its own process has a directory open, and the engine of the command live.
const (
	isOpen     = "isOpen"
	liveEngine = "liveEngine"
)

// scripts plays scripts one after another: commands within this process share its folder and its environment.
type scripts struct{ *testing.T }

func (scripts) Parallel()     {}
func (scripts) Verbose() bool { return testing.Verbose() }

func (s scripts) Run(name string, play func(testscript.T)) {
	s.T.Run(name, func(t *testing.T) { play(scripts{t}) })
}

// runPawl runs the command, which must succeed, or fail if the line begins with an exclamation mark.
func runPawl(ts *testscript.TestScript, neg bool, args []string) {
	if status := pawlStatus(ts, args); (status != 0) != neg {
		ts.Fatalf("the exit status is %d", status)
	}
}

// expectStatus runs the command and expects an exit status.
func expectStatus(ts *testscript.TestScript, _ bool, args []string) {
	checkStatus(ts, args[0], pawlStatus(ts, args[1:]))
}

// expectProcess does what expectStatus does, in a process of its own, which has the input that the script gives.
func expectProcess(ts *testscript.TestScript, _ bool, args []string) {
	checkStatus(ts, args[0], processStatus(ts, args[1:]))
}

func checkStatus(ts *testscript.TestScript, want string, status int) {
	if strconv.Itoa(status) != want {
		ts.Fatalf("the exit status is %d, not %s", status, want)
	}
}

// pawlStatus runs the command and returns its exit status. A quick run starts a process only for "test", which ends
// the process that it is in, and once the script has a directory open: the command then comes from another process.
func pawlStatus(ts *testscript.TestScript, args []string) int {
	if harness.CurrentLevel() == harness.Quick && !*ts.Value(isOpen).(*bool) && (len(args) == 0 || args[0] != "test") {
		return runWithin(ts, args)
	}
	return processStatus(ts, args)
}

func processStatus(ts *testscript.TestScript, args []string) int {
	var exit *exec.ExitError
	if err := ts.Exec("pawl", args...); errors.As(err, &exit) {
		return exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	return 0
}

// runWithin runs the command within this process, in the folder and with the variables of the script, without input.
func runWithin(ts *testscript.TestScript, args []string) int {
	back, err := os.Getwd()
	ts.Check(err)
	ts.Check(os.Chdir(ts.MkAbs(".")))
	defer func() { ts.Check(os.Chdir(back)) }()
	for _, name := range []string{"COLUMNS", "GOPACKAGE", "PAWL_DIR"} {
		if value := ts.Getenv(name); value != "" {
			ts.Check(os.Setenv(name, value))
		} else {
			ts.Check(os.Unsetenv(name))
		}
	}
	none, err := os.Open(os.DevNull)
	ts.Check(err)
	defer none.Close()
	con := newConsole(none, none, none)
	con.In, con.Out, con.Errs = strings.NewReader(""), ts.Stdout(), ts.Stderr()
	con.setNow(ts.Getenv("NOW"))
	return con.runArguments(testhook.With(context.Background(), con.hook), args)
}

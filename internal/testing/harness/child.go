package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// Main is for TestMain of a package whose test binary is its own child: where the
// variable of the environment is set, child is called with its value, and exits
// with status 2 and a word on standard error if that fails. Else the tests run, and
// no goroutine may be left.
func Main(m *testing.M, variable string, child func(value string) error) {
	value := os.Getenv(variable)
	if value == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := child(value); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(2)
	}
}

// Environment returns the environment of a child: that of this process and the
// variables, which are of the form NAME=VALUE. Variables of ours, which begin with
// PAWL_ and are meant for this process, are left out, but for the level.
func Environment(variables ...string) []string {
	var out []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PAWL_") || strings.HasPrefix(v, levelVariable+"=") {
			out = append(out, v)
		}
	}
	return append(out, variables...)
}

// Killed reports whether an error of exec.Cmd says that the process has died of
// SIGKILL.
func Killed(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
}

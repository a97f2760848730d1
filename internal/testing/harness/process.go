package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// Main is for TestMain of a package whose test binary is its own child: where the
// variable of the environment is set, child is called with its value, and exits
// with status 2 and a word on standard error if that fails. Else the tests run, and
// no goroutine may be left.
func Main(m *testing.M, variable string, child func(value string) error) {
	value := os.Getenv(variable)
	if value == "" {
		os.Exit(RunWithoutLeaks(m))
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

// KillVariable is the environment variable that Killer reads: NAME:N.
const KillVariable = "PAWL_FAILPOINT"

// Killer returns what kills this process as the environment says: at the N-th hit of
// the failpoint NAME, counted from 1. It is for testhook.Hook.OnHit. Without the
// variable it kills nobody.
func Killer() (hit func(point string), err error) {
	text := os.Getenv(KillVariable)
	if text == "" {
		return func(string) {}, nil
	}
	point, n, err := parseKill(text)
	if err != nil {
		return nil, err
	}
	return onNthHit(point, n, KillProcess), nil
}

func parseKill(text string) (point string, n int64, err error) {
	point, number, _ := strings.Cut(text, ":")
	n, err = strconv.ParseInt(number, 10, 64)
	if point == "" || err != nil || n < 1 {
		return "", 0, fmt.Errorf("%s=%q is not NAME:N", KillVariable, text)
	}
	return point, n, nil
}

// onNthHit returns a hook that calls do at the n-th hit of a failpoint.
func onNthHit(point string, n int64, do func()) func(string) {
	var hits atomic.Int64
	return func(hit string) {
		if hit == point && hits.Add(1) == n {
			do()
		}
	}
}

// KillProcess ends the process as kill -9 does. Nothing that comes after it in this
// goroutine happens.
func KillProcess() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	panic(fmt.Sprintf("cannot kill this process: %v", err))
}

// CountTurns returns how often another goroutine had its turn on the only processor
// while f was under way.
func CountTurns(f func()) int64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var n atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				n.Add(1)
				runtime.Gosched()
			}
		}
	}()
	f()
	got := n.Load()
	close(stop)
	<-stopped
	return got
}

// CountBubbled returns how many goroutines are in bubbles of synctest. Others come and go without the test, also ones that an earlier
// test has left to end.
func CountBubbled() int {
	stacks := make([]byte, 4<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), ", synctest bubble ")
}

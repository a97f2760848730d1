package harness

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

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

//go:build unix

package handler_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pawl-run/pawl/handler"
)

// Somebody else kills the program: the machine was out of memory, say.
func TestExecSignal(t *testing.T) {
	f, self := run(t, handler.ExecOptions{})
	failure := fails(t, f, object{"argv": append(self, "die")})
	assert.Equal(t, handler.CodeExecSignal, failure.Code)
	assert.Contains(t, failure.Message, "signal: killed")
	assert.True(t, failure.Retryable)
}

// A process that a program leaves behind in its group ends with the program, and
// does not make it a failure, even if it holds the output and does not read the
// input.
func TestExecLeavesNothing(t *testing.T) {
	f, self := run(t, handler.ExecOptions{})
	l := listen(t)
	for _, mode := range []string{"leave", "bequeath"} {
		out := gives(t, f, object{"argv": append(self, mode, l.Addr().String()), "stdin": strings.Repeat("x", 200_000)})
		assert.Equal(t, int64(1), out["stdout"])
		name, conn := l.next(t)
		assert.Equal(t, "hang", name)
		dead(t, conn)
	}
}

// A child that left the group but holds the output open does not keep the task from
// ending. The half of the output that was there is no result, whatever the exit status.
func TestExecOutputHeldOpen(t *testing.T) {
	for _, status := range []string{"0", "3"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			f, self := run(t, handler.ExecOptions{})
			l := listen(t)
			failure := fails(t, f, object{"argv": append(self, "escape", l.Addr().String(), status), "accept": []any{3}})
			assert.Equal(t, handler.CodeExecOutput, failure.Code)
			assert.Contains(t, failure.Message, "a process that it left holds its output open")
			assert.False(t, failure.Retryable)
			_, conn := l.next(t)
			assert.NoError(t, conn.Close()) // which ends it
		})
	}
}

func init() { escape = escapeGroup }

// escapeGroup is leave with a child in a session of its own, which has both outputs.
func escapeGroup(address string) int {
	cmd := exec.Command(os.Args[0], "child", "hang", address)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stdout, cmd.ExtraFiles = os.Stdout, []*os.File{os.Stderr}
	ready, err := cmd.StderrPipe()
	if err != nil || cmd.Start() != nil {
		return 1
	}
	_, _ = ready.Read(make([]byte, 1))
	fmt.Print("1")
	return 0
}

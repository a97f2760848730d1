package handler_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/handler"
)

// quickExit keeps the race detector from waiting a second before a program ends.
const quickExit = "GORACE=atexit_sleep_ms=0"

// run returns a handler that may run the test binary, and the start of its argv.
func run(t testing.TB, o handler.ExecOptions) (func(context.Context, pawl.Task) (any, error), []any) {
	t.Helper()
	self := program(t)
	o.Programs, o.Env = append(o.Programs, self), append(o.Env, quickExit)
	return handler.Exec(o), []any{self, "child"}
}

func TestExec(t *testing.T) {
	f, self := run(t, handler.ExecOptions{})
	out := gives(t, f, object{"argv": append(self, "sum"), "stdin": object{"numbers": []int{1, 2, 3}}})
	assert.Equal(t, object{"status": 0, "stdout": object{"sum": int64(6)}, "stderr": ""}, out)

	// There is no shell: nothing is expanded, split or joined.
	arguments := []any{"a b", "$HOME", "*", "; exit 3", "", "'"}
	assert.Equal(t, arguments, gives(t, f, object{"argv": append(append(self, "arguments"), arguments...)})["stdout"])

	assert.Equal(t, "not JSON", gives(t, f, object{"argv": append(self, "echo"), "stdin": "not JSON", "text": true})["stdout"])
	assert.Equal(t, "JSON", gives(t, f, object{"argv": append(self, "echo"), "stdin": "JSON"})["stdout"])
	assert.Nil(t, gives(t, f, object{"argv": append(self, "echo")})["stdout"])
}

func TestExecEnvironment(t *testing.T) {
	t.Setenv("HANDLER_PASSED", "yes")
	t.Setenv("HANDLER_SECRET", "no")
	f, self := run(t, handler.ExecOptions{
		Env: []string{"HANDLER_PASSED", "HANDLER_SET=1", "HANDLER_ABSENT", "PAWL_RUN=forged"}, InputEnv: []string{"LANG", "HANDLER_SET"},
	})
	out := gives(t, f, object{"argv": append(self, "environment"), "env": object{"LANG": "C", "HANDLER_SET": 2}})
	env := out["stdout"].([]any)
	if runtime.GOOS != "windows" { // which adds what no program can do without
		assert.ElementsMatch(t, []any{
			"HANDLER_PASSED=yes", "HANDLER_SET=2", "LANG=C", "PAWL_EFFECT_KEY=run-1/node/7", "PAWL_RUN=run-1", "PAWL_NODE=node", "PAWL_ATTEMPT=3", quickExit,
		}, env)
	}
	failure := fails(t, f, object{"argv": append(self, "environment"), "env": object{"LD_PRELOAD": "x"}})
	assert.Equal(t, `exec_denied: env: "LD_PRELOAD" is not among the variables that an input may set`, failure.Error())
	assert.False(t, failure.Retryable)
}

func TestExecDirectory(t *testing.T) {
	dir := t.TempDir()
	f := handler.Exec(handler.ExecOptions{AnyProgram: true, Dir: dir})
	gives(t, f, object{"argv": []any{program(t), "child", "echo"}})
	gone := handler.Exec(handler.ExecOptions{AnyProgram: true, Dir: filepath.Join(dir, "gone")})
	assert.Equal(t, handler.CodeExecStart, fails(t, gone, object{"argv": []any{program(t), "child", "echo"}}).Code)
}

func TestExecFailures(t *testing.T) {
	f, self := run(t, handler.ExecOptions{Programs: []string{"no-such-program-here", "/no/such", os.TempDir()}, OutputBytes: 5000})
	tests := map[string]struct {
		input         object
		code, message string
		retryable     bool
	}{
		"not allowed":    {object{"argv": []any{"rm", "-rf"}}, handler.CodeExecDenied, `the program "rm" is not among those that are allowed`, false},
		"not in PATH":    {object{"argv": []any{"no-such-program-here"}}, handler.CodeExecStart, "executable file not found", false},
		"no such file":   {object{"argv": []any{"/no/such"}}, handler.CodeExecStart, "/no/such", false},
		"not executable": {object{"argv": []any{os.TempDir()}}, handler.CodeExecStart, os.TempDir(), false},
		"exit":           {object{"argv": append(self, "exit", "3")}, "exec_exit_3", "exit status 3: ...xxx", true},
		"other exit":     {object{"argv": append(self, "exit", "3"), "accept": []any{1, 2}}, "exec_exit_3", "xxxthe end", true},
		"bad input":      {object{"argv": append(self, "sum"), "stdin": "x"}, "exec_exit_2", "cannot unmarshal", true},
		"too large":      {object{"argv": append(self, "flood")}, handler.CodeExecTooLarge, "standard output exceeds the limit", false},
		"too large, little": {object{"argv": append(self, "echo"), "stdin": strings.Repeat("x", 5001), "text": true},
			handler.CodeExecTooLarge, "standard output exceeds the limit", false},
	}
	for name, tt := range tests {
		failure := fails(t, f, tt.input)
		assert.Equal(t, tt.code, failure.Code, "%s: %s", name, failure.Message)
		assert.Contains(t, failure.Message, tt.message, name)
		assert.Equal(t, tt.retryable, failure.Retryable, name)
	}
	out := gives(t, f, object{"argv": append(self, "exit", "3"), "accept": []any{3}})
	assert.Equal(t, 3, out["status"])
	assert.Equal(t, "bye", out["stdout"])
	stderr := out["stderr"].(string)
	assert.Len(t, stderr, 4<<10+len("..."))
	assert.True(t, strings.HasSuffix(stderr, "xxxthe end"))

	whole := strings.Repeat("x", 5000)
	assert.Equal(t, whole, gives(t, f, object{"argv": append(self, "echo"), "stdin": whole, "text": true})["stdout"])
	assert.Equal(t, handler.CodeExecDenied, fails(t, handler.Exec(handler.ExecOptions{}), object{"argv": []any{"true"}}).Code)
}

func TestExecOutputs(t *testing.T) {
	f, self := run(t, handler.ExecOptions{})
	for _, output := range []string{"{", "1 2", "hello"} {
		failure := fails(t, f, object{"argv": append(self, "say", output)})
		assert.Equal(t, handler.CodeExecOutput, failure.Code)
		assert.Contains(t, failure.Message, "standard output is not JSON: ")
		assert.False(t, failure.Retryable)
	}
	failure := fails(t, f, object{"argv": append(self, "noise"), "text": true})
	assert.Equal(t, handler.CodeExecOutput, failure.Code)
	assert.Contains(t, failure.Message, "standard output is not UTF-8")
}

func TestExecRefusesInputs(t *testing.T) {
	f := handler.Exec(handler.ExecOptions{AnyProgram: true, Timeout: time.Minute})
	args := make([]any, 1025)
	for i := range args {
		args[i] = "x"
	}
	tests := []struct {
		input   any
		message string
	}{
		{nil, "input: argv is missing"},
		{object{"argv": "ls -l"}, "input: argv is a string, not a list; argv names no program"},
		{object{"argv": []any{}}, "input: argv names no program"},
		{object{"argv": []any{""}}, "input: argv names no program"},
		{object{"argv": []any{"ls", 1}}, "input: argv[1] is a number, not a string"},
		{object{"argv": []any{"ls", "a\x00b"}}, "input: argv[1] has a zero byte in it"},
		{object{"argv": args}, "input: argv: 1025 with 2050 bytes, above the limit of 1024 with 131072"},
		{object{"argv": []any{"ls", strings.Repeat("x", 200_000)}}, "above the limit of 1024 with 131072"},
		{object{"argv": []any{"ls"}, "env": object{"A=B": "x"}}, `input: env: "A=B" is not a variable`},
		{object{"argv": []any{"ls"}, "env": object{"A": "x\x00"}}, `input: env: "A" is not a variable`},
		{object{"argv": []any{"ls"}, "env": object{"A": strings.Repeat("x", 200_000)}}, "input: env has 200003 bytes, above the limit of 131072"},
		{object{"argv": []any{"ls"}, "text": true, "stdin": object{}}, "input: stdin is an object, not a string"},
		{object{"argv": []any{"ls"}, "timeout": "61s"}, `input: timeout: "61s" is above the limit of 1m0s`},
		{object{"argv": []any{"ls"}, "accept": []any{256}}, "input: accept[0] is not an exit status from 0 to 255"},
		{object{"argv": []any{"ls"}, "shell": true}, `input: "shell": unknown field; there are argv, stdin, env, timeout, accept, text`},
	}
	for _, tt := range tests {
		failure := fails(t, f, tt.input)
		assert.Equal(t, handler.CodeInvalidInput, failure.Code)
		assert.Contains(t, failure.Message, tt.message)
		assert.False(t, failure.Retryable)
	}
}

// relatives accepts the connections of processes that hang.
type relatives struct{ net.Listener }

func listen(t *testing.T) relatives {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return relatives{l}
}

// next waits until one of the processes is there.
func (r relatives) next(t *testing.T) (name string, conn net.Conn) {
	t.Helper()
	conn, err := r.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	name, err = bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(name), conn
}

// dead waits until the process at the other end has ended.
func dead(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	_, err := conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the process lives on")
}

// Withdrawing a task ends the program and its child, which ignores signals that
// can be ignored and holds its output open.
func TestExecKillsTheGroup(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no process groups")
	}
	f, self := run(t, handler.ExecOptions{})
	l := listen(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	withdrawn := errors.New("withdrawn")
	ended := make(chan error, 1)
	go func() {
		_, err := f(ctx, task(object{"argv": append(self, "family", l.Addr().String())}))
		ended <- err
	}()
	one, first := l.next(t)
	two, second := l.next(t)
	require.ElementsMatch(t, []string{"family", "hang"}, []string{one, two})
	cancel(withdrawn)
	require.ErrorIs(t, <-ended, withdrawn)
	dead(t, first)
	dead(t, second)
}

func TestExecTimeout(t *testing.T) {
	f, self := run(t, handler.ExecOptions{})
	l := listen(t)
	failure := fails(t, f, object{"argv": append(self, "hang", l.Addr().String()), "timeout": "50ms"})
	assert.Equal(t, handler.CodeExecTimeout, failure.Code)
	assert.Contains(t, failure.Message, "it ran longer than 50ms")
	assert.True(t, failure.Retryable)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f(over, task(object{"argv": append(self, "echo")}))
	require.ErrorIs(t, err, context.Canceled)
}

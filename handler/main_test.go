package handler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

// TestMain is also the program that the tests of Exec run: the test binary with
// "child" as its first argument.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "child" {
		os.Exit(child(os.Args[2], os.Args[3:]))
	}
	harness.VerifyTestMain(m)
}

// child does what one of the tests needs and returns the exit status.
func child(mode string, args []string) int {
	switch mode {
	case "sum":
		var in struct{ Numbers []int }
		if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		sum := 0
		for _, n := range in.Numbers {
			sum += n
		}
		fmt.Printf(`{"sum": %d}`, sum)
	case "echo":
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "environment":
		_ = json.NewEncoder(os.Stdout).Encode(os.Environ())
	case "arguments":
		_ = json.NewEncoder(os.Stdout).Encode(args)
	case "exit":
		fmt.Print(`"bye"`)
		fmt.Fprint(os.Stderr, strings.Repeat("x", 10_000)+"the end")
		n, _ := strconv.Atoi(args[0])
		return n
	case "say":
		fmt.Print(args[0])
	case "noise":
		fmt.Print("\xff")
	case "flood":
		signal.Ignore(syscall.SIGPIPE) // it would go on for ever
		for {
			fmt.Println(strings.Repeat("x", 1000))
		}
	case "family":
		return family(args[0])
	case "leave":
		return leave(args[0], nil)
	case "bequeath":
		return leave(args[0], os.Stdout)
	case "escape":
		if status := escape(args[0]); status != 0 {
			return status
		}
		n, _ := strconv.Atoi(args[1])
		return n
	case "hang":
		return hang(args[0])
	case "die":
		p, _ := os.FindProcess(os.Getpid())
		_ = p.Kill()
		select {}
	}
	return 0
}

// hang connects to the test, says its name, and lives on for ever.
func hang(address string) int {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 1
	}
	fmt.Fprintln(conn, os.Args[2])
	fmt.Fprintln(os.Stderr, "there")
	signal.Ignore(syscall.SIGPIPE, syscall.SIGTERM)
	_, _ = io.Copy(io.Discard, conn) // the test does not close it
	return 1
}

// family starts a child that hangs, and hangs itself.
func family(address string) int {
	cmd := exec.Command(os.Args[0], "child", "hang", address)
	cmd.Stdout = os.Stdout
	if cmd.Start() != nil {
		return 1
	}
	return hang(address)
}

// escape is set where there are sessions.
var escape func(address string) int

// leave starts a child that hangs, with this output, waits until it does, and
// ends.
func leave(address string, output io.Writer) int {
	cmd := exec.Command(os.Args[0], "child", "hang", address)
	cmd.Stdout = output
	ready, err := cmd.StderrPipe()
	if err != nil || cmd.Start() != nil {
		return 1
	}
	_, _ = ready.Read(make([]byte, 1))
	fmt.Print("1")
	return 0
}

// program is the test binary.
func program(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

// task is a task with this input, as no engine has made it.
func task(input any) pawl.Task {
	return pawl.Task{EffectKey: "run-1/node/7", Run: "run-1", Node: "node", Attempt: 3, Input: input}
}

type object = map[string]any

// fails calls a handler and returns the error that it must end with.
func fails(t testing.TB, f func(context.Context, pawl.Task) (any, error), input any) pawl.TaskError {
	t.Helper()
	out, err := f(t.Context(), task(input))
	require.Error(t, err, "%v", out)
	require.Nil(t, out)
	var failure pawl.TaskError
	require.True(t, errors.As(err, &failure), "%T: %v", err, err)
	return failure
}

// gives calls a handler and returns its output, as an object.
func gives(t testing.TB, f func(context.Context, pawl.Task) (any, error), input any) object {
	t.Helper()
	out, err := f(t.Context(), task(input))
	require.NoError(t, err)
	require.IsType(t, object{}, out)
	return out.(object)
}

// open opens an engine on a temporary directory for the length of the test.
func open(t testing.TB, handlers pawl.Handlers) *pawl.Engine {
	t.Helper()
	engine, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: handlers, Durability: pawl.ProcessCrash})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close(context.Background())) })
	return engine
}

func define(t testing.TB, yaml string) *workflow.Definition {
	t.Helper()
	def, err := workflow.ParseYAML([]byte(yaml))
	require.NoError(t, err)
	return def
}

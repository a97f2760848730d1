package handler

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/traceparent"
)

// ExecOptions say what Exec may run. With the zero value it runs nothing.
type ExecOptions struct {
	// Command is the one program that is run, and its arguments: {"pdftotext", "-q",
	// "--", "{}", "-"}. The input fills the holes: "{}" with one of its operands, and
	// "{...}", once, with all remaining ones, which may be none. A hole must come after
	// "--", behind which most programs accept no options. With Command, the input has
	// operands instead of argv, and Programs and AnyProgram are ignored.
	Command []string
	// Programs are the programs that may be run with any arguments, as the first element
	// of argv names them: "pdftotext", which is looked up in the PATH of this process, or
	// "/usr/bin/pdftotext". Few programs are harmless with every argument: sort reads
	// and writes any file and starts other programs. Prefer Command.
	Programs []string
	// AnyProgram allows every program. Everybody who can write a definition or an input can
	// then do what this process can do.
	AnyProgram bool
	// Env is the environment of the programs: "NAME=value", or "NAME" for the
	// value that it has in this process. Nothing else is passed on but the four
	// variables that say what the task is, and TRACEPARENT and TRACESTATE in a span.
	Env []string
	// InputEnv are the names of the variables that an input may set.
	InputEnv []string
	// Dir is the working directory; by default, the working directory of this process.
	Dir string
	// Timeout bounds how long a program runs; 60 s by default. An input may set
	// a shorter one.
	Timeout time.Duration
	// OutputBytes bounds standard output; 1 MiB by default.
	OutputBytes int
}

// The bounds of Exec that are not options.
const (
	maxArguments = 1024             // with the name of the program
	maxArgBytes  = 128 << 10        // of all arguments; systems allow at least as much in one
	maxErrors    = 4 << 10          // bytes of the end of standard error that are kept
	waitDelay    = 2 * time.Second  // for output that a left process holds open
	killDelay    = 10 * time.Second // for killed processes: zombies may stay, where nobody reaps them
)

// Exec returns a handler that runs one program, without a shell.
//
// The input has operands, a list of strings for the holes of Command, or, where the options
// have none, argv, a list of strings: the program and its arguments. It may have stdin (any value, written as JSON and closed), env (an
// object of strings; only names in InputEnv), timeout (such as "5s"), accept (exit
// statuses that are no failure besides 0) and text (true: stdin is a string that
// is written as it is, and standard output is text). The output has status (the
// exit status), stdout (a JSON value, or text; null if it is empty) and stderr
// (its end, at most 4 KiB).
//
// The program finds the task in PAWL_EFFECT_KEY, PAWL_RUN, PAWL_NODE and
// PAWL_ATTEMPT. The effect key is the same in every attempt.
//
// When the timeout has passed, or the task is withdrawn, the program is killed,
// on Unix with its whole process group, so that its children end too; processes
// that it leaves running in its group are killed when it ends by itself. The
// program survives the death of the engine's process, and the task is sent again
// when the engine is back: two programs for one task may then run at once.
//
// An exit status that is not accepted fails the task with exec_exit_N and is
// retryable; list hopeless ones in a policy's nonRetryable.
// Retryable are CodeExecTimeout and CodeExecSignal as well, and CodeExecStart
// unless the program is missing or may not be executed; where there are too many open
// files the engine calls the task again instead, see pawl.Handlers. Permanent are
// CodeInvalidInput, CodeExecDenied, CodeExecOutput and CodeExecTooLarge.
func Exec(o ExecOptions) func(context.Context, pawl.Task) (any, error) {
	o.Timeout, o.OutputBytes = time.Duration(positiveOr(int64(o.Timeout), int64(60*time.Second))), positiveOr(o.OutputBytes, 1<<20)
	h := &runner{options: o}
	return h.runProgram
}

type runner struct{ options ExecOptions }

// The reasons why a program is killed.
var (
	errExecTimeout  = errors.New("the timeout has passed")
	errExecTooLarge = errors.New("standard output is too large")
)

func (h *runner) runProgram(ctx context.Context, t pawl.Task) (any, error) {
	c, err := h.readCommand(t.Input)
	if err != nil {
		return nil, err
	}
	if err := h.checkProgram(c); err != nil {
		return nil, err
	}
	killable, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	timed, cancel := context.WithTimeoutCause(killable, c.timeout, errExecTimeout)
	defer cancel()
	stdout := &bounded{most: h.options.OutputBytes, exceeded: func() { kill(errExecTooLarge) }}
	stderr := &tail{most: maxErrors}
	cmd := exec.CommandContext(timed, c.argv[0], c.argv[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = h.options.Dir, h.programEnvironment(ctx, c, t), waitDelay
	ownGroup(cmd)
	streams, err := connectPipes(cmd, c.stdin != nil, stdout, stderr)
	if err != nil {
		return nil, startError(timed, c, err)
	}
	if err := cmd.Start(); err != nil {
		streams.closePipes()
		return nil, startError(timed, c, err)
	}
	streams.startCopying(c.stdin)
	err = cmd.Wait()
	killGroup(cmd) // before the output has ended, which what it leaves may hold open
	broken := streams.waitForOutput(func() bool { return hasGroup(cmd) })
	if err := programFailure(timed, c, err, stderr); err != nil {
		return nil, err
	}
	if broken != nil {
		return nil, outputFailure(timed, c, broken)
	}
	out, err := decodeBody(stdout.data, !c.text)
	if err != nil {
		return nil, permanentError(CodeExecOutput, "%s: standard output is %v", c, err)
	}
	return map[string]any{"status": cmd.ProcessState.ExitCode(), "stdout": out, "stderr": stderr.String()}, nil
}

// checkProgram refuses what the options do not allow.
func (h *runner) checkProgram(c *command) error {
	if len(h.options.Command) == 0 && !h.options.AnyProgram && !slices.Contains(h.options.Programs, c.argv[0]) {
		return permanentError(CodeExecDenied, "the program %s is not among those that are allowed", quoteText(c.argv[0]))
	}
	for _, name := range c.variableNames() {
		if !slices.Contains(h.options.InputEnv, name) {
			return permanentError(CodeExecDenied, "env: %s is not among the variables that an input may set", quoteText(name))
		}
	}
	return nil
}

// programEnvironment returns the variables of a program; the last of a name counts.
func (h *runner) programEnvironment(ctx context.Context, c *command, t pawl.Task) []string {
	env := []string{}
	for _, entry := range h.options.Env {
		if strings.Contains(entry, "=") {
			env = append(env, entry)
		} else if v, ok := os.LookupEnv(entry); ok {
			env = append(env, entry+"="+v)
		}
	}
	for _, name := range c.variableNames() {
		env = append(env, name+"="+c.env[name])
	}
	if parent, more := traceparent.Of(ctx); parent != "" {
		env = append(env, traceparent.Variable+"="+parent, traceparent.StateVar+"="+more)
	}
	return append(env, "PAWL_EFFECT_KEY="+t.EffectKey, "PAWL_RUN="+string(t.Run), "PAWL_NODE="+string(t.Node),
		fmt.Sprintf("PAWL_ATTEMPT=%d", t.Attempt))
}

func startError(ctx context.Context, c *command, err error) error {
	switch {
	case ctx.Err() != nil:
		return killedFailure(ctx, c)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, exec.ErrDot), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return permanentError(CodeExecStart, "%s: %v", c, err)
	case lacksDescriptors(err):
		return fmt.Errorf("%s: %w", c, err)
	default:
		return retryableError(CodeExecStart, "%s: %v", c, err)
	}
}

// programFailure returns the error of a program that has run, nil if its exit status counts as
// a result. err is the error of Wait.
func programFailure(ctx context.Context, c *command, err error, stderr *tail) error {
	var exit *exec.ExitError
	switch {
	case errors.Is(context.Cause(ctx), errExecTooLarge):
		return killedFailure(ctx, c)
	case err == nil: // even if the time has passed meanwhile
		return nil
	case ctx.Err() != nil:
		return killedFailure(ctx, c)
	case !errors.As(err, &exit):
		return fmt.Errorf("%s: %w", c, err) // nobody knows how it has ended
	case exit.ExitCode() < 0:
		return retryableError(CodeExecSignal, "%s: %v%s", c, exit, stderr.messageSuffix())
	case c.accept[exit.ExitCode()]:
		return nil
	default:
		return retryableError(fmt.Sprintf("exec_exit_%d", exit.ExitCode()), "%s: %v%s", c, exit, stderr.messageSuffix())
	}
}

// outputFailure returns the error of a program whose exit status counts as a result, but whose
// output was not read to its end: the half of an output would look like all of it.
func outputFailure(ctx context.Context, c *command, broken error) error {
	switch {
	case ctx.Err() != nil:
		return killedFailure(ctx, c)
	case errors.Is(broken, exec.ErrWaitDelay):
		return permanentError(CodeExecOutput, "%s: it has ended, but a process that it left holds its output open", c)
	default:
		return fmt.Errorf("%s: %w", c, broken) // its pipes broke
	}
}

// killedFailure returns the error of a program that was killed.
func killedFailure(ctx context.Context, c *command) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errExecTimeout):
		return retryableError(CodeExecTimeout, "%s: it ran longer than %v", c, c.timeout)
	case errors.Is(cause, errExecTooLarge):
		return permanentError(CodeExecTooLarge, "%s: standard output exceeds the limit", c)
	default:
		return fmt.Errorf("%s: %w", c, cause) // withdrawn, or the engine closes
	}
}

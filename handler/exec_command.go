package handler

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/value"
)

// A command is the input of Exec.
type command struct {
	argv    []string
	env     map[string]string
	stdin   []byte // nil without it
	timeout time.Duration
	accept  map[int]bool // exit statuses
	text    bool
}

// String returns the name of the program, for messages.
func (c *command) String() string { return quoteText(c.argv[0]) }

// variableNames returns the names of env, sorted.
func (c *command) variableNames() []string { return slices.Sorted(maps.Keys(c.env)) }

func (h *runner) readCommand(v any) (*command, error) {
	arguments := "argv"
	if len(h.options.Command) > 0 {
		arguments = "operands"
	}
	in := readInput(v, arguments, "stdin", "env", "timeout", "accept", "text")
	c := &command{timeout: in.timeoutField(h.options.Timeout), text: in.boolField("text"), env: in.readEnvironment(), accept: in.readExitStatuses()}
	switch {
	case arguments == "operands":
		if err := checkHoles(h.options.Command); err != nil {
			return nil, err
		}
		c.argv = in.fillHoles(h.options.Command)
	case in.requireField("argv"):
		c.argv = in.readArguments()
	}
	switch stdin := in.fields["stdin"]; {
	case stdin == nil:
	case c.text:
		c.stdin = []byte(in.textField("stdin"))
	default:
		c.stdin = append(value.Encode(stdin), '\n')
	}
	return c, in.allProblems()
}

// The holes of ExecOptions.Command: for one operand, and for the others.
const (
	oneOperand    = "{}"
	otherOperands = "{...}"
)

// checkHoles refuses a command of the options in which an operand could be taken for the
// program or for an option.
func checkHoles(template []string) error {
	end, others := slices.Index(template, "--"), 0
	for i, arg := range template {
		if (arg == oneOperand || arg == otherOperands) && (end <= 0 || i < end) {
			return permanentError(CodeExecDenied, "ExecOptions.Command: the hole %s is not behind --", quoteText(arg))
		}
		if arg == otherOperands {
			others++
		}
	}
	if others > 1 {
		return permanentError(CodeExecDenied, "ExecOptions.Command: %s is there more than once", quoteText(otherOperands))
	}
	return nil
}

// fillHoles returns a command of the options with the operands of the input in its holes.
func (in *input) fillHoles(template []string) []string {
	operands := in.textListField("operands")
	in.checkArguments("operands", operands)
	single, others := 0, slices.Contains(template, otherOperands)
	for _, arg := range template {
		if arg == oneOperand {
			single++
		}
	}
	switch n := len(operands); {
	case n < single && others:
		in.addProblemf("operands: %d, and there must be at least %d", n, single)
		return template
	case n < single || n > single && !others:
		in.addProblemf("operands: %d, and there must be %d", n, single)
		return template
	}
	rest := len(operands) - single
	argv := make([]string, 0, len(template)+len(operands))
	for _, arg := range template {
		n := 0
		switch arg {
		case oneOperand:
			n = 1
		case otherOperands:
			n = rest
		default:
			argv = append(argv, arg)
		}
		argv, operands = append(argv, operands[:n]...), operands[n:]
	}
	return argv
}

func (in *input) readArguments() []string {
	argv := in.textListField("argv")
	if len(argv) == 0 || argv[0] == "" {
		in.addProblemf("argv names no program")
	}
	in.checkArguments("argv", argv)
	return argv
}

// checkArguments checks what a field gives a program for arguments.
func (in *input) checkArguments(field string, arguments []string) {
	size := 0
	for i, arg := range arguments {
		if size += len(arg) + 1; strings.Contains(arg, "\x00") {
			in.addProblemf("%s[%d] has a zero byte in it", field, i)
		}
	}
	if len(arguments) > maxArguments || size > maxArgBytes {
		in.addProblemf("%s: %d with %d bytes, above the limit of %d with %d", field, len(arguments), size, maxArguments, maxArgBytes)
	}
}

func (in *input) readEnvironment() map[string]string {
	env, size := in.scalarsField("env"), 0
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if size += len(name) + len(env[name]) + 2; name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(env[name], "\x00") {
			in.addProblemf("env: %s is not a variable", quoteText(name))
		}
	}
	if size > maxArgBytes {
		in.addProblemf("env has %d bytes, above the limit of %d", size, maxArgBytes)
	}
	return env
}

// readExitStatuses returns the exit statuses that the field accept lists.
func (in *input) readExitStatuses() map[int]bool {
	out := map[int]bool{}
	for i, v := range in.listField("accept") {
		n, ok := v.(int64)
		if !ok || n < 0 || n > 255 {
			in.addProblemf("accept[%d] is not an exit status from 0 to 255", i)
		}
		out[int(n)] = true
	}
	return out
}

// bounded keeps what is written to it up to a bound. Beyond, it says so once and
// takes no more.
type bounded struct {
	data     []byte
	most     int
	exceeded func()
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if len(b.data)+len(p) > b.most {
		b.exceeded()
		return 0, errExecTooLarge
	}
	b.data = append(b.data, p...)
	return len(p), nil
}

// tail keeps the end of what is written to it.
type tail struct {
	data []byte
	most int
	cut  bool
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if over := len(t.data) - t.most; over > 0 {
		t.data, t.cut = append(t.data[:0], t.data[over:]...), true
	}
	return len(p), nil
}

// String returns what is kept, as UTF-8.
func (t *tail) String() string {
	text := strings.ToValidUTF8(string(t.data), "\uFFFD")
	if t.cut {
		text = "..." + text
	}
	return text
}

// messageSuffix returns the kept text as the end of a message.
func (t *tail) messageSuffix() string {
	if text := strings.TrimSpace(t.String()); text != "" {
		return ": " + text
	}
	return ""
}

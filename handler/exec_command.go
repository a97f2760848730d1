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

func readCommand(v any, most time.Duration) (*command, error) {
	in := readInput(v, "argv", "stdin", "env", "timeout", "accept", "text")
	c := &command{timeout: in.timeoutField(most), text: in.boolField("text"), env: in.readEnvironment(), accept: in.readExitStatuses()}
	if in.requireField("argv") {
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

func (in *input) readArguments() []string {
	argv, size := in.textListField("argv"), 0
	if len(argv) == 0 || argv[0] == "" {
		in.addProblemf("argv names no program")
	}
	for i, arg := range argv {
		if size += len(arg) + 1; strings.Contains(arg, "\x00") {
			in.addProblemf("argv[%d] has a zero byte in it", i)
		}
	}
	if len(argv) > maxArguments || size > maxArgBytes {
		in.addProblemf("argv: %d with %d bytes, above the limit of %d with %d", len(argv), size, maxArguments, maxArgBytes)
	}
	return argv
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

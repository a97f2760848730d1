package handler_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/handler"
)

// offer returns a handler that runs the test binary with a fixed command.
func offer(t *testing.T, command ...string) func(context.Context, pawl.Task) (any, error) {
	t.Helper()
	return handler.Exec(handler.ExecOptions{Command: append([]string{program(t), "child", "arguments"}, command...), Env: []string{quickExit}})
}

func TestExecFillsHoles(t *testing.T) {
	for _, tt := range []struct {
		command  []string
		operands []any
		want     []any
	}{
		{[]string{"-q"}, nil, []any{"-q"}},
		{[]string{"-q", "--", "{}", "-"}, []any{"--output=/etc/passwd"}, []any{"-q", "--", "--output=/etc/passwd", "-"}},
		{[]string{"--", "{}", "{...}", "{}", "x{}"}, []any{"a", "b", "c", "d"}, []any{"--", "a", "b", "c", "d", "x{}"}},
		{[]string{"--", "{...}", "{}"}, []any{"a"}, []any{"--", "a"}},
		{[]string{"--", "{}"}, []any{"{...}"}, []any{"--", "{...}"}},
		{[]string{"--", "{...}"}, nil, []any{"--"}},
	} {
		out := gives(t, offer(t, tt.command...), object{"operands": tt.operands})
		assert.Equal(t, tt.want, out["stdout"], tt.command)
	}
}

// The author of an input chooses neither the program nor an option of it.
func TestExecOffersNothingButItsHoles(t *testing.T) {
	one := offer(t, "--", "{}")
	for name, tt := range map[string]struct {
		f             func(context.Context, pawl.Task) (any, error)
		input         object
		code, message string
	}{
		"another program": {one, object{"argv": []any{"sh", "-c", "id"}, "operands": []any{"x"}}, handler.CodeInvalidInput, "argv"},
		"too few":         {one, object{"operands": []any{}}, handler.CodeInvalidInput, "operands: 0, and there must be 1"},
		"none":            {one, object{}, handler.CodeInvalidInput, "operands: 0, and there must be 1"},
		"too many":        {one, object{"operands": []any{"a", "b"}}, handler.CodeInvalidInput, "operands: 2, and there must be 1"},
		"too few for all": {offer(t, "--", "{}", "{...}"), object{}, handler.CodeInvalidInput, "there must be at least 1"},
		"no text":         {one, object{"operands": []any{7}}, handler.CodeInvalidInput, "operands[0] is"},
		"a zero byte":     {one, object{"operands": []any{"a\x00b"}}, handler.CodeInvalidInput, "zero byte"},
		"an open hole":    {offer(t, "{}"), object{"operands": []any{"-x"}}, handler.CodeExecDenied, "is not behind --"},
		"a hole before":   {offer(t, "{...}", "--"), object{"operands": []any{"-x"}}, handler.CodeExecDenied, "is not behind --"},
		"others twice":    {offer(t, "--", "{...}", "{...}"), object{"operands": []any{"-x"}}, handler.CodeExecDenied, "more than once"},
		"the program":     {handler.Exec(handler.ExecOptions{Command: []string{"{}", "--"}}), object{"operands": []any{"sh"}}, handler.CodeExecDenied, "is not behind --"},
		"-- the program":  {handler.Exec(handler.ExecOptions{Command: []string{"--", "{}"}}), object{"operands": []any{"sh"}}, handler.CodeExecDenied, "is not behind --"},
	} {
		failure := fails(t, tt.f, tt.input)
		assert.Equal(t, tt.code, failure.Code, "%s: %s", name, failure.Message)
		assert.Contains(t, failure.Message, tt.message, name)
		assert.False(t, failure.Retryable, name)
	}
}

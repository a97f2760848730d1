package pawl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/workflow"
)

// formsOf returns one value in the forms in which JSON may be given: a Go value, its canonical text, another text, and readers.
func formsOf(t *testing.T, canonical string) map[string]func() any {
	var v any
	require.NoError(t, json.Unmarshal([]byte(canonical), &v))
	var pretty bytes.Buffer
	require.NoError(t, json.Indent(&pretty, []byte(canonical), "", "  "))
	return map[string]func() any{
		"value":     func() any { return v },
		"canonical": func() any { return json.RawMessage(canonical) },
		"pretty":    func() any { return json.RawMessage(pretty.Bytes()) },
		"reader":    func() any { return io.NopCloser(strings.NewReader(canonical + "\n")) },
		"slow":      func() any { return iotest.OneByteReader(bytes.NewReader(pretty.Bytes())) },
	}
}

// The run keeps the same values under the same hashes in each form of its input and its results, and Start knows the input again.
func TestGivenJSON(t *testing.T) {
	textOf := func(of string) string {
		return `{"lines":["` + of + ` \"quoted\"\n"],"n":1.5,"text":"` + strings.Repeat("größer als ", 300) + `"}`
	}
	inputs, results := formsOf(t, textOf("input")), formsOf(t, textOf("result"))
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
		out := results[string(task.Run)]()
		if task.Node == "second" {
			return pawl.Result{Output: out, Metadata: map[string]any{"rows": 1}}, nil
		}
		return out, nil
	}}})
	d := define(t, `
name: forms
start: first
nodes: [{id: first, task: work, output: {state.lines: result.lines}}, {id: second, task: work, output: {output.all: result}}]
transitions: [{from: first, to: second}]
`)
	var kept map[string]json.RawMessage
	for form := range inputs {
		run := workflow.Run{ID: workflow.RunID(form), Definition: d}
		out, err := e.Run(t.Context(), run, inputs[form]())
		require.NoError(t, err)
		require.NoError(t, out.Err(), form)
		for _, same := range inputs {
			require.NoError(t, e.Start(t.Context(), run, same()), "the same again")
		}
		require.ErrorIs(t, e.Start(t.Context(), run, results[form]()), pawl.ErrRunExists)

		var text bytes.Buffer
		require.NoError(t, e.Export(t.Context(), run.ID, &text, pawl.ExportOptions{}))
		values := map[string]json.RawMessage{}
		for line := range strings.Lines(text.String()) {
			var of struct {
				Record struct {
					Values map[string]json.RawMessage `json:"values"`
				} `json:"record"`
			}
			require.NoError(t, json.Unmarshal([]byte(line), &of))
			for hash, raw := range of.Record.Values {
				values[hash] = raw
			}
		}
		require.Len(t, values, 3, "the input, the result, and the output")
		if kept == nil {
			kept = values
		}
		require.Equal(t, kept, values, form)
	}
}

// A simulation takes from executors and acts what the run takes.
func TestGivenReaderInASimulation(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }}})
	d := define(t, "name: s\nstart: a\nnodes: [{id: a, task: work, output: {output.a: result.a}}]\n")
	sim, err := e.Simulate(t.Context(), pawl.OfStart{Run: workflow.Run{ID: "s", Definition: d}, Input: strings.NewReader(`{"a":0}`)})
	require.NoError(t, err)
	require.NoError(t, sim.Play(t.Context(), pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
		return pawl.Result{Output: strings.NewReader(`{"a":1}`)}, nil
	}}))
	require.Equal(t, map[string]any{"a": int64(1)}, sim.Snapshot().Output)
}

// The limit is of the JSON, and not of the white space around it, in which form ever it is given.
func TestGivenWhiteSpaceIsNotCounted(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, nil }}})
	d := define(t, "name: l\nlimits: {payloadBytes: 64}\nstart: a\nnodes: [{id: a, task: work}]\n")
	full := `{"a":"` + strings.Repeat("x", 56) + `"}`
	for id, input := range map[workflow.RunID]string{"line": full + "\n", "spaces": strings.Repeat(" ", 200) + full} {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: d}, strings.NewReader(input)))
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: d}, json.RawMessage(input)))
	}
	for _, input := range []string{`{"a":"` + strings.Repeat("x", 57) + `"}`, strings.Repeat(" ", limits.MaxMergedBytes+1)} {
		var large *workflow.LimitError
		require.ErrorAs(t, e.Start(t.Context(), workflow.Run{ID: "large", Definition: d}, strings.NewReader(input)), &large)
		require.Equal(t, int64(64), large.Max)
	}
}

// A reader that fails is a failure of the attempt, which is tried again; one that has no JSON, or too much of it, is a bad result. As an input
// both are refused, and nothing has begun.
func TestGivenReaderFails(t *testing.T) {
	cut := errors.New("line cut")
	var calls atomic.Int32
	endless := strings.Repeat("x", limits.MaxMergedBytes)
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
		switch calls.Add(1); {
		case task.Run == "cut" && task.Attempt == 1:
			return io.MultiReader(strings.NewReader(`{"a":`), iotest.ErrReader(cut)), nil
		case task.Run == "torn":
			return strings.NewReader(`{"a":`), nil
		case task.Run == "empty":
			return strings.NewReader(""), nil
		case task.Run == "large":
			return io.MultiReader(strings.NewReader(`"`), strings.NewReader(endless)), nil
		case task.Run == "inside":
			return map[string]any{"body": strings.NewReader(`1`)}, nil
		}
		return strings.NewReader(`{"a":1}`), nil
	}}})
	d := define(t, "name: r\nstart: a\nnodes: [{id: a, task: work, retry: {maxAttempts: 2, initialInterval: 1ms}, output: {output.a: result.a}}]\n")
	for run, message := range map[string]string{
		"cut": "", "torn": "end of text", "empty": "end of text", "large": "16777217 bytes or more", "inside": "$.body: *strings.Reader is a reader",
	} {
		calls.Store(0)
		out, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(run), Definition: d}, nil)
		require.NoError(t, err)
		if message == "" {
			require.NoError(t, out.Err())
			require.Equal(t, map[string]any{"a": int64(1)}, out.Output)
			require.Equal(t, int32(2), calls.Load())
			continue
		}
		code := workflow.CodeInvalidResult
		if run == "large" {
			code = workflow.CodeResultTooLarge
		}
		require.Equal(t, code, out.Failure.Code, run)
		require.Contains(t, out.Failure.Message, message)
		require.Equal(t, int32(1), calls.Load(), run)
	}
	run := workflow.Run{ID: "refused", Definition: d}
	var wrong *workflow.InputError
	err := e.Start(t.Context(), run, iotest.ErrReader(cut))
	require.ErrorAs(t, err, &wrong)
	require.ErrorContains(t, err, "line cut")
	require.ErrorAs(t, e.Start(t.Context(), run, strings.NewReader(`{"a":`)), &wrong)
	require.ErrorAs(t, e.Start(t.Context(), run, strings.NewReader(`[1]`)), &wrong)
	var large *workflow.LimitError
	require.ErrorAs(t, e.Start(t.Context(), run, strings.NewReader(`"`+endless)), &large)
	_, err = e.Summary(t.Context(), "refused")
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
}

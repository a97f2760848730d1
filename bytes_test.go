package pawl_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// writer has a task that returns 20 KB, others each time.
func writer(written *atomic.Int64) pawl.Handlers {
	return pawl.Handlers{"write": func(context.Context, pawl.Task) (any, error) {
		n := written.Add(1) // perhaps while the run is ended
		return strings.Repeat(string(rune('a'+n%26)), 20_000), nil
	}}
}

// A run that writes more than it may fails, and says so.
func TestTheBytesOfARunAreBounded(t *testing.T) {
	var written atomic.Int64
	e := open(t, t.TempDir(), pawl.Options{Executor: writer(&written)})
	out, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: define(t, `
name: writes
start: write
limits: {runBytes: 200000}
nodes: [{id: write, task: write, output: {state.text: result}}]
transitions: [{from: write, to: write, loop: {maxIterations: 1000}}]
`)}, nil)
	require.NoError(t, err)
	require.Equal(t, workflow.RunFailed, out.Status)
	require.Equal(t, workflow.CodeLimit, out.Failure.Code)
	require.Regexp(t, `^limit runBytes: the run takes 2\d{5} bytes on the disk, at most 200000: use a blob for what is large$`, out.Failure.Message)
	require.Greater(t, written.Load(), int64(3))
	require.Less(t, written.Load(), int64(12))
}

// The bytes that a run has written before a restart count.
func TestTheBytesOfARunCountAfterARestart(t *testing.T) {
	var written atomic.Int64
	dir := t.TempDir()
	e := open(t, dir, pawl.Options{Executor: writer(&written)})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, `
name: writes
start: write
limits: {runBytes: 55000}
nodes: [{id: write, task: write, output: {state.text: result}}, {id: wait, wait: {event: go}}, {id: again, task: write}, {id: last, wait: {for: 1s}}]
transitions: [{from: write, to: wait}, {from: wait, to: again}, {from: again, to: last}]
`)}, nil))
	awaitEvent(t, e, "r", workflow.EventTokenWaiting)
	require.NoError(t, e.Close(t.Context()))
	require.EqualValues(t, 1, written.Load())
	e = open(t, dir, pawl.Options{Executor: writer(&written)})
	require.NoError(t, e.Signal(t.Context(), "r", workflow.Signal{Name: "go"}))
	out, err := e.Wait(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, workflow.RunFailed, out.Status)
	require.Equal(t, workflow.CodeLimit, out.Failure.Code)
	require.EqualValues(t, 2, written.Load())
}

// Signals beyond what a run may keep are refused, also after a restart; the signals
// that were taken are all there.
func TestTheBytesOfKeptSignalsAreBounded(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir, pawl.Options{Executor: pawl.Handlers{}})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, `
name: collects
start: first
limits: {signalBytes: 3000}
nodes: [{id: first, wait: {event: first}}, {id: next, wait: {event: more}, output: {state.last: result.payload}}]
transitions: [{from: first, to: next}, {from: next, to: next, loop: {maxIterations: 1}}]
output: {mapping: {last: state.last}}
`)}, nil))
	send := func(name, text string) error {
		return e.Signal(t.Context(), "r", workflow.Signal{Name: name, Payload: strings.Repeat(text, 1_000)})
	}
	require.NoError(t, send("more", "a"))
	require.NoError(t, send("more", "b"))
	refused := func() {
		t.Helper()
		var limit *workflow.LimitError
		require.ErrorAs(t, send("more", "c"), &limit)
		require.Equal(t, &workflow.LimitError{Limit: workflow.LimitSignalBytes, Max: 3000, Got: 3006}, limit)
		require.Equal(t, 413, pawl.HTTPStatus(limit))
	}
	refused()
	require.NoError(t, e.Close(t.Context()))
	e = open(t, dir, pawl.Options{Executor: pawl.Handlers{}})
	refused()
	require.NoError(t, send("first", "d"), "somebody waits for it: it is not kept")
	out, err := e.Wait(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"last": strings.Repeat("b", 1_000)}, out.Output)
}

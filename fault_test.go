package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

// Every text of a host is stored: as UTF-8, and no more than fits.
func TestWordsThatCannotBeStored(t *testing.T) {
	long := strings.Repeat("\xff\u00e9", 1<<20)
	for name, cause := range map[string]error{
		"bytes":   errors.New("a\xff\x00b"),
		"long":    errors.New(long),
		"code":    pawl.TaskError{Code: long, Message: "m\xc3"},
		"pointer": &pawl.TaskError{Code: "mine\xff", Message: long},
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{
				"returns": func(context.Context, pawl.Task) (any, error) { return nil, cause },
				"panics":  func(context.Context, pawl.Task) (any, error) { panic(cause) },
			}})
			for _, task := range []string{"returns", "panics"} {
				d := &workflow.Definition{Name: task, Start: "a", Nodes: []workflow.Node{{ID: "a", Task: task}}}
				out, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(task), Definition: d}, nil)
				require.NoError(t, err)
				require.Equal(t, workflow.RunFailed, out.Status)
				for _, text := range []string{out.Failure.Code, out.Failure.Message} {
					require.True(t, utf8.ValidString(text))
					require.LessOrEqual(t, len(text), 16<<10)
				}
				require.True(t, task != "returns" || name != "pointer" || out.Failure.Code == "mine\uFFFD", out.Failure.Code)
			}
		})
	}
}

// So is the reason of a cancel.
func TestReasonThatCannotBeStored(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, oneTask)}, map[string]int{"n": 1}))
	require.NoError(t, e.Cancel(t.Context(), "a", "why\xff"))
	out, err := e.Wait(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "why\uFFFD", out.Failure.Message)
}

// A context that is done before the call is named, and nothing is done.
func TestContextDoneBeforeTheCall(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
	gone := errors.New("the caller went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	for i := range 20 {
		run := workflow.Run{ID: workflow.RunID(fmt.Sprint(i)), Definition: define(t, oneTask)}
		err := e.Start(ctx, run, map[string]int{"n": 1})
		require.ErrorIs(t, err, gone)
		require.NotErrorIs(t, err, pawl.ErrBusy)
		_, err = e.Inspect(t.Context(), run.ID)
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
	}
	run := workflow.Run{ID: "a", Definition: define(t, oneTask)}
	_, err := e.Run(t.Context(), run, map[string]int{"n": 1})
	require.NoError(t, err)
	for _, err := range e.Events(ctx, run.ID, pawl.EventsOptions{}) {
		require.ErrorIs(t, err, gone)
	}
}

func TestNilArguments(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	_, err := e.Publish(t.Context(), nil)
	require.ErrorIs(t, err, pawl.ErrInvalid)
	require.NoError(t, pawl.Permanent(nil))
}

// Every call on a closed engine says so, also those that ask the store first.
func TestClosedEngineSaysSo(t *testing.T) {
	e, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{})
	require.NoError(t, err)
	d := define(t, oneTask)
	publish(t, e, d)
	require.NoError(t, e.Close(t.Context()))
	_, err = e.Publish(t.Context(), d)
	require.ErrorIs(t, err, pawl.ErrClosed)
	_, err = e.Publish(t.Context(), define(t, oneTask+"version: 9\n"))
	require.ErrorIs(t, err, pawl.ErrClosed)
	require.ErrorIs(t, e.Start(t.Context(), workflow.Run{ID: "b", Workflow: "one"}, nil), pawl.ErrClosed)
	for _, err := range e.Events(t.Context(), "a", pawl.EventsOptions{Follow: true}) {
		require.ErrorIs(t, err, pawl.ErrClosed)
	}
}

func TestMetadataIsBounded(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
		return pawl.Result{Metadata: map[string]any{"log": strings.Repeat("x", 2<<20)}}, nil
	}}})
	out, err := e.Run(t.Context(), workflow.Run{ID: "a", Definition: define(t, oneTask)}, map[string]int{"n": 1})
	require.NoError(t, err)
	require.Equal(t, workflow.CodeInvalidResult, out.Failure.Code)
	require.Contains(t, out.Failure.Message, "metadata")
}

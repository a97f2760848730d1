package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// A hostile value does what it says in the methods by which others look at it.
type hostile struct{ in func() }

func (h hostile) MarshalJSON() ([]byte, error) { h.in(); return nil, nil }
func (h hostile) String() string               { h.in(); return "" }

// A hostileKey is the same as the key of a map.
type hostileKey struct{ in *func() }

func (h hostileKey) MarshalText() ([]byte, error) { (*h.in)(); return nil, nil }

type hostileError struct{ message, unwrap, is, as func() }

func call(f func()) {
	if f != nil {
		f()
	}
}

func (e hostileError) Error() string      { call(e.message); return "hostile" }
func (e hostileError) Unwrap() error      { call(e.unwrap); return nil }
func (e hostileError) Is(error) bool      { call(e.is); return false }
func (e hostileError) As(target any) bool { call(e.as); return false }

// hostileResults are results and errors of handlers whose methods panic or end the goroutine.
func hostileResults() map[string]func() (any, error) {
	boom := func() { panic("boom") }
	return map[string]func() (any, error){
		"an output":       func() (any, error) { return hostile{boom}, nil },
		"inside it":       func() (any, error) { return map[string]any{"a": []any{hostile{boom}}}, nil },
		"a key":           func() (any, error) { return map[hostileKey]int{{&boom}: 1}, nil },
		"metadata":        func() (any, error) { return pawl.Result{Metadata: map[string]any{"a": hostile{boom}}}, nil },
		"an ended output": func() (any, error) { return hostile{runtime.Goexit}, nil },
		"Error":           func() (any, error) { return nil, hostileError{message: boom} },
		"Unwrap":          func() (any, error) { return nil, hostileError{unwrap: boom} },
		"Is":              func() (any, error) { return nil, hostileError{is: boom} },
		"As":              func() (any, error) { return nil, hostileError{as: boom} },
		"a nil error":     func() (any, error) { return nil, (*pawl.TaskError)(nil) },
		"blob":            func() (any, error) { return nil, &blob.Error{Err: hostileError{is: boom}} },
		"a panic":         func() (any, error) { panic(hostile{boom}) },
	}
}

// executors are the ways in which the functions of a host perform tasks. Each returns an
// engine, and what stops all of it.
func executors() map[string]func(t *testing.T, h pawl.Handlers) (*pawl.Engine, func()) {
	return map[string]func(t *testing.T, h pawl.Handlers) (*pawl.Engine, func()){
		"Handlers": func(t *testing.T, h pawl.Handlers) (*pawl.Engine, func()) {
			engine, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: h, Durability: pawl.ProcessCrash})
			require.NoError(t, err)
			return engine, func() { require.NoError(t, engine.Close(context.Background())) }
		},
		"Pool.Start": func(t *testing.T, h pawl.Handlers) (*pawl.Engine, func()) {
			host := start(t, replays.Dir(t), worker.Options{})
			require.NoError(t, host.pool.Start(worker.Registration{ID: "here"}, h))
			return host.engine, func() { host.stop(t) }
		},
		"Client.Run": func(t *testing.T, h pawl.Handlers) (*pawl.Engine, func()) {
			host := start(t, replays.Dir(t), worker.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- host.client("there").Run(ctx, h) }()
			return host.engine, func() {
				cancel()
				require.NoError(t, <-ended)
				host.stop(t)
			}
		},
	}
}

// A result is what some function of the host returns: its methods may do anything, and
// must not end the process, which would meet the same task again at its next start.
func TestHostileResultsFailTheirTask(t *testing.T) {
	def := define(t, "name: x\nstart: a\nnodes: [{id: a, task: t, input: {name: input.name}}]\n")
	results := hostileResults()
	handlers := pawl.Handlers{"t": func(_ context.Context, t pawl.Task) (any, error) {
		if f := results[t.Input.(map[string]any)["name"].(string)]; f != nil {
			return f()
		}
		return "well", nil
	}}
	for name, begin := range executors() {
		t.Run(name, func(t *testing.T) {
			engine, stop := begin(t, handlers)
			defer stop()
			for which := range results {
				run := workflow.Run{ID: workflow.RunID(which), Definition: def}
				require.NoError(t, engine.Start(t.Context(), run, map[string]any{"name": which}))
			}
			for which := range results {
				outcome, err := engine.Wait(t.Context(), workflow.RunID(which))
				require.NoError(t, err)
				require.Equal(t, workflow.RunFailed, outcome.Status, which)
				require.Contains(t, []string{workflow.CodePanic, workflow.CodeError}, outcome.Failure.Code, which)
			}
			require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "well", Definition: def}, map[string]any{"name": "well"}))
			outcome, err := engine.Wait(t.Context(), "well")
			require.NoError(t, err)
			require.Equal(t, workflow.RunCompleted, outcome.Status)
		})
	}
}

// An error that a worker sends says the same to the engine.
func TestErrorsKeepTheirKind(t *testing.T) {
	def := define(t, "name: x\nstart: a\nnodes: [{id: a, task: t, retry: {maxAttempts: 2, initialInterval: 1ms}}]\n")
	lost := &blob.Error{Hash: "sha256:00", Err: blob.ErrMissing}
	missing := blob.Ref{Hash: "sha256:" + strings.Repeat("0", 64)}
	of := func(err error) func(context.Context, pawl.Task) error {
		return func(context.Context, pawl.Task) error { return err }
	}
	rows := map[workflow.RunID]struct {
		fails    func(context.Context, pawl.Task) error
		code     string
		attempts int
	}{
		"plain":      {of(errors.New("plain")), workflow.CodeError, 2},
		"permanent":  {of(pawl.Permanent(errors.New("for good"))), workflow.CodeError, 1},
		"mine":       {of(&pawl.TaskError{Code: "mine", Retryable: true}), "mine", 2},
		"no more":    {of(pawl.Permanent(pawl.TaskError{Code: "mine", Retryable: true})), "mine", 1},
		"lost":       {of(errors.Join(errors.New("resize"), lost)), workflow.CodeBlobMissing, 1},
		"damaged":    {of(&blob.Error{Hash: "sha256:00", Err: blob.ErrDamaged}), workflow.CodeBlobDamaged, 1},
		"other size": {of(&blob.Error{Hash: "sha256:00", Err: blob.ErrSize}), workflow.CodeInvalidResult, 1},
		"unread":     {of(&blob.Error{Hash: "sha256:00", Err: io.ErrUnexpectedEOF}), workflow.CodeError, 2},
		"given up":   {of(pawl.Permanent(&blob.Error{Hash: "sha256:00", Err: io.ErrUnexpectedEOF})), workflow.CodeError, 1},
		"opened": {func(ctx context.Context, task pawl.Task) error {
			_, err := task.Open(ctx, missing)
			return fmt.Errorf("resize: %w", err)
		}, workflow.CodeBlobMissing, 1},
	}
	for name, begin := range executors() {
		t.Run(name, func(t *testing.T) {
			engine, stop := begin(t, pawl.Handlers{"t": func(ctx context.Context, task pawl.Task) (any, error) { return nil, rows[task.Run].fails(ctx, task) }})
			defer stop()
			for id, row := range rows {
				outcome, err := engine.Run(t.Context(), workflow.Run{ID: id, Definition: def}, nil)
				require.NoError(t, err)
				require.Equal(t, row.code, outcome.Failure.Code, id)
				require.Equal(t, row.attempts, outcome.Failure.Attempts, id)
			}
		})
	}
}

// Too many open files pass: workers of every kind let the engine call them again.
func TestWorkersWaitForDescriptors(t *testing.T) {
	def := define(t, "name: x\nstart: a\nnodes: [{id: a, task: t}]\n")
	scarce := &blob.Error{Err: &os.PathError{Op: "openat", Path: "tmp", Err: syscall.EMFILE}}
	for name, begin := range executors() {
		t.Run(name, func(t *testing.T) {
			engine, stop := begin(t, pawl.Handlers{"t": func(_ context.Context, t pawl.Task) (any, error) {
				if t.Attempt == 1 {
					return nil, scarce
				}
				return t.Attempt, nil
			}})
			defer stop()
			require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
			for event, err := range engine.Events(t.Context(), "r", pawl.EventsOptions{Follow: true}) {
				require.NoError(t, err)
				if event.Type == workflow.EventTaskSnoozed {
					break
				}
			}
			// It need not wait for so long here, unless it has.
			err := engine.Retry(t.Context(), pawl.Target{Run: "r", Node: "a"}, pawl.RetryOptions{})
			if !errors.Is(err, pawl.ErrNotLive) && !errors.Is(err, pawl.ErrEnded) {
				require.NoError(t, err)
			}
			outcome, err := engine.Wait(t.Context(), "r")
			require.NoError(t, err)
			require.NoError(t, outcome.Err())
		})
	}
}

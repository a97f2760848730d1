package worker

import (
	"context"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/workflow"
)

// handledTypes returns what a worker with these functions takes.
func handledTypes(h pawl.Handlers) []string { return slices.Sorted(maps.Keys(h)) }

// performTask calls the function for a task. A function that panics, or ends its
// goroutine, fails the attempt for good.
func performTask(ctx context.Context, h pawl.Handlers, t pawl.Task, done func(output any, err error)) {
	var output any
	err := error(pawl.TaskError{Code: workflow.CodePanic, Message: "the handler ended its goroutine"})
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{pawl.TaskError{Code: workflow.CodePanic, Message: fmt.Sprint(r)}, debug.Stack()}
		}
		done(output, err)
	}()
	output, err = h.Execute(ctx, t)
}

// A panicError is a panic of a handler, with its stack for the log.
type panicError struct {
	error
	stack []byte
}

// Unwrap returns what the run is told.
func (e *panicError) Unwrap() error { return e.error }

// remoteServices are those of a task in another process than the engine: calls to the pool.
type remoteServices struct{ client *Client }

var _ pawl.TaskServices = remoteServices{}

// Heartbeat implements pawl.TaskServices.
func (s remoteServices) Heartbeat(ctx context.Context, t pawl.Task) error {
	drop, err := s.client.Heartbeat(ctx, t.Key)
	if err == nil && len(drop) > 0 {
		return ErrStale
	}
	return err
}

// Put implements pawl.TaskServices.
func (s remoteServices) Put(ctx context.Context, t pawl.Task, r io.Reader, mediaType string) (blob.Ref, error) {
	return s.client.Put(ctx, t, r, mediaType)
}

// Open implements pawl.TaskServices.
func (s remoteServices) Open(ctx context.Context, _ pawl.Task, ref blob.Ref) (io.ReadCloser, error) {
	return s.client.Open(ctx, ref)
}

// Once implements pawl.TaskServices.
func (s remoteServices) Once(ctx context.Context, t pawl.Task, key string, f func(context.Context) (any, error)) (any, error) {
	return s.client.Once(ctx, t, key, f)
}

package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/tasklog"
	"github.com/pawl-run/pawl/internal/traceparent"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A Performer calls the functions of a worker.
type Performer struct {
	Handlers pawl.Handlers
	Logger   *slog.Logger // for pawl.Logger
}

// PerformTask calls the function for a task. A function that panics, or ends its
// goroutine, fails the attempt for good, and so does a method of what it returns: done gets
// values without methods of the handler's.
//
// The task says to the function when it is called, in BeganAt: what has waited in a pool begins now.
//
// The pool of package worker calls it for its workers in the process, Client.Run and natspool for
// those elsewhere. done is called exactly once, on the goroutine of the function, even if that
// goroutine ends by runtime.Goexit (as t.FailNow of a test does): err begins as that failure, and is
// overwritten only when the function returns. The results are made plain inside of the same recover,
// because MarshalJSON, Error, Is and As of a handler's types may panic too.
//
// The context of the function has the run's trace, so that the function's own spans belong to that.
func (p Performer) PerformTask(ctx context.Context, t pawl.Task, done func(output any, err error)) {
	var output any
	err := error(pawl.TaskError{Code: workflow.CodePanic, Message: "the handler ended its goroutine"})
	defer func() {
		if r := recover(); r != nil {
			err = &PanicError{pawl.TaskError{Code: workflow.CodePanic, Message: fmt.Sprint(r)}, debug.Stack()}
		}
		done(output, err)
	}()
	t.BeganAt = time.Now()
	ctx = tasklog.With(tasklog.WithLogger(traceparent.With(ctx, t.Traceparent, t.Tracestate), p.Logger), place(t))
	output, err = plainResult(p.Handlers.Execute(ctx, t))
}

// A place is the tasklog.Source of a task.
type place pawl.Task

// TaskPlace implements tasklog.Source.
func (t place) TaskPlace() tasklog.Place { return PlaceOf(pawl.Task(t)) }

// PlaceOf returns what lines of the log tell of a task. The last part of its effect key is the number of its token.
func PlaceOf(t pawl.Task) tasklog.Place {
	p := tasklog.Place{Run: string(t.Run), Workflow: t.Workflow, Node: string(t.Node), Task: t.Type, Attempt: t.Attempt, Traceparent: t.Traceparent}
	p.Token, _ = strconv.ParseInt(t.EffectKey[strings.LastIndexByte(t.EffectKey, '/')+1:], 10, 64)
	return p
}

// plainResult returns what a function has returned as values of the JSON model and of this
// module. It calls whatever methods the originals have.
//
// A failure beside an output counts, and the output is dropped; its metadata are kept, since they tell
// of the attempt and not of the result.
func plainResult(output any, cause error) (any, error) {
	if p, ok := output.(*pawl.Result); ok { // nil is no result
		output = *cmp.Or(p, &pawl.Result{})
	}
	result, ok := output.(pawl.Result)
	if cause != nil {
		return nil, withPlainMetadata(plainError(cause), failedMetadata(result, cause))
	}
	if !ok {
		result.Output = output
	}
	switch result.Output.(type) {
	case pawl.Result, *pawl.Result:
		return nil, pawl.TaskError{Code: workflow.CodeInvalidResult, Message: "the Output of the Result is a Result itself"}
	}
	read, err := value.ReadAll(result.Output, limits.MaxMergedBytes)
	var wrong *value.Error
	if err != nil && !errors.As(err, &wrong) {
		return nil, plainError(err)
	}
	var plain value.Taken
	if err == nil {
		plain, err = value.Take(read, value.Limits{Bytes: limits.MaxMergedBytes})
	}
	if err != nil {
		return nil, withPlainMetadata(unfitResult(fmt.Errorf("the result is not JSON: %w", err)), result.Metadata)
	}
	if !ok {
		return plain.Plain(), nil
	}
	metadata, err := value.Normalize(result.Metadata, value.Limits{})
	if err != nil {
		return nil, pawl.TaskError{Code: workflow.CodeInvalidResult, Message: fmt.Sprintf("the metadata are not JSON: %v", err)}
	}
	result.Output = plain.Plain()
	result.Metadata, _ = metadata.(map[string]any)
	return result, nil
}

// unfitResult returns the failure of an attempt whose result is no value that a run takes.
func unfitResult(err error) pawl.TaskError {
	code, message := refusal.UnfitResult(err)
	return pawl.TaskError{Code: code, Message: message}
}

// failedMetadata returns the metadata of an attempt that failed: those of the error, or of the
// result beside it.
func failedMetadata(r pawl.Result, cause error) map[string]any {
	if metadata := pawl.ErrorMetadata(cause); metadata != nil {
		return metadata
	}
	return r.Metadata
}

// withPlainMetadata returns the error of an attempt with the metadata of the handler as values of
// the JSON model. Metadata that are no such values must not hide the failure: the reason is kept
// instead.
func withPlainMetadata(plain error, metadata map[string]any) error {
	if metadata == nil || errors.Is(plain, pawl.ErrPending) || errors.As(plain, new(pawl.SnoozeError)) {
		return plain
	}
	v, err := value.Normalize(metadata, value.Limits{})
	if err != nil {
		return pawl.WithMetadata(plain, map[string]any{"invalid_metadata": fmt.Sprint(err)})
	}
	object, _ := v.(map[string]any)
	return pawl.WithMetadata(plain, object)
}

// plainError returns a function's error as one that says the same to the engine: its kind,
// its text, and whether it is permanent.
//
// The order of the cases is that of what must not be lost. ErrPending and a snooze are no failures. A
// TaskError has its code and its wish for retries in itself. An error about a blob keeps the words of
// the handler, and below them what the engine recognizes. All other errors become their text. Each has
// the mark that it is permanent where it does not say so by itself. The chain below is dropped: it may
// hold types whose methods panic or block later, when nobody recovers.
func plainError(cause error) error {
	var snooze pawl.SnoozeError
	var task pawl.TaskError
	var at *pawl.TaskError
	var lost *blob.Error
	var plain error
	switch {
	case errors.Is(cause, pawl.ErrPending):
		return pawl.ErrPending
	case errors.As(cause, &snooze):
		return snooze
	case errors.As(cause, &task):
		plain = task
	case errors.As(cause, &at) && at != nil:
		plain = *at
	case errors.As(cause, &lost):
		plain = blobError{fmt.Sprint(cause), plainBlobError(lost)}
	default:
		plain = errors.New(fmt.Sprint(cause))
	}
	if pawl.IsPermanent(cause) && !pawl.IsPermanent(plain) {
		return pawl.Permanent(plain)
	}
	return plain
}

// A blobError is an error about a blob in the words of a handler.
type blobError struct {
	text  string
	about *blob.Error
}

// Error returns the handler's words.
func (e blobError) Error() string { return e.text }

// Unwrap returns what the engine looks at.
func (e blobError) Unwrap() error { return e.about }

// plainBlobError returns a copy whose cause is one of the sentinels of package blob, if it was one,
// and else a text. The engine and SendResult ask for these sentinels with errors.Is.
func plainBlobError(e *blob.Error) *blob.Error {
	kind := errors.New(fmt.Sprint(e.Err))
	for _, known := range []error{blob.ErrMissing, blob.ErrDamaged, blob.ErrSize} {
		if errors.Is(e, known) {
			kind = known
		}
	}
	return &blob.Error{Hash: e.Hash, Err: kind, Detail: e.Detail}
}

// A PanicError is a panic of a handler, with its stack for the log.
type PanicError struct {
	error
	Stack []byte
}

// Unwrap returns what the run is told.
func (e *PanicError) Unwrap() error { return e.error }

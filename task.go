package pawl

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/dispatch"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/once"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/taskkey"
	"github.com/pawl-run/pawl/internal/tasklog"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// An Executor performs tasks. Execute may be called again with the same Key after a crash: delivery is at least once. Its output is
// anything that can be encoded as JSON, including json.RawMessage and an io.Reader of JSON: the engine reads the reader within the
// attempt, and closes an io.Closer. Its error fails the attempt, with the code of a TaskError if it is one. ErrPending says that the
// result comes later through Engine.Complete. ctx is cancelled when the attempt is over, also after ErrPending, and, with the cause
// ErrClosed, when the engine is closed. The goroutine may perform the next task: Execute must undo any change to it, such as
// runtime.LockOSThread.
type Executor interface {
	Execute(ctx context.Context, t Task) (output any, err error)
}

// A Task is one attempt of a task node, as a handler sees it: in the engine's process, or as a worker of package worker in any other.
type Task struct {
	Key       Key    // of this attempt: for Engine.Complete, Fail and Heartbeat
	EffectKey string // the same in every attempt of the task: for de-duplication
	Run       workflow.RunID
	Root      workflow.RunID // the topmost ancestor of Run; Run itself if it has no parent
	Workflow  string         // name of the definition
	Tenant    string         // of the run; "" if it has none
	Node      workflow.NodeID
	Type      string    // the task type of the node
	Attempt   int       // counts from 1
	Input     any       // the node's input mapping: an object of the JSON model
	Branch    Branch    // the innermost branch of a fan-out that it runs in
	Deadline  time.Time // when the attempt times out; zero if never
	Priority  int       // of the node; lower first
	Details   any       // of the last heartbeat that had some, of this attempt or one before; nil if none had
	Order     int64     // of dispatch: a task with a lower one was dispatched earlier in this life of the engine; 0 in another process

	// DispatchedAt is when the engine dispatched the attempt, in this life of the engine and by its clock, also in a worker:
	// from then on the task waits for a slot, the limits and a worker. It is zero if the engine or the pool is of an
	// earlier version. BeganAt is when the handler was called, by the clock of its process.
	DispatchedAt, BeganAt time.Time

	// Traceparent and Tracestate are the W3C Trace Context of the span with which the run has begun, "" without one: an executor that
	// gives tasks to other processes hands them on, so that spans made there have a parent. A handler has a context.
	Traceparent, Tracestate string

	services TaskServices // nil: every method fails with ErrClosed
}

// TaskServices implements the methods of Task; each gets the task as an argument. It is the engine or, where the task runs in another
// process, the client of a pool of package worker. A test of a handler may have its own.
type TaskServices interface {
	Heartbeat(ctx context.Context, t Task, details any) error
	Put(ctx context.Context, t Task, r io.Reader, mediaType string) (blob.Ref, error)
	Open(ctx context.Context, t Task, ref blob.Ref) (io.ReadCloser, error)
	Once(ctx context.Context, t Task, key string, f func(context.Context) (any, error)) (any, error)
}

// WithServices returns the task with methods that call s. The methods of a task that comes neither
// from a call of an Executor nor from WithServices fail with ErrClosed.
func (t Task) WithServices(s TaskServices) Task {
	t.services = s
	return t
}

// askedServices returns the services that the methods call.
func (t Task) askedServices() TaskServices {
	if t.services == nil {
		return engineServices{}
	}
	return t.services
}

// A Branch says where in a fan-out a task runs. The zero Branch is outside any.
type Branch struct {
	Index int // counts from 0
	Total int
}

// Bind decodes the input into v, as encoding/json would. Its error is permanent: a further attempt would have the same input.
func (t Task) Bind(v any) error { return t.bindInput(v, false) }

// BindStrict is Bind, and fails if the input has a field that v has not.
func (t Task) BindStrict(v any) error { return t.bindInput(v, true) }

func (t Task) bindInput(v any, strict bool) error {
	if err := value.Bind(t.Input, v, strict); err != nil {
		return Permanent(fmt.Errorf("bind the input of node %q: %w", string(t.Node), err))
	}
	return nil
}

// Heartbeat says that the task is alive and, with details, how far it is, see Engine.Heartbeat; nil leaves the details as they are. An
// error says that the attempt is no longer wanted, or that the details are no value, or too large.
func (t Task) Heartbeat(ctx context.Context, details any) error {
	return t.askedServices().Heartbeat(ctx, t, details)
}

// Put is Engine.PutBlob for a handler: the blob stays at least until the attempt is over.
func (t Task) Put(ctx context.Context, r io.Reader, mediaType string) (blob.Ref, error) {
	return t.askedServices().Put(ctx, t, r, mediaType)
}

// Open is Engine.OpenBlob for a handler. A handler that returns its error fails with the code blob_missing or blob_damaged, for good.
func (t Task) Open(ctx context.Context, ref blob.Ref) (io.ReadCloser, error) {
	return t.askedServices().Open(ctx, t, ref)
}

// Once is Engine.Once for a handler. With an empty key it is the task's EffectKey: f succeeds once over all attempts of the task, and
// Purge of the run forgets the outcome: a handler that goes on after that gets ErrRunNotFound. It keeps what it promises in every
// process; package worker says what a lost lease does.
func (t Task) Once(ctx context.Context, key string, f func(context.Context) (any, error)) (any, error) {
	return t.askedServices().Once(ctx, t, key, f)
}

// servingHost serves packages of this module that give tasks to workers.
type servingHost struct{ engine *Engine }

// KeepBlob implements serving.Host.
func (h servingHost) KeepBlob(key, hash string) { h.engine.dispatcher.PinBlob(key, hash) }

// ReportWorker implements serving.Host.
func (h servingHost) ReportWorker(key, name string) { h.engine.dispatcher.NoteWorker(key, name) }

// TenantConcurrency implements serving.Host.
func (h servingHost) TenantConcurrency(tenant string) int {
	return tenantLimitOf(h.engine.options.Tenants, tenant).Concurrency
}

// WasDispatched implements serving.Host.
func (h servingHost) WasDispatched(key string) bool { return h.engine.dispatcher.WasDispatched(key) }

// ConfirmLog implements serving.Host.
func (h servingHost) ConfirmLog(ctx context.Context) error { return h.engine.log.Until(ctx) }

// engineServices are those of a task in the engine's process.
type engineServices struct{ engine *Engine }

// Heartbeat implements TaskServices.
func (s engineServices) Heartbeat(ctx context.Context, t Task, details any) error {
	return s.engine.Heartbeat(ctx, t.Key, details)
}

// Put implements TaskServices.
func (s engineServices) Put(ctx context.Context, t Task, r io.Reader, mediaType string) (blob.Ref, error) {
	ref, err := s.engine.PutBlob(ctx, r, mediaType)
	if err == nil {
		s.engine.dispatcher.PinBlob(string(t.Key), ref.Hash)
	}
	return ref, err
}

// Open implements TaskServices.
func (s engineServices) Open(ctx context.Context, _ Task, ref blob.Ref) (io.ReadCloser, error) {
	return s.engine.OpenBlob(ctx, ref)
}

// Once implements TaskServices.
func (s engineServices) Once(ctx context.Context, t Task, key string, f func(context.Context) (any, error)) (any, error) {
	if err := s.engine.checkUsable(ctx); err != nil {
		return nil, err
	}
	at, _ := taskkey.AttemptOf(string(t.Key))
	at.Run = t.Run
	if ctx.Value(tasklog.SourceKey{}) == nil { // it comes from a worker
		ctx = tasklog.With(ctx, tasklog.Place{
			Run: string(t.Run), Workflow: t.Workflow, Node: string(t.Node), Task: t.Type, Token: int64(at.Token), Attempt: t.Attempt, Traceparent: t.Traceparent,
		})
	}
	if key != "" {
		return s.engine.Once(ctx, key, f)
	}
	return s.engine.once.DoTask(ctx, at, t.EffectKey, f)
}

// A Result is an output with metadata about how it was made, which is kept on the task's event, and with artifacts: named blobs that
// count when the run completes. An Executor may return one, or a pointer to it, in place of a plain output; a handler of [Typed] may
// return a [ResultOf].
type Result struct {
	Output    any
	Metadata  map[string]any
	Artifacts []Artifact
}

// A ResultOf is a Result whose output is an Out, for the handlers of [Typed]: who reads the result is checked against Out.
//
//	pawl.Typed(func(ctx context.Context, in Question) (pawl.ResultOf[Answer], error) {
//		answer, cost, err := ask(ctx, in)
//		return pawl.ResultOf[Answer]{Output: answer, Metadata: map[string]any{"cost": cost}}, err
//	})
type ResultOf[Out any] struct {
	Output    Out
	Metadata  map[string]any
	Artifacts []Artifact
}

func (r ResultOf[Out]) toResult() Result {
	return Result{untypedResult(r.Output), r.Metadata, r.Artifacts}
}

// untypedResult returns the output of a handler, as a Result if it is a ResultOf or points to one.
func untypedResult(output any) any {
	r, ok := output.(interface{ toResult() Result })
	if !ok {
		return output
	}
	if p := reflect.ValueOf(r); p.Kind() == reflect.Pointer && p.IsNil() {
		return nil
	}
	return r.toResult()
}

// Handlers is an Executor that chooses a function by task type. The type "*" is the default route. A type without a function fails the
// task with the code unknown_task. The workers of package worker take the same. A function whose error says that there are too many
// open files is called again 5 s later, as if it had returned Snooze, unless it is a TaskError or Permanent.
type Handlers map[string]func(ctx context.Context, t Task) (any, error)

// Execute implements Executor.
func (h Handlers) Execute(ctx context.Context, t Task) (any, error) {
	f := h[t.Type]
	if f == nil {
		f = h["*"]
	}
	if f == nil {
		known := strings.Join(slices.DeleteFunc(slices.Sorted(maps.Keys(h)), func(name string) bool { return h[name] == nil }), ", ")
		return nil, TaskError{Code: workflow.CodeUnknownTask, Message: fmt.Sprintf("no handler for task type %q; there are: %s", t.Type, known)}
	}
	output, err := f(ctx, t)
	return untypedResult(output), withPause(err)
}

// Logger returns the logger of the task to whose handler a context belongs: Options.Logger, or that of a worker, with the keys run,
// workflow, node, token, attempt and task and, in a span, trace_id. Outside of a handler it is slog.Default().
func Logger(ctx context.Context) *slog.Logger { return tasklog.Logger(ctx) }

// An absentExecutor is that of an engine without one: every task waits for Engine.Complete.
type absentExecutor struct{ told sync.Map } // task types

// Execute implements Executor.
func (a *absentExecutor) Execute(ctx context.Context, t Task) (any, error) {
	if _, told := a.told.LoadOrStore(t.Type, true); !told {
		tasklog.Logger(ctx).Warn("pawl: there is no executor: set Options.Executor, or deliver the result with Engine.Complete")
	}
	return nil, ErrPending
}

// A Key names one attempt of one task: run, token, attempt, and the life of the engine that dispatched it. It is opaque to hosts. It is
// the same in every life of the engine, and nobody can make one without the directory: the holder of a key, from a callback's URL for
// instance, can deliver the result of that attempt and of no other.
type Key string

// keyOf returns the key of an attempt.
func (e *Engine) keyOf(a taskkey.Attempt) Key { return Key(e.keys.Key(a)) }

// DeriveSecret returns 32 bytes for one purpose, a text of the host's choice, for instance to sign data that come back from outside.
// The bytes are the same in every life of the directory, in its backups and in repaired copies, and cannot be guessed without the
// directory. Each purpose has different bytes. It fails with ErrClosed.
func (e *Engine) DeriveSecret(purpose string) ([]byte, error) {
	if err := e.checkUsable(context.Background()); err != nil {
		return nil, err
	}
	if e.ctx.Err() != nil {
		return nil, ErrClosed
	}
	h := hmac.New(sha256.New, e.dir.Secret())
	h.Write([]byte("purpose: " + purpose))
	return h.Sum(nil), nil
}

// parseKey returns what a key names. A text that is no key is ErrInvalid, and one that
// was not made here ErrStale: there never was such an attempt.
func (e *Engine) parseKey(k Key) (taskkey.Attempt, error) {
	a, err := e.keys.Parse(string(k))
	switch {
	case errors.Is(err, taskkey.ErrForged):
		return a, fmt.Errorf("%w: %.300q is %w", ErrStale, string(k), err)
	case err != nil:
		return a, fmt.Errorf("%w: %.300q is %w", ErrInvalid, string(k), err)
	}
	return a, nil
}

// Heartbeat says that an attempt is alive and, with details, how far it is: anything that can be encoded as JSON, up to 16 KiB; nil
// leaves the details as they are. The last details are Task.Details of the next attempt, and Inspect shows them.
//
// Heartbeats of one attempt within a tenth of its node's heartbeat (at most 10 s; 1 s where the node has none) are merged: the first is
// committed at once, the others together at the end of that time. The last details are committed with the error or the Snooze of the
// attempt, and when the engine closes; a crash, or a timeout of the attempt, may lose those of the last such time.
//
// Errors: ErrStale (the attempt is no longer wanted), ErrInvalid (details that are not JSON), also *workflow.LimitError (details that
// are too large), *blob.Error (details refer to a missing blob).
func (e *Engine) Heartbeat(ctx context.Context, key Key, details any) error {
	if err := e.checkUsable(ctx); err != nil {
		return err
	}
	a, err := e.parseKey(key)
	if err != nil {
		return err
	}
	if details, err = value.Normalize(details, value.Limits{Bytes: limits.MaxDetails}); err != nil {
		return refusal.InvalidValue("the details of a heartbeat", err)
	}
	release, err := e.blobs.PinReferences(ctx, details)
	if err != nil {
		return err
	}
	merged, send := e.dispatcher.MergeHeartbeat(a, dispatch.Details{Value: details, Unpin: release})
	if !merged {
		if hold, err := e.blobs.PinReferences(context.WithoutCancel(ctx), send.Value); err == nil { // until it is answered
			defer e.runs.ReleaseAnswered(ctx, a.Run, hold)
		}
		err = (&deed{engine: e, run: a.Run}).report(ctx, state.Heartbeat{Token: a.Token, Attempt: a.Number, Epoch: a.Epoch, Details: send.Value})
		e.dispatcher.HeartbeatSent(a, send, err)
	}
	if err == nil {
		e.stalls.NoteHeartbeat(a.Run)
	}
	return err
}

// maxOnceKey is the longest key of Once, in bytes.
const maxOnceKey = 255

// Once returns the outcome that is kept under a business key, such as "invoice/2026-17", or calls f and keeps what it returns, as a
// value of the JSON model, in the engine's directory. Another attempt, another run or the next life of the process does not repeat an
// effect whose outcome is kept: the pattern is the idempotent receiver of Hohpe and Woolf, Enterprise Integration Patterns.
//
// Under a key one call of f runs at a time; further callers wait for it until their ctx is done. Only a success is kept: after an error
// the next caller calls f again. Once returns without error only once the outcome is durable. Where the disk is full, or a log outside
// of the directory does not answer, Once waits for that with the outcome in hand, as the result of a task waits; when its ctx is done
// before, the engine goes on trying until Close, and callers under the key wait for it. If the process dies, or the engine closes or
// fails, between f's effect and that, f is called again: by itself Once does not keep an effect from happening twice around a crash.
// Let f pass the key on, or look first whether the effect is there.
//
// Outcomes are kept until Forget or ForgetBefore; Purge of a run leaves them. f must not call Once with the same key: it would wait for
// itself. Errors: that of f, ErrInvalid (the key is empty, longer than 255 bytes or not UTF-8; the outcome is not JSON),
// *workflow.LimitError (more than 1 MiB), ErrUnknown, ErrClosed.
func (e *Engine) Once(ctx context.Context, key string, f func(context.Context) (any, error)) (any, error) {
	if err := e.checkUsable(ctx); err != nil {
		return nil, err
	}
	if key == "" || len(key) > maxOnceKey || !utf8.ValidString(key) || strings.HasPrefix(key, once.OwnKeys) {
		return nil, fmt.Errorf("%w: the key %.300q: use 1 to %d bytes of UTF-8 that do not begin with %s", ErrInvalid, key, maxOnceKey, once.OwnKeys)
	}
	return e.once.Do(ctx, key, f)
}

// Forget forgets the outcome that Once, also of a Task, keeps under a key, if any. The key of a schedule is ErrInvalid.
func (e *Engine) Forget(ctx context.Context, key string) error {
	if err := e.checkUsable(ctx); err != nil {
		return err
	}
	if strings.HasPrefix(key, store.ScheduleKeys) {
		return fmt.Errorf("%w: the key %.300q is that of a schedule: use Schedules.Delete", ErrInvalid, key)
	}
	return e.callUntil(ctx, func() error { return closedError(e.dir.ForgetOutcome(key)) })
}

// ForgetBefore forgets the outcomes that Once has kept under keys of the host since before an instant, and returns how many.
func (e *Engine) ForgetBefore(ctx context.Context, before time.Time) (int, error) {
	if err := e.checkUsable(ctx); err != nil {
		return 0, err
	}
	var n int
	err := e.callUntil(ctx, func() (err error) {
		n, err = e.dir.ForgetOutcomes(before)
		return closedError(err)
	})
	if err != nil {
		return 0, err // and n may still be written to
	}
	return n, nil
}

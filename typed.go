package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"runtime"
	"slices"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/faults"
	"github.com/pawl-run/pawl/internal/goschema"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/typecheck"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// Typed returns a handler, for Handlers, from a function of an input and an output:
//
//	pawl.Handlers{"greet": pawl.Typed(func(ctx context.Context, in Greeting) (Reply, error) { ... })}
//
// The input of the task is decoded into In as encoding/json would, and strictly: a field that In lacks, a value of
// another type, and the absence of a field that has neither omitempty nor omitzero and is no pointer, slice, map or
// interface, fail the task for good with the code invalid_input and a message that says where, before f is called. A null counts as
// absent; in a list or a map it needs a Go type with nil. An array takes its own length only. The tag enum:"a,b" of a field lists
// its values, and doc:"..." describes it. [TaskFrom] has the task: its keys, its branch, Heartbeat, Once, Put.
//
// Open refuses an In that takes no object, and types that JSON cannot represent, such as a channel or, in In, an embedded pointer to an
// unexported struct, see [Handlers.Check]. A function around the handler hides its types from Check, CheckDefinition and WriteSchemas,
// while the input is decoded as strictly: wrap f, and apply Typed last.
//
//go:noinline
func Typed[In, Out any](f func(ctx context.Context, in In) (Out, error)) func(context.Context, Task) (any, error) {
	types := typesOf(reflect.TypeFor[In](), reflect.TypeFor[Out]())
	if f == nil {
		types.err = errors.New("the function is nil")
	}
	return func(ctx context.Context, t Task) (any, error) {
		if asked, ok := t.services.(*typesQuestion); ok {
			asked.types = types
			return nil, nil
		}
		if types.err != nil {
			return nil, Permanent(types.err)
		}
		var in In
		if err := types.bindInput(t, &in); err != nil {
			return nil, err
		}
		return f(&taskContext{ctx, t}, in)
	}
}

// TaskFrom returns the task that a handler of [Typed] was called for, by the handler's context. From any other context it returns the zero
// Task, whose methods answer ErrClosed.
func TaskFrom(ctx context.Context) Task {
	if c, ok := ctx.Value(taskInContext{}).(*taskContext); ok {
		return c.task
	}
	return Task{}
}

// taskInContext is the key of the context of a typed handler, which it has as its own value.
type taskInContext struct{}

// A taskContext is the context of a typed handler: one allocation for a task, where context.WithValue makes two.
type taskContext struct {
	context.Context
	task Task
}

// Value implements context.Context.
func (c *taskContext) Value(key any) any {
	if key == (taskInContext{}) {
		return c
	}
	return c.Context.Value(key)
}

// codeInvalidInput is that of package handler.
const codeInvalidInput = "invalid_input"

// handlerTypes are the types of a handler of Typed.
type handlerTypes struct {
	in, out *goschema.Schema
	err     error // why Check refuses them
}

func typesOf(in, out reflect.Type) *handlerTypes {
	t := &handlerTypes{}
	var inErr, outErr error
	t.in, inErr = goschema.OfInput(in)
	t.out, outErr = goschema.OfOutput(out)
	if inErr == nil && t.in.Type != "" && t.in.Type != "object" {
		inErr = fmt.Errorf("input: %s is of type %s, and the input of a node is an object", in, t.in.Type)
	}
	t.err = errors.Join(inErr, outErr)
	return t
}

// bindInput decodes the input of a task.
func (h *handlerTypes) bindInput(t Task, in any) error {
	if p := h.in.Bind(t.Input, in); p != nil {
		return TaskError{Code: codeInvalidInput, Message: p.Error()}
	}
	return nil
}

// typedName is the name that the compiler gives to the handlers of Typed, of any types: a function of that name knows a
// typesQuestion. That is why Typed is never put into its callers, whose functions have names of their own.
var typedName = nameOfCode(Typed(func(context.Context, any) (any, error) { return nil, nil }))

func nameOfCode(f func(context.Context, Task) (any, error)) string {
	return runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
}

// A typesQuestion asks a handler of Typed for its types, in place of a call.
type typesQuestion struct {
	TaskServices
	types *handlerTypes
}

// typesOfHandler returns the types of a handler of Typed, and nil for any other.
func typesOfHandler(f func(context.Context, Task) (any, error)) *handlerTypes {
	if f == nil || nameOfCode(f) != typedName {
		return nil
	}
	var asked typesQuestion
	_, _ = f(context.Background(), Task{services: &asked})
	return asked.types
}

// Check fails with ErrInvalid if a name is empty, a function is nil, or a handler of [Typed] takes no object, or has types with parts that cannot
// be encoded as JSON: it names them all. Open calls it, and so do the workers of package worker.
func (h Handlers) Check() error {
	var all []error
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if name == "" || h[name] == nil {
			all = append(all, fmt.Errorf("%w: the handler of %q: give it the name of a task type and a function", ErrInvalid, name))
		}
		if types := typesOfHandler(h[name]); types != nil && types.err != nil {
			all = append(all, fmt.Errorf("%w: the handler of %q: %w", ErrInvalid, name, types.err))
		}
	}
	return errors.Join(all...)
}

// checkExecutor asks an executor that is Handlers.
func checkExecutor(x Executor) error {
	h, _ := x.(Handlers)
	return h.Check()
}

// typesByTask returns the types of the handlers of Typed, by their task types. A handler for all others has none.
func (h Handlers) typesByTask() map[string]typecheck.Types {
	out := map[string]typecheck.Types{}
	for name, f := range h {
		if t := typesOfHandler(f); t != nil && t.err == nil && name != "*" {
			out[name] = typecheck.Types{In: t.in, Out: t.out}
		}
	}
	return out
}

// CheckDefinition compares a definition with the handlers. It returns, as warnings, the task types that no handler performs
// and, by the types of the handlers of [Typed], what is missing, unknown or of another type, with both places: in an input mapping
// by the fields of In, and in what expressions read of a result by those of Out. Besides, it returns what
// [workflow.Definition.Check] finds. Publish returns the same, and an engine logs it once for each definition.
func (h Handlers) CheckDefinition(d *workflow.Definition) []workflow.Problem {
	problems := d.Check()
	g, err := compiled.Compile(compiled.Boundless(), d)
	if err != nil {
		return problems
	}
	return append(problems, typecheck.Compare(g, h, h.typesByTask())...)
}

// WriteSchemas writes what handlers there are as JSON, for pawl check --handlers: {"tasks": {TYPE: {"input": SCHEMA, "output":
// SCHEMA}}, "others": [TYPE]}, with JSON Schemas of the handlers of [Typed]. It fails with what Check says, or the error of w.
func WriteSchemas(w io.Writer, h Handlers) error {
	if w == nil {
		return fmt.Errorf("%w: there is nothing to write to", ErrInvalid)
	}
	if err := h.Check(); err != nil {
		return err
	}
	file := typecheck.File{Tasks: h.typesByTask(), Others: []string{}}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if _, typed := file.Tasks[name]; !typed {
			file.Others = append(file.Others, name)
		}
	}
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return fmt.Errorf("write the schemas of handlers: %w", err)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// newFaults returns the log of an engine, which warns of definitions that do not fit its handlers.
func newFaults(e *Engine) *faults.Log {
	log := faults.New(e.options.Logger, e.registry.Count)
	if h, ok := e.options.Executor.(Handlers); ok {
		types := h.typesByTask()
		log.CheckTypes(func(g *compiled.Graph) []workflow.Problem { return typecheck.Compare(g, h, types) })
	}
	return log
}

// An engine that opens compares its handlers with the definitions of so many live runs, and of so many published names.
const (
	maxLiveCompared = 10_000
	maxCompared     = 1000
)

// warnOfDefinitions compares the definitions that live runs have, and the newest version of each published one, with the handlers, and
// logs what does not fit: a deployment may have changed the handlers. Where it cannot read, whoever performs such a run is told then.
func (e *Engine) warnOfDefinitions(ctx context.Context) {
	if _, ok := e.options.Executor.(Handlers); !ok || e.options.Maintenance {
		return
	}
	hashes := map[string]bool{}
	live := []workflow.RunStatus{workflow.RunCreated, workflow.RunRunning, workflow.RunPaused, workflow.RunSuspended}
	for h, err := range e.dir.HeadsUntil(ctx, store.RunFilter{Status: live, Newest: true, Limit: maxLiveCompared}) {
		if err != nil {
			break
		}
		hashes[h.Definition] = true
	}
	latest := map[string]string{}
	for p, err := range e.dir.AllPublished(ctx, "") {
		if err != nil || len(latest) == maxCompared {
			break
		}
		latest[p.Name] = p.Hash // by name and version
	}
	for _, hash := range latest {
		hashes[hash] = true
	}
	for hash := range hashes {
		if g, err := e.dir.GraphUntil(ctx, hash); err == nil {
			e.faults.Warnings(ctx, nil, g, nil)
		}
	}
}

// Run starts a run, waits for its outcome and decodes its output into Out, strictly. Errors: those of Engine.Run; a
// *workflow.RunError if the run did not complete; a *workflow.SchemaError if it completed, and Out does not take its output.
func Run[Out any](ctx context.Context, e *Engine, run workflow.Run, input any) (Out, error) {
	return outputOf[Out](e.Run(ctx, run, input))
}

// WaitFor waits for the outcome of a run and decodes its output into Out, see [Run].
func WaitFor[Out any](ctx context.Context, e *Engine, id workflow.RunID) (Out, error) {
	return outputOf[Out](e.Wait(ctx, id))
}

func outputOf[Out any](outcome workflow.Outcome, err error) (Out, error) {
	var out Out
	if err == nil {
		err = refusal.Unfit(outcome.BindStrict(&out))
	}
	return out, err
}

// A SignalOf is the name of a signal whose payload is a T:
//
//	const Paid pawl.SignalOf[Payment] = "paid"
//	err := Paid.Send(ctx, engine, "order-42", Payment{Cents: 4800})
type SignalOf[T any] string

// Send sends the signal to a run, see [Engine.Signal]. A signal that may be sent twice, as by a webhook, has an ID: see With.
func (s SignalOf[T]) Send(ctx context.Context, e *Engine, run workflow.RunID, payload T) error {
	return e.Signal(ctx, run, s.With(payload))
}

// With returns the signal with a payload, for an ID, a TTL and the like.
func (s SignalOf[T]) With(payload T) workflow.Signal {
	return workflow.Signal{Name: string(s), Payload: payload}
}

// A VoteOf is the id of a node that waits for approval, whose votes carry a T:
//
//	const Refund pawl.VoteOf[Reason] = "refund"
//	err := Refund.Cast(ctx, engine, "order-42", "ann", true, Reason{"it was late"})
type VoteOf[T any] string

// Cast votes on the approval of a run, see [Engine.Vote].
func (v VoteOf[T]) Cast(ctx context.Context, e *Engine, run workflow.RunID, by string, approved bool, data T) error {
	return e.Vote(ctx, Target{Run: run, Node: workflow.NodeID(v)}, workflow.Ballot{By: by, Approved: approved, Data: data})
}

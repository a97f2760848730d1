package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A Task is one attempt of a task node, as a worker sees it, in the engine's
// process or elsewhere.
type Task struct {
	Key       pawl.Key // of this attempt
	EffectKey string   // the same in every attempt of the task: for de-duplication
	Run       workflow.RunID
	Workflow  string // name of the definition
	Node      workflow.NodeID
	Type      string
	Attempt   int // counts from 1
	Priority  int
	Input     any // an object of the JSON model
	Branch    pawl.Branch
	Deadline  time.Time     // when the attempt times out; zero if never
	Lease     time.Duration // how long the worker holds it without a heartbeat; 0 in the engine's process: without end

	local  pawl.Task // in the engine's process
	remote *Client   // in another
}

// Bind decodes the input into v, as encoding/json would. Its error is permanent: a
// further attempt would have the same input.
func (t Task) Bind(v any) error {
	if err := json.Unmarshal(value.Encode(t.Input), v); err != nil {
		return pawl.Permanent(fmt.Errorf("bind the input of node %q: %w", string(t.Node), err))
	}
	return nil
}

// Heartbeat says that the task is alive, where its node has a heartbeat. The
// leases of Client.Run are renewed by themselves, which is such a heartbeat as
// well. An error says that the attempt is no longer wanted.
func (t Task) Heartbeat(ctx context.Context) error {
	if t.remote == nil {
		return t.local.Heartbeat(ctx)
	}
	drop, err := t.remote.Heartbeat(ctx, t.Key)
	if err == nil && len(drop) > 0 {
		return ErrStale
	}
	return err
}

// Handlers are the functions of a worker, by task type; "*" is the default
// route. A function returns what one of pawl.Handlers would: an output, which
// may be a pawl.Result, or an error, which may be a pawl.TaskError. ctx is
// cancelled when the task is no longer wanted from this worker.
type Handlers map[string]func(ctx context.Context, t Task) (any, error)

// taskTypes returns what a worker with these functions takes.
func (h Handlers) taskTypes() []string { return slices.Sorted(maps.Keys(h)) }

// performTask calls the function for a task. A function that panics, or ends its
// goroutine, fails the attempt for good.
func (h Handlers) performTask(ctx context.Context, t Task, done func(output any, err error)) {
	f := h[t.Type]
	if f == nil {
		f = h[every]
	}
	if f == nil {
		done(nil, pawl.TaskError{Code: workflow.CodeUnknownTask, Message: fmt.Sprintf("no handler for task type %q; there are: %s", t.Type, strings.Join(h.taskTypes(), ", "))})
		return
	}
	var output any
	err := error(pawl.TaskError{Code: workflow.CodePanic, Message: "the handler ended its goroutine"})
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{pawl.TaskError{Code: workflow.CodePanic, Message: fmt.Sprint(r)}, debug.Stack()}
		}
		done(output, err)
	}()
	output, err = f(ctx, t)
}

// A panicError is a panic of a handler, with its stack for the log.
type panicError struct {
	error
	stack []byte
}

// Unwrap returns what the run is told.
func (e *panicError) Unwrap() error { return e.error }

// taskOf returns a task as an in-process worker sees it.
func taskOf(t pawl.Task) Task {
	return Task{
		Key: t.Key, EffectKey: t.EffectKey, Run: t.Run, Workflow: t.Workflow, Node: t.Node, Type: t.Type,
		Attempt: t.Attempt, Priority: t.Priority, Input: t.Input, Branch: t.Branch, Deadline: t.Deadline, local: t,
	}
}

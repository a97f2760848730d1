package pawl

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// An Executor performs tasks. Execute may be called again with the same Key
// after a crash: delivery is at least once. Its output is anything that JSON
// can say; its error fails the attempt, with the code of a TaskError if it is
// one. ErrPending says that the result comes later through Engine.Complete.
// ctx is cancelled when the attempt is over, also after ErrPending, and when the
// engine is closed.
type Executor interface {
	Execute(ctx context.Context, t Task) (output any, err error)
}

// A Task is one attempt of a task node, as an Executor sees it.
type Task struct {
	Key       Key    // of this attempt: for Engine.Complete, Fail and Heartbeat
	EffectKey string // the same in every attempt of the task: for de-duplication
	Run       workflow.RunID
	Workflow  string // name of the definition
	Node      workflow.NodeID
	Type      string    // the task type of the node
	Attempt   int       // counts from 1
	Input     any       // the node's input mapping: an object of the JSON model
	Branch    Branch    // the innermost branch of a fan-out that it runs in
	Deadline  time.Time // when the attempt times out; zero if never
	Priority  int       // of the node; lower first
	Order     int64     // of dispatch: a task with a lower one was dispatched earlier in this life of the engine

	engine *Engine
}

// A Branch says where in a fan-out a task runs. The zero Branch is outside any.
type Branch struct {
	Index int // counts from 0
	Total int
}

// Bind decodes the input into v, as encoding/json would. Its error is permanent: a
// further attempt would have the same input.
func (t Task) Bind(v any) error { return t.bindInput(v, false) }

// BindStrict is Bind, and fails if the input has a field that v has not.
func (t Task) BindStrict(v any) error { return t.bindInput(v, true) }

func (t Task) bindInput(v any, strict bool) error {
	if err := value.Bind(t.Input, v, strict); err != nil {
		return Permanent(fmt.Errorf("bind the input of node %q: %w", string(t.Node), err))
	}
	return nil
}

// Heartbeat says that the task is alive. An error says that the attempt is no
// longer wanted.
func (t Task) Heartbeat(ctx context.Context) error { return t.engine.Heartbeat(ctx, t.Key) }

// A Result is an output with metadata about how it was made, which is kept on
// the task's event, and with artifacts: named blobs that count when the run
// completes. An Executor may return one in place of a plain output.
type Result struct {
	Output    any
	Metadata  map[string]any
	Artifacts []Artifact
}

// Handlers is an Executor that chooses a function by task type. The type "*"
// is the default route. A type without a function fails the task with the code
// unknown_task.
type Handlers map[string]func(ctx context.Context, t Task) (any, error)

// Execute implements Executor.
func (h Handlers) Execute(ctx context.Context, t Task) (any, error) {
	f := h[t.Type]
	if f == nil {
		f = h["*"]
	}
	if f == nil {
		known := strings.Join(slices.Sorted(maps.Keys(h)), ", ")
		return nil, TaskError{Code: workflow.CodeUnknownTask, Message: fmt.Sprintf("no handler for task type %q; there are: %s", t.Type, known)}
	}
	return f(ctx, t)
}

// An absentExecutor is that of an engine without one: every task waits for
// Engine.Complete.
type absentExecutor struct {
	logger *slog.Logger
	told   sync.Map // task types
}

// Execute implements Executor.
func (a *absentExecutor) Execute(_ context.Context, t Task) (any, error) {
	if _, told := a.told.LoadOrStore(t.Type, true); !told {
		a.logger.Warn("pawl: there is no executor: set Options.Executor, or deliver the result with Engine.Complete",
			"run", string(t.Run), "node", string(t.Node), "task", t.Type)
	}
	return nil, ErrPending
}

// A Key names one attempt of one task: run, token, attempt, and the life of the
// engine that dispatched it. It is opaque to hosts.
type Key string

// keyOf returns the key of an attempt.
func keyOf(run workflow.RunID, token workflow.TokenID, attempt int, epoch workflow.Epoch) Key {
	return Key(fmt.Sprintf("%s#%d.%d.%v", string(run), int64(token), attempt, epoch))
}

// parseKey splits a key into what it names. A key has one spelling: who compares
// keys as texts, as a pool of workers does, tells attempts apart by them.
func (k Key) parseKey() (run workflow.RunID, token workflow.TokenID, attempt int, epoch workflow.Epoch, err error) {
	bad := fmt.Errorf("%w: %q is not a task key", ErrInvalid, string(k))
	i := strings.LastIndexByte(string(k), '#')
	if i < 1 {
		return "", 0, 0, 0, bad
	}
	parts := strings.Split(string(k[i+1:]), ".")
	if len(parts) != 3 {
		return "", 0, 0, 0, bad
	}
	id, err1 := strconv.ParseInt(parts[0], 10, 64)
	n, err2 := strconv.Atoi(parts[1])
	e, err3 := strconv.ParseUint(parts[2], 16, 64)
	run, token, epoch = workflow.RunID(k[:i]), workflow.TokenID(id), workflow.Epoch(e)
	if err1 != nil || err2 != nil || err3 != nil || keyOf(run, token, n, epoch) != k {
		return "", 0, 0, 0, bad
	}
	return run, token, n, epoch, nil
}

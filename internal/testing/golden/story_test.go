package golden

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/workflow"
)

//go:embed testdata/runs/all.yaml
var texts []byte

type object = map[string]any

// An act is something that a caller does to a run.
type act func(ctx context.Context, e *pawl.Engine, id workflow.RunID) error

// A story is a run that is made twice in a golden directory: early, so that it is
// in its file when the engine ends, and late, so that it is in the log.
type story struct {
	name  string // of the run and of its definition
	input object
	made  act // after its start
	ends  act // what it waits for, in the end
}

func list(xs ...any) []any { return append([]any{}, xs...) }

var stories = []story{
	{name: "done", input: object{"v": odd, "long": strings.Repeat("lång ", 800)}},
	{name: "failed"},
	{name: "cancelled", made: func(ctx context.Context, e *pawl.Engine, id workflow.RunID) error { return e.Cancel(ctx, id, "enough") }},
	{name: "expired"},
	{name: "timer", input: object{"v": 1}},
	{name: "until"},
	{name: "event", made: signal("sent", object{"by": "post"}), ends: signal("paid", object{"n": 2})},
	{name: "either"},
	{name: "approval", made: vote("ann"), ends: vote("bob")},
	{name: "fan", input: object{"items": list(1, 2, 3, 4, 5, 6, 7)}},
	{name: "quorum", input: object{"items": list(1, 2, 3, 4, 5)}},
	{name: "overdue", input: object{"items": list(1, 2, 3)}},
	{name: "nested", input: object{"orders": list(list(1, 3), list(), list(2, 4))}},
	{name: "open", input: object{"items": list("a", "b")}, made: func(ctx context.Context, e *pawl.Engine, id workflow.RunID) error {
		return e.AddBranch(ctx, pawl.GroupTarget{Run: id, Group: "g"}, "c")
	}, ends: func(ctx context.Context, e *pawl.Engine, id workflow.RunID) error {
		return e.CloseGroup(ctx, pawl.GroupTarget{Run: id, Group: "g"})
	}},
	{name: "parent", input: object{"v": 20}, ends: answer},
	{name: "paused", input: object{"v": 1}, made: func(ctx context.Context, e *pawl.Engine, id workflow.RunID) error { return e.Pause(ctx, id) },
		ends: func(ctx context.Context, e *pawl.Engine, id workflow.RunID) error { return e.Resume(ctx, id) }},
	{name: "parked", input: object{"v": 1}, ends: func(ctx context.Context, e *pawl.Engine, id workflow.RunID) error {
		return e.Retry(ctx, pawl.Target{Run: id, Node: "a"}, pawl.RetryOptions{})
	}},
	{name: "backoff", input: object{"v": 1}},
	{name: "patched", input: object{"v": 1}, made: patch},
	{name: "dag", input: object{"v": 1}},
	{name: "loop"},
	{name: "lock"},
	{name: "saga", input: object{"v": 1}},
	{name: "parcel", input: object{"v": "pärcel"}, made: func(context.Context, *pawl.Engine, workflow.RunID) error { return nil }},
}

// odd is a value with something of everything.
var odd = object{
	"": nil, "deep": list(list(), object{}, list(object{"a": list(nil)})), "int": int64(1) << 53, "low": -(int64(1) << 53),
	"double": 0.1, "tiny": 5e-324, "yes": true, "text": "a\"\\\n\u2028\U0001F600é", "'; DROP TABLE runs; --": "x",
}

func signal(name string, payload any) act {
	return func(ctx context.Context, e *pawl.Engine, id workflow.RunID) error {
		return e.Signal(ctx, id, workflow.Signal{Name: name, ID: name + "-1", Payload: payload, TTL: 1 << 60})
	}
}

func vote(by string) act {
	return func(ctx context.Context, e *pawl.Engine, id workflow.RunID) error {
		return e.Vote(ctx, pawl.Target{Run: id, Node: "gate"}, workflow.Ballot{By: by, Approved: true, Comment: "fine", Data: object{"n": 1}})
	}
}

// answer gives the child of a run the event that it waits for.
func answer(ctx context.Context, e *pawl.Engine, id workflow.RunID) error {
	for r, err := range e.Runs(ctx, pawl.RunFilter{Parent: id, Workflow: "asking"}) {
		if err != nil {
			return err
		}
		return signal("answer", 7)(ctx, e, r.Run)
	}
	return fmt.Errorf("run %q has no child that asks", string(id))
}

func patch(ctx context.Context, e *pawl.Engine, id workflow.RunID) error {
	_, err := e.Patch(ctx, id, pawl.Patch{Base: 1, Ops: list(
		object{"op": "add", "path": "/nodes/extra", "value": object{"task": "work", "input": object{"v": "input.v"}, "output": object{"output.extra": "result.v"}}},
		object{"op": "replace", "path": "/transitions/next/to", "value": "extra"},
		object{"op": "add", "path": "/transitions/then", "value": object{"from": "extra", "to": "b"}},
	)})
	return err
}

// definitions returns all definitions.
func definitions() ([]*workflow.Definition, error) {
	var out []*workflow.Definition
	for text := range bytes.SplitSeq(texts, []byte("\n---\n")) {
		d, err := workflow.ParseYAML(text)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// A hand performs the tasks of all runs: while the directory is made, some of
// them are left undone.
type hand struct{ making bool }

// Execute implements pawl.Executor.
func (h hand) Execute(ctx context.Context, t pawl.Task) (any, error) {
	var in struct{ V any }
	if err := t.Bind(&in); err != nil {
		return nil, err
	}
	n, _ := in.V.(float64)
	switch {
	case t.Type == "stuck" && n > 1,
		h.making && t.Type == "later",
		h.making && t.Type == "half" && n > 2:
		return nil, pawl.ErrPending
	case t.Type == "fail":
		return nil, pawl.TaskError{Code: "broken", Message: "it does not work"}
	case h.making && t.Type == "flaky":
		return nil, errors.New("busy")
	case t.Type == "pack":
		return pack(ctx, t, in.V)
	}
	return object{"v": t.Input.(object)["v"]}, nil
}

// pack stores a blob and hands it over as an artifact.
func pack(ctx context.Context, t pawl.Task, v any) (any, error) {
	ref, err := t.Put(ctx, strings.NewReader(strings.Repeat(fmt.Sprint(v), 100)), "text/plain")
	if err != nil {
		return nil, err
	}
	return pawl.Result{
		Output: object{"ref": ref}, Metadata: object{"model": "none", "tokens": 3},
		Artifacts: []pawl.Artifact{{Name: "parcel.txt", Blob: ref}},
	}, nil
}

// file is a blob that a run gets as its input.
func file(ctx context.Context, e *pawl.Engine) (blob.Ref, error) {
	return e.PutBlob(ctx, strings.NewReader(strings.Repeat("golden ", 500)), "text/plain")
}

package pawl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

type greeting struct {
	Name string `json:"name"`
	Loud bool   `json:"loud,omitzero"`
}

type reply struct {
	Text    string `json:"text"`
	Attempt int    `json:"attempt"`
}

func greet(ctx context.Context, in greeting) (reply, error) {
	t := pawl.TaskFrom(ctx)
	if in.Name == "nobody" {
		return reply{}, pawl.TaskError{Code: "nobody", Message: "there is nobody"}
	}
	_, err := t.Once(ctx, "", func(context.Context) (any, error) { return 1, nil })
	return reply{"hello " + in.Name, t.Attempt}, err
}

// greetRun returns a run of one typed task, with an input mapping.
func greetRun(id workflow.RunID, input map[string]string) workflow.Run {
	n := workflow.Node{ID: "greet", Task: "greet", Input: input, Output: map[string]string{"output.text": "result.text", "output.attempt": "result.attempt"}}
	return workflow.Run{ID: id, Definition: &workflow.Definition{Name: "greet", Start: "greet", Nodes: []workflow.Node{n}}}
}

// A typed handler gets its input as its type, strictly, and its output is read as a type.
func TestTypedHandlers(t *testing.T) {
	ctx := t.Context()
	e, err := pawl.Open(ctx, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"greet": pawl.Typed(greet)}})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(ctx)) }()

	got, err := pawl.Run[reply](ctx, e, greetRun("a", map[string]string{"name": "input.name"}), map[string]any{"name": "ann"})
	require.NoError(t, err)
	require.Equal(t, reply{"hello ann", 1}, got)
	got, err = pawl.WaitFor[reply](ctx, e, "a")
	require.NoError(t, err)
	require.Equal(t, "hello ann", got.Text)

	for id, c := range map[workflow.RunID]struct {
		input map[string]string
		want  string
	}{
		"unknown": {map[string]string{"name": "'x'", "tame": "'y'"}, `input.tame: pawl_test.greeting has no such field: did you mean "name"?`},
		"missing": {map[string]string{"loud": "true"}, "input.name: it is missing (pawl_test.greeting.Name)"},
		"type":    {map[string]string{"name": "7"}, "input.name: it is of type integer, and pawl_test.greeting.Name is of type string"},
	} {
		_, err = pawl.Run[reply](ctx, e, greetRun(id, c.input), nil)
		var failed *workflow.RunError
		require.ErrorAs(t, err, &failed, id)
		require.False(t, errors.As(err, new(*workflow.SchemaError)), id)
		require.Equal(t, "invalid_input", failed.Failure.Code, id)
		require.Equal(t, c.want, failed.Failure.Message, id)
	}
	_, err = pawl.Run[reply](ctx, e, greetRun("own", map[string]string{"name": "'nobody'"}), nil)
	require.ErrorContains(t, err, "nobody")
	_, err = pawl.WaitFor[struct{ Text int }](ctx, e, "a")
	require.ErrorContains(t, err, "bind the output")
	var unfit *workflow.SchemaError
	require.ErrorAs(t, err, &unfit)
	require.Equal(t, 500, pawl.HTTPStatus(err), "no fault of the request")
	_, err = pawl.WaitFor[struct{ Text string }](ctx, e, "a")
	require.ErrorContains(t, err, "attempt", "decoding is strict")
	require.ErrorIs(t, pawl.TaskFrom(ctx).Heartbeat(ctx, nil), pawl.ErrClosed)
}

// A type that JSON cannot say is refused by Open, with the place, whatever the handler would be given.
func TestTypesThatJSONCannotSay(t *testing.T) {
	type rate struct{ Per chan int }
	h := pawl.Handlers{
		"in":    pawl.Typed(func(context.Context, rate) (any, error) { return nil, nil }),
		"out":   pawl.Typed(func(context.Context, any) (func(), error) { return nil, nil }),
		"fine":  pawl.Typed(greet),
		"plain": func(context.Context, pawl.Task) (any, error) { return nil, errors.New("it is not called") },
	}
	_, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{Executor: h})
	require.ErrorIs(t, err, pawl.ErrInvalid)
	require.ErrorContains(t, err, `the handler of "in": input: pawl_test.rate.Per: chan int has no JSON form`)
	require.ErrorContains(t, err, `the handler of "out": output: func(): func() has no JSON form`)
	require.NotContains(t, err.Error(), "fine")
	require.NotContains(t, err.Error(), "plain")
	output, err := h["in"](t.Context(), pawl.Task{})
	require.True(t, output == nil && pawl.IsPermanent(err))
}

// A handler of Typed takes an object, as the input of a node is one: a type that cannot be read from an object is refused.
func TestTypedHandlersTakeObjects(t *testing.T) {
	for name, tt := range map[string]struct {
		handler func(context.Context, pawl.Task) (any, error)
		refused string
	}{
		"text":    {pawl.Typed(takeInput[string]), "input: string is of type string, and the input of a node is an object"},
		"pointer": {pawl.Typed(takeInput[*int]), "input: *int is of type integer, and the input of a node is an object"},
		"list":    {pawl.Typed(takeInput[[]string]), "input: []string is of type array, and the input of a node is an object"},
		"any":     {pawl.Typed(takeInput[any]), ""},
		"raw":     {pawl.Typed(takeInput[json.RawMessage]), ""},
		"map":     {pawl.Typed(takeInput[map[string]int]), ""},
		"struct":  {pawl.Typed(takeInput[*greeting]), ""},
		"reads":   {pawl.Typed(takeInput[readsItself]), ""},
	} {
		err := pawl.Handlers{name: tt.handler}.Check()
		if tt.refused == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, pawl.ErrInvalid)
		require.ErrorContains(t, err, tt.refused)
	}
}

func takeInput[In any](context.Context, In) (int, error) { return 0, nil }

// A readsItself is a list in Go, and any JSON.
type readsItself []string

// UnmarshalJSON takes all.
func (*readsItself) UnmarshalJSON([]byte) error { return nil }

const misfit = `
name: misfit
start: greet
nodes: [{id: greet, task: greet, input: {tame: input.x}, output: {output.text: result.txt}}]
`

// A definition that does not fit the handlers is told so where it comes in: by CheckDefinition with both places, by Publish,
// and in the log of whoever starts it, or opens a directory in which it is published.
func TestHandlersAreComparedWithDefinitions(t *testing.T) {
	h := pawl.Handlers{"greet": pawl.Typed(greet), "*": pawl.Typed(greet)}
	d := workflow.MustParse([]byte(misfit))
	var got []string
	for _, p := range h.CheckDefinition(d) {
		got = append(got, p.String())
	}
	want := []string{
		`line 4:42: warning: node "greet": input.tame: pawl_test.greeting, which the handler of "greet" takes, has no such field: did you mean "name"? (handler_type)`,
		`line 4:34: warning: node "greet": input: name is missing: the handler of "greet" needs pawl_test.greeting.Name (handler_type)`,
		`line 4:67: warning: node "greet": output.output.text: it reads result.txt, and pawl_test.reply, which the handler of "greet" returns, has no such field: did you mean "text"? (handler_type)`,
	}
	require.Equal(t, want, got)
	require.Empty(t, pawl.Handlers{"greet": func(context.Context, pawl.Task) (any, error) { return nil, nil }}.CheckDefinition(d), "an untyped one takes anything")

	dir := t.TempDir()
	var log bytes.Buffer
	options := pawl.Options{Executor: h, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	e, err := pawl.Open(t.Context(), dir, options)
	require.NoError(t, err)
	warnings, err := e.Publish(t.Context(), d)
	require.NoError(t, err)
	require.Len(t, warnings, 3)
	require.NoError(t, e.Close(t.Context()))
	require.Equal(t, 3, strings.Count(log.String(), "handler_type"))

	log.Reset()
	synctest.Test(t, func(t *testing.T) {
		e, err = pawl.Open(t.Context(), dir, options)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, e.Close(t.Context()))
	})
	require.Equal(t, 3, strings.Count(log.String(), "handler_type"), log.String())
}

// measured is middleware that is applied before Typed, so that its types stay known.
func measured[In, Out any](f func(context.Context, In) (Out, error)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, in In) (Out, error) { return f(ctx, in) }
}

// Middleware keeps the types if Typed is applied last, and else hides them, as the comment on Typed says.
func TestMiddlewareAroundATypedHandler(t *testing.T) {
	d := workflow.MustParse([]byte(misfit))
	require.Len(t, pawl.Handlers{"greet": pawl.Typed(measured(greet))}.CheckDefinition(d), 3)
	hidden := pawl.Typed(greet)
	around := func(ctx context.Context, task pawl.Task) (any, error) { return hidden(ctx, task) }
	require.Empty(t, pawl.Handlers{"greet": around}.CheckDefinition(d))
	_, err := around(t.Context(), pawl.Task{Input: map[string]any{}})
	require.ErrorContains(t, err, "input.name: it is missing")
}

// A task type that no handler performs is told where a definition comes in, and as the engine opens: not only by the run that fails of it.
func TestATaskWithoutAHandler(t *testing.T) {
	d := workflow.MustParse([]byte(`
name: order
start: charge
nodes: [{id: charge, task: charge}, {id: pause, wait: {event: go}}, {id: ship, taskExpr: input.by, tasks: [post, courier]}, {id: note}]
transitions: [{from: charge, to: pause}, {from: pause, to: ship}, {from: ship, to: note}]
`))
	plain := func(context.Context, pawl.Task) (any, error) { return nil, nil }
	some := pawl.Handlers{"charge": plain, "post": plain}
	const want = `warning: node "ship": task: no handler performs "courier": a run that comes there fails with unknown_task; there are: charge, post (handler_missing)`
	problems := some.CheckDefinition(d)
	require.Len(t, problems, 1)
	require.Contains(t, problems[0].String(), want)
	require.Positive(t, problems[0].Line)
	require.Len(t, pawl.Handlers{}.CheckDefinition(d), 3)
	require.Empty(t, pawl.Handlers{"*": plain}.CheckDefinition(d))

	var log bytes.Buffer
	dir, options := t.TempDir(), pawl.Options{Executor: some, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	e, err := pawl.Open(t.Context(), dir, options)
	require.NoError(t, err)
	warnings, err := e.Publish(t.Context(), d)
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	older := workflow.MustParse([]byte("name: older\nstart: pause\nnodes: [{id: pause, wait: {event: go}}, {id: pack, task: post}]\ntransitions: [{from: pause, to: pack}]\n"))
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "live", Definition: older}, nil))
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "over", Definition: workflow.MustParse([]byte("name: over\nstart: a\nnodes: [{id: a, task: charge}]\n"))}, nil))
	_, err = e.Wait(t.Context(), "over")
	require.NoError(t, err)
	require.NoError(t, e.Close(t.Context()))
	require.Equal(t, 1, strings.Count(log.String(), "handler_missing"), log.String())

	log.Reset()
	options.Executor = pawl.Handlers{"courier": plain, "move": plain}
	synctest.Test(t, func(t *testing.T) {
		e, err = pawl.Open(t.Context(), dir, options)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, e.Close(t.Context()))
	})
	require.Equal(t, 3, strings.Count(log.String(), "handler_missing"), log.String())
	require.Contains(t, log.String(), `node \"charge\"`)
	require.Contains(t, log.String(), `node \"ship\"`)
	require.Contains(t, log.String(), `node \"pack\"`, "of a live run, whose definition is not published")
	require.Contains(t, log.String(), "runs of it may fail")
}

// The schemas of handlers are a file that other programs read.
func TestWriteSchemas(t *testing.T) {
	var text bytes.Buffer
	require.NoError(t, pawl.WriteSchemas(&text, pawl.Handlers{"greet": pawl.Typed(greet), "*": pawl.Typed(greet), "plain": func(context.Context, pawl.Task) (any, error) { return nil, nil }}))
	require.JSONEq(t, `{"tasks": {"greet": {
		"input": {"type": "object", "x-go": "pawl_test.greeting", "additionalProperties": false, "required": ["name"], "properties": {
			"name": {"type": "string", "x-go": "pawl_test.greeting.Name"}, "loud": {"type": "boolean", "x-go": "pawl_test.greeting.Loud"}}},
		"output": {"type": "object", "x-go": "pawl_test.reply", "additionalProperties": false, "required": ["attempt", "text"], "properties": {
			"text": {"type": "string", "x-go": "pawl_test.reply.Text"}, "attempt": {"type": "integer", "x-go": "pawl_test.reply.Attempt"}}}}}, "others": ["*", "plain"]}`, text.String())
	require.ErrorIs(t, pawl.WriteSchemas(&text, pawl.Handlers{"x": pawl.Typed(func(context.Context, chan int) (int, error) { return 0, nil })}), pawl.ErrInvalid)
}

// A signal and a vote have the type of what they carry.
func TestTypedSignalsAndVotes(t *testing.T) {
	type payment struct {
		Cents int `json:"cents"`
	}
	const paid pawl.SignalOf[payment] = "paid"
	const refund pawl.VoteOf[payment] = "refund"
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		e, err := pawl.Open(ctx, t.TempDir(), pawl.Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close(ctx)) }()
		d := &workflow.Definition{Name: "d", Start: "pay", Nodes: []workflow.Node{
			{ID: "pay", Wait: &workflow.WaitSpec{Event: "paid"}, Output: map[string]string{"output.cents": "result.payload.cents"}},
			{ID: "refund", Approval: &workflow.ApprovalSpec{}},
		}, Transitions: []workflow.Transition{{From: "pay", To: "refund"}}}
		require.NoError(t, e.Start(ctx, workflow.Run{ID: "r", Definition: d}, nil))
		require.NoError(t, paid.Send(ctx, e, "r", payment{480}))
		require.Equal(t, workflow.Signal{Name: "paid", Payload: payment{1}}, paid.With(payment{1}))
		<-time.After(time.Second)
		require.NoError(t, refund.Cast(ctx, e, "r", "ann", true, payment{5}))
		got, err := pawl.WaitFor[payment](ctx, e, "r")
		require.NoError(t, err)
		require.Equal(t, payment{480}, got)
	})
}

// The cost of a call: of an untyped handler that binds strictly, and of a typed one.
func BenchmarkTypedCall(b *testing.B) {
	task := pawl.Task{Node: "greet", Input: map[string]any{"name": "ann", "loud": true}}
	for name, h := range map[string]func(context.Context, pawl.Task) (any, error){
		"untyped": func(_ context.Context, t pawl.Task) (any, error) {
			var in greeting
			err := t.BindStrict(&in)
			return reply{Text: in.Name}, err
		},
		"typed": pawl.Typed(func(_ context.Context, in greeting) (reply, error) { return reply{Text: in.Name}, nil }),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = h(b.Context(), task)
			}
		})
	}
}

// A pointer to a Result has no fields of its own either.
func TestTypedPointerToAResult(t *testing.T) {
	h := pawl.Handlers{"price": pawl.Typed(func(context.Context, struct{}) (*pawl.Result, error) { return nil, nil })}
	require.Empty(t, h.CheckDefinition(define(t, "name: one\nstart: a\nnodes: [{id: a, task: price, output: {output.n: result.price}}]\n")))
}

type answer struct {
	Text string `json:"text"`
}

// ask is a typed handler that reports what its call has cost.
func ask(_ context.Context, in struct{ Question string }) (pawl.ResultOf[answer], error) {
	out := pawl.ResultOf[answer]{Output: answer{"no"}, Metadata: map[string]any{"cost": 0.5}}
	if in.Question == "" {
		return out, pawl.TaskError{Code: "empty"}
	}
	return out, nil
}

// A typed handler reports metadata and artifacts beside its output, and metadata of an attempt that fails; what reads the result is still
// checked against the type of the output.
func TestTypedResults(t *testing.T) {
	ctx := t.Context()
	var e *pawl.Engine
	h := pawl.Handlers{
		"ask": pawl.Typed(ask),
		"nil": pawl.Typed(func(context.Context, struct{}) (*pawl.ResultOf[answer], error) { return nil, nil }),
		"artifact": pawl.Typed(func(ctx context.Context, _ struct{}) (*pawl.ResultOf[answer], error) {
			ref, err := e.PutBlob(ctx, strings.NewReader("x"), "text/plain")
			return &pawl.ResultOf[answer]{Output: answer{"see"}, Artifacts: []pawl.Artifact{{Name: "a.txt", Blob: ref}}}, err
		}),
		"within": pawl.Typed(func(context.Context, struct{}) (pawl.ResultOf[pawl.ResultOf[int]], error) {
			return pawl.ResultOf[pawl.ResultOf[int]]{}, nil
		}),
	}
	problems := h.CheckDefinition(define(t, "name: one\nstart: a\nnodes: [{id: a, task: ask, output: {output.n: result.tezt}}]\n"))
	require.Len(t, problems, 2, "the input is missing, and the result has no such field")
	require.Contains(t, problems[1].Message, "text")

	e, err := pawl.Open(ctx, t.TempDir(), pawl.Options{Executor: h})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(ctx)) }()
	run := func(id workflow.RunID, task string, input map[string]string) workflow.Outcome {
		n := workflow.Node{ID: "a", Task: task, Input: input, Output: map[string]string{"output": "result"}}
		if task == "nil" {
			n.Output = map[string]string{"output.none": "result"}
		}
		out, err := e.Run(ctx, workflow.Run{ID: id, Definition: &workflow.Definition{Name: "one", Start: "a", Nodes: []workflow.Node{n}}}, nil)
		require.NoError(t, err)
		return out
	}
	out := run("asked", "ask", map[string]string{"Question": "'why?'"})
	require.Equal(t, map[string]any{"text": "no"}, out.Output)
	out = run("failed", "ask", map[string]string{"Question": "''"})
	require.Equal(t, "empty", out.Failure.Code)
	for _, id := range []workflow.RunID{"asked", "failed"} {
		o, err := e.Overview(ctx, id)
		require.NoError(t, err)
		require.Equal(t, map[string]float64{"cost": 0.5}, o.Meta, id)
	}
	require.Equal(t, map[string]any{"none": nil}, run("nil", "nil", nil).Output)
	out = run("artifact", "artifact", nil)
	require.Equal(t, map[string]any{"text": "see"}, out.Output)
	require.Len(t, out.Artifacts, 1)
	require.Equal(t, workflow.CodeInvalidResult, run("within", "within", nil).Failure.Code)
}

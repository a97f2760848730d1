package build_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/build"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/workflow"
)

// A written is a definition that internal/gocode has written as calls, with the hash of its text.
type written struct {
	name, hash string
	build      func() *build.Builder
}

// The calls for each pattern and example make the definition that its text says, and so does the text that they print.
func TestPatternsAndExamples(t *testing.T) {
	for _, w := range append(patterns, examples...) {
		b := w.build()
		require.NoError(t, b.Err(), w.name)
		d, err := b.Definition()
		require.NoError(t, err, w.name)
		hash, err := d.Hash()
		require.NoError(t, err)
		require.Equal(t, w.hash, hash, w.name)
		text, err := build.YAML(d)
		require.NoError(t, err)
		again, err := workflow.ParseYAML(text)
		require.NoError(t, err, "%s", text)
		hash, err = again.Hash()
		require.NoError(t, err)
		require.Equal(t, w.hash, hash, "%s", text)
	}
}

// line returns the line in which it is called, and a number of lines further.
func line(further int) int {
	_, _, n, _ := runtime.Caller(1)
	return n + further
}

// problems returns those of an error by their lines of this file.
func problems(t *testing.T, err error) map[int][]workflow.Problem {
	t.Helper()
	var all *workflow.DefinitionError
	require.ErrorAs(t, err, &all)
	out := map[int][]workflow.Problem{}
	for _, p := range all.Problems {
		require.Equal(t, "build_test.go", filepath.Base(p.File), p.String())
		require.Contains(t, p.String(), fmt.Sprintf("build_test.go:%d: ", p.Line))
		out[p.Line] = append(out[p.Line], p)
	}
	return out
}

// Definition tells everything that is wrong, with the line of the call that has said it.
func TestProblemsNameTheirCalls(t *testing.T) {
	here := line(0)
	b := build.New("a/\n").
		Input(build.SchemaOf[chan int]()).
		Output("total", "state.total +")
	b.Group("offers", workflow.Synchronization{Strategy: workflow.MOfN(9), Timeout: -time.Second})
	b.Task("ask").
		Input("of", "item.").
		Input("of", "item").
		To("choose").ForEach("input.list", "x").InGroup("offers").
		When("result.ok &&")
	b.Task("ask")
	b.Node("missing").To("ask")
	b.Gateway("choose").To("nowhere").Joins("offers")
	b.Wait("paid", workflow.WaitSpec{Event: "paid", Match: "payload."}).
		Retry(workflow.RetrySpec{Jitter: 2})
	_, err := b.Definition()
	found := problems(t, err)
	expect := map[int]string{
		1: problem.InvalidName, 2: problem.Schema, 3: problem.Expression, 4: problem.OutOfRange, 6: problem.Expression, 7: problem.Conflict,
		9: problem.Expression, 10: problem.DuplicateID, 11: problem.Dangling, 12: problem.Dangling, 13: problem.Expression, 14: problem.InvalidField,
	}
	for after, code := range expect {
		require.NotEmpty(t, found[here+after], "line %d in %v", after, err)
		var codes []string
		for _, p := range found[here+after] {
			codes = append(codes, p.Code)
		}
		require.Contains(t, codes, code, "line %d in %v", after, err)
	}
}

// A node that is to fail the run needs a code: without one it would complete the run.
func TestAFailureNeedsACode(t *testing.T) {
	b := build.New("order")
	at := line(1)
	b.Fail("undone", "", "all is undone")
	_, err := b.Definition()
	require.Equal(t, problem.Missing, problems(t, err)[at][0].Code)
	require.Equal(t, problem.Missing, problems(t, b.Err())[at][0].Code)
}

// An expression is read as it is added. Which variables there are is known at the end.
func TestErrKnowsBeforeTheEnd(t *testing.T) {
	b := build.New("order")
	n := b.Task("ask").Input("of", "supplier")
	require.NoError(t, b.Err())
	_, err := b.Definition()
	require.ErrorContains(t, err, "supplier")
	at := line(1)
	n.Output("state.offer", "result.")
	require.Equal(t, problem.Expression, problems(t, b.Err())[at][0].Code)
}

type order struct {
	Items []string `json:"items"`
	Cents int      `json:"cents,omitzero"`
}

type offer struct {
	Cents  int    `json:"cents"`
	Speed  string `json:"speed,omitzero" enum:"slow,fast"`
	Within *time.Duration
	Next   *offer `json:"next,omitzero"`
}

func quote(_ context.Context, in order) (offer, error) { return offer{Cents: in.Cents}, nil }

// The types of a handler reach the definition: its result's schema stands in the node, and the mapping is compared with the
// input.
func TestTypedTask(t *testing.T) {
	b := build.New("order").Input(build.SchemaOf[order]())
	build.TypedTask(b, "quote", quote).Input("items", "input.items").Output("output.cents", "result.cents")
	d, err := b.Definition()
	require.NoError(t, err)
	text, err := build.YAML(d)
	require.NoError(t, err)
	require.Contains(t, string(text), `name: order
start: quote
input:
  schema:
    type: object
    properties: {cents: {type: integer}, items: {type: [array, "null"], items: {type: string}}}
    additionalProperties: false
`)
	schema := d.Nodes[0].OutputSchema.(map[string]any)
	require.Equal(t, []any{"cents"}, schema["required"])
	require.NotContains(t, schema, "additionalProperties", "a later offer may have more fields")

	b = build.New("order")
	at := line(1)
	build.TypedTask(b, "quote", quote).
		Input("itmes", "input.items").
		Input("cents", "'many'").
		Output("output.price", "result.price")
	_, err = b.Definition()
	found := problems(t, err)
	require.Contains(t, found[at+1][0].Message, "has no such field")
	require.Contains(t, found[at+2][0].Message, "it is of type string")
	require.Contains(t, found[at+3][0].Message, "it reads result.price")

	b = build.New("order")
	build.TypedTask(b, "a", quote).Type("quote").To("b")
	build.TypedTask(b, "b", func(context.Context, struct{}) (any, error) { return nil, nil }).Type("quote")
	_, err = b.Definition()
	require.ErrorContains(t, err, "with other types")

	b = build.New("order")
	build.TypedTask(b, "a", func(context.Context, chan int) (int, error) { return 0, nil })
	_, err = b.Definition()
	require.ErrorContains(t, err, "chan int")

	b = build.New("order") // with metadata, the type of the output counts
	build.TypedTask(b, "quote", func(context.Context, order) (*pawl.ResultOf[offer], error) { return nil, nil }).Output("output.price", "result.price")
	d, err = b.Definition()
	require.ErrorContains(t, err, "it reads result.price")
	require.Nil(t, d)
}

// The types are compared whatever else is wrong, but for the parts that are.
func TestTypesAreComparedBesideOtherProblems(t *testing.T) {
	b := build.New("")
	at := line(1)
	build.TypedTask(b, "quote", quote).
		Input("itmes", "input.items").
		Input("items", "no expression").
		Output("output.price", "result.price").
		Output("nowhere", "result.price").
		Retry(workflow.RetrySpec{MaxAttempts: -1}).
		To("missing").
		To("ship").When("result.price > 1")
	b.Task("ship").Cancels("gone").To("ship").Loop(0)
	_, err := b.Definition()
	found := problems(t, err)
	require.Contains(t, found[at+1][0].Message, "has no such field")
	require.Len(t, found[at+2], 1, "the field is filled")
	require.Contains(t, found[at+3][0].Message, "it reads result.price")
	require.Equal(t, problem.InvalidPath, found[at+4][0].Code)
	require.Equal(t, problem.OutOfRange, found[at+5][0].Code)
	require.Equal(t, problem.Dangling, found[at+6][0].Code)
	require.Contains(t, found[at+7][0].Message, "it reads result.price")
	require.Equal(t, problem.Dangling, found[at+8][0].Code)
	require.Equal(t, problem.OutOfRange, found[at+8][1].Code)

	b = build.New("order").StartAt("nowhere") // a definition that cannot be mended has its other problems
	build.TypedTask(b, "quote", quote).Type(" ").Input("itmes", "input.items")
	_, err = b.Definition()
	require.ErrorContains(t, err, "nowhere")
	require.NotContains(t, err.Error(), "itmes")
}

type inner struct{ X int }

// everything has a field of each kind that can be encoded as JSON.
type everything struct {
	*inner
	Text     string
	Quoted   *int `json:",string"`
	Pointer  *string
	List     []*int
	Array    [2]bool
	Map      map[int]*inner
	Bytes    []byte
	At       time.Time
	Took     time.Duration
	Any      any
	Raw      json.RawMessage
	Number   json.Number
	Float    float32
	Speed    string  `enum:"slow,fast" json:",omitzero"`
	Choice   *string `enum:"a,b"`
	Self     *everything
	Children []everything
}

// The schema of a result takes what its Go type is written as: nil pointers, slices and maps are null.
func TestResultsFitTheirSchemas(t *testing.T) {
	n, text := 7, "a"
	full := everything{
		inner: &inner{1}, Text: "t", Quoted: &n, Pointer: &text, List: []*int{&n, nil}, Map: map[int]*inner{1: nil, 2: {3}}, Bytes: []byte("b"),
		At: time.Now(), Took: time.Hour, Any: 1, Raw: json.RawMessage("[1]"), Number: "1.5", Float: 1.5, Speed: "fast", Choice: &text,
	}
	full.Self, full.Children = &everything{Raw: json.RawMessage("null")}, []everything{{Raw: json.RawMessage("null")}}
	for i, result := range []everything{{Raw: json.RawMessage("null")}, full} {
		give := func(context.Context, struct{}) (everything, error) { return result, nil }
		b := build.New("give").OutputSchema(build.SchemaOf[struct{ All everything }]())
		build.TypedTask(b, "give", give).Output("output.All", "result")
		ctx := t.Context()
		e, err := pawl.Open(ctx, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"give": pawl.Typed(give)}})
		require.NoError(t, err)
		outcome, err := e.Run(ctx, workflow.Run{ID: "r", Definition: b.MustDefinition()}, nil)
		require.NoError(t, err)
		require.NoError(t, outcome.Err(), "%d", i)
		require.NoError(t, e.Close(ctx))
	}
}

// A definition that was returned does not change with what its builder is told afterwards.
func TestDefinitionIsACopy(t *testing.T) {
	b := build.New("order")
	n := b.Task("a").Input("x", "1").To("b")
	b.Task("b")
	d, err := b.Definition()
	require.NoError(t, err)
	before, err := d.Hash()
	require.NoError(t, err)
	n.When("true").Input("y", "2").To("a").Loop(2)
	b.Output("z", "3").Signals("s").Group("g", workflow.Synchronization{})
	after, err := d.Hash()
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// Nothing panics of what has no builder but MustDefinition, which says why.
func TestNothingIsBuilt(t *testing.T) {
	var b *build.Builder
	require.Nil(t, b.Version(2).Signals("x"))
	build.TypedTask(b, "a", quote).Input("x", "1").To("b").When("true").Else("c").Loop(2).Lock("l")
	build.Transition{}.When("true").Join(workflow.JoinAll)
	b.Node("a").Catch("b")
	_, err := b.Definition()
	require.ErrorContains(t, err, "name")
	require.NoError(t, b.Err())
	_, err = build.YAML(nil)
	var wrong *workflow.DefinitionError
	require.True(t, errors.As(err, &wrong))
	require.PanicsWithValue(t, "build: a definition of the program: "+func() string { _, err := new(build.Builder).Definition(); return err.Error() }(), func() { new(build.Builder).MustDefinition() })
}

// Texts that YAML might take for something else come back as they are.
func TestYAMLKeepsTexts(t *testing.T) {
	for _, text := range []string{
		"", " ", "yes", "No", "null", "~", "1", "1e3", "0x1f", "a: b", "a #b", "- a", "{a}", "[a", "a,b", "&a", "*a", "!a", "|", "> a", "%a", "@a", "`a", "'a'", `"a"`, `\`, "a\nb\n",
		"\n", "\ta", "a ", "é", "日本", "\u2028", "\u0085", "\u007f", "\x01", "\ufeff", "😀", "\U000e0001", "a:", "?", "-", "---", "...", "<<", "=", "true", "OFF", "y",
	} {
		d := &workflow.Definition{Name: "a", Start: "a", Nodes: []workflow.Node{{ID: "a"}}}
		d.State.Initial = map[string]any{"text": text, text: []any{text, map[string]any{text: text}}}
		d.Nodes[0].Output = map[string]string{"state.x": text}
		if text == "" {
			d.Nodes[0].Output = nil
		}
		want, err := d.Hash()
		require.NoError(t, err)
		out, err := build.YAML(d)
		require.NoError(t, err)
		again, err := workflow.ParseYAML(out)
		require.NoError(t, err, "%q: %s", text, out)
		got, err := again.Hash()
		require.NoError(t, err)
		require.Equal(t, want, got, "%q: %s", text, out)
	}
}

// A key may be longer than YAML allows before a colon on its line.
func TestYAMLKeepsLongKeys(t *testing.T) {
	for _, n := range []int{100, 1022, 1023, 1024, 1025, 5000} {
		for _, key := range []string{strings.Repeat("k", n), strings.Repeat("é", n), strings.Repeat("\n", n/2), strings.Repeat("k ", n/2) + "k", strings.Repeat(": ", n/2)} {
			d := &workflow.Definition{Name: "a", Start: "a", Nodes: []workflow.Node{{ID: "a"}}}
			d.State.Initial = map[string]any{"a": "b", "z": key, "list": []any{map[string]any{key: []any{map[string]any{key: key}}}}, key: map[string]any{key: "x", "y": []any{}, key + "z": map[string]any{key: 1}}}
			want, err := d.Hash()
			require.NoError(t, err)
			out, err := build.YAML(d)
			require.NoError(t, err)
			again, err := workflow.ParseYAML(out)
			require.NoError(t, err, "%d", n)
			got, err := again.Hash()
			require.NoError(t, err)
			require.Equal(t, want, got, "%d", n)
		}
	}
}

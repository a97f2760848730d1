package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// inputs is a definition whose input has a schema.
const inputs = `
name: inputs
start: hold
input:
  schema:
    type: object
    required: [n]
    properties: {n: {type: integer, minimum: 0}, tags: {type: array, items: {type: string}, maxItems: 3}}
nodes: [{id: hold, task: hold, outputSchema: {type: object, required: [ok], properties: {ok: {type: boolean}}}}]
`

// nest returns lists inside each other, n deep.
func nest(n int) any {
	var v any = "x"
	for range n {
		v = []any{v}
	}
	return v
}

type cyclic struct{ Next *cyclic }

func selfish() any {
	c := &cyclic{}
	c.Next = c
	return c
}

// badInputs are refused by Start. Each names the type of its error.
var badInputs = map[string]struct {
	input any
	want  any // an error to find with errors.Is, or a pointer for errors.As
}{
	"a list":            {[]any{1}, new(*workflow.InputError)},
	"a string":          {"n", new(*workflow.InputError)},
	"a number":          {7, new(*workflow.InputError)},
	"nothing required":  {nil, new(*workflow.InputError)},
	"wrong type":        {map[string]any{"n": "7"}, new(*workflow.InputError)},
	"not integral":      {map[string]any{"n": 7.5}, new(*workflow.InputError)},
	"below minimum":     {map[string]any{"n": -1}, new(*workflow.InputError)},
	"too many tags":     {map[string]any{"n": 1, "tags": []string{"a", "b", "c", "d"}}, new(*workflow.InputError)},
	"wrong element":     {map[string]any{"n": 1, "tags": []any{1}}, new(*workflow.InputError)},
	"null":              {map[string]any{"n": nil}, new(*workflow.InputError)},
	"NaN":               {map[string]any{"n": math.NaN()}, new(*workflow.InputError)},
	"infinity":          {map[string]any{"n": math.Inf(1)}, new(*workflow.InputError)},
	"a channel":         {map[string]any{"n": make(chan int)}, new(*workflow.InputError)},
	"a function":        {func() {}, new(*workflow.InputError)},
	"a complex number":  {map[string]any{"n": 1i}, new(*workflow.InputError)},
	"bad UTF-8":         {map[string]any{"n": 1, "s": "\xff"}, new(*workflow.InputError)},
	"bad UTF-8 key":     {map[string]any{"n": 1, "\xff": 1}, new(*workflow.InputError)},
	"keys of integers":  {map[int]any{1: 1}, new(*workflow.InputError)},
	"too deep":          {map[string]any{"n": 1, "deep": nest(200)}, new(*workflow.LimitError)},
	"much too deep":     {map[string]any{"n": 1, "deep": nest(100_000)}, new(*workflow.LimitError)},
	"a cycle":           {selfish(), new(*workflow.InputError)},
	"too large":         {map[string]any{"n": 1, "s": strings.Repeat("x", 1<<20)}, new(*workflow.LimitError)},
	"too many elements": {map[string]any{"n": 1, "l": make([]int, 1<<20)}, new(*workflow.LimitError)},
}

// badIDs are refused by Start, and unknown to everything else.
var badIDs = map[string]workflow.RunID{
	"empty": "", "a slash": "a/b", "a path": "../x", "absolute": "/abs", "only a slash": "/", "NUL": "a\x00b",
	"a newline": "a\nb", "a tab": "a\tb", "DEL": "a\x7f", "C1 control": "a\u0085b", "too long": workflow.RunID(strings.Repeat("x", 256)),
	"much too long": workflow.RunID(strings.Repeat("x", 64<<10)), "bad UTF-8": "a\xffb", "a lone surrogate": "a\xed\xa0\x80", "a child's id": "a/1.1",
}

// hostileIDs are odd but allowed: each is a run of its own.
var hostileIDs = []workflow.RunID{
	".", "..", "a\\b", "CON", "NUL", "COM1 ", "x.", " x", "x ", "x.db-wal", "%2e%2e", "🦫", "é", "e\u0301", "Run", "run", "RUN",
	"'; DROP TABLE runs; --", "\"", "a#1.1.0", "sqlite_master", "-rf", "~", "$HOME", "*", "?", "LOCK", "pawl.db",
	workflow.RunID(strings.Repeat("x", 255)), workflow.RunID(strings.Repeat("é", 127)), "\u202egpj", "\ufeff",
}

// badResults fail a running attempt, with the code that is named, or are
// refused and leave it running.
var badResults = map[string]struct {
	result any
	code   string // "" is refused
}{
	"NaN": {math.NaN(), ""}, "infinity": {map[string]any{"ok": math.Inf(-1)}, ""},
	"a channel": {make(chan int), ""}, "a function": {func() {}, ""}, "bad UTF-8": {"\xff", ""}, "a cycle": {selfish(), ""},
	"too deep": {nest(5000), "limit_exceeded"}, "metadata not JSON": {pawl.Result{Output: map[string]any{"ok": true}, Metadata: map[string]any{"x": make(chan int)}}, ""},
	"wrong schema": {map[string]any{"ok": 1}, "schema_error"}, "not an object": {7, "schema_error"}, "missing property": {map[string]any{}, "schema_error"},
	"null": {nil, "schema_error"}, "too large": {map[string]any{"ok": true, "s": strings.Repeat("x", 1<<20)}, "result_too_large"},
}

// files lists everything in a directory.
func files(t *testing.T, dir string) []string {
	var out []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		out = append(out, path)
		return err
	}))
	return out
}

func requireTyped(t *testing.T, err error, want any, name string) {
	t.Helper()
	require.Error(t, err, name)
	require.NotEmpty(t, err.Error(), name)
	if sentinel, ok := want.(error); ok {
		require.ErrorIs(t, err, sentinel, name)
		return
	}
	require.True(t, errors.As(err, want), "%s: %T %v", name, err, err)
}

// An input is told by the schema only where that refuses it, and its place is a JSON pointer each time.
func TestWhyAnInputIsRefused(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	for want, input := range map[string]any{
		`input: at "/list/1/a b": NaN is not a JSON number`:                                    map[string]any{"n": 1, "list": []any{1, map[string]any{"a b": math.NaN()}}},
		`input: at "/n": integer 9007199254740993 is outside +-2^53 and not exact as a double`: map[string]any{"n": json.Number("9007199254740993")},
		`input: at "/n": number 1E400 is out of range`:                                         map[string]any{"n": json.Number("1E400")},
		`input: at "/n": number 1e-400 would become 0`:                                         map[string]any{"n": json.RawMessage("1e-400")},
		`input does not fit the schema: at "/n": got string, want integer`:                     map[string]any{"n": "7"},
		`input: the input of a run is an object, not a number`:                                 7,
	} {
		err := e.Start(t.Context(), workflow.Run{ID: "x", Definition: define(t, inputs)}, input)
		require.EqualError(t, err, want)
		var ie *workflow.InputError
		require.ErrorAs(t, err, &ie)
		require.Equal(t, strings.Contains(want, "schema"), ie.Schema)
	}
}

// Negative zero is 0, however it is written.
func TestNegativeZeroIsZero(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	for i, zero := range []any{math.Copysign(0, -1), float32(math.Copysign(0, -1)), json.Number("-0"), json.RawMessage("-0.0"), json.Number("-0e7")} {
		id := workflow.RunID(strconv.Itoa(i))
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: define(t, inputs)}, map[string]any{"n": zero}))
		snap, err := e.Inspect(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"n": int64(0)}, snap.Input)
	}
}

// Nothing that is refused leaves a file, a goroutine or a run behind.
func TestBadInputLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, testBadInput)
}

func testBadInput(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir, pawl.Options{})
	def := define(t, inputs)
	// The process makes some things only once: here, before the count.
	requireTyped(t, e.Start(t.Context(), workflow.Run{ID: "x", Definition: def}, 7), new(*workflow.InputError), "first")
	synctest.Wait()
	before, goroutines := files(t, dir), harness.CountBubbled()

	for name, c := range badInputs {
		requireTyped(t, e.Start(t.Context(), workflow.Run{ID: "x", Definition: def}, c.input), c.want, name)
	}
	for name, id := range badIDs {
		requireTyped(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: def}, map[string]any{"n": 1}), pawl.ErrInvalid, name)
		_, err := e.Wait(t.Context(), id)
		requireTyped(t, err, pawl.ErrRunNotFound, name)
		_, err = e.Inspect(t.Context(), id)
		requireTyped(t, err, pawl.ErrRunNotFound, name)
		requireTyped(t, e.Cancel(t.Context(), id, ""), pawl.ErrRunNotFound, name)
	}
	for name, run := range map[string]workflow.Run{
		"neither": {ID: "x"}, "both": {ID: "x", Definition: def, Workflow: "w"},
	} {
		requireTyped(t, e.Start(t.Context(), run, nil), pawl.ErrInvalid, name)
	}
	requireTyped(t, e.Start(t.Context(), workflow.Run{ID: "x", Workflow: "unknown"}, nil), pawl.ErrNotPublished, "unknown name")
	for name, d := range badDefinitions {
		requireTyped(t, e.Start(t.Context(), workflow.Run{ID: "x", Definition: d}, nil), new(*workflow.DefinitionError), name)
		_, err := e.Publish(t.Context(), d)
		requireTyped(t, err, new(*workflow.DefinitionError), name)
	}
	refused := 0
	for text, verdict := range definitionCases(t) {
		d, err := workflow.ParseYAML([]byte(text))
		if err == nil {
			err = e.Start(t.Context(), workflow.Run{ID: "x", Definition: d}, 7)
		}
		if verdict {
			refused++
			requireTyped(t, err, new(*workflow.DefinitionError), text)
		}
	}
	require.Greater(t, refused, 80)

	synctest.Wait()
	require.Equal(t, before, files(t, dir))
	require.LessOrEqual(t, harness.CountBubbled(), goroutines)
	for run, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
		t.Fatal(run, err)
	}
}

// badDefinitions are Go values that Start and Publish refuse.
var badDefinitions = map[string]*workflow.Definition{
	"the zero value": {}, "no nodes": {Name: "x", Start: "a"}, "bad name": {Name: "\xff", Start: "a", Nodes: []workflow.Node{{ID: "a"}}},
	"start nowhere": {Name: "x", Start: "b", Nodes: []workflow.Node{{ID: "a"}}},
	"twice":         {Name: "x", Start: "a", Nodes: []workflow.Node{{ID: "a"}, {ID: "a"}}},
	"two kinds":     {Name: "x", Start: "a", Nodes: []workflow.Node{{ID: "a", Task: "t", End: &workflow.EndSpec{}}}},
	"bad enum":      {Name: "x", Start: "a", Nodes: []workflow.Node{{ID: "a", Unmatched: "maybe"}}},
	"expression":    {Name: "x", Start: "a", Nodes: []workflow.Node{{ID: "a", Task: "t", Input: map[string]string{"x": "1 +"}}}},
	"variable":      {Name: "x", Start: "a", Nodes: []workflow.Node{{ID: "a", Task: "t", Input: map[string]string{"x": "nobody"}}}},
	"mOfN 0": {Name: "x", Start: "a", Nodes: []workflow.Node{{ID: "a"}, {ID: "b"}}, Transitions: []workflow.Transition{
		{From: "a", To: "b", SiblingGroup: "g", SpawnCount: 2},
		{From: "b", To: "a", Synchronization: &workflow.Synchronization{SiblingGroup: "g", Strategy: workflow.MOfN(0)}},
	}},
	"schema": {Name: "x", Start: "a", Input: workflow.InputSpec{Schema: map[string]any{"type": "nothing"}}, Nodes: []workflow.Node{{ID: "a"}}},
}

// definitionCases returns the texts of workflow/testdata/bad, and whether each
// is refused: that package holds them against their problems.
func definitionCases(t *testing.T) map[string]bool {
	paths, err := filepath.Glob("workflow/testdata/bad/*.txt")
	require.NoError(t, err)
	out := map[string]bool{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		for block := range strings.SplitSeq(string(data), "\nyaml\n") {
			text, verdict, ok := strings.Cut(block, "\n----\n")
			if !ok {
				continue
			}
			verdict, _, _ = strings.Cut(verdict, "\n\n")
			for line := range strings.SplitSeq(verdict, "\n") {
				if line != "" && line != "sound" && !strings.Contains(line, "warning: ") {
					out[text] = true
				}
			}
		}
	}
	return out
}

// A result that is refused leaves its attempt running; a result that does not
// fit fails it. A refused result does not change the run.
func TestBadResults(t *testing.T) {
	keys := make(chan pawl.Key, 1)
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"hold": func(_ context.Context, task pawl.Task) (any, error) {
		keys <- task.Key
		return nil, pawl.ErrPending
	}}})
	def := define(t, inputs)
	for name, c := range badResults {
		id := workflow.RunID(name)
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: def}, map[string]any{"n": 1}))
		key := <-keys
		err := e.Complete(t.Context(), key, c.result)
		if c.code != "" {
			require.NoError(t, err, name)
			out, err := e.Wait(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, c.code, out.Failure.Code, name)
			continue
		}
		requireTyped(t, err, pawl.ErrInvalid, name)
		snap, err := e.Inspect(t.Context(), id)
		require.NoError(t, err)
		require.EqualValues(t, 1, snap.Seq, name)
		require.NoError(t, e.Complete(t.Context(), key, map[string]any{"ok": true}), name)
		out, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, out.Err(), name)
	}
	require.ErrorIs(t, e.Fail(t.Context(), "x#1.1.0000000000000001.AAAAAAAAAAAAAAAAAAAAAA", nil), pawl.ErrInvalid)
	require.ErrorIs(t, e.Complete(t.Context(), "x#1.1.0000000000000001.AAAAAAAAAAAAAAAAAAAAAA", 1), pawl.ErrStale)
}

// Odd ids are runs like any other: each its own, returned unchanged, none
// outside the directory.
func TestHostileIDs(t *testing.T) {
	dir := t.TempDir()
	e := open(t, filepath.Join(dir, "data"), pawl.Options{Executor: pawl.Handlers{"work": double}})
	def := define(t, oneTask)
	for i, id := range hostileIDs {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: def}, map[string]any{"n": i}), "%q", id)
	}
	for i, id := range hostileIDs {
		out, err := e.Wait(t.Context(), id)
		require.NoError(t, err, "%q", id)
		require.Equal(t, id, out.Run)
		require.Equal(t, map[string]any{"n": int64(2 * i)}, out.Output)
	}
	for _, path := range files(t, dir) {
		rel, err := filepath.Rel(filepath.Join(dir, "data"), path)
		require.NoError(t, err)
		require.False(t, path != dir && strings.HasPrefix(rel, ".."), path)
	}
	seen := 0
	for _, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
		require.NoError(t, err)
		seen++
	}
	require.Equal(t, len(hostileIDs), seen)
}

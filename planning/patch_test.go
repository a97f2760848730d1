package planning_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

func operation(op, path string, v ...any) any {
	m := map[string]any{"op": op, "path": path}
	if len(v) > 0 {
		m["value"] = v[0]
	}
	return m
}

// A patch at any moment leaves a run that goes on to its end, or changes
// nothing: what player.check checks holds after it, and the journal replays.
func TestPatchesAtAnyMoment(t *testing.T) {
	harness.InTurn(t, 4)
	taken, refused := 0, 0
	harness.CheckProperty(t, func(t *rapid.T) {
		p := newPlayer(t, drawNet(t))
		p.failures = rapid.SampledFrom([]int{0, 1, 10}).Draw(t, "failures")
		if _, err := p.send(state.Start{Input: map[string]any{"n": int64(1)}}); err != nil {
			t.Fatalf("%v", err)
		}
		for step := 0; !p.state.Status.Final(); step++ {
			if step > 20_000 {
				t.Fatalf("the run does not end")
			}
			if rapid.IntRange(0, 4).Draw(t, "patches") == 0 && p.state.Patches < 6 {
				m := state.Patch{Base: p.state.Revision(), Ops: drawOps(t, p.state.Graph)}
				if _, err := p.send(m); err == nil {
					taken++
				} else {
					legitimate(t, err)
					refused++
				}
				continue
			}
			if _, err := p.send(p.draw(t)); err != nil {
				t.Fatalf("%v", err)
			}
		}
		p.replay()
		p.numbered()
	})
	t.Logf("%d patches taken, %d refused", taken, refused)
	if harness.CurrentLevel() > harness.Quick { // few runs are drawn then
		require.Positive(t, taken)
		require.Positive(t, refused)
	}
}

// legitimate fails unless a patch was refused for a reason that it has.
func legitimate(t failer, err error) {
	t.Helper()
	var pe *workflow.PatchError
	var de *workflow.DefinitionError
	var le *workflow.LimitError
	if !errors.As(err, &pe) && !errors.As(err, &de) && !errors.As(err, &le) {
		t.Fatalf("refused for %v", err)
	}
}

func drawOps(t *rapid.T, g *compiled.Graph) []any {
	nodes, ids := []workflow.NodeID{}, []workflow.TransitionID{"none"}
	for i := range g.Definition.Nodes {
		nodes = append(nodes, g.Definition.Nodes[i].ID)
	}
	for i := range g.Definition.Transitions {
		ids = append(ids, g.Definition.Transitions[i].ID)
	}
	node := func() string { return string(rapid.SampledFrom(nodes).Draw(t, "node")) }
	transition := func() string { return string(rapid.SampledFrom(ids).Draw(t, "transition")) }
	var ops []any
	for i := range rapid.IntRange(1, 3).Draw(t, "ops") {
		switch rapid.IntRange(0, 9).Draw(t, "op") {
		case 0:
			ops = append(ops, operation("remove", "/transitions/"+transition()))
		case 1:
			ops = append(ops, operation("remove", "/nodes/"+node()))
		case 2:
			ops = append(ops, operation("replace", "/transitions/"+transition()+"/to", node()))
		case 3:
			ops = append(ops, operation("add", "/nodes/"+node()+"/timeout", "1s"))
		case 4:
			ops = append(ops, operation("add", "/transitions/"+transition()+"/condition", rapid.SampledFrom([]string{"true", "1 == 1", "result == 1"}).Draw(t, "condition")))
		case 5:
			ops = append(ops, operation("add", "/transitions/"+transition()+"/synchronization/strategy", map[string]any{"mOfN": int64(1)}))
		case 6:
			ops = append(ops, operation("add", "/transitions/"+transition()+"/synchronization/timeout", "2s"))
		case 7:
			ops = append(ops, operation("remove", "/transitions/"+transition()+"/synchronization"))
		case 8:
			ops = append(ops, operation("add", "/nodes/"+node()+"/wait/for", "3s"))
		default:
			id := fmt.Sprintf("p%d-%d", len(nodes), i)
			ops = append(ops, operation("add", "/nodes/"+id, map[string]any{"task": "t"}),
				operation("add", "/transitions/to"+id, map[string]any{"from": node(), "to": id}))
		}
	}
	return ops
}

const patchable = `
name: w
start: a
nodes: [{id: a, task: t}, {id: b/c, task: t}, {id: d~e, task: t}]
transitions: [{from: a, to: b/c}, {from: a, to: d~e}, {from: a, to: d~e}]
`

// Elements keep their order, added ones follow in the order of the operations,
// and pointers are escaped.
func TestPatchedOrder(t *testing.T) {
	g, err := planning.Patched(compile(t, patchable), []any{
		operation("add", "/nodes/z", map[string]any{"task": "t"}),
		operation("add", "/nodes/f", map[string]any{}),
		operation("replace", "/nodes/z/task", "u"),
		operation("remove", "/nodes/a/task"),
		operation("add", "/nodes/b~1c/priority", int64(3)),
		operation("add", "/nodes/d~0e/priority", int64(4)),
		operation("remove", "/transitions/a->b~1c"),
		operation("add", "/transitions/x", map[string]any{"from": "a", "to": "z"}),
		operation("add", "/transitions/b", map[string]any{"from": "a", "to": "f"}),
		operation("add", "/transitions/a", map[string]any{"from": "a", "to": "b/c"}),
	}, workflow.Bounds{})
	require.NoError(t, err)
	var nodes, transitions []string
	for _, n := range g.Definition.Nodes {
		nodes = append(nodes, string(n.ID))
	}
	for _, x := range g.Definition.Transitions {
		transitions = append(transitions, string(x.ID))
	}
	require.Equal(t, []string{"a", "b/c", "d~e", "z", "f"}, nodes)
	require.Equal(t, []string{"a->d~e", "a->d~e#2", "x", "b", "a"}, transitions)
	require.Equal(t, workflow.KindGateway, g.Node("a").Kind)
	require.Equal(t, "u", g.Node("z").Task)
	require.Equal(t, 3, g.Node("b/c").Priority)
	require.Equal(t, 4, g.Node("d~e").Priority)
}

func TestPatchedRefuses(t *testing.T) {
	cases := map[string]struct {
		op   any
		want string
	}{
		"no object":       {"x", `patch refused: operation 1: an operation is an object with op and path`},
		"no path":         {map[string]any{"op": "remove"}, `patch refused: operation 1: path is missing: it is a pointer below the definition, such as /nodes/ID/timeout`},
		"whole":           {operation("replace", "", map[string]any{}), `patch refused: operation 1: path is missing: it is a pointer below the definition, such as /nodes/ID/timeout`},
		"relative":        {operation("remove", "nodes"), `patch refused: operation 1: nodes: a path begins with /`},
		"no value":        {operation("add", "/nodes/x"), `patch refused: operation 1: /nodes/x: add needs a value`},
		"no from":         {operation("move", "/nodes/x"), `patch refused: operation 1: /nodes/x: move needs from, a path that begins with /`},
		"unknown":         {operation("merge", "/nodes/x"), `patch refused: operation 1: /nodes/x: op is "merge": it is one of add, remove, replace, move, copy and test`},
		"not there":       {operation("remove", "/nodes/x"), `patch refused: operation 1: /nodes/x: nothing is there; a field that has its default is absent: add it`},
		"test":            {operation("test", "/name", "other"), `patch refused: operation 1: /name: the test fails: another value is there`},
		"null node":       {operation("add", "/nodes/x", nil), `patch refused: /nodes/x: what is left there is no object`},
		"list":            {operation("replace", "/nodes", []any{}), `patch refused: /nodes: what is left there is no object whose keys are ids`},
		"two ids":         {operation("add", "/nodes/x", map[string]any{"id": "y"}), `patch refused: /nodes/x: its id is its key, not y`},
		"no such field":   {operation("add", "/nodes/a/colour", "red"), `invalid definition "w": node "a": colour: there is no such field (unknown_field)`},
		"unsound":         {operation("add", "/transitions/x", map[string]any{"from": "a", "to": "q"}), ""},
		"its own bound":   {operation("add", "/nodes/x", map[string]any{}), ""},
		"same id is fine": {operation("add", "/nodes/a", map[string]any{"id": "a", "task": "u"}), "-"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bounds := workflow.Bounds{}
			if name == "its own bound" {
				bounds.Nodes = 3
			}
			_, err := planning.Patched(compile(t, patchable), []any{operation("test", "/name", "w"), c.op}, bounds)
			switch c.want {
			case "-":
				require.NoError(t, err)
			case "":
				require.Error(t, err)
				legitimate(t, err)
			default:
				require.EqualError(t, err, c.want)
			}
		})
	}
	var le *workflow.LimitError
	_, err := planning.Patched(compile(t, patchable), make([]any, limits.MaxPatch+1), workflow.Bounds{})
	require.ErrorAs(t, err, &le)
	require.Equal(t, workflow.LimitError{Limit: "patch", Max: 1000, Got: 1001}, *le)
}

// Copies that would grow without bound are refused.
func TestPatchBomb(t *testing.T) {
	harness.RequireLevel(t, harness.Gate, "internal/testing/bombtest has copies that double as well")
	ops := []any{operation("add", "/nodes/a/outputSchema", map[string]any{"description": string(make([]byte, 1<<19))})}
	for i := range 40 {
		ops = append(ops, map[string]any{"op": "copy", "from": "/nodes", "path": fmt.Sprintf("/nodes/a/outputSchema/x%d", i)})
	}
	_, err := planning.Patched(compile(t, patchable), ops, workflow.Bounds{})
	require.Error(t, err)
	legitimate(t, err)
}

// Any patch is refused, or gives a definition that is sound and that means the
// same once it is written and read.
func FuzzPatched(f *testing.F) {
	for _, seed := range []string{
		`[{"op":"add","path":"/nodes/z","value":{"task":"t"}},{"op":"remove","path":"/transitions/a->b~1c"}]`,
		`[{"op":"copy","from":"/nodes/a","path":"/nodes/b"},{"op":"move","from":"/nodes/a","path":"/nodes/b~1c"}]`,
		`[{"op":"replace","path":"/nodes","value":{"a":{}}},{"op":"remove","path":"/transitions"}]`,
		`[{"op":"test","path":"/nodes/a/task","value":"t"},{"op":"add","path":"/state","value":{"initial":{"n":1}}}]`,
		`[{"op":"add","path":"/nodes/-","value":{}},{"op":"remove","path":"/nodes/a/"},{"op":"add","path":"/","value":1}]`,
	} {
		f.Add(seed)
	}
	g := compile(f, patchable)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := value.Decode([]byte(text), value.Limits{})
		if err != nil {
			return
		}
		ops, _ := v.([]any)
		patched, err := planning.Patched(g, ops, workflow.Bounds{})
		if err != nil {
			legitimate(t, err)
			return
		}
		raw, err := json.Marshal(patched.Definition)
		require.NoError(t, err)
		d, err := workflow.ParseJSON(raw)
		require.NoError(t, err)
		hash, err := d.Hash()
		require.NoError(t, err)
		require.Equal(t, patched.Hash, hash)
	})
}

package bombtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// live is a definition whose runs stand in the middle of everything: a task, an
// approval, a wait, a join over transitions, a group with one branch arrived.
const live = `
name: live
start: s
state: {initial: {n: 1, log: [a]}}
nodes:
  - {id: s}
  - {id: t, task: hold}
  - {id: gate, approval: {quorum: 2}}
  - {id: ear, wait: {event: news}}
  - {id: b, wait: {event: go, match: payload.i == index}}
  - {id: z}
  - {id: j, join: all}
  - {id: end}
transitions:
  - {id: st, from: s, to: t}
  - {id: sg, from: s, to: gate}
  - {id: se, from: s, to: ear}
  - {id: sb, from: s, to: b, foreach: {collection: "[1, 2, 3]"}, siblingGroup: g}
  - {id: bz, from: b, to: z, synchronization: {siblingGroup: g, strategy: {mOfN: 2}, merge: {strategy: collect, target: state.got}}}
  - {id: tj, from: t, to: j}
  - {id: ej, from: ear, to: j}
  - {id: je, from: j, to: end}
  - {id: ge, from: gate, to: end}
  - {id: ze, from: z, to: end}`

func op(kind, path string, v ...any) any {
	m := map[string]any{"op": kind, "path": path}
	if len(v) > 0 {
		m["value"] = v[0]
	}
	return m
}

func from(kind, from, path string) any {
	return map[string]any{"op": kind, "from": from, "path": path}
}

// standing starts a run of live in which a vote, a branch and a token at the join
// are in.
func (w *world) standing() workflow.RunID {
	w.t.Helper()
	id := w.begin(define(w.t, live), nil)
	ctx := w.t.Context()
	require.NoError(w.t, w.Vote(ctx, pawl.Target{Run: id, Node: "gate"}, workflow.Ballot{By: "ann", Approved: true}))
	require.NoError(w.t, w.Signal(ctx, id, workflow.Signal{Name: "go", Payload: map[string]any{"i": 1}}))
	require.NoError(w.t, w.Signal(ctx, id, workflow.Signal{Name: "news"}))
	w.settled(id)
	return id
}

// sound checks that nothing live stands where the definition has no place.
func (w *world) sound(id workflow.RunID, at string) {
	w.t.Helper()
	def, _, err := w.Definition(w.t.Context(), id)
	require.NoError(w.t, err)
	nodes, groups := map[workflow.NodeID]bool{}, map[string]bool{}
	for i := range def.Nodes {
		nodes[def.Nodes[i].ID] = true
	}
	for i := range def.Transitions {
		groups[def.Transitions[i].SiblingGroup] = true
	}
	snap, err := w.Inspect(w.t.Context(), id)
	require.NoError(w.t, err)
	require.NotEqual(w.t, workflow.RunSuspended, snap.Status, at)
	for i := range snap.Tokens {
		if tok := &snap.Tokens[i]; tok.Live() {
			require.True(w.t, nodes[tok.Node], "%s: %v stands at %q", at, tok.ID, tok.Node)
		}
	}
	for i := range snap.Groups {
		if g := &snap.Groups[i]; g.Phase == workflow.Gathering {
			require.True(w.t, groups[g.Name], "%s: %v of %q", at, g.ID, g.Name)
		}
	}
}

// patched patches a run, and checks that it was taken soundly or changed nothing.
func (w *world) patched(c *tally, id workflow.RunID, ops []any) bool {
	w.t.Helper()
	c.tried++
	_, base, err := w.Definition(w.t.Context(), id)
	require.NoError(w.t, err)
	before := w.digest(id)
	revision, err := w.Patch(w.t.Context(), id, pawl.Patch{Base: base, Ops: ops})
	at := fmt.Sprintf("%.300v", ops)
	if err == nil {
		c.taken++
		require.Equal(w.t, base+1, revision)
		w.sound(id, at)
		return true
	}
	c.refused++
	var pe *workflow.PatchError
	var de *workflow.DefinitionError
	var le *workflow.LimitError
	require.True(w.t, asAny(err, &pe, &de, &le), "%s: %v", at, err)
	require.Equal(w.t, before, w.digest(id), at)
	return false
}

// TestPatchTable: what a patch may do to a run that stands everywhere, and what
// it may not.
func TestPatchTable(t *testing.T) {
	harness.InTurn(t, 4)
	w, c := open(t), tally{}
	add := func(n int) (ops []any) {
		for i := range n {
			ops = append(ops, op("add", "/nodes/t/priority", i%9))
		}
		return ops
	}
	var doubling []any
	doubling = append(doubling, op("add", "/nodes/t/outputSchema", map[string]any{"description": strings.Repeat("x", 1<<12)}))
	for i := range 60 {
		doubling = append(doubling, from("copy", "/nodes", fmt.Sprintf("/nodes/t/outputSchema/x%d", i)))
	}
	for name, s := range map[string]struct {
		taken bool
		ops   []any
	}{
		"a node with a live token":       {false, []any{op("remove", "/nodes/t"), op("remove", "/transitions/st"), op("remove", "/transitions/tj")}},
		"a node with an open approval":   {false, []any{op("remove", "/nodes/gate"), op("remove", "/transitions/sg"), op("remove", "/transitions/ge")}},
		"a node that is renamed":         {false, []any{from("move", "/nodes/t", "/nodes/u"), op("replace", "/transitions/st/to", "u"), op("replace", "/transitions/tj/from", "u")}},
		"another kind of node":           {false, []any{op("remove", "/nodes/t/task"), op("add", "/nodes/t/approval", map[string]any{})}},
		"the group":                      {false, []any{op("replace", "/transitions/sb/siblingGroup", "h"), op("replace", "/transitions/bz/synchronization/siblingGroup", "h")}},
		"the transition that spawned":    {false, []any{op("remove", "/transitions/sb"), op("add", "/transitions/sb2", map[string]any{"from": "s", "to": "b"})}},
		"the way of a token at the join": {false, []any{op("remove", "/transitions/ej"), op("add", "/transitions/ee", map[string]any{"from": "ear", "to": "end"})}},
		"m below what has arrived":       {true, []any{op("replace", "/transitions/bz/synchronization/strategy", map[string]any{"mOfN": 1})}},
		"m at all there are":             {true, []any{op("replace", "/transitions/bz/synchronization/strategy", map[string]any{"mOfN": 3})}},
		"m above all there are":          {true, []any{op("replace", "/transitions/bz/synchronization/strategy", map[string]any{"mOfN": 4})}},
		"any":                            {true, []any{op("replace", "/transitions/bz/synchronization/strategy", "any")}},
		"a quorum of one":                {true, []any{op("add", "/nodes/gate/approval/quorum", 1)}},
		"a cycle of tasks":               {true, []any{op("add", "/transitions/back", map[string]any{"from": "end", "to": "s"})}},
		"a cycle with a loop":            {true, []any{op("add", "/transitions/back", map[string]any{"from": "end", "to": "s", "condition": "false", "loop": map[string]any{"maxIterations": 2}})}},
		"a test that fails":              {false, []any{op("add", "/nodes/t/priority", 1), op("test", "/name", "other")}},
		"a test that holds":              {true, []any{op("test", "/name", "live"), op("add", "/nodes/t/priority", 1)}},
		"an id like an index":            {true, []any{op("add", "/nodes/-1", map[string]any{"task": "t"})}},
		"an index into a list":           {false, []any{op("add", "/state/initial/log/-1", "x")}},
		"an index far away":              {false, []any{op("add", "/state/initial/log/99999999999", "x")}},
		"the whole":                      {false, []any{op("replace", "", map[string]any{})}},
		"nothing left":                   {false, []any{op("remove", "/nodes")}},
		"a node of its own":              {true, []any{op("add", "/nodes/alone", map[string]any{"task": "t"})}},
		"copies that double":             {false, doubling},
		"a node in itself":               {false, []any{from("move", "/nodes/t", "/nodes/t/input")}},
		"1,000 operations":               {true, add(1000)},
		"1,001 operations":               {false, add(1001)},
		"very many operations":           {false, add(harness.Figure(20_000, 100_000, 100_000))},
		"a raised limit":                 {false, []any{op("add", "/limits", map[string]any{"tokens": 2_000_000})}},
		"a limit below what there is":    {true, []any{op("add", "/limits", map[string]any{"tokens": 1, "liveTokens": 1})}},
		"a dag":                          {false, []any{op("add", "/mode", "dag")}},
		"another start":                  {true, []any{op("replace", "/start", "t")}},
		"a bomb of a condition":          {false, []any{op("add", "/transitions/ge/condition", strings.Repeat("[(", 8000))}},
		"very deep":                      {false, []any{op("add", "/state/initial/x", deep(127))}},
	} {
		if len(s.ops) > 10_000 && harness.Raced {
			continue
		}
		t.Run(name, func(t *testing.T) {
			w.t = t
			id := w.standing()
			require.Equal(t, s.taken, w.patched(&c, id, s.ops))
			require.NoError(t, w.Cancel(t.Context(), id, ""))
			require.True(t, w.outcome(id).Status.Final())
		})
	}
	w.t = t
	c.report(t, "the table of patches")
}

// TestRandomPatches: random patches on runs that stand everywhere; what is taken
// leaves a sound run, what is refused leaves it as it was.
func TestRandomPatches(t *testing.T) {
	w, c := open(t), tally{}
	r := rand.New(rand.NewPCG(1, 2))
	var id workflow.RunID
	for i := range harness.Figure(50, 1000, 100_000) {
		if i%10 == 0 {
			if id != "" {
				require.NoError(t, w.Cancel(t.Context(), id, ""))
			}
			id = w.standing()
		}
		if snap, err := w.Inspect(t.Context(), id); err != nil || snap.Status.Final() {
			require.NoError(t, err)
			id = w.standing() // a patch has ended it
		}
		def, _, err := w.Definition(t.Context(), id)
		require.NoError(t, err)
		var ops []any
		for range 1 + r.IntN(3) {
			ops = append(ops, drawOp(r, def))
		}
		w.patched(&c, id, ops)
	}
	require.Greater(t, c.taken, c.tried/50)
	require.Greater(t, c.refused, c.tried/50)
	c.report(t, "random patches")
}

// drawOp draws an operation on a node, a transition or a field, of what is there
// or is not.
func drawOp(r *rand.Rand, d *workflow.Definition) any {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	node, transition := "none", "none"
	if len(d.Nodes) > 0 && r.IntN(20) > 0 {
		node = string(d.Nodes[r.IntN(len(d.Nodes))].ID)
	}
	if len(d.Transitions) > 0 && r.IntN(20) > 0 {
		transition = string(d.Transitions[r.IntN(len(d.Transitions))].ID)
	}
	at := pick("/nodes/"+node, "/transitions/"+strings.ReplaceAll(transition, "/", "~1"))
	value := []any{nil, true, int64(-1), int64(3), "x", "30s", "any", []any{}, []any{node}, map[string]any{}, map[string]any{"mOfN": int64(2)}, map[string]any{"task": "t"},
		map[string]any{"from": node, "to": pick("t", "end", "z", "none")}, map[string]any{"siblingGroup": "g"}, map[string]any{"maxIterations": int64(2)}, "1 == 1", "payload", deep(5)}[r.IntN(18)]
	field := pick("/task", "/timeout", "/priority", "/input", "/output", "/join", "/condition", "/to", "/from", "/loop", "/synchronization", "/synchronization/strategy", "/synchronization/timeout",
		"/siblingGroup", "/spawnCount", "/foreach", "/maxConcurrency", "/open", "/lock", "/cancels", "/approval/quorum", "/wait/event", "/retry", "/unmatched", "", "/-", "/~", "/a/b/c")
	switch r.IntN(8) {
	case 0:
		return op("remove", at)
	case 1:
		return op("remove", at+field)
	case 2:
		return op("replace", at+field, value)
	case 3:
		return from(pick("move", "copy"), at, pick("/nodes/", "/transitions/")+pick("new", node))
	case 4:
		return op("add", "/transitions/new"+pick("1", "2", "3"), map[string]any{"from": node, "to": pick("t", "end", "z", "j", "gate"), "priority": int64(r.IntN(3))})
	case 5:
		return op("add", pick("/limits", "/timeout", "/state/schema", "/input", "/mode", "/start", "/version", "/nodes", "/name"), value)
	default:
		return op("add", at+field, value)
	}
}

// schemas are what a live run's data may have to fit from now on; not all fit
// what is there.
func schemas() (out []any) {
	for _, field := range []string{"n", "log", "later", "input", "ok"} {
		for _, kind := range []string{"integer", "string", "object", "array", "null"} {
			out = append(out, map[string]any{"type": "object", "properties": map[string]any{field: map[string]any{"type": kind}}},
				map[string]any{"type": "object", "required": []any{field}, "properties": map[string]any{field: map[string]any{"type": kind}}})
		}
	}
	return append(out, map[string]any{"type": "array"}, map[string]any{"type": "nothing"}, map[string]any{"$ref": "file:///etc/passwd"}, map[string]any{"$ref": "#/none"},
		map[string]any{"additionalProperties": false}, map[string]any{"maxProperties": int64(0)}, false, true, "x", deep(50))
}

// TestSchemaChanges: the schema of the input, of the state and of a result change
// under a live run: the patch is refused, or what is there can still be read, and
// the run comes to an end.
func TestSchemaChanges(t *testing.T) {
	w, c := open(t), tally{}
	for p, path := range []string{"/input", "/state/schema", "/nodes/t/outputSchema"} {
		for i, schema := range schemas() {
			if harness.CurrentLevel() == harness.Quick && i%3 != p {
				continue
			}
			value := schema
			if path == "/input" {
				value = map[string]any{"schema": schema}
			}
			id := w.standing()
			before, err := w.Inspect(t.Context(), id)
			require.NoError(t, err)
			w.patched(&c, id, []any{op("add", path, value)})
			after, err := w.Inspect(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, before.State, after.State)
			require.NoError(t, w.Complete(t.Context(), w.settled(id), map[string]any{"n": 1}))
			if snap, err := w.Inspect(t.Context(), id); err == nil && !snap.Status.Final() {
				require.NoError(t, w.Vote(t.Context(), pawl.Target{Run: id, Node: "gate"}, workflow.Ballot{By: "bob", Approved: true}))
				require.NoError(t, w.Signal(t.Context(), id, workflow.Signal{Name: "go", Payload: map[string]any{"i": 2}}))
			}
			out := w.outcome(id)
			if out.Err() != nil {
				require.Equal(t, workflow.CodeSchema, out.Failure.Code, out.Failure.Message)
			}
		}
	}
	require.Positive(t, c.taken)
	require.Positive(t, c.refused)
	c.report(t, "schema changes")
}

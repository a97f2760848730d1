package simulator

import (
	"fmt"
	"math/rand/v2"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// drawPatch draws a patch of a live run: sensible, senseless, or for a revision
// that has passed.
func (w *world) drawPatch(r *rand.Rand) *act {
	m := w.model(r, (*model).live)
	if m == nil || len(m.state.Graph.Definition.Nodes) == 0 {
		return nil
	}
	var ops []any
	for range 1 + r.IntN(3) {
		ops = append(ops, w.drawOps(r, m.state.Graph.Definition)...)
	}
	base := m.state.Revision()
	if r.IntN(10) == 0 {
		base += of(r, -1, 1)
	}
	return &act{run: m.id, as: func() pawl.Act { return pawl.Patch{Base: base, Ops: ops} }}
}

func operation(op, path string, v any) any {
	x := map[string]any{"op": op, "path": path}
	if v != nil {
		x["value"] = v
	}
	return x
}

// drawOps draws operations that belong together.
func (w *world) drawOps(r *rand.Rand, d *workflow.Definition) []any {
	n := &d.Nodes[r.IntN(len(d.Nodes))]
	at, name := "/nodes/"+string(n.ID), fmt.Sprint("p", w.serial, "x", r.IntN(100))
	switch r.IntN(12) {
	case 0, 1:
		return []any{operation("add", at+"/timeout", of(r, "1s", "5s", "1h"))}
	case 2:
		return []any{operation("add", at+"/output", map[string]any{"state.x": "1"})}
	case 3:
		return []any{operation("remove", at, nil)}
	case 4:
		return []any{operation("add", at+"/cancels", []any{string(d.Nodes[r.IntN(len(d.Nodes))].ID)})}
	case 5:
		return []any{operation("test", "/name", "another")}
	case 6:
		return []any{
			operation("add", "/nodes/"+name, map[string]any{"task": "work"}),
			operation("add", "/transitions/"+name, map[string]any{"from": string(n.ID), "to": name}),
		}
	case 7:
		return []any{operation("add", "/nodes/-1", map[string]any{}), map[string]any{"op": "copy", "from": "/nodes", "path": at + "/input"}}
	case 8:
		return []any{operation("add", at+"/retry", map[string]any{"maxAttempts": 2, "exhausted": of(r, "fail", "park")})}
	}
	if len(d.Transitions) == 0 {
		return nil
	}
	t := &d.Transitions[r.IntN(len(d.Transitions))]
	at = "/transitions/" + string(t.ID)
	switch r.IntN(6) {
	case 0:
		return []any{operation("replace", at+"/to", string(n.ID))}
	case 1:
		return []any{operation("remove", at, nil)}
	case 2:
		return []any{operation("add", at+"/condition", of(r, "true", "false", "has(state.x)", "result.missing"))}
	case 3:
		return []any{operation("add", at+"/priority", r.IntN(3))}
	default:
		if t.Synchronization == nil {
			return []any{operation("add", at+"/outcome", of(r, "error", "always"))}
		}
		return []any{operation("add", at+"/synchronization/strategy", of[any](r, "any", "all", map[string]any{"mOfN": 2}))}
	}
}

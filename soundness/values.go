package soundness

import (
	"maps"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/merge"
	"github.com/pawl-run/pawl/workflow"
)

// maxAssignments bounds the values that are tried for one result, input or payload. Of more,
// one field is varied at a time.
const maxAssignments = 96

// A use is an expression and what it decides.
type use struct {
	program *expr.Program
	control bool            // it decides where tokens go
	target  string          // of a mapping: the section and field that it writes, as state.x; "" if none
	node    workflow.NodeID // whose result it reads, if it asks for result
	list    bool            // it is a collection
	object  bool            // it must be an object, which is merged
	names   []string        // it chooses one of these
	whole   bool            // without a program: it takes the whole result
}

// refs returns what the expression asks for.
func (u *use) refs() [][]string {
	if u.whole {
		return [][]string{{"result"}}
	}
	return u.program.References()
}

// values makes up what runs are given from outside.
//
// It reads the definition once: which expressions there are, what each of them reads and
// decides, and which fields of which sections can therefore change where tokens go. Data that
// cannot is made up anyhow and left out of the forms of states, which keeps a counter that
// nobody asks from making every state a new one.
type values struct {
	graph    *workflow.Graph
	uses     []use
	relevant map[string]bool // sections and fields that can change where tokens go, as state.x
	varied   map[string]bool // roots of which not all assignments were tried
	quorum   int             // the largest that a join asks for
}

func newValues(g *workflow.Graph) *values {
	v := &values{graph: g, relevant: map[string]bool{}, varied: map[string]bool{}}
	for i := range g.Definition.Nodes {
		v.addNodeUses(g.Node(g.Definition.Nodes[i].ID))
	}
	for _, spec := range g.Groups {
		if spec.Sync != nil {
			v.quorum = max(v.quorum, spec.Sync.Strategy.Quorum())
		}
	}
	for _, m := range g.Output {
		v.add(use{program: m.Program})
	}
	v.findRelevant()
	return v
}

func (v *values) add(u use) {
	if u.program != nil || u.whole {
		v.uses = append(v.uses, u)
	}
}

// addNodeUses adds the expressions of a node, and those at the targets of its transitions: they
// are evaluated while the token moves, when the result is still this node's.
func (v *values) addNodeUses(n *workflow.GraphNode) {
	for _, m := range n.Output {
		v.add(use{program: m.Program, target: targetOf(m.Path), node: n.ID})
	}
	v.add(use{program: n.Choice, control: true, names: n.Choices()})
	for _, w := range n.Waits {
		v.add(use{program: w.Until, control: true})
		v.add(use{program: w.Match, control: true})
	}
	for _, t := range n.Outgoing {
		v.add(use{program: t.Condition, control: true, node: n.ID})
		v.add(use{program: t.Collection, control: true, list: true, node: n.ID})
		if t.Joins != nil && t.Synchronization.Merge != nil {
			object := t.Synchronization.Merge.Strategy == string(merge.Object)
			v.add(use{program: t.Source, whole: t.Source == nil, target: targetOf(t.Joins.Target), node: n.ID, control: object, object: object})
		}
		to := v.graph.Node(t.To)
		for _, m := range to.Input {
			v.add(use{program: m.Program, node: n.ID})
		}
		v.add(use{program: to.Choice, control: true, names: to.Choices(), node: n.ID})
		for _, w := range to.Waits {
			v.add(use{program: w.Until, control: true, node: n.ID})
			v.add(use{program: w.Match, control: true, node: n.ID})
		}
	}
}

// targetOf returns the section and the field that a path writes.
func targetOf(p value.Path) string {
	keys := p.Segments
	return strings.Join(keys[:min(len(keys), 2)], ".")
}

// findRelevant finds the data that can change where tokens go: what control asks for, and what
// that is made from.
//
// Relevance goes backwards through mappings. A condition asks for state.total; so state.total
// is relevant; so is what the mapping reads that writes it, and so on, until a round adds
// nothing. It ends because there are finitely many names.
func (v *values) findRelevant() {
	note := func(u *use) (more bool) {
		for _, ref := range u.refs() {
			name := strings.Join(ref[:min(len(ref), 2)], ".")
			switch ref[0] {
			case workflow.SectionState, workflow.SectionOutput, workflow.SectionNodes, "input":
			case "result", "payload", "error", "run", "now", "active", "count", "branch":
				continue
			default: // item, index, or the name of a foreach
				name = "item"
			}
			if !v.relevant[name] {
				v.relevant[name], more = true, true
			}
		}
		return more
	}
	for again := true; again; {
		again = false
		for i := range v.uses {
			if u := &v.uses[i]; v.isRelevant(u) && note(u) {
				again = true
			}
		}
	}
}

// isRelevant reports whether a use can change where tokens go.
func (v *values) isRelevant(u *use) bool {
	section, field, _ := strings.Cut(u.target, ".")
	return u.control || u.target != "" && v.keeps(section, field)
}

// keeps reports whether a field of a section can change where tokens go.
func (v *values) keeps(section, field string) bool {
	return v.relevant[section] || field != "" && v.relevant[section+"."+field]
}

// A slot is a field of what is given, with the values to try.
type slot struct {
	path []string
	pool []any
}

// absent is the value of a field that is not there.
type absent struct{}

// resultsOf returns the results to try at a node, several lists of which the first that has any
// will do: they differ in what does not matter.
func (v *values) resultsOf(n *workflow.GraphNode) [][]any {
	var schema any
	if n.Node.OutputSchema != nil {
		schema = n.Node.OutputSchema
	}
	return v.assignments("result of "+string(n.ID), schema, func(u *use, ref []string) ([]string, bool) {
		switch {
		case ref[0] == "result" && u.node == n.ID:
			return ref[1:], true
		case ref[0] == workflow.SectionNodes && len(ref) > 2 && ref[1] == string(n.ID) && ref[2] == "output":
			return ref[3:], true
		}
		return nil, false
	})
}

// payloadsOf returns the payloads to try for an event for which a node waits.
func (v *values) payloadsOf(n *workflow.GraphNode) [][]any {
	return v.assignments("payload at "+string(n.ID), nil, func(u *use, ref []string) ([]string, bool) {
		switch {
		case ref[0] == "payload" && slices.ContainsFunc(n.Waits, func(w workflow.GraphWait) bool {
			return w.Match != nil && u.program != nil && w.Match.Source() == u.program.Source()
		}):
			return ref[1:], true
		case ref[0] == "result" && len(ref) > 1 && ref[1] == "payload" && u.node == n.ID:
			return ref[2:], true
		}
		return nil, false
	})
}

// inputs returns the inputs to try.
func (v *values) inputs() [][]any {
	return v.assignments("input", v.graph.Definition.Input.Schema, func(_ *use, ref []string) ([]string, bool) {
		return ref[1:], ref[0] == "input"
	})
}

// assignments returns the values to try for something that expressions read: pathOf tells
// which field of it a reference is.
//
// The fields that matter are varied, by combine. Those that some expression reads but that
// decide nothing must be there and fit, or their expressions would fail: they are filled with
// one value after another, each giving a list of its own, and the first list that works is
// taken.
func (v *values) assignments(name string, schema any, pathOf func(*use, []string) ([]string, bool)) [][]any {
	matters, rest := map[string]*slot{}, map[string]*slot{}
	for i := range v.uses {
		u := &v.uses[i]
		for _, ref := range u.refs() {
			path, ok := pathOf(u, ref)
			if !ok {
				continue
			}
			into := rest
			if v.isRelevant(u) {
				into = matters
			}
			key := strings.Join(path, "\x00")
			if into[key] == nil {
				into[key] = &slot{path: path}
			}
			into[key].pool = append(into[key].pool, v.poolOf(u, ref)...)
		}
	}
	slots := sortedSlots(matters)
	for i := range slots {
		slots[i].pool = distinct(append(slots[i].pool, schemaPool(schemaAt(schema, slots[i].path))...))
	}
	base := sampleOf(schema)
	var out [][]any
	for _, d := range []any{int64(1), "a", true, []any{}, map[string]any{}} {
		filled := base
		for _, s := range sortedSlots(rest) {
			if !hasPath(filled, s.path) {
				filled = withPath(filled, s.path, d)
			}
		}
		out = append(out, v.combine(name, filled, slots))
		if len(rest) == 0 {
			break
		}
	}
	return out
}

// combine returns base with every combination of values in the slots, or, if those are too
// many, with one slot varied at a time.
func (v *values) combine(name string, base any, slots []slot) []any {
	total := 1
	for _, s := range slots {
		if total *= max(len(s.pool), 1); total > maxAssignments {
			v.varied[name] = true
			return varyEach(base, slots)
		}
	}
	out := []any{base}
	for _, s := range slots {
		var next []any
		for _, x := range out {
			for _, y := range s.pool {
				next = append(next, withPath(x, s.path, y))
			}
		}
		out = next
	}
	return out
}

// varyEach is what is left if there are too many combinations: in each of three rounds the
// fields have the values of that round, and each is varied in turn. What needs two fields to
// have particular values at once may be missed, which is why the caller notes that not all were
// tried.
func varyEach(base any, slots []slot) []any {
	var out []any
	for round := range 3 {
		start := base
		for _, s := range slots {
			start = withPath(start, s.path, s.pool[round%len(s.pool)])
		}
		for _, s := range slots {
			for _, y := range s.pool {
				out = append(out, withPath(start, s.path, y))
			}
		}
	}
	return distinct(out)
}

func sortedSlots(m map[string]*slot) []slot {
	var out []slot
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, *m[key])
	}
	return out
}

// withPath returns v with a field set; absent leaves it out.
func withPath(v any, path []string, x any) any {
	if len(path) == 0 {
		if _, none := x.(absent); none {
			return nil
		}
		return x
	}
	old, _ := v.(map[string]any)
	m := maps.Clone(old)
	if m == nil {
		m = map[string]any{}
	}
	if _, none := x.(absent); none && len(path) == 1 {
		delete(m, path[0])
		return m
	}
	m[path[0]] = withPath(m[path[0]], path[1:], x)
	return m
}

func hasPath(v any, path []string) bool {
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return v != nil
		}
		if v, ok = m[key]; !ok {
			return false
		}
	}
	return v != nil
}

// distinct returns values without repetitions.
func distinct(in []any) (out []any) {
	seen := map[string]bool{}
	for _, x := range in {
		key := "absent"
		if _, none := x.(absent); !none {
			key = string(value.Encode(x))
		}
		if !seen[key] {
			seen[key] = true
			out = append(out, x)
		}
	}
	return out
}

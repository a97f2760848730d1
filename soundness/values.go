package soundness

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/merge"
	"github.com/pawl-run/pawl/workflow"
)

// maxAssignments bounds the values that are tried for one result, input or payload. Beyond that, one field is varied at a time.
const maxAssignments = 96

// maxVaried bounds the fields of all values together that are made where one field is varied at a time.
const maxVaried = 200_000

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
	path    []string        // of a mapping, or of what branches are merged into: the target, key by key
	within  within          // where in the target the value is
	joined  []string        // of what the node behind a join reads as its result: where the merged value is, as a path; nil if its result is that of node
}

// mergedSection is the section, which no definition can name, in which the merged values of groups are for the search: a node
// behind a join reads one as its result.
const mergedSection = "merged value"

// A within says where a value is in the target that it is written to.
type within int

const (
	isTarget  within = iota // it is what is there
	isElement               // it is an element of a list
	isField                 // it is a field, by the key of a branch
)

// withinOf returns where in its target a strategy puts the value of a branch.
func withinOf(s merge.Strategy) within {
	switch s {
	case merge.Append, merge.Collect:
		return isElement
	case merge.Keyed:
		return isField
	case merge.Object, merge.Last:
	}
	return isTarget
}

// copies reports whether a use takes what it reads as it is, and puts it elsewhere.
func (u *use) copies() bool {
	if len(u.path) == 0 {
		return false
	}
	refs := u.refs()
	return u.whole || len(refs) == 1 && strings.TrimSpace(u.program.Source()) == strings.Join(refs[0], ".")
}

// beyond returns the keys behind the target of u that a reader asks of the value which u puts there: none, where it takes the whole
// value. There may be several of a list, in which the reader looks by an index, which is no key of a reference.
func (u *use) beyond(reader *use, ref []string) (keys [][]string) {
	if len(ref) < len(u.path) || !slices.Equal(ref[:len(u.path)], u.path) {
		return nil
	}
	rest := ref[len(u.path):]
	switch {
	case u.within == isTarget:
		return [][]string{rest}
	case u.within == isField && len(rest) > 0:
		return [][]string{rest[1:]}
	case reader.program == nil || len(rest) > 0:
		return nil
	}
	fields := regexp.MustCompile(regexp.QuoteMeta(reader.textOf(ref)) + `\[[^\]]*\]((?:\.\w+)*)`)
	for _, m := range fields.FindAllStringSubmatch(reader.program.Source(), -1) {
		keys = append(keys, strings.Split(m[1], ".")[1:])
	}
	return keys
}

// A reading is a reference to what a node has just been given, its result, by way of whatever it was copied to in between.
type reading struct {
	use *use
	ref []string
}

// maxCopies bounds how many copies of a value are followed.
const maxCopies = 8

// readingsOf returns what a use reads by a reference: that itself, and where it was copied from.
func (v *values) readingsOf(u *use, ref []string) []reading {
	out := []reading{{u, ref}}
	for i := 0; i < len(out) && i < maxCopies && !v.check.isStopped(); i++ {
		at := out[i]
		for j := range v.uses {
			from := &v.uses[j]
			if !from.copies() {
				continue
			}
			for _, keys := range from.beyond(u, at.ref) {
				out = append(out, reading{from, slices.Concat(from.refs()[0], keys)})
			}
		}
	}
	return out
}

// refs returns what the expression asks for.
func (u *use) refs() [][]string {
	if u.whole {
		return [][]string{{"result"}}
	}
	refs := u.program.References()
	if u.joined == nil {
		return refs
	}
	out := slices.Clone(refs)
	for i, ref := range out {
		if ref[0] == "result" {
			out[i] = slices.Concat(u.joined, ref[1:])
		}
	}
	return out
}

// textOf returns how the expression of u writes one of its references.
func (u *use) textOf(ref []string) string {
	if u.joined != nil && ref[0] == mergedSection {
		ref = slices.Concat([]string{"result"}, ref[len(u.joined):])
	}
	return strings.Join(ref, ".")
}

// values makes up what runs are given from outside.
//
// It reads the definition once: which expressions there are, what each of them reads and
// decides, and which fields of a section can therefore change where tokens go. All other data
// is made up anyhow and left out of the forms of states, which keeps a counter that nobody
// asks from making every state a new one.
type values struct {
	graph    *compiled.Graph
	uses     []use
	relevant map[string]bool   // sections and fields that can change where tokens go, as state.x
	varied   map[string]bool   // roots with assignments that were not tried
	examples map[uintptr][]any // of schemas
	quorum   int               // the largest that a join asks for
	check    *checker          // which is asked whether to go on, and told what was left out
}

func newValues(c *checker) *values {
	g := c.graph
	v := &values{graph: g, check: c, relevant: map[string]bool{}, varied: map[string]bool{}, examples: map[uintptr][]any{}}
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
func (v *values) addNodeUses(n *compiled.Node) {
	for _, m := range n.Output {
		mapping := use{program: m.Program, target: targetOf(m.Path.Segments), node: n.ID, path: m.Path.Segments}
		if m.Path.Append {
			mapping.within = isElement
		}
		v.add(mapping)
	}
	// No transition need lead to a node at which a run begins.
	if n.ID == v.graph.Definition.Start || len(n.Incoming) == 0 {
		v.addEntryUses(n, "", nil)
	}
	for _, t := range n.Outgoing {
		v.add(use{program: t.Condition, control: true, node: n.ID})
		v.add(use{program: t.Collection, control: true, list: true, node: n.ID})
		v.addEntryUses(v.graph.Node(t.To), n.ID, v.addMergeUses(n, t))
	}
}

// addEntryUses adds the expressions that are evaluated as a token enters a node, with the result of the node before it, if there is one,
// or with a merged value. They are in the order in which they are evaluated.
func (v *values) addEntryUses(n *compiled.Node, before workflow.NodeID, joined []string) {
	for _, m := range n.Input {
		v.add(use{program: m.Program, node: before, joined: joined})
	}
	v.add(use{program: n.Code, node: before, joined: joined})
	v.add(use{program: n.Message, node: before, joined: joined})
	v.add(use{program: n.Choice, control: true, names: state.ChoicesOf(n.Node), node: before, joined: joined})
	for _, w := range n.Waits {
		v.add(use{program: w.Until, control: true, node: before, joined: joined})
		v.add(use{program: w.Match, control: true, node: before, joined: joined})
	}
}

// addMergeUses adds what a branch brings to the join to which t leads: it goes to the target, if there is one, and to the result
// of the node behind the join, whose place is returned. It returns nil if nothing is merged.
func (v *values) addMergeUses(n *compiled.Node, t *compiled.Transition) (joined []string) {
	if t.Joins == nil || t.Synchronization.Merge == nil {
		return nil
	}
	strategy := merge.Strategy(t.Synchronization.Merge.Strategy)
	joined = []string{mergedSection, t.Joins.Name}
	for _, path := range [][]string{t.Joins.Target.Segments, joined} {
		if len(path) > 0 {
			v.add(use{
				program: t.Source, whole: t.Source == nil, target: targetOf(path), node: n.ID, control: strategy == merge.Object, object: strategy == merge.Object,
				path: path, within: withinOf(strategy),
			})
		}
	}
	return joined
}

// targetOf returns the section and the field that a path writes.
func targetOf(keys []string) string {
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
			case state.SectionState, state.SectionOutput, state.SectionNodes, "input", mergedSection:
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
				again = !v.check.isStopped()
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

// failsForInput reports whether a failure tells of an expression that reads only fields of the input, and data made from them,
// where all values that matter are tried: the outcome with a fitting value is seen in other runs.
func (v *values) failsForInput(failing string) bool {
	for i := range v.uses {
		u := &v.uses[i]
		if u.program != nil && strings.HasPrefix(failing, u.program.Source()+": ") {
			return !slices.ContainsFunc(u.refs(), func(ref []string) bool { return !v.comesFromInput(ref, map[string]bool{}) })
		}
	}
	return false
}

// comesFromInput reports whether a reference reads a field of the input, or of state that is made from such ones.
func (v *values) comesFromInput(ref []string, seen map[string]bool) bool {
	name := strings.Join(ref[:min(len(ref), 2)], ".")
	switch ref[0] {
	case "run", "now", "active", "count", "branch", "index":
		return true
	case "input", state.SectionState, state.SectionOutput, mergedSection:
	default:
		return false
	}
	if seen[name] || !v.keeps(ref[0], strings.Join(ref[1:min(len(ref), 2)], "")) {
		return seen[name]
	}
	seen[name] = true
	for i := range v.uses {
		u := &v.uses[i]
		if u.target == name && slices.ContainsFunc(u.refs(), func(r []string) bool { return !v.comesFromInput(r, seen) }) {
			return false
		}
	}
	return true
}

// A slot is a field of what is given, with the values to try.
type slot struct {
	path   []string
	pool   []any
	copied bool // whoever reads it only copies it
}

func addToSlot(into map[string]*slot, path []string, pool []any, copied bool) {
	key := strings.Join(path, "\x00")
	s := into[key]
	if s == nil {
		s = &slot{path: path, copied: true}
		into[key] = s
	}
	s.pool, s.copied = append(s.pool, pool...), s.copied && copied
}

// dropCopies drops what is only copied, where somebody reads a part of it: the parts make the whole.
func dropCopies(matters, rest map[string]*slot) {
	for _, of := range []map[string]*slot{matters, rest} {
		maps.DeleteFunc(of, func(_ string, s *slot) bool {
			return s.copied && (hasPart(matters, s.path) || hasPart(rest, s.path))
		})
	}
}

// hasPart reports whether there is a slot within a path.
func hasPart(slots map[string]*slot, path []string) bool {
	for _, s := range slots {
		if len(s.path) > len(path) && slices.Equal(s.path[:len(path)], path) {
			return true
		}
	}
	return false
}

// absent is the value of a field that is not there.
type absent struct{}

// resultsOf returns the results to try at a node, as several lists; the first list that works will do: they differ in fields
// that do not matter.
func (v *values) resultsOf(n *compiled.Node) [][]any {
	var schema any
	if n.Node.OutputSchema != nil {
		schema = n.Node.OutputSchema
	}
	return v.assignments("result of "+string(n.ID), schema, func(u *use, ref []string) ([]string, bool) {
		return pathInResult(n.ID, reading{u, ref})
	})
}

// pathInResult returns which field of the result of a node is read, if any of it is.
func pathInResult(node workflow.NodeID, r reading) (path []string, ok bool) {
	switch {
	case r.ref[0] == "result" && r.use.node == node:
		return r.ref[1:], true
	case r.ref[0] == state.SectionNodes && len(r.ref) > 2 && r.ref[1] == string(node) && r.ref[2] == "output":
		return r.ref[3:], true
	}
	return nil, false
}

// payloadsOf returns the payloads to try for an event for which a node waits. The schema of the node's result may describe them.
func (v *values) payloadsOf(n *compiled.Node) [][]any {
	return v.assignments("payload at "+string(n.ID), schemaAt(n.Node.OutputSchema, []string{"payload"}), func(u *use, ref []string) ([]string, bool) {
		switch {
		case ref[0] == "payload" && slices.ContainsFunc(n.Waits, func(w compiled.Wait) bool {
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
// The fields that matter are varied, by combine. Fields that some expression reads but that
// decide nothing must be there and fit, or their expressions would fail: they are filled with
// one value after another, each giving a list of its own, and the first list that works is
// taken.
func (v *values) assignments(name string, schema any, pathOf func(*use, []string) ([]string, bool)) [][]any {
	matters, rest := map[string]*slot{}, map[string]*slot{}
	for i := range v.uses {
		if v.check.isStopped() {
			break
		}
		u := &v.uses[i]
		into := rest
		if v.isRelevant(u) {
			into = matters
		}
		for _, ref := range u.refs() {
			for _, r := range v.readingsOf(u, ref) {
				if path, ok := pathOf(r.use, r.ref); ok && !forbids(schema, path) {
					addToSlot(into, path, v.poolOf(u, ref), u.copies())
				}
			}
		}
	}
	dropCopies(matters, rest)
	slots := sortedSlots(matters)
	base, _ := v.sampleOf(schema)
	for i := range slots {
		pool := slices.Concat(slots[i].pool, v.schemaPool(schemaAt(schema, slots[i].path)))
		if x, ok := valueAt(base, slots[i].path); ok { // of an example of the whole
			pool = append(pool, x)
		}
		slots[i].pool = distinct(pool)
	}
	var out [][]any
	for _, d := range []any{int64(1), "a", true, []any{}, map[string]any{}} {
		filled := base
		for _, s := range sortedSlots(rest) {
			if !hasPath(filled, s.path) && allowsValue(schemaAt(schema, s.path), d) {
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
			out, all := varyEach(base, slots)
			if !all {
				v.check.addBound("%s has so many fields that decide something that not all of their values were tried", name)
			}
			return out
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

// varyEach is for too many combinations: in each of three rounds the fields have the values of
// that round, and each is varied in turn. A case that needs particular values in two fields at
// once may be missed, which is why the caller notes that not all were tried.
//
// Each value has all the fields. So that a definition which asks for thousands does not fill the memory, it makes as many
// values as have maxVaried fields together; it reports whether these are all.
func varyEach(base any, slots []slot) (out []any, all bool) {
	most := max(maxVaried/len(slots), maxAssignments)
	for round := range 3 {
		start := base
		for _, s := range slots {
			start = withPath(start, s.path, s.pool[round%len(s.pool)])
		}
		for _, s := range slots {
			for _, y := range s.pool {
				if len(out) == most {
					return distinct(out), false
				}
				out = append(out, withPath(start, s.path, y))
			}
		}
	}
	return distinct(out), true
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

// valueAt returns what is at a path; false if nothing is there.
func valueAt(v any, path []string) (any, bool) {
	for _, key := range path {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v, v != nil
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

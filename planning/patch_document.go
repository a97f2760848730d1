package planning

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// Patched returns the graph of g's definition after the operations of a JSON
// patch (RFC 6902). In the document that they change, nodes and transitions
// are objects keyed by id: /nodes/verify/timeout, /transitions/t3/condition.
// Elements that are added have their keys as ids and come last, in the order of
// the operations that name them first. The errors are a *workflow.PatchError,
// *workflow.LimitError and *workflow.DefinitionError.
//
// Operations on lists by position would be wrong as soon as somebody else has patched, which
// is why elements have keys. It knows nothing of a run: whether one can go on by the new
// definition is for patchCheck to say. It is also what a caller asks beforehand, to see the
// definition that a patch makes.
func Patched(g *compiled.Graph, ops []any, bounds workflow.Bounds) (*compiled.Graph, error) {
	if len(ops) > limits.MaxPatch {
		return nil, &workflow.LimitError{Limit: "patch", Max: limits.MaxPatch, Got: int64(len(ops))}
	}
	if err := checkOps(ops); err != nil {
		return nil, err
	}
	before, err := documentOf(g)
	if err != nil {
		return nil, err
	}
	// The library changes text; before and after it the definition is a value, in canonical
	// form.
	after, err := applyOps(value.Encode(before.keyedFields()), ops)
	if err != nil {
		return nil, err
	}
	doc, err := value.Decode(after, value.Limits{Bytes: -1})
	if err != nil {
		return nil, &workflow.PatchError{Op: -1, Message: err.Error()}
	}
	listed, err := before.listedFields(doc, ops)
	if err != nil {
		return nil, err
	}
	// The result is read and checked like any definition, so that a patch cannot make one
	// that is not valid.
	def, err := bounds.ParseJSON(value.Encode(listed))
	if err != nil {
		return nil, withoutPlaces(err)
	}
	patched, err := compiled.Compile(bounds, def)
	return patched, withoutPlaces(err)
}

// withoutPlaces takes the lines out of the problems of a definition that nobody wrote
// as a text.
func withoutPlaces(err error) error {
	var de *workflow.DefinitionError
	if !errors.As(err, &de) {
		return err
	}
	out := &workflow.DefinitionError{Name: de.Name, Problems: slices.Clone(de.Problems)}
	for i := range out.Problems {
		out.Problems[i].Line, out.Problems[i].Column = 0, 0
	}
	return out
}

// checkOps returns an error for the first element of ops that is not an operation with a
// path. It comes before the library sees them, so that the error names the operation and what
// it lacks.
func checkOps(ops []any) error {
	for i, op := range ops {
		m, ok := op.(map[string]any)
		if !ok {
			return &workflow.PatchError{Op: i, Message: "an operation is an object with op and path"}
		}
		path, ok := m["path"].(string)
		if !ok || path == "" {
			return &workflow.PatchError{Op: i, Message: "path is missing: it is a pointer below the definition, such as /nodes/ID/timeout"}
		}
		fail := func(format string, args ...any) error {
			return &workflow.PatchError{Op: i, Path: path, Message: fmt.Sprintf(format, args...)}
		}
		if !strings.HasPrefix(path, "/") {
			return fail("a path begins with /")
		}
		from, hasFrom := m["from"].(string)
		_, hasValue := m["value"]
		switch name, _ := m["op"].(string); name {
		case "add", "replace", "test":
			if !hasValue {
				return fail("%s needs a value", name)
			}
		case "move", "copy":
			if !hasFrom || !strings.HasPrefix(from, "/") {
				return fail("%s needs from, a path that begins with /", name)
			}
		case "remove":
		default:
			return fail("op is %q: it is one of add, remove, replace, move, copy and test", name)
		}
	}
	return nil
}

// applyOps applies operations to a document. An error names the first of them that
// cannot be applied.
//
// The library does not say which operation it was. The first n operations apply for every n
// up to the one that cannot be applied, and for none from there on, so that a binary search
// finds it.
func applyOps(doc []byte, ops []any) ([]byte, error) {
	patch, err := jsonpatch.DecodePatch(value.Encode(ops))
	if err != nil {
		return nil, &workflow.PatchError{Op: -1, Message: err.Error()}
	}
	options := jsonpatch.NewApplyOptions()
	options.SupportNegativeIndices = false
	// A few copies of copies would otherwise make a document of any size.
	options.AccumulatedCopySizeLimit = limits.MaxDefinitionBytes
	options.EscapeHTML = false
	after, err := patch.ApplyWithOptions(doc, options)
	if err == nil {
		return after, nil
	}
	bad := sort.Search(len(patch), func(n int) bool {
		_, err := patch[:n+1].ApplyWithOptions(doc, options)
		return err != nil
	})
	_, err = patch[:bad+1].ApplyWithOptions(doc, options)
	path, _ := patch[bad].Path()
	return nil, &workflow.PatchError{Op: bad, Path: path, Message: refusalReason(err)}
}

// refusalReason says in our words why an operation cannot be applied.
func refusalReason(err error) string {
	switch {
	case errors.Is(err, jsonpatch.ErrTestFailed):
		return "the test fails: another value is there"
	case errors.Is(err, jsonpatch.ErrMissing):
		return "nothing is there; a field that has its default is absent: add it"
	case errors.Is(err, jsonpatch.ErrInvalidIndex):
		return "that is no index of the list"
	}
	return err.Error()
}

// A document is a definition as a value, with its elements in order.
//
// fields is the definition as it was decoded; lists has its nodes and transitions, by field.
type document struct {
	fields map[string]any
	lists  map[string]elements
}

// keyedLists are the fields of a definition that a patch sees as objects.
var keyedLists = [...]string{"nodes", "transitions"}

// elements are a list whose elements have ids.
type elements struct {
	ids  []string
	byID map[string]any
}

// documentOf returns a definition as patches see it: its nodes and transitions are objects, whose keys are their ids.
func documentOf(g *compiled.Graph) (document, error) {
	v, err := value.Decode([]byte(g.JSON), value.Limits{Bytes: -1})
	if err != nil {
		return document{}, err
	}
	fields, _ := v.(map[string]any)
	nodes := elements{byID: map[string]any{}}
	for i, x := range listOf(fields["nodes"]) {
		nodes.addElement(string(g.Definition.Nodes[i].ID), x)
	}
	transitions := elements{byID: map[string]any{}}
	for i, x := range listOf(fields["transitions"]) {
		transitions.addElement(string(g.Definition.Transitions[i].ID), x)
	}
	return document{fields, map[string]elements{"nodes": nodes, "transitions": transitions}}, nil
}

// listOf returns v as a list, nil for any other value.
func listOf(v any) []any {
	list, _ := v.([]any)
	return list
}

// addElement adds an element. Its id stands as its key, not in it.
func (e *elements) addElement(id string, x any) {
	m, _ := x.(map[string]any)
	delete(m, "id")
	e.ids = append(e.ids, id)
	e.byID[id] = m
}

// keyedFields returns the document that a patch is applied to. It shares its elements with
// the document, which is not used for anything else afterwards but its order.
func (d document) keyedFields() map[string]any {
	out := map[string]any{}
	for name, v := range d.fields {
		out[name] = v
	}
	for _, name := range keyedLists {
		out[name] = d.lists[name].byID
	}
	return out
}

// listedFields returns a patched document in the form of a definition. An error says what the
// operations have left in the place of an element.
func (d document) listedFields(doc any, ops []any) (map[string]any, error) {
	out, ok := doc.(map[string]any)
	if !ok {
		return nil, &workflow.PatchError{Op: -1, Message: "what it leaves is no object"}
	}
	for _, name := range keyedLists {
		byID, ok := out[name].(map[string]any)
		if !ok && out[name] != nil {
			return nil, &workflow.PatchError{Op: -1, Path: "/" + name, Message: "what is left there is no object whose keys are ids"}
		}
		var list []any
		for _, id := range d.lists[name].orderedIDs(name, byID, ops) {
			m, ok := byID[id].(map[string]any)
			if !ok {
				return nil, &workflow.PatchError{Op: -1, Path: "/" + name + "/" + escapePointer(id), Message: "what is left there is no object"}
			}
			if own, set := m["id"]; set && own != any(id) {
				return nil, &workflow.PatchError{Op: -1, Path: "/" + name + "/" + escapePointer(id), Message: fmt.Sprintf("its id is its key, not %v", own)}
			}
			m["id"] = id
			list = append(list, m)
		}
		if out[name] = list; list == nil {
			delete(out, name)
		}
	}
	return out, nil
}

// orderedIDs returns the ids of a patched list: those that were there first, in their
// old order, then the added ones as the operations name them.
func (e elements) orderedIDs(list string, byID map[string]any, ops []any) []string {
	var out []string
	seen := map[string]bool{}
	take := func(id string) {
		if _, ok := byID[id]; ok && !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	for _, id := range e.ids {
		take(id)
	}
	// An element that was moved or copied to a new key is named by path, as one that was
	// added.
	for _, op := range ops {
		path, _ := op.(map[string]any)["path"].(string)
		if id, ok := strings.CutPrefix(path, "/"+list+"/"); ok {
			id, _, _ = strings.Cut(id, "/")
			take(unescape.Replace(id))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) { // of a list that was replaced as a whole
		take(id)
	}
	return out
}

// unescape undoes the escapes of a pointer (RFC 6901).
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// escapePointer writes an id as a part of a pointer.
func escapePointer(id string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(id) }

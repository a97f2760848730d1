package state

import (
	"maps"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/value"
)

// A layer holds what one scope has written below one path. Everything else shows through from the layers beneath: the
// enclosing scope's, and, in an overlay, those of the state that it lies over. Layers are owned by their State; the
// values in them are immutable and shared. Example: the run has state {a: 1, log: [x]}, and a branch sets state.b and
// appends y to state.log. The layer of the branch has, at state, the fields b, with set, and log, with the tail [y];
// in it nothing is copied. The branch sees {a: 1, b: ..., log: [x, y]}, also when the run sets a meanwhile.
type layer struct {
	set    bool       // value hides everything beneath
	value  any        // with set
	fields []sublayer // written over the fields of value, or of the layer beneath; sorted
	tail   []any      // elements appended to the list of value, or of the layer beneath
	anew   bool       // only in a scope: an overlay dropped its data and began it again
}

// A sublayer is the layer at one key of another. There are as many as the paths of
// a definition name.
type sublayer struct {
	key   string
	layer *layer
}

// findField returns the place of key among the fields, and whether it is there.
func (l *layer) findField(key string) (int, bool) {
	return slices.BinarySearchFunc(l.fields, key, func(m sublayer, key string) int { return strings.Compare(m.key, key) })
}

// fieldLayer returns the layer at key, made if need be.
func (l *layer) fieldLayer(key string) *layer {
	i, ok := l.findField(key)
	if !ok {
		l.fields = slices.Insert(l.fields, i, sublayer{key, &layer{}})
	}
	return l.fields[i].layer
}

// layerAt returns the layer at path, made if need be.
func (l *layer) layerAt(path []string) *layer {
	for _, key := range path {
		l = l.fieldLayer(key)
	}
	return l
}

// A sheet is one layer of a view: a layer, or a plain value. A plain value is part of what some layer has set: below
// it there are no more layers, only values.
type sheet struct {
	layer *layer
	value any // if layer is nil
}

// plainValue returns what s sets, without what is written on top of it.
func (s sheet) plainValue() (any, bool) {
	if s.layer == nil {
		return s.value, true
	}
	return s.layer.value, s.layer.set
}

// A view is what a scope sees at one path: sheets, innermost first; only the last may hide. An empty view is a
// missing value. Values are resolved when an expression asks for them: a view of a large state costs nothing, and
// only the path that is read is followed.
type view []sheet

// viewAt returns the view at key. It collects what the sheets have at the key from the innermost outwards, and stops
// at the first that sets its whole value, or the value around: what lies beneath is hidden, even if the value has no
// such key.
func (v view) viewAt(key string) view {
	var out view
	for _, s := range v {
		if s.layer != nil {
			if i, ok := s.layer.findField(key); ok {
				c := s.layer.fields[i].layer
				if out = append(out, sheet{layer: c}); c.set {
					return out
				}
			}
		}
		if base, ok := s.plainValue(); ok {
			if m, isMap := base.(map[string]any); isMap {
				if x, has := m[key]; has {
					out = append(out, sheet{value: x})
				}
			}
			return out
		}
	}
	return out
}

// resolveValue returns the value that v shows: a plain value where one layer alone decides, a lazy object or list
// otherwise. A layer that was only made on the way to another, and holds nothing, must not count: with it, a missing
// value would be an empty object.
func (v view) resolveValue() (any, bool) {
	v = slices.DeleteFunc(slices.Clone(v), func(s sheet) bool {
		return s.layer != nil && !s.layer.set && len(s.layer.fields) == 0 && len(s.layer.tail) == 0
	})
	if len(v) == 0 {
		return nil, false
	}
	if x, ok := v[0].plainValue(); ok && (v[0].layer == nil || len(v[0].layer.fields) == 0 && len(v[0].layer.tail) == 0) {
		return x, true
	}
	// Something is written over or behind a value: the result is put together when it is read. A tail says that it is
	// a list.
	for _, s := range v {
		if s.layer != nil && len(s.layer.tail) > 0 {
			return newListView(v), true
		}
	}
	return objectView{v}, true
}

// An objectView is a value.Object over several layers.
type objectView struct{ view view }

// Get implements value.Object.
func (o objectView) Get(key string) (any, bool) { return o.view.viewAt(key).resolveValue() }

// Keys implements value.Object.
func (o objectView) Keys() []string {
	seen := map[string]struct{}{}
	for _, s := range o.view {
		if s.layer != nil {
			for _, m := range s.layer.fields {
				seen[m.key] = struct{}{}
			}
		}
		if base, ok := s.plainValue(); ok {
			if m, isMap := base.(map[string]any); isMap {
				for k := range m {
					seen[k] = struct{}{}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// Len implements value.Object. It counts what is written over the fields of the last layer, the only one that may have a
// value of its own, and puts no list of all keys together: an expression pays a unit for it.
func (o objectView) Len() int {
	var base map[string]any
	written := map[string]struct{}{}
	for _, s := range o.view {
		if s.layer != nil {
			for _, m := range s.layer.fields {
				written[m.key] = struct{}{}
			}
		}
		if x, ok := s.plainValue(); ok {
			base, _ = x.(map[string]any)
		}
	}
	n := len(base)
	for key := range written {
		if _, has := base[key]; !has {
			n++
		}
	}
	return n
}

// A listView is a value.List made of segments: what was set, then what each layer appended, outermost first.
// Appending to a list of many elements in a branch therefore copies none of them.
type listView struct {
	// No segment is empty; starts has the index in the list of the first element of each, and length is that of all
	// together.
	segments [][]any
	starts   []int
	length   int
}

// newListView returns the list that the layers of v make together. v has them innermost first: the list begins with
// the segment of the outermost layer.
func newListView(v view) *listView {
	l := &listView{}
	for _, s := range slices.Backward(v) {
		if base, ok := s.plainValue(); ok {
			if xs, isList := base.([]any); isList {
				l.addSegment(xs)
			}
		}
		if s.layer != nil {
			l.addSegment(s.layer.tail)
		}
	}
	return l
}

// addSegment adds elements behind those that are there.
func (l *listView) addSegment(xs []any) {
	if len(xs) == 0 {
		return
	}
	l.segments, l.starts = append(l.segments, xs), append(l.starts, l.length)
	l.length += len(xs)
}

// Len implements value.List.
func (l *listView) Len() int { return l.length }

// At implements value.List.
func (l *listView) At(i int) any {
	// Without an exact hit, the search returns the segment behind the one that has the element.
	k, found := slices.BinarySearch(l.starts, i)
	if !found {
		k--
	}
	return l.segments[k][i-l.starts[k]]
}

var (
	_ value.Object = objectView{}
	_ value.List   = (*listView)(nil)
)

package state

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// The sections of a run's data. The section nodes holds the latest end of each
// node that an expression asks for; expressions see it, mappings cannot write
// it.
const (
	SectionState  = "state"
	SectionOutput = "output"
	SectionNodes  = "nodes"
)

// InitData sets the sections of the run's own scope at its start. The section input is not among them: it is a fact,
// and nobody writes to it.
func (s *State) InitData() {
	initial := s.Graph.Definition.State.Initial
	if initial == nil {
		initial = map[string]any{}
	}
	s.SetData(workflow.Scope{}, []string{SectionState}, initial)
	s.SetData(workflow.Scope{}, []string{SectionOutput}, map[string]any{})
	s.SetData(workflow.Scope{}, []string{SectionNodes}, map[string]any{})
}

// Data returns what scope sc sees at path, whose first element is a section:
// a value of the JSON model or a lazy value.Object or value.List, which is
// valid until the state changes. It reports false for a missing value.
func (s *State) Data(sc workflow.Scope, path ...string) (any, bool) {
	v := s.layersOf(sc)
	for _, key := range path {
		v = v.viewAt(key)
	}
	return v.resolveValue()
}

// layersOf returns the layers that sc sees, its own first. For each scope from sc outwards to the run itself, it
// takes the layers of the overlays, the topmost first, down to the state that they lie over. So the newest write wins
// within a scope, and the inner scope over the outer one.
func (s *State) layersOf(sc workflow.Scope) view {
	var v view
	for {
		for t := s; t != nil; t = t.base {
			l, ok := t.scopes[sc]
			if l != nil {
				v = append(v, sheet{layer: l})
			}
			if ok && (l == nil || l.anew) {
				break // dropped
			}
		}
		if sc.Group == 0 {
			return v
		}
		g := s.Group(sc.Group)
		if g == nil {
			return v // there is no such scope
		}
		sc = g.Scope
	}
}

// SetData sets the value at path in scope sc. Missing parents are made. Fields and elements that this scope has
// written below path are gone: the new value takes their place. The value of an enclosing scope there is hidden from
// now on, and not changed.
func (s *State) SetData(sc workflow.Scope, path []string, v any) {
	l := s.ownLayer(sc).layerAt(path)
	*l = layer{set: true, value: v}
	s.changes.addWrite(s, DataChange{Scope: sc, Path: path, Value: v, Kind: DataSet})
}

// AppendData appends one element to the list at path in scope sc. The element is a change of its own, so that a list
// that grows to n elements costs n rows and not n copies of it. Its number counts the elements that this scope has
// appended since it last set the list.
func (s *State) AppendData(sc workflow.Scope, path []string, v any) {
	l := s.ownLayer(sc).layerAt(path)
	l.tail = append(l.tail, v)
	s.changes.addWrite(s, DataChange{Scope: sc, Path: path, Value: v, Kind: DataAppend, Index: len(l.tail) - 1})
}

// DropScope forgets what scope sc has written. Nobody can read it any more. It happens when the last token of a
// branch has ended, or the branch has failed. In an overlay the layers beneath stay, and a nil entry hides them.
func (s *State) DropScope(sc workflow.Scope) {
	if !s.HasData(sc) {
		return
	}
	if s.base != nil {
		s.putLayer(sc, nil) // hides what lies beneath
		return
	}
	delete(s.scopes, sc)
	s.changes.addWrite(s, DataChange{Scope: sc, Kind: DataDrop})
}

// ownLayer returns the layer in which s itself keeps the writes of a scope, made if need be. If s is an overlay that
// has dropped the scope before, the new layer says so with anew: what lies beneath stays hidden.
func (s *State) ownLayer(sc workflow.Scope) *layer {
	l, dropped := s.scopes[sc]
	if l == nil {
		l = &layer{anew: dropped}
		s.putLayer(sc, l)
	}
	return l
}

func (s *State) putLayer(sc workflow.Scope, l *layer) {
	if s.scopes == nil {
		s.scopes = map[workflow.Scope]*layer{}
	}
	s.scopes[sc] = l
}

// Section returns a whole section of the run's own scope as a plain value. It copies as much as the section holds,
// and is meant for the end of a run, for schemas of a whole section, and for Inspect.
func (s *State) Section(name string) map[string]any {
	v, ok := s.Data(workflow.Scope{}, name)
	if !ok {
		return map[string]any{}
	}
	m, _ := value.Materialize(v).(map[string]any)
	return m
}

// A DataKind says what a DataChange does.
type DataKind uint8

// The kinds of change to data.
const (
	DataSet    DataKind = iota // replaces the value at Path, with everything below it
	DataAppend                 // appends an element to the list at Path, the one with number Index of those appended
	DataDrop                   // forgets all of Scope
)

// A DataChange is one write to a run's data, as a store keeps it.
type DataChange struct {
	Scope workflow.Scope
	Path  []string
	Kind  DataKind
	Index int
	Value any
}

// RestoreData applies a change that a store kept. Changes of one scope come parents first, the elements of a list in
// their order. Unlike SetData it leaves the fields and elements that are there: the file has no rows below a set that
// the set has hidden.
func (s *State) RestoreData(c DataChange) {
	switch c.Kind {
	case DataSet:
		l := s.ownLayer(c.Scope).layerAt(c.Path)
		l.set, l.value = true, c.Value
	case DataAppend:
		l := s.ownLayer(c.Scope).layerAt(c.Path)
		l.tail = append(l.tail, c.Value)
	case DataDrop:
		delete(s.scopes, c.Scope)
	}
}

// AllData returns the writes that, restored in order, give the state's data:
// the comparable form of it.
func (s *State) AllData() []DataChange {
	scopes := slices.SortedFunc(maps.Keys(s.scopes), compareScopes)
	var out []DataChange
	for _, sc := range scopes {
		out = s.scopes[sc].appendWrites(sc, nil, out)
	}
	return out
}

// appendWrites adds the writes of a layer and of all below it: the value first, then the elements, then the fields by
// name. The same layers give the same writes, in whatever order they were written.
func (l *layer) appendWrites(sc workflow.Scope, path []string, out []DataChange) []DataChange {
	if l.set {
		out = append(out, DataChange{Scope: sc, Path: path, Kind: DataSet, Value: l.value})
	}
	for i, v := range l.tail {
		out = append(out, DataChange{Scope: sc, Path: path, Kind: DataAppend, Index: i, Value: v})
	}
	for _, m := range l.fields {
		out = m.layer.appendWrites(sc, append(slices.Clip(slices.Clone(path)), m.key), out)
	}
	return out
}

// HasData reports whether scope sc holds writes of its own. A branch that has written nothing needs no decision to
// drop its data.
func (s *State) HasData(sc workflow.Scope) bool {
	for t := s; t != nil; t = t.base {
		if l, ok := t.scopes[sc]; ok {
			return l != nil
		}
	}
	return false
}

// escapedInPath writes the id of a node as the view paths of a run's file does.
var escapedInPath = strings.NewReplacer("~", "~0", "/", "~1")

// PathOf returns the branches that enclose a scope as a text, outermost first: root, and /NODE:INDEX for each
// fan-out, where NODE is the node that fanned out and INDEX the branch, from 0. In the id of a node ~ is written ~0,
// and / is written ~1. Example: root/split:3/each:0 is in branch 0 of what each fanned out, in branch 3 of what split
// fanned out. A path names no loops: two occurrences of a fan-out in the same branch have the same one.
func (s *State) PathOf(sc workflow.Scope) string {
	if sc.Group == 0 {
		return "root"
	}
	g := s.Group(sc.Group)
	return s.PathOf(g.Scope) + "/" + escapedInPath.Replace(string(g.Node)) + ":" + strconv.Itoa(sc.Branch)
}

// OwnData returns what a scope itself has written to a section, without what it sees of the scopes around it, as a
// plain value; nil if it has written nothing. It looks at one scope through all overlays, as layersOf does, and does
// not go on to the scope around it.
func (s *State) OwnData(sc workflow.Scope, section string) any {
	var own view
	for t := s; t != nil; t = t.base {
		l, ok := t.scopes[sc]
		if l != nil {
			own = append(own, sheet{layer: l})
		}
		if ok && (l == nil || l.anew) {
			break // dropped
		}
	}
	v, _ := own.viewAt(section).resolveValue()
	return value.Materialize(v)
}

package state

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// dataScopes are a run, a branch of it, and a branch nested in that.
var dataScopes = []workflow.Scope{{}, {Group: 1}, {Group: 2}}

// dataState returns a state with the scopes of dataScopes.
func dataState(t require.TestingT) *State {
	g, err := compiled.Compile(workflow.Bounds{}, &workflow.Definition{Name: "d", Start: "a", Nodes: []workflow.Node{{ID: "a"}}})
	require.NoError(t, err)
	s := NewState("r", g)
	s.PutGroup(&Group{ID: 1, Total: 1, First: 1})
	s.PutGroup(&Group{ID: 2, Total: 1, First: 2, Scope: workflow.Scope{Group: 1}})
	s.InitData()
	return s
}

// A dataWrite is one write of the model: a scope sees its enclosing scopes'
// writes, and then its own over them.
type dataWrite struct {
	path    []string
	value   any
	element bool
}

type dataModel map[workflow.Scope][]dataWrite

// visibleData plays the writes that a scope sees, in order.
func (m dataModel) visibleData(sc workflow.Scope) map[string]any {
	root := map[string]any{}
	for i, enclosing := range dataScopes {
		if i > slices.Index(dataScopes, sc) {
			break
		}
		for _, w := range m[enclosing] {
			w.writeInto(root)
		}
	}
	return root
}

func (w dataWrite) writeInto(at map[string]any) {
	for _, key := range w.path[:len(w.path)-1] {
		if _, ok := at[key].(map[string]any); !ok {
			at[key] = map[string]any{}
		}
		at = at[key].(map[string]any)
	}
	last := w.path[len(w.path)-1]
	if w.element {
		list, _ := at[last].([]any)
		at[last] = append(slices.Clone(list), w.value)
		return
	}
	copied, err := value.Decode(value.Encode(w.value), value.Limits{Bytes: 1 << 20})
	if err != nil {
		panic(err)
	}
	at[last] = copied
}

// drawWrite draws a write that fits what may be at its path.
func drawWrite(t *rapid.T) dataWrite {
	n := int64(rapid.IntRange(0, 9).Draw(t, "n"))
	return rapid.SampledFrom([]dataWrite{
		{path: []string{"a"}, value: map[string]any{"b": n}},
		{path: []string{"a"}, value: map[string]any{"c": n, "l": []any{n}}},
		{path: []string{"a", "b"}, value: n},
		{path: []string{"a", "b"}, value: nil},
		{path: []string{"a", "d", "e"}, value: n},
		{path: []string{"a", "l"}, value: n, element: true},
		{path: []string{"l"}, value: n, element: true},
		{path: []string{"l"}, value: []any{n, n}},
		{path: []string{"odd key", "x"}, value: n},
	}).Draw(t, "write")
}

func (m dataModel) applyWrite(s *State, sc workflow.Scope, w dataWrite) {
	m[sc] = append(slices.Clip(m[sc]), w)
	path := append([]string{SectionState}, w.path...)
	if w.element {
		s.AppendData(sc, path, w.value)
		return
	}
	s.SetData(sc, path, w.value)
}

func (m dataModel) requireSame(t *rapid.T, s *State) {
	for _, sc := range dataScopes {
		seen, ok := s.Data(sc, SectionState)
		require.True(t, ok)
		require.Equal(t, m.visibleData(sc), value.Materialize(seen), "%v", sc)
		requireLen(t, seen)
		missing, ok := s.Data(sc, SectionState, "a", "nothing", "there")
		require.False(t, ok, "%v", missing)
	}
}

// requireLen checks that an object, and each in it, says as many keys as it lists.
func requireLen(t require.TestingT, x any) {
	o, ok := x.(value.Object)
	if !ok {
		return
	}
	require.Len(t, o.Keys(), o.Len())
	for _, key := range o.Keys() {
		in, _ := o.Get(key)
		requireLen(t, in)
	}
}

// The size of a large object over which a field is written costs nothing of its size.
func TestLenOfALayeredObject(t *testing.T) {
	s, large := dataState(t), map[string]any{}
	for i := range 10_000 {
		large[strconv.Itoa(i)] = nil
	}
	s.SetData(workflow.Scope{}, []string{SectionState, "m"}, large)
	s.SetData(workflow.Scope{}, []string{SectionState, "m", "7"}, true)
	s.SetData(workflow.Scope{Group: 1}, []string{SectionState, "m", "new"}, true)
	seen, _ := s.Data(workflow.Scope{Group: 1}, SectionState, "m")
	o := seen.(value.Object)
	require.Equal(t, 10_001, o.Len())
	require.Less(t, testing.AllocsPerRun(10, func() { o.Len() }), 10.0)
}

// A scope sees the data of the scopes around it with its own writes over them:
// in a state, in overlays of it, and in a state that a store restores.
func TestDataScopes(t *testing.T) {
	harness.CheckProperty(t, func(t *rapid.T) {
		s, model := dataState(t), dataModel{}
		write := func(s *State, m dataModel) {
			for range rapid.IntRange(0, 12).Draw(t, "writes") {
				sc := rapid.SampledFrom(dataScopes).Draw(t, "scope")
				if sc.Group != 0 && rapid.IntRange(0, 9).Draw(t, "drop") == 0 {
					s.DropScope(sc)
					m[sc] = nil
					continue
				}
				m.applyWrite(s, sc, drawWrite(t))
			}
			m.requireSame(t, s)
		}
		write(s, model)
		over, changed := s.Overlay(), dataModel{}
		for sc, ws := range model {
			changed[sc] = ws
		}
		write(over, changed)
		write(over.Overlay(), changed)
		model.requireSame(t, s)
		write(s, model)

		restored := dataState(t)
		restored.scopes = nil
		for _, d := range s.AllData() {
			restored.RestoreData(d)
		}
		model.requireSame(t, restored)
		require.Equal(t, s.AllData(), restored.AllData())
	})
}

// A list that grows by appending stays in pieces, and every index is right.
func TestListTail(t *testing.T) {
	s := dataState(t)
	inner := workflow.Scope{Group: 2}
	s.SetData(workflow.Scope{}, []string{SectionState, "l"}, []any{"a", "b"})
	s.AppendData(workflow.Scope{}, []string{SectionState, "l"}, "c")
	s.AppendData(inner, []string{SectionState, "l"}, "d")
	over := s.Overlay()
	over.AppendData(inner, []string{SectionState, "l"}, "e")
	v, _ := over.Data(inner, SectionState, "l")
	list := v.(value.List)
	var got []any
	for i := range list.Len() {
		got = append(got, list.At(i))
	}
	require.Equal(t, []any{"a", "b", "c", "d", "e"}, got)
	require.Panics(t, func() { list.At(5) })
	object, _ := s.Data(inner, SectionState)
	require.Equal(t, []string{"l"}, object.(value.Object).Keys())
	require.Equal(t, 1, object.(value.Object).Len())
	require.Equal(t, map[string]any{"l": []any{"a", "b", "c"}}, s.Section(SectionState))
}

// A set that another set replaces costs no row; elements stay in their order
// behind what cleared their list.
func TestTakeChangesSupersedes(t *testing.T) {
	s := dataState(t)
	s.TakeChanges()
	n, l := []string{SectionState, "n"}, []string{SectionState, "l"}
	for i := range 3 {
		s.SetData(workflow.Scope{}, n, int64(i))
	}
	require.Equal(t, []DataChange{{Path: n, Value: int64(2)}}, s.TakeChanges().Data)
	require.Empty(t, s.TakeChanges().Data)

	s.AppendData(workflow.Scope{}, l, "old")
	s.TakeChanges()
	s.SetData(workflow.Scope{}, l, []any{})
	s.AppendData(workflow.Scope{}, l, "x")
	s.SetData(workflow.Scope{}, l, []any{"y"})
	s.AppendData(workflow.Scope{}, l, "z")
	var kinds []DataKind
	for _, d := range s.TakeChanges().Data {
		kinds = append(kinds, d.Kind)
	}
	require.Equal(t, []DataKind{DataSet, DataAppend, DataSet, DataAppend}, kinds)

	s.DropScope(workflow.Scope{Group: 1})
	require.Empty(t, s.TakeChanges().Data, "nothing was there to drop")
}

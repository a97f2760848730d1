package decision

import (
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// SetData sets the value at a path of a scope. Missing parents are made; the planner has
// checked that nothing in the way is a scalar. In a branch the write is seen there and in
// what is nested in it, and by nobody else.
type SetData struct {
	Scope workflow.Scope `json:"scope,omitzero"`
	Path  []string       `json:"path"`
	Value any            `json:"value,omitzero"`
}

// String implements fmt.Stringer.
func (d SetData) String() string {
	return newLine("set-data").addScope(d.Scope).addValue(pathText(d.Path, false), d.Value).String()
}

func (d SetData) evolveState(s *state.State)                    { s.SetData(d.Scope, d.Path, d.Value) }
func (SetData) toldEvents(*state.State) []Event                 { return nil }
func (SetData) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// AppendData appends one element to the list at a path of a scope. The element alone is
// written, so that a list which grows over a long run costs time in proportion to what is
// added, not to its length.
type AppendData struct {
	Scope workflow.Scope `json:"scope,omitzero"`
	Path  []string       `json:"path"`
	Value any            `json:"value,omitzero"`
}

// String implements fmt.Stringer.
func (d AppendData) String() string {
	return newLine("append-data").addScope(d.Scope).addValue(pathText(d.Path, true), d.Value).String()
}

func (d AppendData) evolveState(s *state.State)                    { s.AppendData(d.Scope, d.Path, d.Value) }
func (AppendData) toldEvents(*state.State) []Event                 { return nil }
func (AppendData) withdrawnTokens(*state.State) []workflow.TokenID { return nil }

// writeData writes what a join brings about: the value at a path, or an element of the list
// there.
func writeData(s *state.State, sc workflow.Scope, path []string, element bool, v any) {
	if element {
		s.AppendData(sc, path, v)
		return
	}
	s.SetData(sc, path, v)
}

// pathText is the text of a path of data, as in state.log[].
func pathText(path []string, element bool) string {
	return value.Path{Segments: path, Append: element}.String()
}

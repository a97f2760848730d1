package decision

import (
	"io"

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

// RowsType is the media type of the content of a Blob.
const RowsType = "application/x-ndjson"

// A Blob is content to which the decisions of a plan refer, by its hash: a list,
// as newline-delimited JSON. It is put where blobs are kept before the plan is
// committed. A crash in between leaves a blob that nobody refers to. No record
// holds it.
//
// A merge with as: blob makes one, whose reference is written into the data in place of a
// list that may be larger than what is kept inline.
type Blob struct {
	Hash string // "sha256:" and 64 hexadecimal digits
	Size int64  // in bytes
	Rows []any  // values of the JSON model
}

// NewBlob returns the content that a list makes. The list must not be modified
// afterwards.
func NewBlob(rows []any) Blob {
	sum, size := value.HashRows(rows)
	return Blob{Hash: "sha256:" + sum, Size: size, Rows: rows}
}

// Reference returns what values have in place of the content, in the form of
// package blob.
func (b Blob) Reference() map[string]any {
	return map[string]any{"$blob": b.Hash, "size": b.Size, "type": RowsType}
}

// Reader returns a reader of the content. It writes the rows as they are read, so that the
// content as a whole is never in memory.
func (b Blob) Reader() io.Reader { return value.NewRowReader(b.Rows) }

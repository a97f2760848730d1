package decision

import (
	"io"

	"github.com/pawl-run/pawl/internal/value"
)

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

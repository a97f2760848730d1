package value

import (
	"crypto/sha256"
	"encoding/hex"
	"io"

	"github.com/pawl-run/pawl/internal/pace"
)

// A RowReader reads model values as newline-delimited JSON: each on a line of its
// own, in its canonical form, with a line feed behind it. It modifies no value.
//
// It holds one line in memory, however many rows there are, so that a list which is too large
// for one value can become a blob. The text is the same each time, and so is its hash: rows
// that are written again after a crash are the same blob.
type RowReader struct {
	rows []any  // those that are not begun yet
	rest []byte // of the line under way
	line []byte // its memory
}

// NewRowReader returns a reader of rows, which must not be modified before it has
// come to their end.
func NewRowReader(rows []any) *RowReader { return &RowReader{rows: rows} }

// Read implements [io.Reader].
//
// A line is made when the one before it has been read. It returns fewer bytes than asked for
// only at the end.
func (r *RowReader) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(r.rest) == 0 {
			if len(r.rows) == 0 {
				break
			}
			r.line = append(Append(r.line[:0], r.rows[0]), '\n')
			r.rest, r.rows = r.line, r.rows[1:]
		}
		k := copy(p[n:], r.rest)
		n, r.rest = n+k, r.rest[k:]
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// HashRows returns the SHA-256, in hexadecimal, and the number of the bytes that a
// RowReader reads of rows.
//
// It is what a blob of these rows will be named by, without writing it.
func HashRows(rows []any) (sum string, size int64) {
	h := sha256.New()
	size, err := pace.Copy(h, NewRowReader(rows))
	if err != nil {
		panic("value: " + err.Error()) // neither fails
	}
	return hex.EncodeToString(h.Sum(nil)), size
}

package value

import (
	"crypto/sha256"
	"encoding/hex"
	"io"

	"github.com/pawl-run/pawl/internal/pace"
)

// A RowReader reads model values as newline-delimited JSON: each on a line of its
// own, in its canonical form, with a line feed behind it. It modifies no value.
type RowReader struct {
	rows []any
	rest []byte // of the line under way
	line []byte // its memory
}

// NewRowReader returns a reader of rows, which must not be modified before it has
// come to their end.
func NewRowReader(rows []any) *RowReader { return &RowReader{rows: rows} }

// Read implements [io.Reader].
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
func HashRows(rows []any) (sum string, size int64) {
	h := sha256.New()
	size, err := pace.Copy(h, NewRowReader(rows))
	if err != nil {
		panic("value: " + err.Error()) // neither fails
	}
	return hex.EncodeToString(h.Sum(nil)), size
}

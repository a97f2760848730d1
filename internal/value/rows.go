package value

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"math/bits"
	"unicode/utf8"

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

// The bytes of a text that is eight of them at a time: ones is 1 in each, highs the highest bit of each.
const (
	ones  = 0x0101010101010101
	highs = ones * utf8.RuneSelf
)

// plainPrefix returns how many bytes at the start of s need no escape in JSON, and whether they are all ASCII.
//
// It looks at eight bytes at a time (SWAR: Mycroft's test for a zero byte): a large text would otherwise cost more to be
// counted and written than to be hashed. A byte is special if it is below the blank, a quote or a backslash; what
// a borrow makes of the bytes behind the first special one does not matter, since nobody looks at them.
func plainPrefix[T string | []byte](s T) (n int, ascii bool) {
	var seen uint64
	for ; len(s)-n >= 8; n += 8 {
		w := loadWord(s[n : n+8])
		if special := ((w - ones*' ') | zeroAt(w^ones*'"') | zeroAt(w^ones*'\\')) &^ w & highs; special != 0 {
			bit := bits.TrailingZeros64(special) &^ 7 // the first of the byte
			seen |= w & (1<<bit - 1)
			return n + bit/8, seen&highs == 0
		}
		seen |= w
	}
	var rest byte
	for ; n < len(s); n++ {
		c := s[n]
		if c < ' ' || c == '"' || c == '\\' {
			break
		}
		rest |= c
	}
	return n, seen&highs == 0 && rest < utf8.RuneSelf
}

// zeroAt returns the highest bit of each byte of w that is zero; bits of bytes behind the first one may be wrong, and so may be those
// of bytes that have it already.
func zeroAt(w uint64) uint64 { return w - ones }

// loadWord returns eight bytes as one number, the first one lowest.
func loadWord[T string | []byte](s T) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

package image

import (
	"database/sql/driver"
	"strings"
	"unsafe"
)

// A Value is a column of a row: NULL, an integer, a text or a blob. The zero value is NULL. It takes no memory of its
// own: rows are written by the hundred thousand.
type Value struct {
	kind valueKind
	n    int64
	text string // or the bytes of a blob
}

type valueKind uint8

const (
	isNull valueKind = iota
	isInt
	isText
	isBlob
)

// Int returns an integer.
func Int(n int64) Value { return Value{kind: isInt, n: n} }

// Text returns a text.
func Text(s string) Value { return Value{kind: isText, text: s} }

// Blob returns a blob, which must not change as long as the value is used.
func Blob(b []byte) Value {
	return Value{kind: isBlob, text: unsafe.String(unsafe.SliceData(b), len(b))}
}

// Int64 returns the integer, 0 for any other value.
func (v Value) Int64() int64 { return v.n }

// IsText reports whether it is a text.
func (v Value) IsText() bool { return v.kind == isText }

// String returns the text, or the bytes of a blob; "" for any other value.
func (v Value) String() string { return v.text }

// bytes returns those of a text or a blob. They must not be changed.
func (v Value) bytes() []byte { return unsafe.Slice(unsafe.StringData(v.text), len(v.text)) }

// copyOut returns the value with memory of its own: nil, an int64, a string or a []byte.
func (v Value) copyOut() driver.Value {
	switch v.kind {
	case isInt:
		return v.n
	case isText:
		return strings.Clone(v.text)
	case isBlob:
		return append([]byte{}, v.text...)
	case isNull:
	}
	return nil
}

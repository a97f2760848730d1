// Package column turns values into columns of the tables of pawl.db and of the files of
// runs, and back. Both databases have the same forms.
package column

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"time"
	"unsafe"

	"github.com/pawl-run/pawl/internal/codec"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// TimeAt returns the time in column i, zero if it is NULL.
func TimeAt(r *sqlite.Row, i int) time.Time {
	if r.Null(i) {
		return time.Time{}
	}
	return time.UnixMilli(r.Int64(i)).UTC()
}

// Millis returns t as the milliseconds that TimeAt reads, NULL if it is zero.
func Millis(t time.Time) driver.Value {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

// ParseObject parses the text of an object, nil if it is empty.
func ParseObject(text string) (map[string]any, error) {
	if text == "" {
		return nil, nil
	}
	v, err := codec.DecodeValue([]byte(text))
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%T where an object was expected", v)
	}
	return m, nil
}

// ObjectText is the inverse of ParseObject; NULL for nil.
func ObjectText(m map[string]any) driver.Value {
	if m == nil {
		return nil
	}
	return string(value.Encode(m))
}

// ParseFailure parses the text of a failure, nil if it is empty.
func ParseFailure(text string) (*workflow.Failure, error) {
	if text == "" {
		return nil, nil
	}
	f := new(workflow.Failure)
	return f, json.Unmarshal([]byte(text), f)
}

// FailureText is the inverse of ParseFailure; NULL for nil.
func FailureText(f *workflow.Failure) driver.Value {
	if f == nil {
		return nil
	}
	return JSONText(f)
}

// JSONText returns v as JSON. It panics if v has a field that cannot be encoded.
func JSONText(v any) driver.Value {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("column: %T: %v", v, err))
	}
	return string(text)
}

// SharedString returns the bytes of b as a string without a copy, which would hold others
// up if b is large. Nobody may change b any more.
func SharedString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Bytes returns the bytes of s without a copy. They must not be changed.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

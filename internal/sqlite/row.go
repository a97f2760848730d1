package sqlite

import (
	"database/sql/driver"
	"fmt"
	"math"
	"strconv"
)

// A Row is one row of an answer. Its methods return the zero value for NULL and
// for a value of another type than they are named after; the latter also ends
// the query with an error.
type Row struct {
	columns []string
	values  []driver.Value
	err     error
}

// NewRow returns a row that is not of an answer of SQLite. Its values are nil, int64, string
// or []byte.
func NewRow(values []driver.Value) *Row { return &Row{values: values} }

// Err returns the error of a value that was not of the type that was asked for.
func (r *Row) Err() error { return r.err }

// Values returns the values of all columns: nil, int64, float64, string or
// []byte; a time.Time of one that is declared as a DATE or the like. The slice is the next row's after this one.
func (r *Row) Values() []driver.Value { return r.values }

// Null reports whether column i, which counts from 0, is NULL.
func (r *Row) Null(i int) bool { return r.values[i] == nil }

// Int64 returns the integer in column i.
func (r *Row) Int64(i int) int64 { return columnAs[int64](r, i) }

// Int returns the integer in column i, which must fit an int.
func (r *Row) Int(i int) int {
	n := r.Int64(i)
	if n < math.MinInt || n > math.MaxInt {
		r.failColumn(i, "a small INTEGER")
		return 0
	}
	return int(n)
}

// Text returns the text in column i.
func (r *Row) Text(i int) string { return columnAs[string](r, i) }

// Bytes returns the blob in column i, which the caller may keep.
func (r *Row) Bytes(i int) []byte { return columnAs[[]byte](r, i) }

func columnAs[T any](r *Row, i int) T {
	v, ok := r.values[i].(T)
	if !ok && r.values[i] != nil {
		r.failColumn(i, fmt.Sprintf("%T", v))
	}
	return v
}

func (r *Row) failColumn(i int, want string) {
	if r.err == nil {
		name := strconv.Itoa(i)
		if i < len(r.columns) {
			name = r.columns[i]
		}
		r.err = fmt.Errorf("column %s holds a %T, want %s", name, r.values[i], want)
	}
}

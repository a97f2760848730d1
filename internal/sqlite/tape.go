package sqlite

import (
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Tape notes the statements that a connection executes, in their order, each with its
// arguments and how many rows it changed. Played on a copy of the database as it was before
// the first, they make the same rows. The zero value is empty.
//
// A statement is the number of its text, the text itself if the number is new, the number
// of rows, the number of arguments, and each of those as a type and a value. All numbers
// are varints of encoding/binary. So a tape needs nothing but itself to be played.
type Tape struct {
	texts map[string]uint64
	data  []byte
}

// The types of arguments on a tape.
const (
	tapeNull byte = iota
	tapeInt
	tapeFloat
	tapeText
	tapeBytes
)

// RecordTo has the statements that [Conn.Exec] and [Conn.ExecEach] execute from now on noted
// on a tape; nil ends that.
func (c *Conn) RecordTo(t *Tape) { c.tape = t }

// Take returns what is on the tape, which is empty then.
func (t *Tape) Take() []byte {
	out := t.data
	t.data = nil
	clear(t.texts)
	return out
}

// Reset forgets what is on the tape.
func (t *Tape) Reset() {
	t.data = t.data[:0]
	clear(t.texts)
}

func (t *Tape) addStatement(text string, args []driver.Value, rows int64) error {
	if t.texts == nil {
		t.texts = map[string]uint64{}
	}
	n, known := t.texts[text]
	if !known {
		n = uint64(len(t.texts))
		t.texts[text] = n
	}
	t.data = binary.AppendUvarint(t.data, n)
	if !known {
		t.data = appendText(t.data, text)
	}
	t.data = binary.AppendVarint(t.data, rows)
	t.data = binary.AppendUvarint(t.data, uint64(len(args)))
	for _, a := range args {
		var err error
		if t.data, err = AppendValue(t.data, a); err != nil {
			return err
		}
	}
	return nil
}

// AppendValue appends a value as tapes have it, its type before it. It fails if [Conn.Exec]
// does not take the value.
func AppendValue(to []byte, v driver.Value) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(to, tapeNull), nil
	case int64:
		return binary.AppendVarint(append(to, tapeInt), v), nil
	case float64:
		return binary.LittleEndian.AppendUint64(append(to, tapeFloat), math.Float64bits(v)), nil
	case string:
		return appendText(append(to, tapeText), v), nil
	case []byte:
		return appendText(append(to, tapeBytes), v), nil
	}
	return to, fmt.Errorf("an argument of type %T cannot be noted", v)
}

func appendText[T string | []byte](to []byte, text T) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// A Statement is one of a tape. Its arguments are valid until the next one is read.
type Statement struct {
	Text string
	Args []driver.Value
	Rows int64 // that it changed
}

// ErrBadTape says that bytes are not what a tape holds.
var ErrBadTape = errors.New("it is not a tape")

// EachStatement calls f with every statement of a tape, in their order. It fails with
// [ErrBadTape] or the error of f.
func EachStatement(tape []byte, f func(*Statement) error) error {
	r := tapeReader{ValueReader: ValueReader{Rest: tape}}
	for len(r.Rest) > 0 {
		s := r.readStatement()
		if r.Bad {
			return ErrBadTape
		}
		if err := f(s); err != nil {
			return err
		}
	}
	return nil
}

// A tapeReader reads a tape, until it is bad.
type tapeReader struct {
	ValueReader
	texts []string
	next  Statement
}

func (r *tapeReader) readStatement() *Statement {
	n := r.ReadUvarint()
	switch {
	case n < uint64(len(r.texts)):
	case n == uint64(len(r.texts)):
		r.texts = append(r.texts, string(r.ReadBytes()))
	default:
		r.Bad = true
	}
	rows, count := r.ReadVarint(), r.ReadUvarint()
	if r.Bad || count > uint64(len(r.Rest)) {
		r.Bad = true
		return nil
	}
	r.next = Statement{Text: r.texts[n], Args: slices.Grow(r.next.Args[:0], int(count)), Rows: rows} //nolint:gosec // at most the bytes that are there
	for range count {
		r.next.Args = append(r.next.Args, r.ReadValue())
	}
	return &r.next
}

// ErrDiverged says that a statement of a tape has changed another number of rows than it
// had when it was noted: the database is not a copy of the one that was.
var ErrDiverged = errors.New("the copy is not what the statements were written for")

// PlayTape executes the statements of a tape. It fails with [ErrBadTape] if one is not a
// plain INSERT, UPDATE or DELETE, and with [ErrDiverged]; loose says for which texts the
// number of rows does not matter.
func (c *Conn) PlayTape(tape []byte, loose func(text string) bool) error {
	return EachStatement(tape, func(s *Statement) error {
		if !isPlainWrite(s.Text) {
			return fmt.Errorf("%w: %.40q", ErrBadTape, s.Text)
		}
		rows := int64(0)
		var err error
		if strings.Contains(s.Text, "RETURNING") {
			err = c.Each(s.Text, func(*Row) error { rows++; return nil }, s.Args...)
		} else {
			rows, err = c.Exec(s.Text, s.Args...)
		}
		if err == nil && rows != s.Rows && !loose(s.Text) {
			err = fmt.Errorf("%w: %.60q changes %d rows, not %d", ErrDiverged, s.Text, rows, s.Rows)
		}
		return err
	})
}

func isPlainWrite(text string) bool {
	return strings.HasPrefix(text, "INSERT ") || strings.HasPrefix(text, "UPDATE ") || strings.HasPrefix(text, "DELETE ")
}

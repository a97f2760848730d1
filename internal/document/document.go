// Package document reads JSON and YAML into one tree of elements that know their
// line and column. Definitions and scenarios are read from it.
//
// The tree says what is written and judges nothing: a key may be there twice,
// and a number keeps its text. The code that walks over the tree reports such
// problems, all at once and each at its place. Only a text that has no tree is
// refused here.
//
// The package is pure: no clock, no I/O, no randomness.
package document

import (
	"errors"
	"fmt"
)

// A Reader reads texts of one kind.
type Reader struct {
	Noun  string // what a text holds, for errors: definition
	Depth int    // most lists and objects inside each other
}

// ErrTooLarge is the cause of an error about a text beyond the bounds of its
// elements.
var ErrTooLarge = errors.New("too large")

// A SyntaxError says where a text is not JSON or YAML at all, or is too large.
type SyntaxError struct {
	Line    int // from 1
	Column  int // from 1, in code points; 0 if unknown
	Message string
	Err     error // the cause, if there is one
}

// Error returns the message without the place.
func (e *SyntaxError) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *SyntaxError) Unwrap() error { return e.Err }

// A cursor knows the place of what is read, and how deep that is.
type cursor struct {
	Reader
	depth        int // lists and objects that are open
	line, column int
}

// enterContainer begins a list or an object; the caller ends it with c.depth--.
func (c *cursor) enterContainer() error {
	if c.depth++; c.depth > c.Depth {
		return c.tooLarge(fmt.Sprintf("nested more than %d deep", c.Depth))
	}
	return nil
}

func (c *cursor) tooLarge(why string) error {
	return c.syntaxError("the "+c.Noun+" is too large: "+why, ErrTooLarge)
}

// syntaxError returns an error at the place in hand.
func (c *cursor) syntaxError(message string, cause error) error {
	return &SyntaxError{c.line, c.column, message, cause}
}

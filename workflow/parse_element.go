package workflow

import (
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/internal/value"
)

// An elementKind says what an element is. An invalid element is something that
// JSON cannot say; its text says what.
type elementKind uint8

const (
	invalidElement elementKind = iota
	nullElement
	boolElement
	numberElement
	stringElement
	listElement
	objectElement
)

// String describes the kind in a problem.
func (k elementKind) String() string {
	return [...]string{"unreadable", "null", "a boolean", "a number", "a string", "a list", "an object"}[k]
}

// An element is a value in a text, with its place. JSON and YAML are read into
// the same elements.
type element struct {
	kind         elementKind
	plain        bool   // a string of YAML without quotes
	text         string // of a scalar as it is written; of a string its content
	line, column int    // from 1; columns are code points
	items        []*element
	members      []member
}

// A member is one key of an object. A key may be there twice.
type member struct {
	key          string
	wrong        string // why the key is not a string
	line, column int
	value        *element
}

// errTooLarge is a text beyond the bounds of its elements.
var errTooLarge = errors.New("the definition is too large")

// A depth counts the lists and objects inside each other.
type depth int

// open enters a list or an object; the caller leaves it with *d--.
func (d *depth) open() error {
	if *d++; *d > value.DefaultDepth {
		return fmt.Errorf("%w: nested more than %d deep", errTooLarge, value.DefaultDepth)
	}
	return nil
}

// get returns the value of the first member with the given key, or nil.
func (e *element) get(key string) *element {
	for i := range e.members {
		if e.members[i].key == key {
			return e.members[i].value
		}
	}
	return nil
}

// string returns the text of the string at key, "" if there is none.
func (e *element) string(key string) string {
	if v := e.get(key); v != nil && v.kind == stringElement {
		return v.text
	}
	return ""
}

// number returns the number that e is: an int64 or a float64.
func (e *element) number() (any, error) {
	if e.kind != numberElement {
		return nil, fmt.Errorf("%s is not a number", e.describe())
	}
	v, err := value.Decode([]byte(e.text), value.Limits{})
	var bad *value.Error
	switch {
	case errors.As(err, &bad) && bad.Code == value.CodeNumber:
		return nil, fmt.Errorf("%s cannot be held: %s", e.describe(), bad.Message)
	case err != nil:
		return nil, fmt.Errorf("%s is not a number as JSON writes them", e.describe())
	}
	return v, nil
}

// describe names e in a problem.
func (e *element) describe() string {
	const most = 40
	text := e.text
	if runes := []rune(text[:min(4*most, len(text))]); len(runes) > most {
		text = string(runes[:most]) + "..."
	}
	switch e.kind {
	case invalidElement:
		return e.text
	case numberElement, boolElement:
		return text
	case stringElement:
		return fmt.Sprintf("%q", text)
	case nullElement, listElement, objectElement:
	}
	return e.kind.String()
}

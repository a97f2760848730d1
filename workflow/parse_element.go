package workflow

import (
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

// Bounds of the elements of one definition, in units of memory: elementUnits
// for each and one for each byte of its text. Ordinary definitions of
// MaxDefinitionBytes are far below; aliases of YAML, which repeat what they
// stand for, are not.
const (
	maxElementUnits = 2 * MaxDefinitionBytes
	elementUnits    = 4
)

// A budget bounds the elements of one definition.
type budget struct {
	units int
	depth int
}

// take counts one element with the given text.
func (b *budget) take(text string) error {
	if b.units += elementUnits + len(text); b.units > maxElementUnits {
		return fmt.Errorf("the definition has too many elements for %d bytes; aliases count as what they stand for", MaxDefinitionBytes)
	}
	return nil
}

// open enters a list or an object; the caller leaves it with b.depth--.
func (b *budget) open() error {
	if b.depth++; b.depth > value.DefaultDepth {
		return fmt.Errorf("nested more than %d deep", value.DefaultDepth)
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
	if err != nil {
		return nil, fmt.Errorf("%s is not a number as JSON writes them: %w", e.describe(), err)
	}
	switch v.(type) {
	case int64, float64:
		return v, nil
	}
	return nil, fmt.Errorf("%s is not a number as JSON writes them", e.describe())
}

// describe names e in a problem.
func (e *element) describe() string {
	const most = 40
	text := e.text
	if len(text) > most {
		text = text[:most] + "..."
	}
	switch e.kind {
	case invalidElement:
		return text
	case numberElement, boolElement:
		return text
	case stringElement:
		return fmt.Sprintf("%q", text)
	case nullElement, listElement, objectElement:
	}
	return e.kind.String()
}

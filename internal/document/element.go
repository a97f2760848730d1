package document

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/pawl-run/pawl/internal/value"
)

// A Kind says what an element is.
type Kind uint8

// The kinds of elements. An invalid element is something that JSON cannot represent;
// its text says what.
const (
	Invalid Kind = iota
	Null
	Bool
	Number
	String
	List
	Object
)

var kindTexts = map[Kind]string{
	Null: "null", Bool: "a boolean", Number: "a number", String: "a string", List: "a list", Object: "an object",
}

// String describes the kind in a problem.
func (k Kind) String() string { return cmp.Or(kindTexts[k], "unreadable") }

// An Element is a value in a text, with its place. JSON and YAML are read into
// the same elements.
type Element struct {
	Kind         Kind
	Plain        bool   // a string of YAML without quotes
	Text         string // of a scalar as it is written; of a string its content
	Line, Column int    // from 1; columns are code points
	Items        []*Element
	Members      []Member
}

// A Member is one key of an object. A key may be there twice.
type Member struct {
	Key          string
	Wrong        string // why the key is not a string
	Line, Column int
	Value        *Element
}

// Depth returns the largest number of containers inside each other: a scalar has
// depth 0, an empty list has depth 1.
func (e *Element) Depth() int {
	deepest := 0
	for _, item := range e.Items {
		deepest = max(deepest, item.Depth())
	}
	for i := range e.Members {
		deepest = max(deepest, e.Members[i].Value.Depth())
	}
	if e.Kind == List || e.Kind == Object {
		return deepest + 1
	}
	return 0
}

// Member returns the value of the first member with the given key, or nil.
func (e *Element) Member(key string) *Element {
	for i := range e.Members {
		if e.Members[i].Key == key {
			return e.Members[i].Value
		}
	}
	return nil
}

// StringAt returns the text of the string at key, "" if there is no string.
func (e *Element) StringAt(key string) string {
	if v := e.Member(key); v != nil && v.Kind == String {
		return v.Text
	}
	return ""
}

// Number returns the number that e is: an int64 or a float64.
func (e *Element) Number() (any, error) {
	if e.Kind != Number {
		return nil, fmt.Errorf("%s is not a number", e.Describe())
	}
	v, err := value.Decode([]byte(e.Text), value.Limits{})
	var bad *value.Error
	switch {
	case errors.As(err, &bad) && bad.Code == value.CodeNumber:
		return nil, fmt.Errorf("%s cannot be held: %s", e.Describe(), bad.Message)
	case err != nil:
		return nil, fmt.Errorf("%s is not a number as JSON writes them", e.Describe())
	}
	return v, nil
}

// Describe names e in a problem.
func (e *Element) Describe() string {
	const most = 40
	text := e.Text
	if runes := []rune(text[:min(4*most, len(text))]); len(runes) > most {
		text = string(runes[:most]) + "..."
	}
	switch e.Kind {
	case Invalid:
		return e.Text
	case Number, Bool:
		return text
	case String:
		return fmt.Sprintf("%q", text)
	case Null, List, Object:
	}
	return e.Kind.String()
}

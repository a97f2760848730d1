package blob

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The keys of a reference.
const (
	hashKey = "$blob"
	sizeKey = "size"
	typeKey = "type"
)

// The bounds of a reference.
const (
	maxSize = 1 << 53 // up to which an integer is exact in every JSON reader
	maxType = 255     // bytes of a media type
)

// A Ref is a reference to a blob, as it stands in results, inputs and mappings.
// Its JSON form is an object with the keys $blob, size and, unless it is empty,
// type.
type Ref struct {
	Hash string `json:"$blob"`         // "sha256:" and 64 lower-case hexadecimal digits
	Size int64  `json:"size"`          // in bytes, from 0 to 2^53
	Type string `json:"type,omitzero"` // media type, at most 255 bytes; "" if unknown
}

// Value returns the reference as a value of the JSON model, a new one. ParseRef
// turns it back.
func (r Ref) Value() map[string]any {
	m := map[string]any{hashKey: r.Hash, sizeKey: r.Size}
	if r.Type != "" {
		m[typeKey] = r.Type
	}
	return m
}

// A RefError says what is wrong with an object that has the key $blob.
type RefError struct {
	Path   string // of the object, a JSON pointer (RFC 6901); "" is the whole value
	Detail string // what is wrong with it
}

// Error names the place and what is wrong there.
func (e *RefError) Error() string {
	return fmt.Sprintf("invalid blob reference at %q: %s", e.Path, e.Detail)
}

// underKey puts a key or an index in front of the path of the error.
func (e *RefError) underKey(segment string) *RefError {
	e.Path = "/" + pointerEscaper.Replace(segment) + e.Path
	return e
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// Refs returns every reference in a value of the JSON model, in document order
// with the keys of objects sorted, each as often as it occurs. A Ref in the
// place of an object is taken as well. An object with the key $blob that is no
// reference, or has keys that a reference does not have, is a *RefError; the
// first one is returned.
//
// A value without references is only looked through, without allocation. A value
// that is nested more than 10,000 deep, or holds itself, is a *RefError.
func Refs(v any) ([]Ref, error) {
	found, deep := holdsReference(v, maxDepth)
	switch {
	case deep:
		return nil, invalidRef("it is nested more than %d deep", maxDepth)
	case !found:
		return nil, nil
	}
	refs, err := appendRefs(nil, v)
	if err != nil {
		return nil, err
	}
	return refs, nil
}

// maxDepth is how deep a value may be nested, as encoding/json has it.
const maxDepth = 10_000

// holdsReference reports whether the key $blob, or a Ref, is anywhere in v, as far as it
// was looked through: it ends at what is nested more than some levels deep.
func holdsReference(v any, levels int) (found, deep bool) {
	if levels < 0 {
		return false, true
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			f, d := holdsReference(e, levels-1)
			if found = found || f; d {
				return found, true
			}
		}
	case map[string]any:
		_, found = v[hashKey]
		for _, e := range v {
			f, d := holdsReference(e, levels-1)
			if found = found || f; d {
				return found, true
			}
		}
	case Ref:
		return true, false
	}
	return found, false
}

func appendRefs(refs []Ref, v any) ([]Ref, *RefError) {
	var err *RefError
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			if refs, err = appendRefs(refs, e); err != nil {
				return nil, err.underKey(strconv.Itoa(i))
			}
		}
	case map[string]any:
		if _, ok := v[hashKey]; ok {
			return appendRef(refs, v)
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if refs, err = appendRefs(refs, v[k]); err != nil {
				return nil, err.underKey(k)
			}
		}
	case Ref:
		return appendRef(refs, v)
	}
	return refs, nil
}

func appendRef(refs []Ref, v any) ([]Ref, *RefError) {
	r, err := parseRef(v)
	if err != nil {
		return nil, err
	}
	return append(refs, r), nil
}

// ParseRef returns the reference that v is: an object of the JSON model with the
// keys of a reference and no other, or a Ref. The size may be a float64 with an
// integral value, and an empty type is no type. Anything else is a *RefError.
func ParseRef(v any) (Ref, error) {
	r, err := parseRef(v)
	if err != nil {
		return Ref{}, err
	}
	return r, nil
}

func parseRef(v any) (Ref, *RefError) {
	switch v := v.(type) {
	case Ref:
		return v.checkBounds()
	case map[string]any:
		return parseObject(v)
	default:
		return Ref{}, invalidRef("%T is no object", v)
	}
}

func invalidRef(format string, args ...any) *RefError {
	return &RefError{Detail: fmt.Sprintf(format, args...)}
}

func parseObject(m map[string]any) (Ref, *RefError) {
	var r Ref
	var ok bool
	known := 2
	if r.Hash, ok = m[hashKey].(string); !ok {
		return Ref{}, invalidRef("$blob is no string")
	}
	if r.Size, ok = integerOf(m[sizeKey]); !ok {
		return Ref{}, invalidRef("size is no integer")
	}
	if t, has := m[typeKey]; has {
		known++
		if r.Type, ok = t.(string); !ok {
			return Ref{}, invalidRef("type is no string")
		}
	}
	if len(m) != known {
		return Ref{}, invalidRef("it has the further key %q", furtherKey(m))
	}
	return r.checkBounds()
}

func integerOf(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), v == math.Trunc(v) && math.Abs(v) <= maxSize
	default:
		return 0, false
	}
}

// furtherKey returns the first key that a reference does not have.
func furtherKey(m map[string]any) string {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if k != hashKey && k != sizeKey && k != typeKey {
			return k
		}
	}
	return ""
}

// checkBounds returns r, or an error that says which of its fields is not valid.
func (r Ref) checkBounds() (Ref, *RefError) {
	_, valid := parseAddress(r.Hash)
	switch {
	case !valid:
		return Ref{}, invalidRef("$blob is not sha256: and 64 lower-case hexadecimal digits")
	case r.Size < 0 || r.Size > maxSize:
		return Ref{}, invalidRef("size %d is outside 0..2^53", r.Size)
	case len(r.Type) > maxType:
		return Ref{}, invalidRef("type has %d bytes, at most %d", len(r.Type), maxType)
	case !utf8.ValidString(r.Type) || strings.ContainsFunc(r.Type, unicode.IsControl):
		return Ref{}, invalidRef("type has control characters or is not UTF-8")
	}
	return r, nil
}

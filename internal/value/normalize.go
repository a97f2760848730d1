package value

import (
	"encoding/json"
	"iter"
	"maps"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/pawl-run/pawl/internal/pace"
)

// Normalize copies a Go value of the host into the model. The copy shares
// nothing that the host may change. It takes what encoding/json takes, with the
// same results: numbers of every type by the number rule, json.Number,
// json.RawMessage, []byte as base64, time.Time in RFC 3339, pointers, typed maps
// and slices (nil ones are null), and structs and marshalers through
// encoding/json. Objects and Lists are copied too.
//
// It refuses strings that are not UTF-8, numbers which the model cannot hold
// exactly, values without a JSON form, readers, which [ReadAll] reads, and whatever exceeds lim; a cycle
// exceeds the depth. Errors are of type *Error and say the place.
//
// Inside a struct a float64 from 2^53 on may be refused: encoding/json writes
// it with digits that are not its exact value.
//
// Inputs, results and payloads of the host come through here before anything else sees them:
// from then on nobody needs to ask whether a value is within the model, and nobody outside can
// change it while a run holds it.
func Normalize(v any, lim Limits) (any, error) {
	t, err := Take(v, lim)
	return t.Value, err
}

// Take is [Normalize], which measures the copy while it makes it, and keeps the JSON in which the value came as json.RawMessage, if that
// is canonical.
//
// Most values are good, and are copied in one pass, with the keys of maps in any order. If that
// fails the error depends on the order, as a map may have several faults; a second pass in key
// order finds the one that is told, and runs only then.
func Take(v any, lim Limits) (Taken, error) {
	n := normalizer{depth: lim.maxDepth(), bytes: lim.maxBytes()}
	out, err := n.copyValue(v, 0)
	if err == nil {
		return Taken{out, Measure{n.used, n.deepest, n.refs}, n.text}, nil
	}
	pace.Pause()
	n.used, n.sorted = 0, true // once more in key order: the same value, the same error
	if _, first := n.copyValue(v, 0); first != nil {
		err = first
	}
	return Taken{}, err
}

// A normalizer copies one value and counts the bytes of its encoding.
//
// used never exceeds bytes by more than one value, because each is counted as it is copied: a
// huge value is refused before a copy of it is made. The zero pacer is ready.
type normalizer struct {
	depth   int
	bytes   int
	used    int
	deepest int  // containers inside each other so far
	refs    bool // an object has had the key of references
	text    Text // of the whole, if it came as canonical JSON
	sorted  bool // visit the keys of maps in order
	pacer   pace.Pacer
}

// countBytes counts n more bytes of the encoding.
//
// It is called for every value, and therefore is where the work is counted too.
func (n *normalizer) countBytes(bytes int) *Error {
	n.used += bytes
	n.pacer.Spend(1)
	if n.used > n.bytes {
		return limitError(LimitBytes, n.bytes, n.used)
	}
	return nil
}

// copyValue copies v, which is inside depth containers. Model values come first.
//
// The cases are in the order of how often they come. An int64 may be outside of the model, and
// a float64 integral: both go through the number rule. Types that are not listed go through
// reflection.
func (n *normalizer) copyValue(v any, depth int) (any, *Error) {
	switch v := v.(type) {
	case nil, bool:
		return v, n.countBytes(Size(v))
	case string:
		return n.copyText(v)
	case int64:
		return n.copyNumber(modelInt(v))
	case int:
		return n.copyNumber(modelInt(int64(v)))
	case float64:
		return n.copyNumber(modelFloat(v))
	case map[string]any:
		return n.copyMap(v, depth)
	case []any:
		return n.copyPlainList(v, depth)
	case json.Number:
		return n.copyLiteral(v)
	case json.RawMessage:
		return n.decodeRaw(v, depth, false)
	case Object:
		return n.copyObject(v, depth)
	case List:
		return n.copyList(v.Len(), v.At, depth)
	default:
		return n.copyReflected(reflect.ValueOf(v), depth)
	}
}

// copyText takes a string as it is: strings cannot be changed, so that sharing one is safe.
func (n *normalizer) copyText(s string) (any, *Error) {
	if !utf8.ValidString(s) {
		return nil, newError(CodeString, "string is not UTF-8")
	}
	return s, n.countBytes(sizeString(s))
}

// copyNumber counts a number that the number rule has made, or passes on why the rule has
// refused it.
func (n *normalizer) copyNumber(v any, err *Error) (any, *Error) {
	if err != nil {
		return nil, err
	}
	return v, n.countBytes(Size(v))
}

// copyLiteral takes a json.Number, whose zero value is 0 as in encoding/json.
func (n *normalizer) copyLiteral(number json.Number) (any, *Error) {
	if number == "" {
		number = "0"
	}
	// The literal is parsed as a JSON text, because a json.Number may hold any text.
	scan := Scanner{data: []byte(number)}
	v, err := scan.scanDocument(0)
	if err != nil {
		return nil, err
	}
	switch v.(type) {
	case int64, float64:
		return v, n.countBytes(Size(v))
	default:
		return nil, newError(CodeNumber, "json.Number %q is not a number", Shorten(string(number), maxLiteral))
	}
}

// decodeRaw takes a JSON text at the given depth.
//
// The depth of the text counts together with what is around it, and so do its size and its
// references. marshaled says that encoding/json wrote it: bytes that are not UTF-8 stand as
// \ufffd there, which is refused; in a text of the host's own that character may be meant.
func (n *normalizer) decodeRaw(text []byte, depth int, marshaled bool) (any, *Error) {
	if text == nil {
		return nil, n.countBytes(len("null"))
	}
	scan := Scanner{data: text, limit: n.depth, marshaled: marshaled}
	v, err := scan.scanDocument(depth)
	if err != nil {
		return nil, err
	}
	n.deepest, n.refs = max(n.deepest, scan.deepest), n.refs || scan.refs
	if scan.free {
		return v, n.countBytes(Size(v))
	}
	if err := n.countBytes(len(text)); err != nil {
		return nil, err
	}
	if depth == 0 && len(text) >= keptText {
		n.text.JSON = text
		if !marshaled { // the host may change what is its own
			n.text.JSON = pace.Append([]byte(nil), text...)
		}
	}
	return v, nil
}

// openContainer counts the brackets and commas of a container with size elements.
//
// A value that contains itself never ends, and comes here once for each round: the depth is
// what stops it.
func (n *normalizer) openContainer(size, depth int) *Error {
	if depth >= n.depth {
		return limitError(LimitDepth, n.depth, depth+1)
	}
	n.deepest = max(n.deepest, depth+1)
	return n.countBytes(len("[]") + max(0, size-1))
}

// copyMap copies a plain map; a nil one is null, as in encoding/json.
func (n *normalizer) copyMap(m map[string]any, depth int) (any, *Error) {
	if m == nil {
		return nil, n.countBytes(len("null"))
	}
	if err := n.openContainer(len(m), depth); err != nil {
		return nil, err
	}
	out := make(map[string]any, len(m))
	for k, e := range n.entriesOf(m) {
		if err := n.copyEntry(out, k, e, depth); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// entriesOf iterates over m, in key order if the normalizer says so.
func (n *normalizer) entriesOf(m map[string]any) iter.Seq2[string, any] {
	if !n.sorted {
		return maps.All(m)
	}
	return func(yield func(string, any) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// copyEntry counts and copies one entry, and notes the key by which references to blobs are
// known.
func (n *normalizer) copyEntry(out map[string]any, key string, v any, depth int) *Error {
	if _, err := n.copyText(key); err != nil {
		return err
	}
	if err := n.countBytes(len(":")); err != nil {
		return err
	}
	e, err := n.copyValue(v, depth+1)
	if err != nil {
		return err.inKey(key)
	}
	out[key], n.refs = e, n.refs || key == RefKey
	return nil
}

// copyPlainList copies a plain list; a nil one is null.
func (n *normalizer) copyPlainList(list []any, depth int) (any, *Error) {
	if list == nil {
		return nil, n.countBytes(len("null"))
	}
	return n.copyList(len(list), func(i int) any { return list[i] }, depth)
}

// copyList copies size elements, which at returns, so that plain lists, views and slices of
// other types share it.
func (n *normalizer) copyList(size int, at func(int) any, depth int) (any, *Error) {
	if err := n.openContainer(size, depth); err != nil {
		return nil, err
	}
	out := make([]any, size)
	for i := range out {
		e, err := n.copyValue(at(i), depth+1)
		if err != nil {
			return nil, err.inElement(i)
		}
		out[i] = e
	}
	return out, nil
}

// copyObject copies a view. Its keys come sorted already.
func (n *normalizer) copyObject(v Object, depth int) (any, *Error) {
	if err := n.openContainer(v.Len(), depth); err != nil {
		return nil, err
	}
	out := make(map[string]any, v.Len())
	for _, k := range v.Keys() {
		e, ok := v.Get(k)
		if !ok {
			continue
		}
		if err := n.copyEntry(out, k, e, depth); err != nil {
			return nil, err
		}
	}
	return out, nil
}

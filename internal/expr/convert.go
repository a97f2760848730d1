package expr

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/pawl-run/pawl/internal/value"
)

// A converter makes a model value of a result, within the limits.
//
// A result becomes data of a run, and so has to be within the model and within bounds. Units of
// work are counted once more here, as making a value of a result is work that the evaluation
// has not paid for.
type converter struct {
	limits Limits
	bytes  int    // of the canonical JSON so far
	nodes  uint64 // values that were visited, and entryNodes for each entry of a map
	signed bool   // negative zero is an error
}

// entryNodes is what an entry of a map costs beyond its value.
const entryNodes = 5

// countBytes counts bytes of the result's canonical JSON, before they are made.
func (c *converter) countBytes(bytes int) *Error {
	if c.bytes += bytes; c.bytes > c.limits.Bytes {
		return limitError(LimitBytes, uint64(c.limits.Bytes))
	}
	return nil
}

// convertValue converts v, which is inside depth containers. A value that the expression
// has built may hold the same part many times, so that every visit counts.
//
// A list [x, x] where x is a list [y, y], and so on, has 2^n leaves after n steps of work;
// without a count of visits their conversion would never end.
func (c *converter) convertValue(v ref.Val, depth int) (any, *Error) {
	if c.nodes++; c.nodes > c.limits.Cost {
		return nil, limitError(LimitCost, c.limits.Cost)
	}
	switch v := v.(type) {
	case types.Null:
		return nil, c.countBytes(len("null"))
	case types.Bool:
		return bool(v), c.countBytes(len("false"))
	case types.Int:
		return c.convertNumber(value.Int(int64(v)))
	case types.Double:
		if c.signed && v == 0 && math.Signbit(float64(v)) {
			return nil, newError(CodeExpression, "result: negative zero is refused")
		}
		return c.convertNumber(value.Float(float64(v)))
	case types.Uint:
		if v > value.MaxInteger {
			return nil, newError(CodeExpression, "result: uint %d is above 2^53", uint64(v))
		}
		return c.convertNumber(value.Int(int64(v)))
	case types.String:
		return c.convertText(string(v))
	// RFC 3339 with as many digits as are needed, in UTC, so that one instant has one text.
	case types.Timestamp:
		return c.convertText(v.UTC().Format(time.RFC3339Nano))
	case types.Duration:
		return c.convertText(v.String())
	case object:
		return c.convertObject(v.view, depth)
	case list:
		return c.convertList(v.view, depth)
	case traits.Mapper:
		return c.convertMapper(v, depth)
	case traits.Lister:
		return c.convertList(listerView{v}, depth)
	default:
		return nil, newError(CodeExpression, "result: %s has no JSON form", typeName(v))
	}
}

// convertNumber takes a number by the number rule; err says why it is no number.
func (c *converter) convertNumber(n any, err error) (any, *Error) {
	if err != nil {
		return nil, newError(CodeExpression, "result: %s", strings.TrimPrefix(err.Error(), "$: "))
	}
	return n, c.countBytes(value.Size(n))
}

// convertText checks the length before it looks at the bytes.
func (c *converter) convertText(s string) (any, *Error) {
	if len(s) > c.limits.Bytes {
		return nil, limitError(LimitBytes, uint64(c.limits.Bytes))
	}
	if !utf8.ValidString(s) {
		return nil, newError(CodeExpression, "result: string is not UTF-8")
	}
	return s, c.countBytes(value.Size(s))
}

// openContainer counts the brackets and separators of a container of size elements.
//
// The depth is bounded where a container is opened, as in package value.
func (c *converter) openContainer(size, depth int) *Error {
	if depth >= c.limits.Depth {
		return limitError(LimitDepth, uint64(c.limits.Depth))
	}
	return c.countBytes(len("[]") + max(0, size-1))
}

// convertObject converts a view. A plain map is shared with the variables and only measured:
// nobody changes it. One with instants in it, as the variable run has, is no value of the model
// and is converted like a view.
func (c *converter) convertObject(o value.Object, depth int) (any, *Error) {
	if plain, ok := o.(plainObject); ok && !plain.hasInstant() {
		return map[string]any(plain), c.measureValue(map[string]any(plain), depth)
	}
	if err := c.openContainer(o.Len(), depth); err != nil {
		return nil, err
	}
	c.nodes += uint64(entryNodes * o.Len())
	out := make(map[string]any, o.Len())
	// A view may have lost a key since it listed them: it is left out.
	for _, key := range o.Keys() {
		e, ok := o.Get(key)
		if !ok {
			continue
		}
		if err := c.convertEntry(out, key, adapter{}.NativeToValue(e), depth); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// convertEntry converts one entry. The colon is counted last; the limits do not depend on the
// order.
func (c *converter) convertEntry(out map[string]any, key string, v ref.Val, depth int) *Error {
	if _, err := c.convertText(key); err != nil {
		return err
	}
	e, err := c.convertValue(v, depth+1)
	if err != nil {
		return err
	}
	out[key] = e
	return c.countBytes(len(":"))
}

// convertMapper converts a map of the library, in key order.
//
// Its entries come in random order otherwise, and which error is met first would be random too.
func (c *converter) convertMapper(m traits.Mapper, depth int) (any, *Error) {
	if err := c.openContainer(sizeOf(m), depth); err != nil {
		return nil, err
	}
	c.nodes += uint64(entryNodes * sizeOf(m))
	out := make(map[string]any, sizeOf(m))
	for it := evalOrdered(meter{}, m).(traits.Mapper).Iterator(); it.HasNext() == types.True; {
		k := it.Next()
		key, ok := k.(types.String)
		if !ok {
			return nil, newError(CodeExpression, "result: a key is %s, not a string", typeName(k))
		}
		v, _ := m.Find(k)
		if err := c.convertEntry(out, string(key), v, depth); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// convertList converts a view or a list of the library. A plain list is shared.
func (c *converter) convertList(l value.List, depth int) (any, *Error) {
	if plain, ok := l.(plainList); ok {
		return []any(plain), c.measureValue([]any(plain), depth)
	}
	if err := c.openContainer(l.Len(), depth); err != nil {
		return nil, err
	}
	out := make([]any, l.Len())
	for i := range out {
		e, err := c.convertValue(adapter{}.NativeToValue(l.At(i)), depth+1)
		if err != nil {
			return nil, err
		}
		out[i] = e
	}
	return out, nil
}

// listerView is a list of the library as a value.List.
type listerView struct{ traits.Lister }

// At implements value.List.
func (l listerView) At(i int) any { return l.Get(types.Int(i)) }

// Len implements value.List.
func (l listerView) Len() int { return sizeOf(l.Lister) }

// measureValue counts a plain value, which the result shares with the variables.
//
// It is in the model already, as all variables are, and needs no conversion.
func (c *converter) measureValue(v any, depth int) *Error {
	switch v := v.(type) {
	case map[string]any:
		return c.measureMap(v, depth)
	case []any:
		if err := c.openContainer(len(v), depth); err != nil {
			return err
		}
		for _, e := range v {
			if err := c.measureValue(e, depth+1); err != nil {
				return err
			}
		}
		return nil
	default:
		return c.countBytes(value.Size(v))
	}
}

// measureMap visits the entries in any order: depth comes first, so that there
// is one error whatever the order.
//
// Bytes add up to the same sum in any order, so that they exceed the limit or do not; which
// entry exceeds it does not matter, since the error names the limit alone.
func (c *converter) measureMap(m map[string]any, depth int) *Error {
	if err := c.openContainer(len(m), depth); err != nil {
		return err
	}
	for k, e := range m {
		if err := c.countBytes(value.Size(k) + len(":")); err != nil {
			return err
		}
		if err := c.measureValue(e, depth+1); err != nil {
			return err
		}
	}
	return nil
}

package value

import (
	"fmt"

	"github.com/pawl-run/pawl/internal/pace"
)

// RefKey is the key that only references to blobs may have.
const RefKey = "$blob"

// A Measure says what one walk over a model value has found. A measured value has
// at least one byte, so that the zero Measure is that of none.
//
// It must agree with Append to the byte: limits are checked by it, and what passes them is then
// written. Refs lets callers skip the search for references to blobs in values that have none,
// which is nearly all of them.
type Measure struct {
	Size  int  // bytes of the canonical JSON
	Depth int  // containers inside each other: a scalar has depth 0, [] has depth 1
	Refs  bool // an object has the key RefKey
}

// MeasureOf measures a model value. It allocates nothing. It panics on a value
// outside the model.
func MeasureOf(v any) Measure {
	var m Measure
	m.addValue(v, 0)
	return m
}

// Size returns the number of bytes of the canonical JSON of a model value; see
// [MeasureOf].
func Size(v any) int { return MeasureOf(v).Size }

// addValue measures v, which is inside depth containers.
//
// Map order does not matter here, since everything is a sum or a maximum: the keys are not
// sorted, which would be most of the cost.
func (m *Measure) addValue(v any, depth int) {
	switch v := v.(type) {
	case nil:
		m.Size += len("null")
	case bool:
		m.Size += len("false")
		if v {
			m.Size--
		}
	case int64:
		m.Size += sizeInt(v)
	// The buffer is on the stack: a float has no simple rule for its length.
	case float64:
		var buf [32]byte
		m.Size += len(appendFloat(buf[:0], v))
	case string:
		m.Size += sizeString(v)
	case []any:
		m.addContainer(len(v), depth+1)
		for i, e := range v {
			pace.Each(i)
			m.addValue(e, depth+1)
		}
	case map[string]any:
		m.addContainer(len(v), depth+1)
		for k, e := range v {
			m.Refs = m.Refs || k == RefKey
			m.Size += sizeString(k) + len(":")
			m.addValue(e, depth+1)
		}
	default:
		panic(fmt.Sprintf("value: %T is outside the model", v))
	}
}

// addContainer counts the brackets and commas of a container of size elements.
func (m *Measure) addContainer(size, depth int) {
	m.Size += len("[]") + max(0, size-1)
	m.Depth = max(m.Depth, depth)
}

// sizeInt counts the digits, and the sign. The smallest int64 has no positive counterpart, but
// is outside of the model.
func sizeInt(n int64) int {
	size := 1
	if n < 0 {
		size, n = 2, -n
	}
	for ; n >= 10; n /= 10 {
		size++
	}
	return size
}

// sizeString counts the quotes, the bytes, and what escapes add.
func sizeString(s string) int {
	size := len(s) + len(`""`)
	for {
		n, _ := plainPrefix(s)
		if n == len(s) {
			return size
		}
		size += sizeEscape(s[n])
		s = s[n+1:]
	}
}

// sizeEscape returns how many bytes an escape of c takes beyond the one of c.
//
// A short escape is two bytes for one, \u00xx six.
func sizeEscape(c byte) int {
	if shortEscape(c) != 0 {
		return 1
	}
	return 5
}

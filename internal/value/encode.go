package value

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/pawl-run/pawl/internal/pace"
)

// Append appends the canonical JSON of a model value to dst: no white space,
// keys in ascending order of their bytes, the shortest form of a number which
// decodes to the same number, and only those characters escaped that must be.
// Equal values have equal encodings. It panics on a value outside the model,
// which is a broken invariant.
//
// It is what is hashed, compared and stored: an input is the same input if its bytes are, a
// large value is kept once under its hash, and a journal that is written again has the same
// text. This is why it has one form for each value, where encoding/json escapes for HTML and
// keeps struct order.
func Append(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case int64:
		return appendInt(dst, v)
	case float64:
		return appendFloat(dst, v)
	case string:
		return appendString(dst, v)
	case []any:
		return appendList(dst, v)
	case map[string]any:
		return appendMap(dst, v)
	default:
		panic(fmt.Sprintf("value: %T is outside the model", v))
	}
}

// AppendString appends the canonical JSON of a string; see [Append].
func AppendString(dst []byte, s string) []byte { return appendString(dst, s) }

// AppendHex appends a number as sixteen hexadecimal digits, as texts have epochs.
func AppendHex(dst []byte, n uint64) []byte {
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, hexDigits[n>>shift&15])
	}
	return dst
}

// Encode returns the canonical JSON of a model value; see Append.
func Encode(v any) []byte {
	return Append(nil, v)
}

// Hash returns the SHA-256 of the canonical JSON of a model value, in hex.
//
// The hash of an input is kept with a run: by it a repeated Start is told from another one.
func Hash(v any) string { return TextOf(v, Text{}).Hash }

// appendList steps back for others now and then: a list may have a million elements.
func appendList(dst []byte, list []any) []byte {
	dst = append(dst, '[')
	for i, e := range list {
		pace.Each(i)
		dst = withRoom(dst, 64)
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = Append(dst, e)
	}
	return append(dst, ']')
}

// withRoom returns dst with room for n more bytes, if it is large. Other appends to a large
// value are small.
//
// A slice that grows by append is copied in one piece, which takes milliseconds for megabytes;
// pace.Grow copies in pieces. Small ones are left to append.
func withRoom(dst []byte, n int) []byte {
	const large = 16 << 10
	if cap(dst)-len(dst) < n && len(dst)+n > large {
		return pace.Grow(dst, n)
	}
	return dst
}

// appendMap sorts the keys. The array on the stack is enough for most objects, so that sorting
// them allocates nothing.
func appendMap(dst []byte, m map[string]any) []byte {
	var small [16]string
	keys := slices.AppendSeq(small[:0], maps.Keys(m))
	slices.Sort(keys)
	dst = append(dst, '{')
	for i, k := range keys {
		pace.Each(i)
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, k)
		dst = append(dst, ':')
		dst = Append(dst, m[k])
	}
	return append(dst, '}')
}

// appendInt refuses what no model value is, rather than write an integer that would be read
// back as a double.
func appendInt(dst []byte, n int64) []byte {
	if n < -MaxInteger || n > MaxInteger {
		panic(fmt.Sprintf("value: int64 %d is outside the model", n))
	}
	return strconv.AppendInt(dst, n, 10)
}

// appendFloat writes a double. From 2^53 on it uses an exponent: the shortest
// digits padded with zeros would be an integer literal of another value.
//
// The shortest digits that give the same double are not always those of its exact value: 1e300
// written without an exponent would be 1 and 300 zeros, which is another integer. The exponent
// marks it as a double, and such literals are read as the nearest one. Below 1e-6 it has an
// exponent as well, as JSON by encoding/json does.
func appendFloat(dst []byte, f float64) []byte {
	// An integral double would be written like an int64 and read as one: the value would change
	// its type on the way.
	if math.IsNaN(f) || math.IsInf(f, 0) || isIntegral(f) {
		panic(fmt.Sprintf("value: float64 %v is outside the model", f))
	}
	if a := math.Abs(f); a >= 1e-6 && a < MaxInteger {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	if n := len(dst); dst[n-4] == 'e' && dst[n-2] == '0' { // e-07 is e-7
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

const hexDigits = "0123456789abcdef"

// appendString writes the parts between characters that need an escape as they are. It checks
// for UTF-8 only if a byte above ASCII came, which nearly never happens in keys. A text of many lines has an escape for each.
func appendString(dst []byte, s string) []byte {
	dst = append(withRoom(dst, len(s)+len(s)/16+64), '"')
	allASCII := true
	for rest := s; ; {
		n, ascii := plainPrefix(rest)
		allASCII = allASCII && ascii
		dst = append(dst, rest[:n]...)
		if n == len(rest) {
			break
		}
		dst = appendEscape(dst, rest[n])
		rest = rest[n+1:]
	}
	if !allASCII && !utf8.ValidString(s) {
		panic(fmt.Sprintf("value: string %.40q is not UTF-8", s))
	}
	return append(dst, '"')
}

// appendEscape writes the shortest escape: two bytes for those that have a letter, else \u00
// and two digits. Only control characters come to the latter.
func appendEscape(dst []byte, c byte) []byte {
	if short := shortEscape(c); short != 0 {
		return append(dst, '\\', short)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// shortEscape returns the letter of the two-byte escape of c, or 0.
func shortEscape(c byte) byte {
	switch c {
	case '"', '\\':
		return c
	case '\b':
		return 'b'
	case '\f':
		return 'f'
	case '\n':
		return 'n'
	case '\r':
		return 'r'
	case '\t':
		return 't'
	default:
		return 0
	}
}

// Bind decodes a value of the JSON model into what v points to, as encoding/json would.
// If it is strict, a field that v has not is an error.
//
// It goes through the text on purpose: all rules of encoding/json for tags, embedding and
// conversions hold, without a second implementation of them.
func Bind(x, v any, strict bool) error {
	text, err := boundText(x)
	if err != nil {
		return err
	}
	if !strict {
		return json.Unmarshal(text, v)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// boundText returns the text that encoding/json reads: it takes no exponent for an integer, and so all digits of one are written.
func boundText(x any) ([]byte, error) {
	if hasExponent(x) {
		return json.Marshal(withDigits(x))
	}
	return Encode(x), nil
}

// hasExponent reports whether the canonical text may have an integer with an exponent, which is one beyond MaxInteger.
func hasExponent(x any) bool {
	switch x := x.(type) {
	case float64:
		return math.Abs(x) > MaxInteger
	case []any:
		return slices.ContainsFunc(x, hasExponent)
	case map[string]any:
		for _, e := range x {
			if hasExponent(e) {
				return true
			}
		}
	}
	return false
}

// withDigits returns a copy of a value in which integers beyond MaxInteger are texts of digits.
func withDigits(x any) any {
	switch x := x.(type) {
	case float64:
		if size := math.Abs(x); size > MaxInteger && size < 1<<64 {
			return json.Number(strconv.FormatFloat(x, 'f', 0, 64))
		}
		return x
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = withDigits(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			out[k] = withDigits(e)
		}
		return out
	default:
		return x
	}
}

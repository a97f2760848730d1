package value

import (
	"bytes"
	"encoding/hex"
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

// Encode returns the canonical JSON of a model value; see Append.
func Encode(v any) []byte {
	return Append(nil, v)
}

// Hash returns the SHA-256 of the canonical JSON of a model value, in hex.
func Hash(v any) string {
	sum := pace.Sum256(Encode(v))
	return hex.EncodeToString(sum[:])
}

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

// withRoom returns dst with room for n more bytes, if it is large. What else is appended
// to a large value is small.
func withRoom(dst []byte, n int) []byte {
	const large = 16 << 10
	if cap(dst)-len(dst) < n && len(dst)+n > large {
		return pace.Grow(dst, n)
	}
	return dst
}

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

func appendInt(dst []byte, n int64) []byte {
	if n < -MaxInteger || n > MaxInteger {
		panic(fmt.Sprintf("value: int64 %d is outside the model", n))
	}
	return strconv.AppendInt(dst, n, 10)
}

// appendFloat writes a double. From 2^53 on it uses an exponent: the shortest
// digits padded with zeros would be an integer literal of another value.
func appendFloat(dst []byte, f float64) []byte {
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

func appendString(dst []byte, s string) []byte {
	dst = append(withRoom(dst, len(s)+64), '"')
	start, ascii := 0, true
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			ascii = ascii && c < utf8.RuneSelf
			continue
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscape(dst, c)
		start = i + 1
	}
	if !ascii && !utf8.ValidString(s) {
		panic(fmt.Sprintf("value: string %.40q is not UTF-8", s))
	}
	return append(append(dst, s[start:]...), '"')
}

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
func Bind(x, v any, strict bool) error {
	if !strict {
		return json.Unmarshal(Encode(x), v)
	}
	d := json.NewDecoder(bytes.NewReader(Encode(x)))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

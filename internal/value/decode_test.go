package value_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/value"
)

func TestDecodeNumbers(t *testing.T) {
	for literal, want := range map[string]any{
		"0":                      int64(0),
		"-1":                     int64(-1),
		"1.0":                    int64(1),
		"1e3":                    int64(1000),
		"1.5e1":                  int64(15),
		"0e7":                    int64(0),
		"0.0":                    int64(0),
		"-0":                     int64(0),
		"-0.0":                   int64(0),
		"-0e3":                   int64(0),
		"0.1":                    0.1,
		"-2.5":                   -2.5,
		"9007199254740992":       int64(1 << 53),
		"-9007199254740992":      int64(-1 << 53),
		"9007199254740991":       int64(1<<53 - 1),
		"9007199254740994":       float64(1<<53 + 2),
		"1152921504606846976":    float64(1 << 60),
		"100000000000000000000":  1e20,
		"1e23":                   1e23,
		"1.7976931348623157e308": 1.7976931348623157e308,
		"5e-324":                 5e-324,
		"0.30000000000000000001": 0.3,
	} {
		got, err := value.Decode([]byte(literal), value.Limits{})
		require.NoError(t, err, literal)
		assert.Equal(t, want, got, literal)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for text, code := range map[string]string{
		"9007199254740993":       value.CodeNumber,
		"-9007199254740993":      value.CodeNumber,
		"1152921504606847000":    value.CodeNumber,
		"123456789012345678901":  value.CodeNumber,
		"1e400":                  value.CodeNumber,
		"-1e400":                 value.CodeNumber,
		"1e-400":                 value.CodeNumber,
		strings.Repeat("9", 5e3): value.CodeNumber,
		"01":                     value.CodeJSON,
		"00":                     value.CodeJSON,
		"-":                      value.CodeJSON,
		"+1":                     value.CodeJSON,
		".5":                     value.CodeJSON,
		"1.":                     value.CodeJSON,
		"1e":                     value.CodeJSON,
		"1e+":                    value.CodeJSON,
		"0x10":                   value.CodeJSON,
		"NaN":                    value.CodeJSON,
		"Infinity":               value.CodeJSON,
		"":                       value.CodeJSON,
		" ":                      value.CodeJSON,
		"nul":                    value.CodeJSON,
		"nulL":                   value.CodeJSON,
		"true false":             value.CodeJSON,
		"{} x":                   value.CodeJSON,
		"[1,]":                   value.CodeJSON,
		"[1 2]":                  value.CodeJSON,
		"[":                      value.CodeJSON,
		"{":                      value.CodeJSON,
		"]":                      value.CodeJSON,
		`{"a"}`:                  value.CodeJSON,
		`{"a":}`:                 value.CodeJSON,
		`{"a":1,}`:               value.CodeJSON,
		`{a:1}`:                  value.CodeJSON,
		`{1:1}`:                  value.CodeJSON,
		`{"a":1,"a":2}`:          value.CodeJSON,
		`{"a":1,"\u0061":2}`:     value.CodeJSON,
		`"abc`:                   value.CodeJSON,
		`"abc\`:                  value.CodeJSON,
		`"abc\"`:                 value.CodeJSON,
		"\"a\nb\"":               value.CodeJSON,
		"\"a\x00b\"":             value.CodeJSON,
		"\xef\xbb\xbf1":          value.CodeJSON,
		"\xff":                   value.CodeJSON,
		"\"\xff\"":               value.CodeString,
		"\"\xed\xa0\x80\"":       value.CodeString,
		"\"\xc0\x80\"":           value.CodeString,
		`"\ud800"`:               value.CodeString,
		`"\udc00"`:               value.CodeString,
		`"\ud800\u0041"`:         value.CodeString,
		`"\ud800x"`:              value.CodeString,
		`"\udc00\ud800"`:         value.CodeString,
		`"\x41"`:                 value.CodeString,
		`"\u12"`:                 value.CodeString,
		`"\u12g4"`:               value.CodeString,
	} {
		_, err := value.Decode([]byte(text), value.Limits{})
		var e *value.Error
		if assert.ErrorAs(t, err, &e, text) {
			assert.Equal(t, code, e.Code, "%.40q: %v", text, err)
		}
	}
}

func TestDecodeStrings(t *testing.T) {
	for text, want := range map[string]string{
		`""`:                        "",
		`"a\/b\\c\"d\b\f\n\r\t"`:    "a/b\\c\"d\b\f\n\r\t",
		`"\u00e9\u20ac"`:            "é€",
		`"\ud83d\ude00"`:            "😀",
		`"\uD83D\uDE00!"`:           "😀!",
		`"é€😀"`:                     "é€😀",
		`"\u0000"`:                  "\x00",
		`"\ufffd"`:                  "\ufffd",
		"\"\u2028\x7f\ufffd\"":      "\u2028\x7f\ufffd",
		` "space around" ` + "\t\n": "space around",
	} {
		got, err := value.Decode([]byte(text), value.Limits{})
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
}

func TestDecodeSaysWhere(t *testing.T) {
	_, err := value.Decode([]byte(`{"a":[1,2,{"b c":[1e400]}]}`), value.Limits{})
	var e *value.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, `$.a[2]["b c"][0]`, e.Path)
	assert.Equal(t, "/a/2/b c/0", e.Pointer())
	assert.Equal(t, 18, e.Offset)
	assert.EqualError(t, err, `$.a[2]["b c"][0]: number 1e400 is out of range at byte 18`)
}

func TestDecodeLimits(t *testing.T) {
	nest := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	_, err := value.Decode(nest(value.DefaultDepth), value.Limits{})
	require.NoError(t, err)

	for _, n := range []int{value.DefaultDepth + 1, 1e6} {
		_, err = value.Decode(nest(n), value.Limits{})
		var e *value.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, value.CodeLimit, e.Code)
		assert.Equal(t, value.LimitDepth, e.Limit)
		assert.Equal(t, value.DefaultDepth, e.Max)
		assert.Equal(t, value.DefaultDepth+1, e.Value)
	}

	_, err = value.Decode([]byte("[1]"), value.Limits{Bytes: 3})
	require.NoError(t, err)
	_, err = value.Decode([]byte("[10]"), value.Limits{Bytes: 3})
	assert.EqualError(t, err, "$: payloadBytes 4 exceeds the limit of 3")
	_, err = value.Decode([]byte("[]"), value.Limits{Depth: -1})
	assert.Error(t, err)
}

func TestDecodeEncodeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := model().Draw(t, "v")
		text := value.Encode(v)
		got, err := value.Decode(text, value.Limits{})
		require.NoError(t, err)
		require.Equal(t, v, got)
		require.True(t, value.Equal(v, got))
		require.Equal(t, len(text), value.Size(v))
		require.True(t, json.Valid(text))
	})
}

// Every text that Decode takes, encoding/json takes as well and reads the same.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,2.5,-3e7,"x\u00e9\ud83d\ude00",null,true,false]}`, `1e23`, `9007199254740993`, `-0`, `"\ud800"`,
		`{"a":1,"a":2}`, ` [ ] `, `[[[[[[]]]]]]`, "\"\xff\"", `1e400`, `{"":{}}`, `"\u0000"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := value.Decode(data, value.Limits{})
		if err != nil {
			return
		}
		require.True(t, json.Valid(data))
		text := value.Encode(v)
		again, err := value.Decode(text, value.Limits{Bytes: -1})
		require.NoError(t, err)
		require.True(t, value.Equal(v, again))
		require.True(t, bytes.Equal(text, value.Encode(again)))
		requireText(t, data)

		var std any
		require.NoError(t, json.Unmarshal(data, &std))
		copied, err := value.Normalize(std, value.Limits{})
		require.NoError(t, err)
		require.True(t, value.Equal(v, copied), "%s: %v, %v", data, v, copied)
	})
}

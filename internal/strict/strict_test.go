package strict

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type message struct {
	Name string                     `json:"name"`
	List []part                     `json:"list,omitempty"`
	Of   map[string]json.RawMessage `json:"of,omitempty"`
	Part *part                      `json:"part"`
	Map  map[string]string          `json:"map"`
	When []time.Time                `json:"when"`
	Num  map[string][]int           `json:"num"`
	Is   bool                       `json:"is"`
	Real float64                    `json:"real"`
}

type part struct {
	Any json.RawMessage `json:"any"`
}

func TestDecodeObject(t *testing.T) {
	var m message
	require.NoError(t, DecodeObject([]byte(`{"name":"a","list":[{"any":{"x":1,"x":2}}],"of":{"b":[1]},"part":{"any":null}} `), &m))
	require.Equal(t, "a", m.Name)
	for text, want := range map[string]string{
		``:                                  "it is empty",
		` `:                                 "it is empty",
		`{`:                                 "unexpected EOF at byte 1",
		`{"name": }`:                        "invalid character '}' looking for beginning of value at byte 9",
		"{\n \"name\": \"a\",\n}":           "invalid character '}' looking for beginning of object key string at byte 16, line 3 column 1",
		"{\n \"name\": \"a\n":               "invalid character '\\n' in string literal at byte 13, line 2 column 12",
		"{\"of\": {\n\n":                    "unexpected EOF at byte 10, line 3 column 1",
		`[]`:                                "it is no JSON object",
		` null`:                             "it is no JSON object",
		`"a"`:                               "it is no JSON object",
		`{"Name":"a"}`:                      `unknown field "Name"`,
		`{"name":"a","name":"a"}`:           `the field "name" is there twice`,
		`{"list":[{"any":1,"any":2}]}`:      `the field "any" is there twice`,
		`{"part":{"other":1}}`:              `unknown field "other"`,
		`{"name":"a"}{}`:                    "there is something after the JSON object",
		`{"name":"a"}]`:                     "there is something after the JSON object",
		`{"name":1}`:                        `the field "name" cannot be of type number: a string is needed`,
		`{"map":{"a":"1","b":{}}}`:          `the field "map.b" cannot be of type object: a string is needed`,
		`{"map":{"a":"1","b":2},"name":1}`:  `the field "map.b" cannot be of type number: a string is needed`,
		`{"map":[1]}`:                       `the field "map" cannot be of type array: an object is needed`,
		`{"list":[{"any":[1,{"x":2}]},[]]}`: `the field "list[1]" cannot be of type array: an object is needed`,
		`{"of":{"a":[1]}, "num":{"a":[1, 2],"b":[1, 1.5]}}`: `the field "num.b[1]" cannot be of type number 1.5: a whole number is needed`,
		`{"num":{"a":1}}`:                `the field "num.a" cannot be of type number: a list is needed`,
		`{"is":"1"}`:                     `the field "is" cannot be of type string: true or false is needed`,
		`{"real":"1"}`:                   `the field "real" cannot be of type string: a number is needed`,
		`{"of":{"b":1,"b":2},"name":""}`: `the field "b" is there twice`,
	} {
		require.ErrorContains(t, DecodeObject([]byte(text), new(message)), want, text)
	}
}

// A text with many values at a long path costs what its bytes cost, and not a path for each of them.
func TestManyValuesAtALongPath(t *testing.T) {
	text := []byte(`{"of":{"a":` + strings.Repeat("[", 5000) + strings.Repeat("1,", 50_000) + "1" + strings.Repeat("]", 5000) + `},"name":1}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.ErrorContains(t, DecodeObject(text, new(message)), `the field "name" cannot be`)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100<<20))
}

// The fields of a struct within are those of the message, under the same rules.
func TestDecodeObjectOfParts(t *testing.T) {
	type outer struct {
		Name string `json:"name"`
		part
	}
	var m outer
	require.NoError(t, DecodeObject([]byte(`{"name":"a","any":1}`), &m))
	require.Equal(t, "1", string(m.Any))
	require.ErrorContains(t, DecodeObject([]byte(`{"any":1,"any":2}`), &m), `the field "any" is there twice`)
	require.ErrorContains(t, DecodeObject([]byte(`{"part":{}}`), &m), `unknown field "part"`)
}

// A text that encoding/json would replace is found wherever it stands, as a value or as a key.
func TestCheckTexts(t *testing.T) {
	require.NoError(t, CheckTexts([]byte(`{"a\"é":[1,"\ud83d\ude00","\u0000","�",{}], "":""}`)))
	for text, want := range map[string]string{
		`{"a":"\ud800"}`:                "half of a surrogate pair at byte 6",
		`{"a":[{"b\udc00":1}]}`:         "half of a surrogate pair at byte 9",
		`{"a":"\ud800\u0041"}`:          "half of a surrogate pair at byte 6",
		"{\"a\":\"b\",\"c\":\"d\xff\"}": "string is not UTF-8 at byte",
		"{\"\xed\xa0\x80\":1}":          "string is not UTF-8 at byte",
	} {
		require.ErrorContains(t, CheckTexts([]byte(text)), want, text)
	}
}

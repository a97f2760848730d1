package goschema_test

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/goschema"
	"github.com/pawl-run/pawl/internal/value"
)

type (
	base struct {
		ID   string `json:"id"`
		Kind string // as that of deep: neither counts
	}
	deep struct {
		Kind string
		Lost string `json:"twice"`
	}
	other struct {
		Lost2 string `json:"twice"`
	}
	line struct {
		Price float64 `json:"price" doc:"in euros"`
		Count int     `json:"count,omitzero" enum:"1,2,3"`
	}
	order struct {
		base
		*deep
		other
		Kind    string            `json:"kind" enum:"new,old"`
		Lines   []line            `json:"lines"`
		At      time.Time         `json:"at,omitzero"`
		Wait    time.Duration     `json:"wait,omitempty"`
		Bytes   []byte            `json:"bytes"`
		Labels  map[string]string `json:"labels"`
		Note    *string           `json:"note"`
		Any     any               `json:"any"`
		Quoted  int               `json:"quoted,omitzero,string"`
		Hidden  int               `json:"-"`
		Plain   bool
		private int //nolint:unused // no field of JSON
	}
	tree struct {
		Name     string  `json:"name"`
		Children []*tree `json:"children"`
	}
)

// The schema of a struct is that of what encoding/json reads and writes, with the places of the Go type.
func TestSchemaOfAStruct(t *testing.T) {
	s, err := goschema.Of(reflect.TypeFor[order]())
	require.NoError(t, err)
	got, err := json.MarshalIndent(s, "", " ")
	require.NoError(t, err)
	require.JSONEq(t, `{"type": "object", "x-go": "goschema_test.order", "additionalProperties": false, "required": ["Plain", "id", "kind"], "properties": {
		"id": {"type": "string", "x-go": "goschema_test.base.ID"},
		"kind": {"type": "string", "enum": ["new", "old"], "x-go": "goschema_test.order.Kind"},
		"lines": {"type": "array", "x-go": "goschema_test.order.Lines", "items": {"type": "object", "x-go": "goschema_test.line", "additionalProperties": false,
			"required": ["price"], "properties": {
				"price": {"type": "number", "description": "in euros", "x-go": "goschema_test.line.Price"},
				"count": {"type": "integer", "enum": [1, 2, 3], "x-go": "goschema_test.line.Count"}}}},
		"at": {"type": "string", "format": "date-time", "x-go": "goschema_test.order.At"},
		"wait": {"type": "integer", "description": "nanoseconds", "x-go": "goschema_test.order.Wait"},
		"bytes": {"type": "string", "contentEncoding": "base64", "x-go": "goschema_test.order.Bytes"},
		"labels": {"type": "object", "additionalProperties": {"type": "string", "x-go": "string"}, "x-go": "goschema_test.order.Labels"},
		"note": {"type": "string", "x-go": "goschema_test.order.Note"},
		"any": {"x-go": "goschema_test.order.Any"},
		"quoted": {"type": "string", "x-go": "goschema_test.order.Quoted"},
		"Plain": {"type": "boolean", "x-go": "goschema_test.order.Plain"}}}`, string(got))
}

// A type that holds itself is described once, and referred to.
func TestSchemaOfATree(t *testing.T) {
	s, err := goschema.Of(reflect.TypeFor[tree]())
	require.NoError(t, err)
	require.Contains(t, s.Defs, "goschema_test.tree")
	require.Nil(t, s.Check(decode(t, `{"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}`)))
	problem := s.Check(decode(t, `{"name": "a", "children": [{"name": "b", "children": [{"name": 7}]}]}`))
	require.EqualError(t, problem, "input.children[0].children[0].name: it is of type integer, and goschema_test.tree.Name is of type string")
	_, err = json.Marshal(s)
	require.NoError(t, err)
}

// A value that does not fit is refused at its place.
func TestPlaces(t *testing.T) {
	s, err := goschema.Of(reflect.TypeFor[order]())
	require.NoError(t, err)
	for text, want := range map[string]string{
		`{"id": "1", "kind": "new", "plain": true}`: "", // by another case, as encoding/json takes it
		`{"id": "1", "kind": "new", "Plain": true, "note": null, "labels": {"a": "b"}, "any": [1], "lines": [{"price": 1}]}`: "",
		`{"kind": "new", "Plain": true}`:                                                   "input.id: it is missing (goschema_test.base.ID)",
		`{"id": null, "kind": "new", "Plain": true}`:                                       "input.id: it is missing (goschema_test.base.ID)",
		`{"id": "1", "kind": "gone", "Plain": true}`:                                       `input.kind: it is "gone", and goschema_test.order.Kind is one of ["new","old"]`,
		`{"id": "1", "kind": "new", "Plain": true, "lins": []}`:                            `input.lins: goschema_test.order has no such field: did you mean "lines"?`,
		`{"id": "1", "kind": "new", "Plain": true, "lines": [{"price": "x"}]}`:             "input.lines[0].price: it is of type string, and goschema_test.line.Price is of type number",
		`{"id": "1", "kind": "new", "Plain": true, "lines": [{"price": 1, "count": 1.5}]}`: "input.lines[0].count: it is of type number, and goschema_test.line.Count is of type integer",
		`{"id": "1", "kind": "new", "Plain": true, "labels": {"a": 1}}`:                    "input.labels.a: it is of type integer, and string is of type string",
		`[]`: "input: it is of type array, and goschema_test.order is of type object",
	} {
		problem := s.Check(decode(t, text))
		if want == "" {
			require.Nil(t, problem, text)
			continue
		}
		require.NotNil(t, problem, text)
		require.Equal(t, want, problem.Error(), text)
	}
}

// A reader may read anything.
func TestOutputOfAReader(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[io.ReadCloser](), reflect.TypeFor[*strings.Reader]()} {
		s, err := goschema.OfOutput(typ)
		require.NoError(t, err)
		require.Nil(t, s.Check(map[string]any{"a": int64(1)}))
		p, _ := s.Property("a")
		require.Nil(t, p)
		require.True(t, s.IsOpen())
	}
}

type endless *endless

// JSON cannot say some types, and the error names the field.
func TestUnsupportedTypes(t *testing.T) {
	type nested struct{ Rates map[string]chan int }
	for want, typ := range map[string]reflect.Type{
		"chan int: chan int has no JSON form":                                reflect.TypeFor[chan int](),
		"goschema_test.nested.Rates: chan int has no JSON form":              reflect.TypeFor[[]nested](),
		"func(): func() has no JSON form":                                    reflect.TypeFor[func()](),
		"map[bool]int: map[bool]int has no JSON form: its keys are no texts": reflect.TypeFor[map[bool]int](),
		"*goschema_test.endless: goschema_test.endless points to itself":     reflect.TypeFor[*endless](),
		"*complex128: complex128 has no JSON form":                           reflect.TypeFor[*complex128](),
		"struct { N int \"enum:\\\"one\\\"\" }.N: enum \"one\" is no integer": reflect.TypeFor[struct {
			N int `enum:"one"`
		}](),
		"struct { F float64 \"enum:\\\"1\\\"\" }.F: enum is for texts and integers": reflect.TypeFor[struct {
			F float64 `enum:"1"`
		}](),
	} {
		_, err := goschema.Of(typ)
		require.EqualError(t, err, want)
	}
}

// A value that encoding/json has written fits the schema of its type, and what fits is read by encoding/json: neither says
// more than the other, but for fields that are missing.
func TestAsEncodingJSON(t *testing.T) {
	s, err := goschema.Of(reflect.TypeFor[order]())
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		o := order{base: base{ID: rapid.String().Draw(t, "id")}, Kind: rapid.SampledFrom([]string{"new", "old"}).Draw(t, "kind")}
		o.Lines = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) line {
			return line{rapid.Float64Range(-1e9, 1e9).Draw(t, "price"), rapid.IntRange(1, 3).Draw(t, "count")}
		}), 0, 3).Draw(t, "lines")
		o.Bytes = rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		o.Wait = time.Duration(rapid.Int32().Draw(t, "wait"))
		o.Quoted = int(rapid.Int16().Draw(t, "quoted"))
		text, err := json.Marshal(o)
		require.NoError(t, err)
		v, err := value.Decode(text, value.Limits{})
		require.NoError(t, err)
		require.Nil(t, s.Check(v), string(text))
	})
	scalar := rapid.SampledFrom([]string{`null`, `1`, `1.5`, `"new"`, `true`, `[]`, `{}`, `[{"price": 1}]`, `"AA=="`, `"7"`, `{"a": "b"}`, `[1]`})
	rapid.Check(t, func(t *rapid.T) {
		object := map[string]json.RawMessage{"id": json.RawMessage(`"x"`), "kind": json.RawMessage(`"new"`), "Plain": json.RawMessage("true")}
		for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"id", "kind", "Plain", "plain", "lines", "wait", "bytes", "labels", "note", "any", "x"}), 1, 3).Draw(t, "names") {
			object[name] = json.RawMessage(scalar.Draw(t, "value"))
		}
		text, err := json.Marshal(object)
		require.NoError(t, err)
		v, err := value.Decode(text, value.Limits{})
		require.NoError(t, err)
		if s.Check(v) == nil && string(object["bytes"]) != `"new"` && string(object["bytes"]) != `"7"` { // no base64
			var o order
			require.NoError(t, value.Bind(v, &o, true), string(text))
		}
	})
}

// Null is no element of a list and no value of a map whose Go type has no nil, and an array has its length, which is no part of a document.
func TestNullsAndLengths(t *testing.T) {
	type whole struct {
		Lines    []line         `json:"lines"`
		Pointers []*line        `json:"pointers"`
		Numbers  map[string]int `json:"numbers"`
		Any      map[string]any `json:"any"`
		Two      [2]int         `json:"two,omitzero"`
	}
	s, err := goschema.Of(reflect.TypeFor[whole]())
	require.NoError(t, err)
	for text, want := range map[string]string{
		`{"lines": null, "two": [1, 2], "pointers": [null], "any": {"x": null}, "numbers": null}`: "",
		`{"lines": [{"price": 1}, null]}`: "input.lines[1]: it is null, and goschema_test.line is of type object",
		`{"numbers": {"x": null}}`:        "input.numbers.x: it is null, and int is of type integer",
		`{"two": [1]}`:                    "input.two: it has the length 1, and goschema_test.whole.Two has 2",
		`{"two": [1, 2, 3]}`:              "input.two: it has the length 3, and goschema_test.whole.Two has 2",
	} {
		v, err := value.Decode([]byte(text), value.Limits{})
		require.NoError(t, err)
		got := ""
		if p := s.Check(v); p != nil {
			got = p.Error()
		}
		require.Equal(t, want, got, text)
	}
	require.NotContains(t, s.JSONSchema(goschema.Closed)["properties"].(map[string]any)["two"], "minItems", "published definitions keep their hashes")
}

// loud is a text that says itself whether it is one.
type loud string

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *loud) UnmarshalText(text []byte) error {
	if string(text) != strings.ToUpper(string(text)) {
		return errors.New("it is not loud")
	}
	*l = loud(text)
	return nil
}

// A value that encoding/json refuses is told with its place, as one that the schema refuses.
func TestBind(t *testing.T) {
	type inner struct {
		Small int8      `json:"small,omitzero"`
		At    time.Time `json:"at,omitzero"`
	}
	type outer struct {
		inner
		Bytes  []byte            `json:"bytes"`
		Loud   loud              `json:"loud,omitzero"`
		Quoted int               `json:"quoted,omitzero,string"`
		Deep   map[string][]int8 `json:"deep"`
		Inner  *inner            `json:"within"`
	}
	s, err := goschema.Of(reflect.TypeFor[outer]())
	require.NoError(t, err)
	for text, want := range map[string]string{
		`{}`:                                  "",
		`null`:                                "",
		`{"small": 127, "loud": "A"}`:         "",
		`{"small": 300}`:                      "input.small: number 300 does not fit int8",
		`{"SMALL": -129}`:                     "input.SMALL: number -129 does not fit int8",
		`{"at": "noon"}`:                      `input.at: parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"`,
		`{"bytes": "!!"}`:                     "input.bytes: illegal base64 data at input byte 0",
		`{"loud": "low"}`:                     "input.loud: it is not loud",
		`{"quoted": "x"}`:                     `input.quoted: invalid use of ,string struct tag, trying to unmarshal "x" into int`,
		`{"deep": {"a": [1], "b": [1, 300]}}`: "input.deep.b[1]: number 300 does not fit int8",
		`{"within": {"small": 300}}`:          "input.within.small: number 300 does not fit int8",
	} {
		v, err := value.Decode([]byte(text), value.Limits{})
		require.NoError(t, err)
		var o outer
		got := ""
		if p := s.Bind(v, &o); p != nil {
			got = p.Error()
		}
		require.Equal(t, want, got, text)
	}
}

// A schema that is written and read again says the same of a value.
func TestSchemasAreReadAgain(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[order](), reflect.TypeFor[tree](), reflect.TypeFor[any](), reflect.TypeFor[map[string][]order]()} {
		s, err := goschema.Of(typ)
		require.NoError(t, err)
		text, err := json.Marshal(s)
		require.NoError(t, err)
		var again goschema.Schema
		require.NoError(t, json.Unmarshal(text, &again))
		for _, value := range []string{`{"name": "a", "children": [{"name": 1}]}`, `{"Name": "a", "children": [{"nme": "b"}]}`, `{"kind": "x"}`, `{"a": [{"id": 1}]}`, `7`} {
			require.Equal(t, s.Check(decode(t, value)), again.Check(decode(t, value)), value)
		}
		written, err := json.Marshal(&again)
		require.NoError(t, err)
		require.JSONEq(t, string(text), string(written))
	}
	for text, want := range map[string]string{
		`{"$ref": "#/$defs/gone"}`:         "which it does not define",
		`{"properties": {"a": 7}}`:         "read a schema",
		`{"additionalProperties": "x"}`:    "read a schema",
		`{"type": 7}`:                      "read a schema",
		`{"items": {"$ref": "#/$defs/x"}}`: "which it does not define",
	} {
		var s goschema.Schema
		require.ErrorContains(t, json.Unmarshal([]byte(text), &s), want)
	}
}

// A field is found by another case of its name where encoding/json finds it, also in letters that have three cases or change in one
// direction only.
func TestNamesInOtherCases(t *testing.T) {
	type named struct {
		Kiss int `json:"kiss"`
	}
	s, err := goschema.Of(reflect.TypeFor[named]())
	require.NoError(t, err)
	for key, want := range map[string]bool{"kiss": true, "KISS": true, "ki\u017fs": true, "\u212aiss": true, "k\u0130ss": false, "k\u0131ss": false, "ki\u00df": false} {
		text, err := json.Marshal(map[string]int{key: 1})
		require.NoError(t, err)
		var v named
		require.NoError(t, json.Unmarshal(text, &v))
		require.Equal(t, want, v.Kiss == 1, key)
		require.Equal(t, want, s.Check(decode(t, string(text))) == nil, key)
	}
}

func decode(t *testing.T, text string) any {
	t.Helper()
	v, err := value.Decode([]byte(text), value.Limits{})
	require.NoError(t, err)
	return v
}

// A key that names no field is answered with the fields that there are, and with how many more.
func TestSuggest(t *testing.T) {
	s, err := goschema.Of(reflect.TypeFor[struct{ A, B, C, D, E, F, G, H, I, J, Total, Zone int }]())
	require.NoError(t, err)
	require.Equal(t, ": there are A, B, C, D, E, F, G, H, I, J and 2 more", s.Suggest("price"))
	require.Equal(t, `: did you mean "Zone"?`, s.Suggest("Zon"))
}

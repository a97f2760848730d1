package codec

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The test union has a field of every kind.
type (
	change interface{ change() }

	name  string
	id    int64
	level uint8

	place struct {
		Group id  `json:"group,omitzero"`
		Index int `json:"index,omitzero"`
	}
	failure struct {
		Code   string         `json:"code"`
		Detail map[string]any `json:"detail,omitzero"`
		Cause  *failure       `json:"cause,omitzero"`
	}
	write struct {
		Path  string `json:"path"`
		Value any    `json:"value,omitzero"`
	}

	Small struct {
		Token   id     `json:"token"`
		Node    name   `json:"node"`
		Attempt int    `json:"attempt"`
		Open    bool   `json:"open"`
		Note    string `json:"-"`
	}
	Empty  struct{}
	Scalar struct {
		Text  string        `json:"text,omitzero"`
		Name  name          `json:"name,omitzero"`
		Small int8          `json:"small,omitzero"`
		Int   int64         `json:"int,omitzero"`
		Level level         `json:"level,omitzero"`
		Epoch uint64        `json:"epoch,omitzero"`
		Flag  bool          `json:"flag,omitzero"`
		Ratio float64       `json:"ratio,omitzero"`
		Due   time.Time     `json:"due,omitzero"`
		After time.Duration `json:"after,omitzero"`
	}
	Nested struct {
		Place  place           `json:"place,omitzero"`
		Error  *failure        `json:"error,omitzero"`
		Number *int            `json:"number,omitzero"`
		Writes []write         `json:"writes,omitzero"`
		IDs    []id            `json:"ids,omitzero"`
		Names  []string        `json:"names,omitzero"`
		Times  []time.Time     `json:"times,omitzero"`
		Counts map[name]int    `json:"counts,omitzero"`
		Labels map[string]name `json:"labels,omitzero"`
	}
	Data struct {
		Value any            `json:"value,omitzero"`
		Map   map[string]any `json:"map,omitzero"`
		List  []any          `json:"list,omitzero"`
	}
)

func (Small) change()  {}
func (Empty) change()  {}
func (Scalar) change() {}
func (Nested) change() {}
func (Data) change()   {}

var changes = New[change](Small{}, Empty{}, Scalar{}, Nested{}, Data{})

func ptr[V any](v V) *V { return &v }

var noon = time.Date(2024, time.May, 1, 12, 0, 0, 123_000_000, time.UTC)

// These texts are in files that exist: they may not change.
var golden = []struct {
	value change
	text  string
}{
	{Empty{}, `{"kind":"Empty"}`},
	{Small{}, `{"kind":"Small"}`},
	{Small{Token: 7, Node: "quote", Attempt: 1, Open: true},
		`{"kind":"Small","token":7,"node":"quote","attempt":1,"open":true}`},
	{Scalar{Text: "a\"b\\c\n\x00ü\u2028😀", Name: "n", Small: math.MinInt8, Int: math.MinInt64, Level: 255, Epoch: math.MaxUint64,
		Flag: true, Ratio: 0.1, Due: noon, After: time.Second},
		`{"kind":"Scalar","text":"a\"b\\c\n\u0000ü` + "\u2028" + `😀","name":"n","small":-128,"int":-9223372036854775808,"level":255,` +
			`"epoch":18446744073709551615,"flag":true,"ratio":0.1,"due":1714564800123,"after":1000000000}`},
	{Scalar{Int: math.MaxInt64, Ratio: math.MaxFloat64, Due: time.Unix(0, 0).UTC(), After: -1},
		`{"kind":"Scalar","int":9223372036854775807,"ratio":1.7976931348623157e+308,"due":0,"after":-1}`},
	{Scalar{Ratio: math.Copysign(0, -1), Due: time.UnixMilli(-1).UTC()}, `{"kind":"Scalar","ratio":-0,"due":-1}`},
	{Scalar{Ratio: 1e21}, `{"kind":"Scalar","ratio":1e+21}`},
	{Scalar{Ratio: 100000}, `{"kind":"Scalar","ratio":100000}`},
	{Nested{Place: place{Index: 2}, Error: &failure{Code: "x", Cause: &failure{}}, Number: ptr(0)},
		`{"kind":"Nested","place":{"index":2},"error":{"code":"x","cause":{}},"number":0}`},
	{Nested{Writes: []write{{Path: "a", Value: int64(1)}, {}}, IDs: []id{3, 0, -1}, Names: []string{"", "b"}, Times: []time.Time{{}, noon}},
		`{"kind":"Nested","writes":[{"path":"a","value":1},{}],"ids":[3,0,-1],"names":["","b"],"times":[-62135596800000,1714564800123]}`},
	{Nested{Counts: map[name]int{"b": 0, "a\"": 2, "B": -1}}, `{"kind":"Nested","counts":{"B":-1,"a\"":2,"b":0}}`},
	{Nested{Labels: map[string]name{"b": "", "a\"": "\n"}}, `{"kind":"Nested","labels":{"a\"":"\n","b":""}}`},
	{Nested{Writes: []write{}, IDs: []id{}, Counts: map[name]int{}}, `{"kind":"Nested","writes":[],"ids":[],"counts":{}}`},
	{Data{Value: map[string]any{"b": []any{nil, true, 1.5}, "a": int64(-2)}, Map: map[string]any{"k": "v"}, List: []any{"x"}},
		`{"kind":"Data","value":{"a":-2,"b":[null,true,1.5]},"map":{"k":"v"},"list":["x"]}`},
	{Data{Value: map[string]any{}, Map: map[string]any{}, List: []any{}}, `{"kind":"Data","value":{},"map":{},"list":[]}`},
	{Data{Value: int64(0)}, `{"kind":"Data","value":0}`},
	{Data{Value: ""}, `{"kind":"Data","value":""}`},
	{Data{Value: false}, `{"kind":"Data","value":false}`},
	{Data{List: []any{nil}}, `{"kind":"Data","list":[null]}`},
}

func TestGolden(t *testing.T) {
	for _, tt := range golden {
		var values Values
		got, err := changes.Append([]byte("> "), tt.value, &values)
		require.NoError(t, err)
		assert.Equal(t, "> "+tt.text, string(got))
		assert.Zero(t, values.Len())

		back, err := changes.Decode([]byte(tt.text), nil)
		require.NoError(t, err)
		assert.Equal(t, tt.value, back)
	}
}

func TestAll(t *testing.T) {
	var all []change
	var texts []string
	for _, g := range golden {
		all, texts = append(all, g.value), append(texts, g.text)
	}
	text := "[" + strings.Join(texts, ",") + "]"
	got, err := changes.AppendAll(nil, all, nil)
	require.NoError(t, err)
	assert.Equal(t, text, string(got))
	back, err := changes.DecodeAll(got, nil)
	require.NoError(t, err)
	assert.Equal(t, all, back)

	got, err = changes.AppendAll([]byte("x"), nil, nil)
	require.NoError(t, err)
	assert.Equal(t, "x[]", string(got))
	back, err = changes.DecodeAll([]byte("[]"), nil)
	require.NoError(t, err)
	assert.Nil(t, back)
}

func TestWhiteSpaceAndOrderAreFree(t *testing.T) {
	text := " {\t\"kind\" : \"Small\" ,\n \"open\" : true , \"token\" : 7 } \r\n"
	got, err := changes.Decode([]byte(text), nil)
	require.NoError(t, err)
	assert.Equal(t, Small{Token: 7, Open: true}, got)

	text = ` [ { "kind":"Nested" , "ids" : [ 1 , 2 ] , "counts" : { "a" : 1 , "b" : 2 } } , { "kind":"Data", "value" : [ 1 , 2 ] } ] `
	all, err := changes.DecodeAll([]byte(text), nil)
	require.NoError(t, err)
	assert.Equal(t, []change{
		Nested{IDs: []id{1, 2}, Counts: map[name]int{"a": 1, "b": 2}},
		Data{Value: []any{int64(1), int64(2)}},
	}, all)
}

func TestKindAndVariants(t *testing.T) {
	assert.Equal(t, "Small", changes.Kind(Small{Token: 1}))
	assert.Empty(t, changes.Kind(nil))
	zeros := changes.Variants()
	assert.Equal(t, []change{Small{}, Empty{}, Scalar{}, Nested{}, Data{}}, zeros)
	zeros[0] = nil
	assert.NotNil(t, changes.Variants()[0])
}

type foreign struct{}

func (foreign) change() {}

func TestAppendErrors(t *testing.T) {
	loop := &failure{Code: "loop"}
	loop.Cause = loop
	tests := []struct {
		value change
		want  string
	}{
		{nil, `codec: <nil> is not a variant`},
		{foreign{}, `codec: codec.foreign is not a variant`},
		{&Small{}, `codec: *codec.Small is not a variant`},
		{Small{Node: "\xff"}, `codec: Small: node: the text "\xff" is not UTF-8`},
		{Scalar{Ratio: math.NaN()}, `codec: Scalar: ratio: NaN is not a JSON number`},
		{Scalar{Ratio: math.Inf(-1)}, `codec: Scalar: ratio: -Inf is not a JSON number`},
		{Nested{Writes: []write{{}, {Value: 1}}}, `codec: Nested: writes[1].value: value: int is outside the model`},
		{Nested{Counts: map[name]int{"\xff": 1}}, `codec: Nested: counts: the text "\xff" is not UTF-8`},
		{Nested{Names: []string{"\xff"}}, `codec: Nested: names[0]: the text "\xff" is not UTF-8`},
		{Data{Map: map[string]any{"a": math.NaN()}}, `codec: Data: map: value: float64 NaN is outside the model`},
		{Nested{Error: loop}, `more than 64 structs in each other`},
	}
	for _, tt := range tests {
		got, err := changes.Append([]byte("dst"), tt.value, nil)
		require.ErrorContains(t, err, tt.want)
		assert.Equal(t, "dst", string(got))
		got, err = changes.AppendAll([]byte("dst"), []change{Empty{}, tt.value}, nil)
		require.ErrorContains(t, err, tt.want)
		assert.Equal(t, "dst", string(got))
		var e *Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, -1, e.Offset)
	}
}

func TestDecodeErrors(t *testing.T) {
	tests := []struct{ text, want string }{
		{``, `codec: end of text where '{' was expected at byte 0`},
		{`[]`, `codec: '[' where '{' was expected at byte 0`},
		{`{}`, `codec: '}' where '"' was expected at byte 1`},
		{`{"kind"`, `codec: end of text where ':' was expected at byte 7`},
		{`{"token":7}`, `codec: the first member is "token", not kind at byte 9`},
		{`{"kind":7}`, `codec: '7' where '"' was expected at byte 8`},
		{`{"kind":"Newer"}`, `codec: unknown kind "Newer" at byte 15`},
		{`{"kind":"Sm\u0061ll"}`, `codec: unknown kind "Sm\\u0061ll" at byte 20`},
		{`{"kind":"Small"`, `codec: Small: end of text where ',' or '}' was expected at byte 15`},
		{`{"kind":"Small"}}`, `codec: unexpected '}' after the value at byte 16`},
		{`{"kind":"Small",}`, `codec: Small: '}' where '"' was expected at byte 16`},
		{`{"kind":"Small" "token":1}`, `codec: Small: '"' where ',' or '}' was expected at byte 16`},
		{`{"kind":"Small","tokens":1}`, `codec: Small: unknown field "tokens" at byte 25`},
		{`{"kind":"Small","kind":"Small"}`, `codec: Small: unknown field "kind" at byte 23`},
		{`{"kind":"Small","note":""}`, `codec: Small: unknown field "note" at byte 23`},
		{`{"kind":"Small","Token":1}`, `codec: Small: unknown field "Token"`},
		{`{"kind":"Small","":1}`, `codec: Small: unknown field ""`},
		{`{"kind":"Small","token@":1}`, `codec: Small: unknown field "token@"`},
		{`{"kind":"Small","token":1,"token":1}`, `codec: Small: token: the field comes twice`},
		{`{"kind":"Small","token":"1"}`, `codec: Small: token: '"' where a digit was expected at byte 24`},
		{`{"kind":"Small","token":01}`, `codec: Small: token: number with a leading zero`},
		{`{"kind":"Small","token":1.5}`, `codec: Small: token: 1.5 is not an integer at byte 27`},
		{`{"kind":"Small","token":-}`, `codec: Small: token: '}' where a digit was expected`},
		{`{"kind":"Small","token":null}`, `codec: Small: token: 'n' where a digit was expected`},
		{`{"kind":"Small","open":1}`, `codec: Small: open: '1' where true or false was expected at byte 23`},
		{`{"kind":"Small","open":tru`, `codec: Small: open: unexpected end of text in true`},
		{`{"kind":"Small","node":"a`, `codec: Small: node: string without an end`},
		{`{"kind":"Small","node":"\`, `codec: Small: node: string without an end`},
		{`{"kind":"Small","node":"\x"}`, `codec: Small: node: unknown escape in a string`},
		{"{\"kind\":\"Small\",\"node\":\"\xff\"}", `codec: Small: node: string is not UTF-8`},
		{"{\"kind\":\"Small\",\"node\":\"\n\"}", `codec: Small: node: control character`},
		{"{\"kind\":\"Small\",\xff", `codec: Small: byte 0xff where '"' was expected at byte 16`},
		{`{"kind":"Scalar","small":128}`, `codec: Scalar: small: the number is out of range`},
		{`{"kind":"Scalar","small":-129}`, `codec: Scalar: small: the number is out of range`},
		{`{"kind":"Scalar","int":9223372036854775808}`, `codec: Scalar: int: the number is out of range`},
		{`{"kind":"Scalar","int":-9223372036854775809}`, `codec: Scalar: int: the number is out of range`},
		{`{"kind":"Scalar","level":256}`, `codec: Scalar: level: the number is out of range`},
		{`{"kind":"Scalar","level":-1}`, `codec: Scalar: level: the number is out of range`},
		{`{"kind":"Scalar","epoch":18446744073709551616}`, `codec: Scalar: epoch: the number is out of range`},
		{`{"kind":"Scalar","ratio":1e999}`, `codec: Scalar: ratio: the number 1e999 is out of range`},
		{`{"kind":"Scalar","ratio":NaN}`, `codec: Scalar: ratio: 'N' where a digit was expected`},
		{`{"kind":"Scalar","ratio":0x1p1}`, `codec: Scalar: 'x' where ',' or '}' was expected`},
		{`{"kind":"Scalar","ratio":00}`, `codec: Scalar: ratio: number with a leading zero`},
		{`{"kind":"Scalar","ratio":}`, `codec: Scalar: ratio: '}' where a digit was expected`},
		{`{"kind":"Nested","place":null}`, `codec: Nested: place: 'n' where '{' was expected`},
		{`{"kind":"Nested","place":{"kind":"x"}}`, `codec: Nested: place: unknown field "kind"`},
		{`{"kind":"Nested","place":{,}}`, `codec: Nested: place: ',' where '"' was expected`},
		{`{"kind":"Nested","ids":{}}`, `codec: Nested: ids: '{' where '[' was expected`},
		{`{"kind":"Nested","ids":[1,]}`, `codec: Nested: ids[1]: ']' where a digit was expected`},
		{`{"kind":"Nested","ids":[,1]}`, `codec: Nested: ids[0]: ',' where a digit was expected`},
		{`{"kind":"Nested","ids":[1}`, `codec: Nested: ids: '}' where ',' or ']' was expected`},
		{`{"kind":"Nested","ids":[1`, `codec: Nested: ids: end of text where ',' or ']' was expected`},
		{`{"kind":"Nested","writes":[{},{"path":1}]}`, `codec: Nested: writes[1].path: '1' where '"' was expected`},
		{`{"kind":"Nested","counts":{"a":"b"}}`, `codec: Nested: counts.a: '"' where a digit was expected`},
		{`{"kind":"Nested","counts":{"a":1,"a":2}}`, `codec: Nested: counts.a: the key comes twice`},
		{`{"kind":"Nested","counts":[]}`, `codec: Nested: counts: '[' where '{' was expected`},
		{`{"kind":"Data","value":}`, `codec: Data: value: invalid value: $: unexpected '}' at byte 23`},
		{`{"kind":"Data","value":[1`, `codec: Data: value: invalid value: $: end of text where ',' or ']' was expected`},
		{`{"kind":"Data","value":`, `codec: Data: value: invalid value: $: unexpected end of text`},
		{`{"kind":"Data","value":1e400}`, `codec: Data: value: invalid value`},
		{`{"kind":"Data","value":{"a":1,"a":1}}`, `codec: Data: value: invalid value: $.a: key twice in one object`},
		{`{"kind":"Data","map":[]}`, `codec: Data: map: the value is []interface {}, want an object`},
		{`{"kind":"Data","list":null}`, `codec: Data: list: the value is <nil>, want a list`},
		{`{"kind":"Data","list@":"ab"}`, `codec: Data: list: "ab" is not a SHA-256`},
		{`{"kind":"Data","list@":[]}`, `codec: Data: list: '[' where '"' was expected`},
		{`{"kind":"Data","list@":"` + strings.Repeat("A", 64) + `"}`, `is not a SHA-256`},
		{`{"kind":"Data","list":[],"list@":"` + strings.Repeat("0", 64) + `"}`, `codec: Data: list: the field comes twice`},
		{`{"kind":"Data","list@":"` + strings.Repeat("0", 64) + `"}`, `codec: Data: list: no lookup for the value 0000`},
		{`{"kind":"Nested","error":` + strings.Repeat(`{"cause":`, 70) + `{}` + strings.Repeat("}", 71), `more than 64 objects in each other`},
		{`{"kind":"Data","value":` + strings.Repeat("[", 1e6), `jsonDepth 4097 exceeds the limit of 4096`},
		{`{"kind":"Data","value":` + strings.Repeat("[", 1e6) + strings.Repeat("]", 1e6) + `}`, `jsonDepth 4097 exceeds the limit of 4096`},
	}
	for _, tt := range tests {
		got, err := changes.Decode([]byte(tt.text), nil)
		assert.ErrorContains(t, err, tt.want, "%.80s", tt.text)
		assert.Nil(t, got)
		var e *Error
		assert.ErrorAs(t, err, &e)
	}
}

func TestDecodeNumbers(t *testing.T) {
	for _, good := range []string{"0", "-0", "7", "10", "-1.50", "0.5", "1e9", "1E+09", "2.5e-3"} {
		_, err := changes.Decode([]byte(`{"kind":"Scalar","ratio":`+good+`}`), nil)
		assert.NoError(t, err, good)
	}
	for _, bad := range []string{"", "-", "+1", "01", ".5", "1.", "1.e2", "1e", "1e+", "1x", "1e5x", "Inf", "0x10", "1_0"} {
		_, err := changes.Decode([]byte(`{"kind":"Scalar","ratio":`+bad+`}`), nil)
		assert.Error(t, err, bad)
	}
}

func TestDecodeAllErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:                      `codec: end of text where '[' was expected at byte 0`,
		`{"kind":"Empty"}`:      `codec: '{' where '[' was expected at byte 0`,
		`[{"kind":"Empty"}`:     `codec: end of text where ',' or ']' was expected at byte 17`,
		`[{"kind":"Empty"},]`:   `codec: ']' where '{' was expected at byte 18`,
		`[{"kind":"Empty"}]x`:   `codec: unexpected 'x' after the value at byte 18`,
		`[{"kind":"Empty","a"`:  `codec: Empty: end of text where ':' was expected at byte 20`,
		`[{"kind":"Empty"}{}]`:  `codec: '{' where ',' or ']' was expected at byte 17`,
		`[{"kind":"Small","x":`: `codec: Small: unknown field "x" at byte 21`,
	} {
		got, err := changes.DecodeAll([]byte(text), nil)
		assert.EqualError(t, err, want)
		assert.Nil(t, got)
	}
}

func TestLargeValuesAreKeptOutside(t *testing.T) {
	fits := strings.Repeat("x", InlineLimit-2) // with quotes exactly the limit
	var values Values
	got, err := changes.Append(nil, Data{Value: fits}, &values)
	require.NoError(t, err)
	assert.Equal(t, `{"kind":"Data","value":"`+fits+`"}`, string(got))

	large := fits + "x"
	list := []any{large, int64(1)}
	in := []change{Data{Value: large}, Data{Value: list, Map: map[string]any{"a": large}, List: list}}
	got, err = changes.AppendAll(nil, in, &values)
	require.NoError(t, err)
	var hashes []string
	for hash, raw := range values.All() {
		hashes = append(hashes, hash)
		assert.Greater(t, len(raw), InlineLimit)
	}
	require.Len(t, hashes, 3) // large, the list once, the map
	assert.Equal(t, 3, values.Len())
	assert.Equal(t, `[{"kind":"Data","value@":"`+hashes[0]+`"},{"kind":"Data","value@":"`+hashes[1]+
		`","map@":"`+hashes[2]+`","list@":"`+hashes[1]+`"}]`, string(got))

	back, err := changes.DecodeAll(got, values.Lookup)
	require.NoError(t, err)
	assert.Equal(t, in, back)
}

func TestLargeValuesInNestedStructs(t *testing.T) {
	large := map[string]any{"text": strings.Repeat("y", InlineLimit)}
	in := Nested{Writes: []write{{Path: "a", Value: large}, {Value: large}}, Error: &failure{Detail: large}}
	var values Values
	got, err := changes.Append(nil, in, &values)
	require.NoError(t, err)
	assert.Equal(t, 1, values.Len())
	assert.Less(t, len(got), 400)
	back, err := changes.Decode(got, values.Lookup)
	require.NoError(t, err)
	assert.Equal(t, in, back)

	inlined, err := changes.Append(nil, in, nil)
	require.NoError(t, err)
	back, err = changes.Decode(inlined, nil)
	require.NoError(t, err)
	assert.Equal(t, in, back)
}

func TestLookupErrors(t *testing.T) {
	hash := strings.Repeat("a", 64)
	text := []byte(`{"kind":"Data","map@":"` + hash + `"}`)
	gone := errors.New("gone")
	_, err := changes.Decode(text, func(string) (any, error) { return nil, gone })
	require.ErrorIs(t, err, gone)
	assert.EqualError(t, err, "codec: Data: map: value "+hash+": gone at byte 88")
	_, err = changes.Decode(text, func(string) (any, error) { return "text", nil })
	require.ErrorContains(t, err, "codec: Data: map: the value is string, want an object")
	_, err = changes.Decode(text, (&Values{}).Lookup)
	assert.ErrorContains(t, err, "no value with the hash "+hash)
}

package goschema_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"math/big"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/goschema"
	"github.com/pawl-run/pawl/internal/value"
)

type (
	written  int                  // says its text when it is written
	read     struct{ S string }   // when it is read
	pointed  struct{ C int }      // when it is written by its address
	pointed2 struct{ C int }      // the same as JSON
	forest   map[string]forest    // holds itself without a struct
	nest     []nest               // likewise
	mixed    []map[string][]mixed // likewise, from further away
	ring     []ringed
	ringed   struct{ Rings ring }
	inside   struct{ A int }
	tagged   struct {
		inside `json:"inside"`
		B      int
	}
	badTag struct {
		X string `json:"it's"`           //nolint:staticcheck // encoding/json ignores it
		Y string `json:"a\"b,omitempty"` //nolint:staticcheck // likewise
		Z string `json:"fine!,omitempty"`
	}
	one       struct{ One int }
	two       struct{ Two int }
	ambiguous struct { // its methods are those of neither
		one
		two
	}
	keyWritten struct {
		K string
		N int8
	}
	keyRead string
)

func (w written) MarshalText() ([]byte, error)    { return []byte{'a' + byte(w)}, nil }
func (r *read) UnmarshalText(text []byte) error   { r.S = string(text); return nil }
func (*pointed) MarshalText() ([]byte, error)     { return []byte("p"), nil }
func (*pointed2) MarshalJSON() ([]byte, error)    { return []byte(`"p"`), nil }
func (one) MarshalText() ([]byte, error)          { return []byte("one"), nil }
func (two) MarshalText() ([]byte, error)          { return []byte("two"), nil }
func (k keyWritten) MarshalText() ([]byte, error) { return []byte(k.K), nil }
func (k *keyRead) UnmarshalText(text []byte) error {
	*k = keyRead(bytes.ToUpper(text))
	return nil
}

var (
	_ encoding.TextMarshaler   = written(0)
	_ encoding.TextUnmarshaler = (*read)(nil)
)

// The schema of an output takes what encoding/json writes for a Go type, whichever methods the type has.
func TestOutputsAsWritten(t *testing.T) {
	for _, v := range []any{
		struct{ W written }{2}, struct{ R read }{read{"x"}}, struct{ P pointed }{}, &struct{ P pointed }{}, struct{ P []pointed }{[]pointed{{1}}}, struct{ P *pointed }{&pointed{1}}, struct{ P map[string][1]pointed }{map[string][1]pointed{"a": {}}},
		struct{ P pointed2 }{}, &struct{ P pointed2 }{}, forest{"a": {"b": nil}}, nest{nil, {nil}}, mixed{{"a": {{{"b": nil}}}}}, ring{{ring{{nil}}}},
		tagged{inside{1}, 2}, badTag{"x", "y", "z"}, ambiguous{one{1}, two{2}}, map[keyWritten]int{{K: "k"}: 1},
	} {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		s, err := goschema.OfOutput(reflect.TypeOf(v))
		require.NoError(t, err, "%T", v)
		require.Nil(t, s.Check(decode(t, string(text))), "%T: %s", v, text)
	}
}

// The schemas of texts are those of texts, where it is sure that they are.
func TestTexts(t *testing.T) {
	for typ, want := range map[reflect.Type][2]string{ // alone, and in a slice
		reflect.TypeFor[written](): {"string", "string"}, reflect.TypeFor[*pointed](): {"string", "string"}, reflect.TypeFor[pointed](): {"", "string"},
		reflect.TypeFor[read](): {}, reflect.TypeFor[*read](): {}, reflect.TypeFor[pointed2](): {}, reflect.TypeFor[*pointed2](): {},
		reflect.TypeFor[time.Time](): {"string", "string"}, reflect.TypeFor[*big.Float](): {"string", "string"}, reflect.TypeFor[netip.Addr](): {"string", "string"},
	} {
		s, err := goschema.OfOutput(reflect.SliceOf(typ))
		require.NoError(t, err)
		alone, err := goschema.OfOutput(typ)
		require.NoError(t, err)
		require.Equal(t, want, [2]string{alone.Type, s.Items.Type}, typ)
	}
}

// The schema of an input takes what encoding/json reads strictly into a Go type, but for fields that are missing, and nothing else.
func TestInputsAsRead(t *testing.T) {
	values := []string{`1`, `"a"`, `{}`, `[]`, `{"S": "x"}`, `{"C": 1}`, `{"A": {"B": {}}}`, `[[], [[]]]`, `[{"a": [[{"b": null}]]}]`, `[{"Rings": [{"Rings": null}]}]`, `{"One": 1, "Two": 2}`,
		`{"inside": {"A": 1}, "B": 2}`, `{"A": 1, "B": 2}`, `{"X": "x", "Y": "y", "fine!": "z"}`, `{"it's": "x", "X": "x"}`, `{"a": 7}`}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[written](), reflect.TypeFor[read](), reflect.TypeFor[pointed](), reflect.TypeFor[forest](), reflect.TypeFor[nest](), reflect.TypeFor[mixed](), reflect.TypeFor[ring](),
		reflect.TypeFor[tagged](), reflect.TypeFor[badTag](), reflect.TypeFor[ambiguous](), reflect.TypeFor[map[keyRead]int](),
	} {
		s, err := goschema.OfInput(typ)
		require.NoError(t, err)
		taken := 0
		for _, text := range values {
			into := reflect.New(typ)
			strict := value.Bind(decode(t, text), into.Interface(), true)
			got := reflect.New(typ)
			problem := s.Bind(decode(t, text), got.Interface())
			if strict == nil && problem == nil {
				taken++
				require.Equal(t, into.Interface(), got.Interface(), "%s: %s", typ, text)
			} else if strict != nil || text != "{}" && text != `{"A": 1, "B": 2}` {
				require.NotNil(t, problem, "%s: %s", typ, text)
				require.Error(t, strict, "%s: %s: %s", typ, text, problem)
			}
		}
		require.NotZero(t, taken, typ)
	}
}

// The place of a fault is told below a type that says a text only when it is written.
func TestPlaceBelowAWrittenText(t *testing.T) {
	s, err := goschema.OfInput(reflect.TypeFor[struct{ Key keyWritten }]())
	require.NoError(t, err)
	var into struct{ Key keyWritten }
	require.EqualError(t, s.Bind(decode(t, `{"Key": {"K": "a", "N": 300}}`), &into), "input.Key.N: number 300 does not fit int8")
}

// A list is described where it stands, though it holds itself, if there is a struct between: published definitions keep their hashes.
func TestListsOfStructsThatHoldThem(t *testing.T) {
	s, err := goschema.OfOutput(reflect.TypeFor[ring]())
	require.NoError(t, err)
	document := s.JSONSchema(goschema.Open)
	require.Len(t, document["$defs"], 1)
	rings := document["items"].(map[string]any)["properties"].(map[string]any)["Rings"].(map[string]any)
	require.Equal(t, map[string]any{"$ref": "#/$defs/goschema_test.ringed"}, rings["items"])
}

// Keys of a map are texts for encoding/json, or say one in the direction in which they go.
func TestKeys(t *testing.T) {
	_, err := goschema.OfInput(reflect.TypeFor[map[keyWritten]int]())
	require.EqualError(t, err, "input: map[goschema_test.keyWritten]int: map[goschema_test.keyWritten]int has no JSON form: its keys are no texts")
	_, err = goschema.OfOutput(reflect.TypeFor[map[read]int]())
	require.EqualError(t, err, "output: map[goschema_test.read]int: map[goschema_test.read]int has no JSON form: its keys are no texts")
	_, err = goschema.OfInput(reflect.TypeFor[map[read]int]())
	require.NoError(t, err)
}

// Types of one name that hold themselves are described both.
func TestNamesakes(t *testing.T) {
	type node struct {
		Name string
		Kids []node
	}
	type first = node
	both := func() reflect.Type {
		type node struct {
			Cents int
			Next  *node
		}
		type whole struct {
			Tree  first
			Bill  node
			Again first
		}
		return reflect.TypeFor[whole]()
	}()
	s, err := goschema.OfOutput(both)
	require.NoError(t, err)
	require.Len(t, s.Defs, 2)
	document := s.JSONSchema(goschema.Closed)["$defs"].(map[string]any)
	require.Contains(t, document["goschema_test.node"].(map[string]any)["properties"], "Kids")
	require.Contains(t, document["goschema_test.node2"].(map[string]any)["properties"], "Next")
	text, err := json.Marshal(s)
	require.NoError(t, err)
	var again goschema.Schema
	require.NoError(t, json.Unmarshal(text, &again))
	for _, s := range []*goschema.Schema{s, &again} {
		require.Nil(t, s.Check(decode(t, `{"Tree": {"Name": "a", "Kids": [{"Name": "b"}]}, "Bill": {"Cents": 1, "Next": {"Cents": 2}}, "Again": {"Name": "a"}}`)))
		require.NotNil(t, s.Check(decode(t, `{"Tree": {"Name": "a", "Kids": [{"Cents": 1}]}, "Bill": {"Cents": 1}, "Again": {"Name": "a"}}`)))
	}
}

// A field below a nil pointer to an embedded unexported struct is refused where it would be read: encoding/json cannot set the pointer.
func TestEmbeddedPointers(t *testing.T) {
	type Exported struct{ X int }
	type outer struct {
		*inside
		B int
	}
	type byTag struct {
		*inside `json:"inside"`
	}
	type deeper struct {
		outer
		C int
	}
	for typ, want := range map[reflect.Type]string{
		reflect.TypeFor[outer](): "goschema_test.outer.inside", reflect.TypeFor[*byTag](): "goschema_test.byTag.inside", reflect.TypeFor[[]deeper](): "goschema_test.outer.inside",
	} {
		_, err := goschema.OfInput(typ)
		require.EqualError(t, err, "input: "+want+": encoding/json cannot set a pointer to an embedded unexported struct: embed the struct itself, or export it")
		_, err = goschema.OfOutput(typ)
		require.NoError(t, err)
	}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[struct{ *Exported }](), reflect.TypeFor[struct{ inside }](),
		reflect.TypeFor[struct { // hidden by the outer field
			*inside
			A int
		}](),
	} {
		_, err := goschema.OfInput(typ)
		require.NoError(t, err, typ)
	}
}

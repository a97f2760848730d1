package value_test

import (
	"encoding/json"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/value"
)

type colour string

type point struct {
	X    int      `json:"x"`
	Y    float64  `json:"y,omitempty"`
	Tags []string `json:"tags"`
}

type celsius float64

func (c *celsius) MarshalJSON() ([]byte, error) { return []byte(`{"celsius":1}`), nil }

func TestNormalize(t *testing.T) {
	n := 7
	warm := celsius(20)
	for name, c := range map[string]struct{ in, want any }{
		"nil":            {nil, nil},
		"int":            {3, int64(3)},
		"int8":           {int8(-3), int64(-3)},
		"uint64":         {uint64(3), int64(3)},
		"exact uint64":   {uint64(1 << 63), float64(1 << 63)},
		"exact int64":    {int64(1 << 60), float64(1 << 60)},
		"integral float": {2.0, int64(2)},
		"float32":        {float32(0.1), 0.1},
		"whole float32":  {float32(16777216), int64(16777216)},
		"json.Number":    {json.Number("1.0"), int64(1)},
		"raw":            {json.RawMessage(`{"a": 1.5}`), map[string]any{"a": 1.5}},
		"nil raw":        {json.RawMessage(nil), nil},
		"bytes":          {[]byte("hi"), "aGk="},
		"named":          {colour("red"), "red"},
		"named keys":     {map[colour]int{"red": 1}, map[string]any{"red": int64(1)}},
		"int keys":       {map[int]bool{1: true}, map[string]any{"1": true}},
		"struct":         {point{X: 1}, map[string]any{"x": int64(1), "tags": nil}},
		"pointer":        {&point{X: 1, Y: 1.5, Tags: []string{}}, map[string]any{"x": int64(1), "y": 1.5, "tags": []any{}}},
		"marshaler":      {&warm, map[string]any{"celsius": int64(1)}},
		"typed slice":    {[]int{1, 2}, []any{int64(1), int64(2)}},
		"array":          {[2]bool{true, false}, []any{true, false}},
		"pointers":       {[]*int{&n, nil}, []any{int64(7), nil}},
		"nil slice":      {[]any(nil), nil},
		"nil map":        {map[string]int(nil), nil},
		"time":           {time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC), "2026-01-02T03:04:05.006Z"},
		"duration":       {time.Second, int64(1e9)},
		"object":         {object{"b": list{1, "x"}}, map[string]any{"b": []any{int64(1), "x"}}},
		"html":           {struct{ S string }{"<&>\u2028"}, map[string]any{"S": "<&>\u2028"}},
	} {
		got, err := value.Normalize(c.in, value.Limits{})
		require.NoError(t, err, name)
		assert.Equal(t, c.want, got, name)
	}
}

func TestNormalizeRefuses(t *testing.T) {
	for _, c := range []struct {
		in   any
		code string
		path string
	}{
		{math.NaN(), value.CodeNumber, "$"},
		{math.Inf(1), value.CodeNumber, "$"},
		{float32(math.Inf(-1)), value.CodeNumber, "$"},
		{int64(1<<53 + 1), value.CodeNumber, "$"},
		{int64(math.MaxInt64), value.CodeNumber, "$"},
		{uint64(math.MaxUint64), value.CodeNumber, "$"},
		{json.Number("1e400"), value.CodeNumber, "$"},
		{json.Number("true"), value.CodeNumber, "$"},
		{json.Number("[]"), value.CodeLimit, "$"},
		{json.RawMessage(""), value.CodeJSON, "$"},
		{json.RawMessage(`{"a":1,"a":1}`), value.CodeJSON, "$.a"},
		{"\xff", value.CodeString, "$"},
		{map[string]any{"\xff": 1}, value.CodeString, "$"},
		{map[string]any{"a": []any{1, 2, 3, "\xff"}}, value.CodeString, "$.a[3]"},
		{struct{ S string }{"\xff"}, value.CodeString, "$.S"},
		{map[string]any{"f": func() {}}, value.CodeUnsupported, "$.f"},
		{make(chan int), value.CodeUnsupported, "$"},
		{complex(1, 1), value.CodeUnsupported, "$"},
		{struct{ F float64 }{math.NaN()}, value.CodeUnsupported, "$"},
		{map[string]any{"z": make(chan int), "a": "\xff"}, value.CodeString, "$.a"},
	} {
		for range 10 {
			_, err := value.Normalize(c.in, value.Limits{})
			var e *value.Error
			require.ErrorAs(t, err, &e, "%v", c.in)
			assert.Equal(t, c.code, e.Code, "%v: %v", c.in, err)
			assert.Equal(t, c.path, e.Path, "%v: %v", c.in, err)
		}
	}
}

type selfPointer *selfPointer

func TestNormalizeCyclesEnd(t *testing.T) {
	m := map[string]any{}
	m["m"] = m
	s := []any{nil}
	s[0] = s
	var p selfPointer
	p = &p
	var x any
	x = &x
	type node struct{ Next *node }
	n := &node{}
	n.Next = n
	for _, v := range []any{m, s, p, x, n} {
		_, err := value.Normalize(v, value.Limits{})
		assert.Error(t, err)
	}
}

func TestNormalizeLimits(t *testing.T) {
	shared := any("x")
	for range 60 { // 2^60 strings, if nobody counted
		shared = []any{shared, shared}
	}
	_, err := value.Normalize(shared, value.Limits{Bytes: 1 << 20})
	var e *value.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, value.LimitBytes, e.Limit)

	_, err = value.Normalize([]any{json.RawMessage("[[]]")}, value.Limits{Depth: 3})
	require.NoError(t, err)
	_, err = value.Normalize([]any{json.RawMessage("[[]]")}, value.Limits{Depth: 2})
	require.ErrorAs(t, err, &e)
	assert.Equal(t, 2, e.Max)
	assert.Equal(t, 3, e.Value)
}

func TestNormalizeOfModelIsACopy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := model().Draw(t, "v")
		size := value.Size(v)
		got, err := value.Normalize(v, value.Limits{Bytes: size})
		require.NoError(t, err)
		require.Equal(t, v, got)
		_, err = value.Normalize(v, value.Limits{Bytes: max(size-1, 1)})
		require.Equal(t, size > 1, err != nil)
	})
	in := map[string]any{"a": []any{int64(1)}}
	got, err := value.Normalize(in, value.Limits{})
	require.NoError(t, err)
	in["a"].([]any)[0] = "changed"
	assert.Equal(t, map[string]any{"a": []any{int64(1)}}, got)
}

// Types whose pointer says the JSON, or the text.
type (
	pointerJSON   struct{ C int }
	pointerText   struct{ C int }
	pointerScalar int
)

func (*pointerJSON) MarshalJSON() ([]byte, error)   { return []byte(`"said"`), nil }
func (*pointerText) MarshalText() ([]byte, error)   { return []byte("said"), nil }
func (*pointerScalar) MarshalJSON() ([]byte, error) { return []byte(`"said"`), nil }

// Elements say their JSON by a pointer where encoding/json asks that, and not elsewhere.
func TestNormalizeAsksPointers(t *testing.T) {
	type order struct{ Total big.Int }
	orders := []order{{*big.NewInt(1234)}}
	for _, v := range []any{
		orders, &orders, map[string]any{"orders": orders}, [1]order{}, &[1]order{orders[0]}, [][1]order{{orders[0]}}, []map[string]order{{"a": orders[0]}}, map[string][]order{"a": orders},
		[]pointerJSON{{1}}, [1]pointerJSON{}, &[1]pointerJSON{}, [][1]pointerJSON{{}}, map[string]pointerJSON{"a": {}}, []*pointerJSON{{}, nil}, []any{pointerJSON{}, &pointerJSON{}},
		[]pointerText{{1}}, []pointerScalar{1}, &[]pointerScalar{1}, &[1]pointerScalar{}, map[string]pointerScalar{"a": 1}, [][]pointerScalar{{1}, nil}, []time.Time{{}},
	} {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		want, err := value.Decode(text, value.Limits{})
		require.NoError(t, err)
		got, err := value.Normalize(v, value.Limits{})
		require.NoError(t, err)
		require.Equal(t, want, got, "%T: %s", v, text)
	}
}

// Integers beyond 2^53 are read back as they were, into an integer or a number of any kind.
func TestBindLargeIntegers(t *testing.T) {
	type holder struct {
		D    time.Duration
		Ints []int64
		F    float64
		Any  any
	}
	want := holder{D: 200 * 24 * time.Hour, Ints: []int64{1 << 62, -1 << 62, math.MinInt64, 9007199254740994, 7}, F: 1e300, Any: 1e25}
	kept, err := value.Normalize(want, value.Limits{})
	require.NoError(t, err)
	for _, strict := range []bool{false, true} {
		var got holder
		require.NoError(t, value.Bind(kept, &got, strict))
		require.Equal(t, want, got)
		var small int64
		require.Error(t, value.Bind(1e20, &small, strict))
	}
}

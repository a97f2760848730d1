package value_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/value"
)

// object and list are views for the tests.
type (
	object map[string]any
	list   []any
)

func (o object) Get(key string) (any, bool) { v, ok := o[key]; return v, ok }
func (o object) Keys() []string             { return slices.Sorted(maps.Keys(o)) }
func (o object) Len() int                   { return len(o) }
func (l list) At(i int) any                 { return l[i] }
func (l list) Len() int                     { return len(l) }

func TestMaterialize(t *testing.T) {
	plain := []any{int64(1)}
	got := value.Materialize(object{"a": list{object{}, "x", plain}, "b": nil})
	assert.Equal(t, map[string]any{"a": []any{map[string]any{}, "x", plain}, "b": nil}, got)
	shared := value.Materialize(plain).([]any)
	assert.Same(t, &plain[0], &shared[0])
}

func TestEncodeIsCanonical(t *testing.T) {
	for want, v := range map[string]any{
		`{"":0,"a":[],"b":{},"é":null}`:         map[string]any{"é": nil, "b": map[string]any{}, "a": []any(nil), "": int64(0)},
		`[true,false,1.5,-2,1e-7,5e-324]`:       []any{true, false, 1.5, int64(-2), 1e-7, 5e-324},
		`[1e+23,9.007199254740994e+15,1e+20]`:   []any{1e23, float64(1<<53 + 2), 1e20},
		`[0.000001,1.5e-10,-1e+300]`:            []any{0.000001, 1.5e-10, -1e300},
		`"<&>` + "\u2028\x7f" + `\"\\\n\u0001"`: "<&>\u2028\x7f\"\\\n\x01",
	} {
		assert.Equal(t, want, string(value.Encode(v)))
		assert.Equal(t, len(want), value.Size(v))
	}
	assert.Equal(t, "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b", value.Hash(nil))
}

func TestAppendPanicsOutsideTheModel(t *testing.T) {
	for _, v := range []any{1, 2.0, float32(1), math.NaN(), math.Inf(1), int64(1<<53 + 1), "\xff", object{}, []string{}} {
		assert.Panics(t, func() { value.Encode(v) }, "%T %v", v, v)
		assert.Panics(t, func() { value.Encode([]any{map[string]any{"a": v}}) }, "%T %v", v, v)
	}
}

func TestEqualAndHashAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := nested(2).Draw(t, "a"), nested(2).Draw(t, "b")
		require.Equal(t, value.Equal(a, b), value.Hash(a) == value.Hash(b))
		require.Equal(t, value.Equal(a, b), value.Equal(b, a))
	})
	assert.False(t, value.Equal(object{}, object{}))
	assert.False(t, value.Equal([]any{nil}, map[string]any{}))
	assert.True(t, value.Equal([]any(nil), []any{}))
}

func TestIntAndFloat(t *testing.T) {
	for in, want := range map[float64]any{3: int64(3), 0.5: 0.5, 1 << 53: int64(1 << 53), 1 << 54: float64(1 << 54)} {
		got, err := value.Float(in)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	got, err := value.Int(1 << 54)
	require.NoError(t, err)
	assert.Equal(t, float64(1<<54), got)
	for _, n := range []int64{1<<53 + 1, math.MaxInt64, -1<<53 - 1} {
		_, err := value.Int(n)
		assert.Error(t, err, n)
	}
	got, err = value.Int(math.MinInt64)
	require.NoError(t, err)
	assert.Equal(t, float64(math.MinInt64), got)
}

func benchmarkValue() any {
	items := make([]any, 100)
	for i := range items {
		items[i] = map[string]any{"id": fmt.Sprintf("item-%d", i), "price": 9.99, "count": int64(i), "note": "größer", "tags": []any{"a", nil, true}}
	}
	return map[string]any{"items": items}
}

func BenchmarkDecode(b *testing.B) {
	text := value.Encode(benchmarkValue())
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := value.Decode(text, value.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	v := benchmarkValue()
	dst := value.Encode(v)
	b.SetBytes(int64(len(dst)))
	b.ReportAllocs()
	for b.Loop() {
		dst = value.Append(dst[:0], v)
	}
}

func BenchmarkNormalize(b *testing.B) {
	v := benchmarkValue()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := value.Normalize(v, value.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSize(b *testing.B) {
	v := benchmarkValue()
	b.ReportAllocs()
	for b.Loop() {
		value.Size(v)
	}
}

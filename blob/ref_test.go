package blob

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const hashA = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

type object = map[string]any

func TestParseRef(t *testing.T) {
	tests := []struct {
		name string
		v    any
		want Ref
		err  string
	}{
		{"least", object{"$blob": hashA, "size": int64(0)}, Ref{Hash: hashA}, ""},
		{"with a type", object{"$blob": hashA, "size": int64(5), "type": "text/plain"}, Ref{hashA, 5, "text/plain"}, ""},
		{"empty type", object{"$blob": hashA, "size": int64(5), "type": ""}, Ref{hashA, 5, ""}, ""},
		{"float", object{"$blob": hashA, "size": float64(5)}, Ref{hashA, 5, ""}, ""},
		{"largest", object{"$blob": hashA, "size": int64(maxSize)}, Ref{hashA, maxSize, ""}, ""},
		{"a Ref", Ref{hashA, 5, "a"}, Ref{hashA, 5, "a"}, ""},
		{"longest type", Ref{hashA, 5, strings.Repeat("a", maxType)}, Ref{hashA, 5, strings.Repeat("a", maxType)}, ""},

		{"nil", nil, Ref{}, "<nil> is no object"},
		{"text", hashA, Ref{}, "string is no object"},
		{"empty", object{}, Ref{}, "$blob is no string"},
		{"hash is a number", object{"$blob": int64(1), "size": int64(0)}, Ref{}, "$blob is no string"},
		{"no scheme", object{"$blob": hashA[7:], "size": int64(0)}, Ref{}, "hexadecimal"},
		{"upper case", object{"$blob": "sha256:" + strings.ToUpper(hashA[7:]), "size": int64(0)}, Ref{}, "hexadecimal"},
		{"short", object{"$blob": hashA[:70], "size": int64(0)}, Ref{}, "hexadecimal"},
		{"long", object{"$blob": hashA + "0", "size": int64(0)}, Ref{}, "hexadecimal"},
		{"a path", object{"$blob": "sha256:../" + hashA[10:], "size": int64(0)}, Ref{}, "hexadecimal"},
		{"no size", object{"$blob": hashA}, Ref{}, "size is no integer"},
		{"size is text", object{"$blob": hashA, "size": "5"}, Ref{}, "size is no integer"},
		{"size with a fraction", object{"$blob": hashA, "size": 5.5}, Ref{}, "size is no integer"},
		{"size is NaN", object{"$blob": hashA, "size": math.NaN()}, Ref{}, "size is no integer"},
		{"size is infinite", object{"$blob": hashA, "size": math.Inf(1)}, Ref{}, "size is no integer"},
		{"negative", object{"$blob": hashA, "size": int64(-1)}, Ref{}, "size -1 is outside"},
		{"too large", object{"$blob": hashA, "size": int64(maxSize + 1)}, Ref{}, "size 9007199254740993 is outside"},
		{"type is null", object{"$blob": hashA, "size": int64(5), "type": nil}, Ref{}, "type is no string"},
		{"type is too long", Ref{hashA, 5, strings.Repeat("a", maxType+1)}, Ref{}, "type has 256 bytes"},
		{"type with a line", Ref{hashA, 5, "a\nb"}, Ref{}, "control"},
		{"type is not UTF-8", Ref{hashA, 5, "\xff"}, Ref{}, "UTF-8"},
		{"further key", object{"$blob": hashA, "size": int64(5), "a": nil, "b": nil}, Ref{}, `further key "a"`},
		{"a Ref that is none", Ref{}, Ref{}, "hexadecimal"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseRef(tt.v)
			assert.Equal(t, tt.want, got)
			if tt.err == "" {
				require.NoError(t, err)
				return
			}
			var e *RefError
			require.ErrorAs(t, err, &e)
			assert.Empty(t, e.Path)
			assert.Contains(t, e.Detail, tt.err)
		})
	}
}

func TestRefs(t *testing.T) {
	ref := func(n int64) object { return Ref{Hash: hashA, Size: n}.Value() }
	tests := []struct {
		name string
		v    any
		want []int64 // sizes
		path string
		err  string
	}{
		{"scalar", int64(1), nil, "", ""},
		{"the text of the key", object{"a": "$blob", "b": []any{"$blob"}}, nil, "", ""},
		{"itself", ref(1), []int64{1}, "", ""},
		{"a Ref", []any{Ref{Hash: hashA, Size: 2}}, []int64{2}, "", ""},
		{"sorted keys", object{"b": ref(2), "a": []any{ref(1), ref(0)}, "c": ref(3)}, []int64{1, 0, 2, 3}, "", ""},
		{"twice", []any{ref(1), ref(1)}, []int64{1, 1}, "", ""},
		{"bad itself", object{"$blob": nil}, nil, "", "no string"},
		{"bad in a list", object{"x": []any{ref(1), object{"$blob": hashA}}}, nil, "/x/1", "size"},
		{"escaped", object{"a/b": object{"c~d": object{"$blob": "", "size": int64(0)}}}, nil, "/a~1b/c~0d", "hexadecimal"},
		{"the first in order", object{"b": object{"$blob": 1}, "a": object{"$blob": 1}}, nil, "/a", "no string"},
		{"a reference in a reference", object{"$blob": hashA, "size": int64(1), "type": ref(1)}, nil, "", "type"},
		{"a bad Ref", []any{Ref{}}, nil, "/0", "hexadecimal"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			refs, err := Refs(tt.v)
			var sizes []int64
			for _, r := range refs {
				sizes = append(sizes, r.Size)
			}
			assert.Equal(t, tt.want, sizes)
			if tt.err == "" {
				require.NoError(t, err)
				return
			}
			var e *RefError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, tt.path, e.Path)
			assert.Contains(t, e.Detail, tt.err)
			assert.Contains(t, err.Error(), fmt.Sprintf("%q", tt.path))
		})
	}
}

// The form in JSON text is the form in the model.
func TestRefJSON(t *testing.T) {
	for _, r := range []Ref{{hashA, 5, "text/plain"}, {hashA, 0, ""}} {
		text, err := json.Marshal(r)
		require.NoError(t, err)
		model, err := json.Marshal(r.Value())
		require.NoError(t, err)
		assert.JSONEq(t, string(model), string(text))
		var back any
		require.NoError(t, json.Unmarshal(text, &back))
		got, err := ParseRef(back)
		require.NoError(t, err)
		assert.Equal(t, r, got)
	}
}

func TestRefsAllocateNothing(t *testing.T) {
	v := plainValue()
	allocations := testing.AllocsPerRun(100, func() {
		if refs, err := Refs(v); refs != nil || err != nil {
			t.Error(refs, err)
		}
	})
	assert.Zero(t, allocations)
}

// plainValue returns a value of about 2,000 parts without a reference.
func plainValue() any {
	list := []any{}
	for i := range 200 {
		list = append(list, object{
			"id": int64(i), "name": "n", "ok": true, "none": nil,
			"parts": []any{1.5, "blob", object{"size": int64(1), "type": "t"}},
		})
	}
	return object{"items": list}
}

// values generates values of the model with and without references, good and bad.
func values() *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.Just[any](nil), rapid.Just[any](true), rapid.Just[any](int64(3)), rapid.Just[any](1.5),
		rapid.StringMatching(`[a-c~/$]{0,3}`).AsAny(),
	)
	ref := rapid.Custom(func(t *rapid.T) any {
		m := Ref{Hash: hashA, Size: rapid.Int64Range(0, 9).Draw(t, "size")}.Value()
		if rapid.IntRange(0, 9).Draw(t, "break") == 0 {
			m[rapid.SampledFrom([]string{"$blob", "size", "type", "other"}).Draw(t, "key")] = scalar.Draw(t, "value")
		}
		return m
	})
	return deep(rapid.OneOf(scalar, ref), 4)
}

func deep(leaf *rapid.Generator[any], depth int) *rapid.Generator[any] {
	if depth == 0 {
		return leaf
	}
	below := deep(leaf, depth-1)
	return rapid.OneOf(leaf,
		rapid.SliceOfN(below, 0, 4).AsAny(),
		rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c/d", "e~", "", "size", "type"}), below, 0, 4).AsAny(),
	)
}

// walk is what Refs is, said naively: it asks for every object and stops at the
// first that is wrong.
func walk(v any, path string, visit func(path string, m object) bool) bool {
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			if !walk(e, fmt.Sprintf("%s/%d", path, i), visit) {
				return false
			}
		}
	case object:
		if slices.Contains(slices.Collect(maps.Keys(v)), "$blob") {
			return visit(path, v)
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			segment := strings.ReplaceAll(strings.ReplaceAll(k, "~", "~0"), "/", "~1")
			if !walk(v[k], path+"/"+segment, visit) {
				return false
			}
		}
	}
	return true
}

func TestRefsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkRefs(t, values().Draw(t, "v")) })
}

// checkRefs compares Refs with the naive walker.
func checkRefs(t require.TestingT, v any) {
	var want []Ref
	bad, badPath := error(nil), ""
	walk(v, "", func(path string, m object) bool {
		r, err := ParseRef(m)
		if err != nil {
			bad, badPath = err, path
			return false
		}
		want = append(want, r)
		return true
	})
	got, err := Refs(v)
	if bad == nil {
		require.NoError(t, err)
		require.Equal(t, want, got)
		return
	}
	var e, first *RefError
	require.ErrorAs(t, err, &e)
	require.ErrorAs(t, bad, &first)
	require.Equal(t, &RefError{badPath, first.Detail}, e)
	require.Nil(t, got)
}

func FuzzRefs(f *testing.F) {
	for _, seed := range []string{
		`{"$blob":"` + hashA + `","size":5,"type":"text/plain"}`,
		`[{"a":{"$blob":"` + hashA + `","size":5}},{"$blob":1}]`,
		`{"$blob":"` + hashA + `","size":1e300}`, `{"$blob":{"$blob":null}}`, `[[[]]]`, `"$blob"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var v any
		if json.Unmarshal(text, &v) != nil {
			return
		}
		checkRefs(t, v)
		r, err := ParseRef(v)
		if err != nil {
			var e *RefError
			require.ErrorAs(t, err, &e)
			require.Zero(t, r)
			return
		}
		again, err := ParseRef(r.Value())
		require.NoError(t, err)
		require.Equal(t, r, again)
		refs, err := Refs(v)
		require.NoError(t, err)
		require.Equal(t, []Ref{r}, refs)
	})
}

func BenchmarkRefs(b *testing.B) {
	v := plainValue()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Refs(v); err != nil {
			b.Fatal(err)
		}
	}
}

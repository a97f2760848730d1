package merge

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type object = map[string]any

func branches(values ...any) []Branch {
	bs := make([]Branch, len(values))
	for i, v := range values {
		bs[i] = Branch{Index: i, Value: v}
	}
	return bs
}

func TestApply(t *testing.T) {
	one, two := []any{int64(1)}, []any{int64(2), []any{int64(3)}}
	tests := []struct {
		name     string
		strategy Strategy
		branches []Branch
		want     any
	}{
		{"append nothing", Append, nil, []any{}},
		{"append scalars", Append, branches("a", nil, "c"), []any{"a", nil, "c"}},
		{"append lists, one level", Append, branches(one, two), []any{int64(1), int64(2), []any{int64(3)}}},
		{"append with one scalar keeps the lists", Append, branches(one, "x"), []any{one, "x"}},
		{"append empty lists", Append, branches([]any{}, []any{}), []any{}},
		{"append one list", Append, branches(two), two},
		{"collect nothing", Collect, nil, []any{}},
		{"collect never flattens", Collect, branches(one, two), []any{one, two}},
		{"collect by index", Collect, []Branch{{4, "e"}, {0, "a"}, {2, "c"}}, []any{"a", "c", "e"}},
		{"object nothing", Object, nil, object{}},
		{"object union", Object, branches(object{"a": int64(1)}, object{"b": int64(2)}), object{"a": int64(1), "b": int64(2)}},
		{"object: the higher index wins", Object, []Branch{{1, object{"a": "one"}}, {0, object{"a": "zero"}}}, object{"a": "one"}},
		{"object is shallow", Object, branches(object{"a": object{"x": "1"}}, object{"a": object{"y": "2"}}), object{"a": object{"y": "2"}}},
		{"keyed nothing", Keyed, nil, object{}},
		{"keyed sparse", Keyed, []Branch{{4, "e"}, {0, "a"}}, object{"0": "a", "4": "e"}},
		{"last of nothing", Last, nil, nil},
		{"last by index", Last, []Branch{{2, "c"}, {0, "a"}, {1, "b"}}, "c"},
		{"last may be null", Last, branches("a", nil), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Apply(tt.strategy, tt.branches)
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestApplyRefusesNonObjects(t *testing.T) {
	for want, value := range map[string]any{
		"null": nil, "bool": true, "int": int64(1), "double": 1.5, "string": "s", "list": []any{}, "uint8": uint8(1),
	} {
		bs := []Branch{{7, "later"}, {3, value}, {0, object{}}}
		_, err := Apply(Object, bs)
		var e *Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, &Error{Strategy: Object, Index: 3, Type: want}, e)
		assert.Equal(t, "merge: merge_object: branch 3 is "+want+", want an object", err.Error())
	}
}

func TestApplyRefusesUnknownStrategies(t *testing.T) {
	for _, s := range []Strategy{"", "Append", "object"} {
		assert.False(t, s.Valid())
		_, err := Apply(s, nil)
		assert.EqualError(t, err, fmt.Sprintf("merge: unknown strategy %q", string(s)))
	}
}

func TestValid(t *testing.T) {
	for _, s := range all {
		assert.True(t, s.Valid(), s)
	}
}

// drawValue draws a value of the model, objects often enough to merge them.
func drawValue(t *rapid.T, depth int) any {
	kind := rapid.IntRange(0, 6).Draw(t, "kind")
	if depth == 0 && kind > 4 {
		kind = 4
	}
	switch kind {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return rapid.Int64().Draw(t, "int")
	case 3:
		return rapid.Float64().Draw(t, "double")
	case 4:
		return rapid.StringN(0, 3, -1).Draw(t, "string")
	case 5:
		return drawList(t, depth-1)
	default:
		return drawObject(t, depth-1)
	}
}

func drawList(t *rapid.T, depth int) any {
	list := make([]any, rapid.IntRange(0, 3).Draw(t, "len"))
	for i := range list {
		list[i] = drawValue(t, depth)
	}
	return list
}

func drawObject(t *rapid.T, depth int) any {
	out := object{}
	for _, key := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3).Draw(t, "keys") {
		out[key] = drawValue(t, depth)
	}
	return out
}

// drawBranches draws branches with distinct, sparse indices; all lists, all
// objects or mixed, so that every strategy has something to do.
func drawBranches(t *rapid.T) []Branch {
	indices := rapid.SliceOfNDistinct(rapid.IntRange(0, 50), 0, 6, rapid.ID[int]).Draw(t, "indices")
	shape := rapid.IntRange(0, 2).Draw(t, "shape")
	bs := make([]Branch, len(indices))
	for i, index := range indices {
		switch shape {
		case 0:
			bs[i] = Branch{index, drawList(t, 1)}
		case 1:
			bs[i] = Branch{index, drawObject(t, 1)}
		default:
			bs[i] = Branch{index, drawValue(t, 2)}
		}
	}
	return bs
}

func clone(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = clone(v[i])
		}
		return out
	case object:
		out := object{}
		for k, e := range v {
			out[k] = clone(e)
		}
		return out
	default:
		return v
	}
}

func cloneBranches(bs []Branch) []Branch {
	out := make([]Branch, len(bs))
	for i, b := range bs {
		out[i] = Branch{b.Index, clone(b.Value)}
	}
	return out
}

func TestApplyIgnoresTheOrderOfArrival(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bs := drawBranches(t)
		arrived := rapid.Permutation(bs).Draw(t, "arrived")
		for _, s := range all {
			want, wantErr := Apply(s, bs)
			got, err := Apply(s, arrived)
			assert.Equal(t, wantErr, err, s)
			assert.Equal(t, want, got, s)
		}
	})
}

func TestApplyModifiesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bs := drawBranches(t)
		before := cloneBranches(bs)
		for _, s := range all {
			_, _ = Apply(s, bs)
			assert.Equal(t, before, bs, s)
		}
	})
}

func TestApplyKeepsEveryValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bs := drawBranches(t)
		collected, err := Apply(Collect, bs)
		require.NoError(t, err)
		assert.Len(t, collected, len(bs))
		keyed, err := Apply(Keyed, bs)
		require.NoError(t, err)
		for _, b := range bs {
			assert.Equal(t, b.Value, keyed.(object)[fmt.Sprint(b.Index)])
		}
	})
}

// A list of one branch is the list of that branch: the result of Append must
// not share its backing array, or a later append would be seen by the branch.
func TestAppendDoesNotShareTheBackingArray(t *testing.T) {
	list := make([]any, 1, 4)
	list[0] = "a"
	got, err := Apply(Append, branches(list))
	require.NoError(t, err)
	got.([]any)[0] = "b"
	_ = append(got.([]any), "c")
	assert.Equal(t, "a", list[0])
	assert.Nil(t, list[:2][1])
}

func TestObjectDoesNotShareTheFirstMap(t *testing.T) {
	first := object{"a": "1"}
	got, err := Apply(Object, branches(first))
	require.NoError(t, err)
	got.(object)["b"] = "2"
	assert.Equal(t, object{"a": "1"}, first)
}

func BenchmarkApply(b *testing.B) {
	bs := make([]Branch, 1000)
	for i := range bs {
		bs[i] = Branch{i, object{"price": int64(i)}}
	}
	for _, s := range all {
		b.Run(string(s), func(b *testing.B) {
			for b.Loop() {
				if _, err := Apply(s, bs); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

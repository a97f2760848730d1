package codec

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/value"
)

func TestValues(t *testing.T) {
	var values Values
	assert.Zero(t, values.Len())
	raw := []byte(`[1,2]`)
	one := values.Add(raw)
	raw[1] = '9' // Add has made a copy
	two := values.Add([]byte(`"text"`))
	assert.Equal(t, one, values.Add([]byte(`[1,2]`)))
	assert.Equal(t, value.Hash([]any{int64(1), int64(2)}), one)
	assert.Equal(t, 2, values.Len())

	var seen []string
	for hash, raw := range values.All() {
		seen = append(seen, hash, string(raw))
	}
	assert.Equal(t, []string{one, `[1,2]`, two, `"text"`}, seen)
	for hash := range values.All() {
		assert.Equal(t, one, hash)
		break
	}

	got, err := values.Lookup(two)
	require.NoError(t, err)
	assert.Equal(t, "text", got)
	_, err = (&Values{}).Lookup(one)
	assert.EqualError(t, err, "no value with the hash "+one)
}

func TestDecodeValue(t *testing.T) {
	got, err := DecodeValue([]byte(`{"a":1}`))
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"a": int64(1)}, got)
	_, err = DecodeValue([]byte(`{`))
	var e *value.Error
	assert.ErrorAs(t, err, &e)
}

// A value that a record has twice as the same memory is encoded once; what lies there after the record counts as another one.
func TestObjectsAreEncodedOnce(t *testing.T) {
	var vs Values
	m := map[string]any{"a": "b"}
	var boxed any = m
	require.Empty(t, vs.hashOf(reflect.ValueOf(m)))
	hash, _ := vs.addObject(reflect.ValueOf(&boxed).Elem(), []byte(`{"a":"b"}`), false)
	require.Equal(t, hash, vs.hashOf(reflect.ValueOf(m)))
	require.Equal(t, hash, vs.hashOf(reflect.ValueOf(&boxed).Elem()))
	require.Empty(t, vs.hashOf(reflect.ValueOf(map[string]any{"a": "b"})))
	require.Empty(t, vs.hashOf(reflect.ValueOf("b")))
	list := []any{1, 2, 3}
	whole, _ := vs.addObject(reflect.ValueOf(list), []byte(`[1,2,3]`), false)
	require.Equal(t, whole, vs.hashOf(reflect.ValueOf(list)))
	require.Empty(t, vs.hashOf(reflect.ValueOf(list[:2])), "its beginning is another value")
	vs.Settle()
	require.Empty(t, vs.hashOf(reflect.ValueOf(m)))
	require.Equal(t, 2, vs.Len())
}

// A large text is encoded once as well, wherever the record has it.
func TestTextsAreEncodedOnce(t *testing.T) {
	long := strings.Repeat("<", InlineLimit+1)
	var vs Values
	var want any = long
	hash, _ := vs.addObject(reflect.ValueOf(&want).Elem(), []byte(`"`+long+`"`), false)
	require.Equal(t, hash, vs.hashOf(reflect.ValueOf(&want).Elem()))
	for _, other := range []any{strings.Repeat("<", InlineLimit+1), long[1:], long[:InlineLimit]} {
		require.Empty(t, vs.hashOf(reflect.ValueOf(&other).Elem()))
	}
}

// A text that is known stands for its value wherever the record has it, and no other text is made; a short one, and that of a value that
// the record has not, leave no trace.
func TestKnownTextIsNotEncodedAgain(t *testing.T) {
	list := []any{strings.Repeat("x", InlineLimit)}
	text := value.TextOf(list, value.Text{})
	plain, err := changes.Append(nil, Data{List: list}, new(Values))
	require.NoError(t, err)
	for _, given := range []value.Text{text, {JSON: text.JSON}} {
		var vs Values
		vs.Know(list, given)
		require.Zero(t, vs.Len())
		for range 2 {
			got, err := changes.Append(nil, Data{List: list}, &vs)
			require.NoError(t, err)
			require.Equal(t, string(plain), string(got))
		}
		require.Equal(t, 1, vs.Len())
		for hash, raw := range vs.All() {
			require.Equal(t, text.Hash, hash)
			require.Same(t, &text.JSON[0], &raw[0])
		}
	}
	for name, of := range map[string]struct {
		v    any
		text value.Text
	}{
		"short":   {list, value.Text{JSON: []byte(`["x"]`)}},
		"another": {[]any{"y"}, text},
		"scalar":  {list[0], text},
		"none":    {list, value.Text{}},
	} {
		var vs Values
		vs.Know(of.v, of.text)
		got, err := changes.Append(nil, Data{List: list}, &vs)
		require.NoError(t, err)
		require.Equal(t, string(plain), string(got), name)
		require.Equal(t, 1, vs.Len(), name)
		for _, raw := range vs.All() {
			require.NotSame(t, &text.JSON[0], &raw[0], name)
		}
	}
	var vs Values
	vs.Know(list, text)
	vs.Settle()
	require.Empty(t, vs.hashOf(reflect.ValueOf(list)))
}

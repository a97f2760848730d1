package codec

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// maybe draws nil, an empty list or one of a few elements.
func maybe[E any](t *rapid.T, label string, draw func(*rapid.T) E) []E {
	n := rapid.IntRange(-1, 3).Draw(t, label)
	if n < 0 {
		return nil
	}
	list := make([]E, n)
	for i := range list {
		list[i] = draw(t)
	}
	return list
}

func maybeMap[K comparable, E any](t *rapid.T, label string, key func(*rapid.T) K, draw func(*rapid.T) E) map[K]E {
	keys := maybe(t, label, key)
	if keys == nil {
		return nil
	}
	m := map[K]E{}
	for _, k := range keys {
		m[k] = draw(t)
	}
	return m
}

func drawText(t *rapid.T) string {
	return strings.ToValidUTF8(rapid.String().Draw(t, "text"), "")
}

func drawName(t *rapid.T) name { return name(drawText(t)) }

func drawTime(t *rapid.T) time.Time {
	if rapid.Bool().Draw(t, "no time") {
		return time.Time{}
	}
	return time.UnixMilli(rapid.Int64Range(-1<<45, 1<<48).Draw(t, "ms")).UTC()
}

// drawValue draws a value of the model, at times a large one.
func drawValue(t *rapid.T) any { return drawDeep(t, 2) }

func drawDeep(t *rapid.T, depth int) any {
	kinds := 7
	if depth == 0 {
		kinds = 5
	}
	below := func(t *rapid.T) any { return drawDeep(t, depth-1) }
	switch rapid.IntRange(0, kinds).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return rapid.Int64Range(-1<<53, 1<<53).Draw(t, "int")
	case 3:
		return rapid.Float64Range(0, 1).Filter(func(f float64) bool { return f != math.Trunc(f) }).Draw(t, "double")
	case 4:
		return strings.Repeat("x", rapid.IntRange(1000, 1100).Draw(t, "large"))
	case 5:
		return drawText(t)
	case 6:
		return append([]any{}, maybe(t, "list", below)...)
	default:
		m := maybeMap(t, "object", drawText, below)
		if m == nil {
			m = map[string]any{}
		}
		return m
	}
}

func drawFailure(t *rapid.T) *failure {
	if rapid.Bool().Draw(t, "no failure") {
		return nil
	}
	return &failure{
		Code:   drawText(t),
		Detail: maybeMap(t, "detail", drawText, drawValue),
		Cause:  drawFailure(t),
	}
}

func drawInt[N int | int8 | int64 | id](t *rapid.T) N {
	return N(rapid.Int64().Draw(t, "n"))
}

func drawScalar(t *rapid.T) Scalar {
	return Scalar{
		Text: drawText(t), Name: drawName(t), Small: drawInt[int8](t), Int: drawInt[int64](t),
		Level: level(rapid.Byte().Draw(t, "level")), Epoch: rapid.Uint64().Draw(t, "epoch"),
		Flag: rapid.Bool().Draw(t, "flag"), Ratio: rapid.Float64().Draw(t, "ratio"),
		Due: drawTime(t), After: time.Duration(drawInt[int64](t)),
	}
}

func drawNested(t *rapid.T) Nested {
	n := Nested{
		Place: place{Group: drawInt[id](t), Index: rapid.IntRange(0, 1).Draw(t, "index")},
		Error: drawFailure(t),
		IDs:   maybe(t, "ids", drawInt[id]), Names: maybe(t, "names", drawText), Times: maybe(t, "times", drawTime),
		Counts: maybeMap(t, "counts", drawName, drawInt[int]),
		Labels: maybeMap(t, "labels", drawText, drawName),
		Writes: maybe(t, "writes", func(t *rapid.T) write { return write{drawText(t), drawValue(t)} }),
	}
	if rapid.Bool().Draw(t, "number") {
		n.Number = ptr(drawInt[int](t))
	}
	return n
}

func drawChange(t *rapid.T) change {
	switch rapid.IntRange(0, 4).Draw(t, "variant") {
	case 0:
		return Empty{}
	case 1:
		return Small{Token: drawInt[id](t), Node: drawName(t), Attempt: drawInt[int](t), Open: rapid.Bool().Draw(t, "open")}
	case 2:
		return drawScalar(t)
	case 3:
		return drawNested(t)
	default:
		return Data{
			Value: drawValue(t),
			Map:   maybeMap(t, "map", drawText, drawValue),
			List:  maybe(t, "list", drawValue),
		}
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := maybe(t, "changes", drawChange)
		var values Values
		text, err := changes.AppendAll(nil, in, &values)
		require.NoError(t, err)
		assert.True(t, json.Valid(text), "%s", text)
		assert.NotContains(t, string(text), "\n")

		back, err := changes.DecodeAll(text, values.Lookup)
		require.NoError(t, err, "%s", text)
		require.Len(t, back, len(in))
		for i := range in {
			assert.Equal(t, in[i], back[i])
		}
		var again Values
		same, err := changes.AppendAll(nil, back, &again)
		require.NoError(t, err)
		assert.Equal(t, string(text), string(same))
		assert.Equal(t, values.Len(), again.Len())
	})
}

// A file that is cut off or has one wrong byte gives an error or a variant,
// never a panic.
func TestDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, err := changes.Append(nil, drawChange(t), nil)
		require.NoError(t, err)
		cut := rapid.IntRange(0, len(text)-1).Draw(t, "cut")
		_, err = changes.Decode(text[:cut], nil)
		var e *Error
		require.ErrorAs(t, err, &e)
		text[cut] = rapid.Byte().Draw(t, "byte")
		if _, err = changes.Decode(text, nil); err != nil {
			require.ErrorAs(t, err, &e)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, g := range golden {
		f.Add([]byte(g.text))
	}
	f.Add([]byte(`{"kind":"Data","value@":"` + strings.Repeat("0", 64) + `"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		lookup := func(string) (any, error) { return map[string]any{}, nil }
		v, err := changes.Decode(data, lookup)
		if err != nil {
			var e *Error
			require.ErrorAs(t, err, &e)
			return
		}
		require.True(t, json.Valid(data), "%q", data)
		text, err := changes.Append(nil, v, nil)
		require.NoError(t, err)
		back, err := changes.Decode(text, nil)
		require.NoError(t, err)
		require.Equal(t, v, back)
	})
}

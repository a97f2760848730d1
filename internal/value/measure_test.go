package value_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pawl-run/pawl/internal/value"
)

// Normalize measures its copy as another walk over it would.
func TestMeasure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := model().Draw(t, "value")
		taken, err := value.Take(v, value.Limits{})
		require.NoError(t, err)
		require.Equal(t, value.MeasureOf(taken.Value), taken.Measure)
		require.Len(t, value.Encode(taken.Value), taken.Measure.Size)
	})
	type part struct {
		A []any          `json:"a"`
		B map[string]any `json:"b"`
	}
	for _, tt := range []struct {
		v    any
		want value.Measure
	}{
		{nil, value.Measure{Size: 4}},
		{"x", value.Measure{Size: 3}},
		{[]any{}, value.Measure{Size: 2, Depth: 1}},
		{[]string{"$blob"}, value.Measure{Size: 9, Depth: 1}},
		{map[string]any{"a": []any{1}}, value.Measure{Size: 9, Depth: 2}},
		{map[string]any{"$blob": true}, value.Measure{Size: 14, Depth: 1, Refs: true}},
		{json.RawMessage(`[[{"$blob": 1}]]`), value.Measure{Size: 15, Depth: 3, Refs: true}},
		{[]any{part{B: map[string]any{"$blob": nil}}}, value.Measure{Size: 31, Depth: 3, Refs: true}},
	} {
		taken, err := value.Take(tt.v, value.Limits{})
		require.NoError(t, err)
		require.Equal(t, tt.want, taken.Measure, "%v", tt.v)
		require.Equal(t, tt.want, value.MeasureOf(taken.Value), "%v", tt.v)
	}
}

package schema

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/limits"
)

// BenchmarkSchema is the check of a small input against its schema, and the part of it that the
// meter takes.
func BenchmarkSchema(b *testing.B) {
	s, err := Compile(map[string]any{
		"type": "object", "required": []any{"card", "amount"},
		"properties": map[string]any{
			"card": map[string]any{"type": "string", "pattern": "^[0-9]{4,19}$"}, "amount": map[string]any{"type": "integer", "minimum": int64(1)},
			"items": map[string]any{"type": "array", "items": map[string]any{"type": "string", "maxLength": int64(40)}},
		},
	})
	require.NoError(b, err)
	order := map[string]any{"card": "4111111111111111", "amount": int64(12), "items": []any{"lamp", "table", "chair"}}
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := s.Check(order); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("meter", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m := meter{left: limits.MaxSchemaCost, unevaluated: s.unevaluated, whole: s.whole}
			if m.apply(s.compiled, order, 0); m.left < 0 {
				b.Fatal("it is bounded")
			}
		}
	})
}

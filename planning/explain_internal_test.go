package planning

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/value"
)

// A quoted value is its canonical text, or the beginning of that; what is nested and has many elements is counted.
func TestQuotes(t *testing.T) {
	for _, x := range []any{
		nil, true, int64(7), 1.5, "text", []any{}, map[string]any{}, []any{int64(1), "a", nil}, map[string]any{"b": []any{false, 2.5}, "a": map[string]any{"\"": "\n"}},
		map[string]any{"l": make([]any, maxQuoted)}, []any{strings.Repeat("x", 300)}, map[string]any{strings.Repeat("x", 300): int64(1)}, strings.Repeat("x", 150),
	} {
		require.Equal(t, value.Shorten(string(value.Encode(x)), maxReading), quoteValue(x))
	}
	require.Equal(t, `{"a":["2030-01-01T00:00:00Z"],"m":{65 keys},"n":[65 elements]}`, quoteValue(map[string]any{
		"a": []any{time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}, "m": keys(maxQuoted + 1), "n": make([]any, maxQuoted+1),
	}))
}

func keys(n int) map[string]any {
	out := map[string]any{}
	for i := range n {
		out[strings.Repeat("k", i)] = nil
	}
	return out
}

// A quote of much is not made whole before it is shortened.
func TestQuotesOfMuch(t *testing.T) {
	var much any = strings.Repeat("x", 100_000)
	for range 5 {
		list := make([]any, maxQuoted)
		for i := range list {
			list[i] = map[string]any{"in": much}
		}
		much = list
	}
	require.Less(t, len(appendQuoted(nil, much)), 3*maxReading)
	require.Len(t, quoteValue(much), maxReading+len("..."))
}

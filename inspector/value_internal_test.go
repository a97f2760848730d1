package inspector

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A value costs no more to show than its size, however deep it is, and the budget bounds the texts that are shown of it.
func TestALargeValueIsShownInShort(t *testing.T) {
	var v any = strings.Repeat("é", 1<<19)
	for i := range 120 {
		v = map[string]any{fmt.Sprint("k", i): v, strings.Repeat("long", 1000): i}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out := valueOf("", v, largeValue)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
	depth := 0
	for len(out.Parts) > 0 {
		require.LessOrEqual(t, len([]rune(out.Text)), largeValue.line)
		require.True(t, strings.HasSuffix(out.Text, "…"), out.Text)
		require.Equal(t, strings.Repeat("long", 1000)[:largeValue.line-1]+"…", out.Parts[1].Name)
		out = out.Parts[0]
		depth++
	}
	require.Equal(t, 120, depth)
	require.Equal(t, strings.Repeat("é", 7999)+"… (524,288 characters)", out.Text)
}

// A value is one line of JSON where that has room, and cut where it has not.
func TestValuesInOneLine(t *testing.T) {
	b := &budget{parts: 1, text: 20, line: 20}
	for want, v := range map[string]any{
		`{}`: map[string]any{}, `[]`: []any{}, `null`: nil, `true`: true, `-1.5`: -1.5, `"<é>\""`: `<é>"`,
		`{"a":[1,{}],"b":"<"}`: map[string]any{"b": "<", "a": []any{1, map[string]any{}}},
		`"aaaaaaaaaaaaaaaaaa"`: strings.Repeat("a", 18),
		`"aaaaaaaaaaaaaaaaaa…`: strings.Repeat("a", 19),
		`{"a":"bbbbbbbbbbbbb…`: map[string]any{"a": strings.Repeat("b", 1<<20)},
		`[[[[[[[[[[[[[[[[[[[…`: nested(50),
		`{"a":{ 1,000 fields…`: map[string]any{"a": fieldsOf(1000)},
		`[ 11 items ]`:         make([]any, 11),
	} {
		line, whole := b.oneLine(v)
		require.Equal(t, want, line)
		require.Equal(t, !strings.ContainsAny(want, "…") && !strings.Contains(want, "items"), whole, want)
	}
}

// A value can be opened if its line tells only the size.
func TestTreesThatCanBeOpened(t *testing.T) {
	for _, v := range []any{fieldsOf(23), make([]any, 46), map[string]any{"a": fieldsOf(23)}} {
		out := valueOf("", map[string]any{"v": v}, largeValue)
		require.NotEmpty(t, out.Parts[0].Parts)
	}
}

func nested(depth int) (v any) {
	for range depth {
		v = []any{v}
	}
	return v
}

func fieldsOf(n int) map[string]any {
	out := map[string]any{}
	for i := range n {
		out[fmt.Sprint(i)] = i
	}
	return out
}

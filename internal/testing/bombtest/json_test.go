package bombtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// texts are values in JSON: what each is in the model, or refused.
func texts() map[string]any {
	no := pawl.ErrInvalid
	wide := func(n int, entry func(i int) string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = entry(i)
		}
		return strings.Join(parts, ",")
	}
	return map[string]any{
		// nesting
		strings.Repeat("[", 127) + strings.Repeat("]", 127): plain(127), strings.Repeat("[", 128) + strings.Repeat("]", 128): no,
		strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001): no, strings.Repeat("[", 1_000_000): no, strings.Repeat(`{"a":`, 10_001) + "1" + strings.Repeat("}", 10_001): no,
		strings.Repeat(`{"a":`, 1_000_000): no, strings.Repeat(`[{"a":`, 500_000): no, strings.Repeat("]", 1000): no, strings.Repeat("[[],", 1000): no, strings.Repeat(" ", 1<<20-1) + "1": int64(1),
		// numbers
		"1e400": no, "-1e400": no, "1e-400": no, "1e308": 1e308, "1.7976931348623157e308": 1.7976931348623157e308, "1.8e308": no, "5e-324": 5e-324, "1e-324": no,
		"9223372036854775807": no, "9223372036854775808": float64(1 << 63), "-9223372036854775808": -float64(1 << 63), "-9223372036854775809": no, "18446744073709551616": float64(1 << 64), "9007199254740992": int64(1 << 53),
		"9007199254740993": no, "-9007199254740992": int64(-1 << 53), "-9007199254740993": no, "9007199254740991.5": int64(1 << 53), "-0": int64(0), "-0.0": int64(0), "-0e5": int64(0), "0": int64(0), "0.0": int64(0), "1.0": int64(1), "1e2": int64(100), "1E+2": int64(100),
		"0.1": 0.1, "0.30000000000000004": 0.30000000000000004, "1e22": 1e22, "123456789012345678901234567890": no, "0." + strings.Repeat("0", 500) + "1": no, "1" + strings.Repeat("0", 400): no, strings.Repeat("9", 100_000): no,
		"01": no, "+1": no, ".5": no, "5.": no, "1e": no, "0x10": no, "1_000": no, "NaN": no, "Infinity": no, "-Infinity": no, "1d": no, "--1": no,
		// strings
		`"\ud800"`: no, `"\udc00"`: no, `"\ud800\ud800"`: no, `"\ud83e\uddab"`: "🦫", `"\u0000"`: "\x00", `"a` + "\x00" + `"`: no, `"` + "\xff" + `"`: no, `"` + "\xed\xa0\x80" + `"`: no, `"\x41"`: no, `"\u12"`: no, `"`: no, "'a'": no, `"` + "\n" + `"`: no,
		`"` + strings.Repeat("x", 2<<20) + `"`: no, `"` + strings.Repeat(`\u0041`, 1000) + `"`: strings.Repeat("A", 1000), `"\u2028\ufeff\uffff"`: "\u2028\ufeff\uffff",
		// objects
		`{"a":1,"a":2}`: no, `{"a":1,"\u0061":2}`: no, `{"a":{"b":1,"b":1}}`: no, `{"__proto__":{"x":1},"constructor":1}`: map[string]any{"__proto__": map[string]any{"x": int64(1)}, "constructor": int64(1)}, `{"":1}`: map[string]any{"": int64(1)},
		`{"A":1,"a":2}`: map[string]any{"A": int64(1), "a": int64(2)}, `{"\ud800":1}`: no, "{" + wide(100_000, func(i int) string { return fmt.Sprintf(`"k%d":1`, i) }) + "}": no,
		"{" + wide(1_000_000, func(i int) string { return fmt.Sprintf(`"%d":1`, i) }) + "}": no, "[" + wide(600_000, func(int) string { return "0" }) + "]": no,
		"{" + wide(2, func(int) string { return `"a":1` }) + "}": no, `{"a"}`: no, `{"a":}`: no, `{a:1}`: no, `{1:1}`: no, `{"a":1,}`: no, `[1,]`: no, `[,1]`: no, "": no, "nul": no, "True": no, "undefined": no, "1 2": no, "[1]x": no, "// a\n1": no, "\ufeff1": no, "\x00": no,
	}
}

// plain returns n lists inside each other, the innermost empty.
func plain(n int) any {
	v := []any{}
	for range n - 1 {
		v = []any{v}
	}
	return v
}

// stacks returns how much memory goroutines have for their stacks.
func stacks() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// TestJSONBombs: a text is a value that is kept exactly, or is refused, as an
// input and in a definition, and no stack grows by it.
func TestJSONBombs(t *testing.T) {
	harness.InTurn(t, 4)
	w, c, before := open(t), tally{}, stacks()
	d := define(t, "{name: x, start: a, nodes: [{id: a, output: {output.v: input.v}}]}")
	cases := texts()
	quick := harness.CurrentLevel() == harness.Quick
	if !quick {
		cases[`"`+strings.Repeat("x", 100<<20)+`"`] = pawl.ErrInvalid // 100 MB
	}
	for text, want := range cases {
		if quick && len(text) > 4<<20 {
			continue
		}
		c.tried++
		id := w.fresh()
		err := w.Start(t.Context(), workflow.Run{ID: id, Definition: d}, json.RawMessage(`{"v":`+text+`}`))
		if _, refused := want.(error); refused {
			var ie *workflow.InputError
			var le *workflow.LimitError
			require.True(t, errors.As(err, &ie) || errors.As(err, &le), "%.80s: %v", text, err)
			c.refused++
			continue
		}
		require.NoError(t, err, "%.80s", text)
		out := w.outcome(id)
		require.NoError(t, out.Err(), "%.80s", text)
		require.Equal(t, want, out.Output["v"], "%.80s", text)
		c.taken++
	}
	require.Less(t, stacks(), before+64<<20)
	c.report(t, "JSON texts")
}

// TestJSONBombsInDefinitions: the same texts as the initial state of a definition.
func TestJSONBombsInDefinitions(t *testing.T) {
	c, before := tally{}, stacks()
	for text, want := range texts() {
		if len(text) > harness.Figure(1<<19, 4<<20, math.MaxInt) {
			continue // a million keys are a sound definition, and take seconds
		}
		c.tried++
		d, err := workflow.ParseJSON([]byte(`{"name":"x","start":"a","nodes":[{"id":"a"}],"state":{"initial":{"v":` + text + `}}}`))
		if err == nil {
			err = d.Validate()
		}
		var de *workflow.DefinitionError
		_, refused := want.(error)
		switch {
		case refused && len(text) > 1<<19 && err == nil, // a definition may be larger than an input
			strings.HasPrefix(text, "[[") && !refused: // and its depth counts from outside
		case refused:
			require.ErrorAs(t, err, &de, "%.80s", text)
			c.refused++
			continue
		default:
			require.NoError(t, err, "%.80s", text)
			require.Equal(t, want, d.State.Initial["v"], "%.80s", text)
		}
		c.taken++
	}
	require.Less(t, stacks(), before+64<<20)
	c.report(t, "JSON texts in definitions")
}

// TestYAMLBombs: aliases do not multiply what they stand for, and nesting ends.
func TestYAMLBombs(t *testing.T) {
	c, before, allocated := tally{}, stacks(), allocations()
	laughs := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		laughs += fmt.Sprintf("a%d: &a%[1]d [%s]\n", i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	for name, text := range map[string]string{
		"billion laughs": laughs, "an alias to itself": "a: &a [*a]\n", "merge keys": "a: &a {<<: *a}\n", "brackets": strings.Repeat("[", 1_000_000),
		"braces": strings.Repeat("{a: ", 100_000), "sequences": strings.Repeat("- ", 100_000), "keys": strings.Repeat("? ", 100_000), "indents": indents(5000),
		"documents": strings.Repeat("---\n", 100_000), "tags": "a: !!binary x\n", "a tag of code": "a: !!python/object:os.system x\n", "anchors": strings.Repeat("&a ", 100_000) + "x", "tabs": strings.Repeat("\t", 1_000_000),
		"a directive": "%YAML 9.9\n---\na: 1\n", "a long tag": "%TAG ! tag:" + strings.Repeat("x", 40_000) + "\n---\n" + strings.Repeat("- !y z\n", 40_000/7),
		"a long tag of a second document": "a: 1\n%TAG ! tag:" + strings.Repeat("x", 40_000) + "\n---\n" + strings.Repeat("- !y z\n", 40_000/7), "keys without values": strings.Repeat("? a\n", 100_000), "a byte that is no text": "a: \xff\n", "NUL": "a: \x00\n", "twice": "name: a\nname: b\n", "a large key": strings.Repeat("k", 1<<20) + ": 1\n",
	} {
		c.tried++
		_, err := workflow.ParseYAML([]byte(text))
		var de *workflow.DefinitionError
		require.ErrorAs(t, err, &de, name)
		require.Less(t, len(err.Error()), 64<<10, name)
		c.refused++
	}
	require.Less(t, stacks(), before+64<<20)
	require.Less(t, allocations()-allocated, uint64(512<<20))
	c.report(t, "YAML texts")
}

// allocations returns how many bytes this process has ever allocated.
func allocations() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func indents(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

package expr_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/expr"
)

// A Program is used by many goroutines at a time. Errors are among what they
// could share.
func TestConcurrentUse(t *testing.T) {
	var programs []*expr.Program
	for _, source := range []string{
		`input.n > 3 && state.x == "a"`, `state.x + 1`, `state.l.map(x, x)`, `state.x.matches("(")`,
		`state.x.matches("^a+$")`, `-state.x`, `state.m.transformMap(k, v, v + 1)`, `state.q`, `state.?n.or(1)`,
	} {
		p, err := expr.Compile(source, names, expr.Limits{})
		if err == nil {
			programs = append(programs, p)
		}
	}
	require.GreaterOrEqual(t, len(programs), 8)
	v := vars()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range 400 {
				p := programs[i%len(programs)]
				first, second := outcome(p, v), outcome(p, v)
				assert.Equal(t, first, second, p.Source())
			}
		})
	}
	group.Wait()
}

func benchmarkEval(b *testing.B, source string, v expr.Vars) {
	p, err := expr.Compile(source, names, expr.Limits{})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Eval(v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCondition(b *testing.B) {
	benchmarkEval(b, `input.n > 3 && state.x == "a"`, vars())
}

// The cost of a selection does not depend on how much there is to select from.
func BenchmarkSelectFrom(b *testing.B) {
	for _, keys := range []int{10, 100_000} {
		a := map[string]any{"b": int64(4)}
		state := map[string]any{"a": a}
		for i := range keys {
			state[fmt.Sprint(i)] = int64(i)
			a[fmt.Sprint(i)] = int64(i)
		}
		b.Run(fmt.Sprintf("plain/%d", keys), func(b *testing.B) {
			benchmarkEval(b, `state.a.b > 3`, expr.Map{"state": state})
		})
		b.Run(fmt.Sprintf("view/%d", keys), func(b *testing.B) {
			benchmarkEval(b, `state.a.b > 3`, expr.Map{"state": object{state}})
		})
	}
}

func BenchmarkFilter1000(b *testing.B) {
	items := make([]any, 1000)
	for i := range items {
		items[i] = map[string]any{"price": int64(i)}
	}
	benchmarkEval(b, `state.items.filter(x, x.price > 500)`, expr.Map{"state": map[string]any{"items": items}})
}

func BenchmarkCompile(b *testing.B) {
	c := expr.NewCompiler(expr.Limits{})
	for b.Loop() {
		if _, err := c.Compile(`input.n > 3 && state.x == "a"`, names); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompileAlone(b *testing.B) {
	for b.Loop() {
		if _, err := expr.Compile(`input.n > 3 && state.x == "a"`, names, expr.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

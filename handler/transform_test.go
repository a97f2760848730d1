package handler_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/handler"
)

func TestTransform(t *testing.T) {
	f := handler.Transform(handler.TransformOptions{})
	data := object{"items": []any{object{"name": "a", "price": 3}, object{"name": "b", "price": 5}}}
	tests := []struct {
		expression, data, want any
	}{
		{"data.items.map(i, i.price)", data, []any{int64(3), int64(5)}},
		{"1 + 1", nil, int64(2)},
		{"data", nil, nil},
		{"data / 2.0", 5, 2.5},
		{object{}, data, object{}},
		{object{"count": "data.items.size()", "first": "data.items[0].name"}, data, object{"count": int64(2), "first": "a"}},
	}
	for _, tt := range tests {
		out, err := f(t.Context(), task(object{"expression": tt.expression, "data": tt.data}))
		require.NoError(t, err, "%v", tt.expression)
		assert.Equal(t, tt.want, out, "%v", tt.expression)
	}
}

func TestTransformRefuses(t *testing.T) {
	f := handler.Transform(handler.TransformOptions{OutputBytes: 1000})
	many := object{}
	for i := range 257 {
		many[fmt.Sprint(i)] = "1"
	}
	tests := map[string]struct {
		input         any
		code, message string
	}{
		"no input":         {nil, handler.CodeInvalidInput, "input: expression is missing"},
		"not an object":    {[]any{1}, handler.CodeInvalidInput, "input: it is a list, not an object; expression is missing"},
		"not JSON":         {make(chan int), handler.CodeInvalidInput, "input: $"},
		"a number":         {object{"expression": 7}, handler.CodeInvalidInput, "input: expression is a number, not a string or an object of strings"},
		"unknown field":    {object{"expression": "1", "date": 1}, handler.CodeInvalidInput, `input: "date": unknown field; there are expression, data`},
		"a number inside":  {object{"expression": object{"a": 7}}, handler.CodeInvalidInput, `input: expression."a" is a number, not a string`},
		"too many":         {object{"expression": many}, handler.CodeInvalidInput, "input: expression has 257 fields, above the limit of 256"},
		"syntax":           {object{"expression": "1 +"}, handler.CodeInvalidInput, "expression: 1:4: "},
		"unknown variable": {object{"expression": object{"x": "input.n"}}, handler.CodeInvalidInput, `expression."x": 1:1: unknown variable input`},
		"too long":         {object{"expression": strings.Repeat(" ", 17<<10)}, handler.CodeLimit, "expression: celSource exceeds"},
		"missing key":      {object{"expression": "data.a", "data": object{}}, handler.CodeExpression, "expression: 1:5: no such key: a"},
		"cost":             {object{"expression": "lists.range(9000000000)"}, handler.CodeLimit, "celCost exceeds the limit of 1000000"},
		"size":             {object{"expression": "data", "data": strings.Repeat("x", 1000)}, handler.CodeLimit, "celBytes exceeds the limit of 1000"},
		"size of all": {object{"expression": object{"a": "data", "b": "data"}, "data": strings.Repeat("x", 600)},
			handler.CodeLimit, "the results exceed the limit of 1000 bytes"},
	}
	for name, tt := range tests {
		failure := fails(t, f, tt.input)
		assert.Equal(t, tt.code, failure.Code, "%s: %s", name, failure.Message)
		assert.Contains(t, failure.Message, tt.message, name)
		assert.False(t, failure.Retryable, name)
	}
}

// An option lowers the cost; the default would do.
func TestTransformCost(t *testing.T) {
	input := object{"expression": "data.map(x, x + 1).size()", "data": make([]int, 1000)}
	out, err := handler.Transform(handler.TransformOptions{})(t.Context(), task(input))
	require.NoError(t, err)
	require.Equal(t, int64(1000), out)
	failure := fails(t, handler.Transform(handler.TransformOptions{Cost: 500}), input)
	require.Equal(t, handler.CodeLimit, failure.Code)
	require.Contains(t, failure.Message, "celCost exceeds the limit of 500")
}

// A task that is withdrawn does not go through all of its expressions.
func TestTransformIsWithdrawn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := handler.Transform(handler.TransformOptions{})(ctx, task(object{"expression": object{"a": "1"}}))
	require.ErrorIs(t, err, context.Canceled)
}

// Many goroutines share a handler, with more expressions than it keeps.
func TestTransformConcurrently(t *testing.T) {
	f := handler.Transform(handler.TransformOptions{})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 100 {
				padding := strings.Repeat(" ", 10*i)
				out, err := f(t.Context(), task(object{"expression": fmt.Sprintf("data + %d%s", i%50, padding), "data": 1}))
				assert.NoError(t, err)
				assert.Equal(t, int64(i%50+1), out)
			}
		})
	}
	group.Wait()
}

func BenchmarkTransform(b *testing.B) {
	f := handler.Transform(handler.TransformOptions{})
	in := task(object{"expression": "data.items.map(i, i * 2).size()", "data": object{"items": []any{1, 2, 3}}})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
}

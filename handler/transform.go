package handler

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/value"
)

// TransformOptions bound Transform. The zero value of every field is its
// default.
type TransformOptions struct {
	// Cost is how much work one expression may do, in the units of cel-go, about
	// 100 ns each at most; 1,000,000 by default. A higher cost holds a processor
	// for longer: an evaluation cannot be interrupted.
	Cost uint64
	// OutputBytes is how large the result may be as JSON; 1 MiB by default, as
	// the engine's limit of a result.
	OutputBytes int
}

// The bounds of Transform that are not options.
const (
	maxExpressions = 256       // of one task
	maxCacheBytes  = 128 << 10 // of the source of compiled expressions
)

// Transform returns a handler that evaluates CEL expressions, the language of
// definitions, over data. It has no effects, and the same input always gives
// the same output.
//
// The input has expression: one expression, or an object with an expression per
// field. It may have data: any value, which the expressions see as data, their
// only variable. The output is the value of the expression, or an object
// with the value of each.
//
// The errors are CodeInvalidInput, also for an expression that does not compile, CodeExpression
// and CodeLimit; none is retryable. An expression has at most 16 KiB of source, an
// object of them at most 256.
func Transform(o TransformOptions) func(context.Context, pawl.Task) (any, error) {
	o.Cost, o.OutputBytes = positiveOr(o.Cost, expr.DefaultCost), positiveOr(o.OutputBytes, 1<<20)
	h := &transformer{options: o, programs: newPrograms(expr.Limits{Cost: o.Cost, Bytes: o.OutputBytes}, maxCacheBytes)}
	return h.runTransform
}

type transformer struct {
	options  TransformOptions
	programs *programs
}

// A transform is the input of Transform.
type transform struct {
	expression  string            // if there is one
	expressions map[string]string // if there are several
	data        any
}

func readTransform(v any) (transform, error) {
	in := readInput(v, "expression", "data")
	r := transform{data: in.fields["data"]}
	switch e := in.fields["expression"].(type) {
	case nil:
		in.addProblemf("expression is missing")
	case string:
		r.expression = e
	case map[string]any:
		r.expressions = readExpressions(in, e)
	default:
		in.addProblemf("expression is %s, not a string or an object of strings", kindOf(e))
	}
	return r, in.allProblems()
}

func readExpressions(in *input, m map[string]any) map[string]string {
	if len(m) > maxExpressions {
		in.addProblemf("expression has %d fields, above the limit of %d", len(m), maxExpressions)
		return nil
	}
	out := make(map[string]string, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		source, ok := m[name].(string)
		if !ok {
			in.addProblemf("expression.%s is %s, not a string", quoteText(name), kindOf(m[name]))
		}
		out[name] = source
	}
	return out
}

func (h *transformer) runTransform(ctx context.Context, t pawl.Task) (any, error) {
	r, err := readTransform(t.Input)
	if err != nil {
		return nil, err
	}
	vars := expr.Map{"data": r.data}
	if r.expressions == nil {
		return h.evaluateAt("expression", r.expression, vars)
	}
	out, size := make(map[string]any, len(r.expressions)), 0
	for _, name := range slices.Sorted(maps.Keys(r.expressions)) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		v, err := h.evaluateAt("expression."+quoteText(name), r.expressions[name], vars)
		if err != nil {
			return nil, err
		}
		out[name] = v
		if size += value.Size(v); size > h.options.OutputBytes {
			return nil, permanentError(CodeLimit, "the results exceed the limit of %d bytes", h.options.OutputBytes)
		}
	}
	return out, nil
}

// evaluateAt returns the value of the expression at a place of the input.
func (h *transformer) evaluateAt(place, source string, vars expr.Vars) (any, error) {
	program, err := h.programs.compileCached(source)
	if err != nil {
		return nil, expressionError(CodeInvalidInput, place, err)
	}
	v, err := program.Eval(vars)
	if err != nil {
		return nil, expressionError(CodeExpression, place, err)
	}
	return v, nil
}

func expressionError(code, place string, err error) error {
	var e *expr.Error
	if errors.As(err, &e) && e.Code == expr.CodeLimit {
		code = CodeLimit
	}
	return permanentError(code, "%s: %v", place, err)
}

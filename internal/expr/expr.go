// Package expr compiles and evaluates expressions in CEL, the Common Expression
// Language (https://cel.dev), over the values of package value.
//
// It is CEL with these differences, which make an evaluation a pure function
// of the expression and its variables:
//
//   - Integral JSON numbers are ints, and + - * / % and the comparisons work
//     across int and double: an int and a double give a double. 7 / 2 is 3.
//   - Maps iterate in the order of their keys, in every macro, whatever made them.
//   - null stays null. x.?f on null is absent; has(x.f) on null, and both on a number or
//     a text, are errors.
//   - Cost, size and nesting are bounded, not time: work is charged before it is
//     done, so that the same expression on the same data always ends the same way.
//   - There is no clock, no randomness and no I/O. Time zones are "", "UTC" and
//     offsets such as "+02:00"; named ones would be read from files.
//   - Messages (Type{...}) do not exist.
//
// The libraries of cel-go that are on: optional types, bindings (cel.bind),
// strings, lists, math, sets, base64 and the macros with two variables.
//
// The package is pure. A Program may be used by many goroutines at a time.
package expr

import (
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// The defaults of Limits.
const (
	DefaultCost   = 1_000_000
	DefaultSource = 16 << 10
	DefaultDepth  = 128
	DefaultBytes  = 16 << 20
)

// Limits bound expressions. The zero value means the defaults.
type Limits struct {
	Cost   uint64 // units of work in one evaluation; about 100 ns each at most
	Source int    // bytes of source
	Depth  int    // containers inside each other in the result
	Bytes  int    // size of the result as canonical JSON
}

// withDefaults puts the defaults in place of zeros.
func (l Limits) withDefaults() Limits {
	if l.Cost == 0 {
		l.Cost = DefaultCost
	}
	if l.Source == 0 {
		l.Source = DefaultSource
	}
	if l.Depth == 0 {
		l.Depth = DefaultDepth
	}
	if l.Bytes == 0 {
		l.Bytes = DefaultBytes
	}
	return l
}

// Vars are the variables of one evaluation.
type Vars interface {
	// Lookup returns the value of a variable: a model value, a value.Object or
	// value.List, or a time.Time. It is false for a variable without a value,
	// whose use is an error.
	Lookup(name string) (any, bool)
}

// A Payer is Vars that are told what each evaluation with them has come to, in
// units of cost, whether or not it gave a result. The size of a result counts as
// well: a unit for ten bytes of its JSON.
//
// The planner gives such variables, and so can bound what all expressions of one message may
// cost together.
type Payer interface {
	Vars
	Pay(units int)
}

// A Signer is Vars that may ask for the rule of earlier versions, by which a result with a
// negative zero is an error. It is 0 otherwise.
type Signer interface {
	Vars
	RefusesNegativeZero() bool
}

// Map is Vars made of a map.
type Map map[string]any

// Lookup returns the value under name.
func (m Map) Lookup(name string) (any, bool) {
	v, ok := m[name]
	return v, ok
}

// A Program is a compiled expression.
//
// It is immutable. limits are those of its Compiler; info tells where each part of it stands in
// the source, for errors.
type Program struct {
	source     string
	kind       string
	optional   bool
	references [][]string
	limits     Limits
	program    cel.Program
	info       *ast.SourceInfo
}

// Compile compiles source, in which the given variables may be used. An error
// is an *Error with its place. Callers that compile many expressions with the same
// variables use a Compiler.
func Compile(source string, variables []string, lim Limits) (*Program, error) {
	return NewCompiler(lim).Compile(source, variables)
}

// Source returns the text of the expression.
func (p *Program) Source() string { return p.source }

// Type returns the type of the value by the names of JSON Schema, if it is known whatever the variables are; else "".
func (p *Program) Type() string { return p.kind }

// IsOptional reports whether the value is optional, as that of x.?y, whatever the variables are: no evaluation has a result then.
func (p *Program) IsOptional() bool { return p.optional }

// References returns the parts of variables that the expression may read:
// chains such as ["nodes", "quote", "output"], a variable and the constant keys
// that are selected from it. Where a key is computed the chain ends. Chains are
// sorted, and none is there twice. The caller does not change them.
func (p *Program) References() [][]string { return p.references }

// Eval evaluates the expression. The result is a model value: views are made
// plain, a timestamp is a string in RFC 3339, a duration a string which
// time.ParseDuration takes. A value without such a form (bytes, types, optionals,
// keys that are not strings, numbers outside the model) is an error.
//
// An error is an *Error with CodeExpression or CodeLimit.
func (p *Program) Eval(v Vars) (any, error) {
	out, err := p.evalRaw(v)
	if err != nil {
		return nil, err
	}
	// The value is converted within bounds, and paid for also if it exceeds them.
	c := converter{limits: p.limits}
	if s, ok := v.(Signer); ok {
		c.signed = s.RefusesNegativeZero()
	}
	result, problem := c.convertValue(out, 0)
	if payer, ok := v.(Payer); ok {
		// A unit is a value that was visited, or bytesPerUnit of its text.
		payer.Pay(int(min(c.nodes, p.limits.Cost)) + c.bytes/bytesPerUnit)
	}
	if problem != nil {
		return nil, problem
	}
	return result, nil
}

// EvalBool evaluates a condition. A result that is not a bool is an error.
func (p *Program) EvalBool(v Vars) (bool, error) {
	out, err := p.evalRaw(v)
	if err != nil {
		return false, err
	}
	b, ok := out.(types.Bool)
	if !ok {
		return false, newError(CodeExpression, "result is %s, not a bool", typeName(out))
	}
	return bool(b), nil
}

// EvalTime evaluates to a point in time, in UTC and whole milliseconds. The
// result must be a timestamp or a string in RFC 3339.
//
// Waits use it for instants that an expression computes. Milliseconds are the precision of
// instants in the journal: a finer one would change when it is read back.
func (p *Program) EvalTime(v Vars) (time.Time, error) {
	out, err := p.evalRaw(v)
	if err != nil {
		return time.Time{}, err
	}
	if s, ok := out.(types.String); ok {
		out = s.ConvertToType(types.TimestampType)
	}
	t, ok := out.(types.Timestamp)
	if !ok {
		return time.Time{}, newError(CodeExpression, "result is %s, not a point in time", typeName(out))
	}
	return t.UTC().Truncate(time.Millisecond), nil
}

// evalRaw evaluates to a value of the library.
//
// The evaluation is paid for before its error is looked at: one that fails after much work has
// done the work.
func (p *Program) evalRaw(v Vars) (ref.Val, error) {
	out, details, err := p.program.Eval(activation{v})
	if payer, ok := v.(Payer); ok {
		payer.Pay(p.costOf(details))
	}
	if err != nil {
		return nil, p.evaluationError(err)
	}
	return out, nil
}

// costOf returns what an evaluation has cost, at most a unit more than the limit.
//
// The library ends an evaluation as soon as the limit is exceeded; the last charge may have
// been much larger than what was left of it.
func (p *Program) costOf(details *cel.EvalDetails) int {
	if c := details.ActualCost(); c != nil {
		return int(min(*c, p.limits.Cost+1))
	}
	return 0
}

// A Pass lets packages of this module call methods of types of the API that are for them alone: nobody else can make one.
type Pass struct{}

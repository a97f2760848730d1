package expr

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

const matchesFunction = overloads.Matches

// The bounds of a regular expression.
const (
	maxPattern = 1 << 10 // bytes
	maxRegexp  = 2_000   // instructions
)

// A pattern is a compiled regular expression, or why there is none.
type pattern struct {
	program *regexp.Regexp
	steps   int // a match takes at most so many for each byte
	problem error
}

// matchOperation returns the operation for matches(text, pattern). A constant
// pattern is compiled once.
func matchOperation(args []interpreter.InterpretableV2) operation {
	compile := compilePattern
	if len(args) == 2 {
		if c, ok := args[1].(interpreter.InterpretableConst); ok {
			once := compilePattern(textOf(c.Value()))
			compile = func(string) pattern { return once }
		}
	}
	return operation{two: func(m meter, a, b ref.Val) ref.Val {
		subject, ok := a.(types.String)
		source, okay := b.(types.String)
		if !ok || !okay {
			return noOverload
		}
		m.chargeUnits(len(source))
		p := compile(string(source))
		if p.problem != nil {
			return types.WrapErr(p.problem)
		}
		m.chargeUnits(p.steps * (len(subject) + 1) / bytesPerUnit)
		return types.Bool(p.program.MatchString(string(subject)))
	}}
}

// compilePattern compiles a pattern in the syntax of RE2.
func compilePattern(source string) pattern {
	if len(source) > maxPattern {
		return pattern{problem: limitError(LimitPattern, maxPattern)}
	}
	parsed, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return pattern{problem: fmt.Errorf("pattern: %w", err)}
	}
	steps := countInstructions(parsed)
	if steps > maxRegexp {
		return pattern{problem: limitError(LimitRegexp, maxRegexp)}
	}
	program, err := regexp.Compile(source)
	return pattern{program, steps, err}
}

// countInstructions estimates the size of the program of a pattern, from above.
func countInstructions(r *syntax.Regexp) int {
	n := 1 + len(r.Rune)
	for _, sub := range r.Sub {
		n += countInstructions(sub)
	}
	if r.Op == syntax.OpRepeat {
		n *= max(r.Max, r.Min, 1) + 1
	}
	return min(n, maxRegexp+1)
}

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

// A Pattern is a compiled regular expression in the syntax of RE2, whose matching has a
// price that is known before.
//
// RE2 has no backtracking: a match takes time in proportion to text times program, which is
// what Cost returns. Package workflow matches patterns of schemas with it as well.
type Pattern struct {
	program *regexp.Regexp
	steps   int // a match takes at most so many for each byte
}

// CompilePattern compiles a pattern. The error is an [*Error] with CodeLimit if the
// pattern has more than 1 KiB or more than 2,000 instructions.
func CompilePattern(source string) (*Pattern, error) {
	if len(source) > maxPattern {
		return nil, limitError(LimitPattern, maxPattern)
	}
	// It is parsed apart from compiling it: (a{1000}){1000} is short, and its program would be
	// huge. Its size is estimated before it is made.
	parsed, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("pattern: %w", err)
	}
	steps := countInstructions(parsed)
	if steps > maxRegexp {
		return nil, limitError(LimitRegexp, maxRegexp)
	}
	program, err := regexp.Compile(source)
	return &Pattern{program, steps}, err
}

// String returns the source of the pattern.
func (p *Pattern) String() string { return p.program.String() }

// MatchString reports whether text contains a match.
func (p *Pattern) MatchString(text string) bool { return p.program.MatchString(text) }

// Cost returns what matching a text of n bytes costs at most, in units of cost.
func (p *Pattern) Cost(n int) int { return p.steps * (n + 1) / bytesPerUnit }

// matchOperation returns the operation for matches(text, pattern). A constant
// pattern is compiled once.
//
// matches(text, pattern) with a pattern that is computed compiles it each time; a unit for each
// byte of it pays for that. The error of a constant pattern comes when it is evaluated, and not
// when it is compiled, as CEL has it.
func matchOperation(args []interpreter.InterpretableV2) operation {
	compile := CompilePattern
	if len(args) == 2 {
		if c, ok := args[1].(interpreter.InterpretableConst); ok {
			once, problem := CompilePattern(textOf(c.Value()))
			compile = func(string) (*Pattern, error) { return once, problem }
		}
	}
	return operation{two: func(m meter, a, b ref.Val) ref.Val {
		subject, ok := a.(types.String)
		source, okay := b.(types.String)
		if !ok || !okay {
			return noOverload
		}
		m.chargeUnits(len(source))
		p, problem := compile(string(source))
		if problem != nil {
			return types.WrapErr(problem)
		}
		m.chargeUnits(p.Cost(len(subject)))
		return types.Bool(p.MatchString(string(subject)))
	}}
}

// countInstructions estimates the size of the program of a pattern, from above.
//
// A repetition copies what it repeats; nested ones multiply, and min keeps the number from
// overflowing.
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

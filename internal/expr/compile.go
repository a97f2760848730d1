package expr

import (
	"slices"
	"strings"

	"cel.dev/cel-go/cel"

	"github.com/pawl-run/pawl/internal/pace"
)

// A Compiler compiles many expressions. It keeps an environment for each list
// of variables it has met. It must not be used by several goroutines at a time.
//
// Declaring variables makes a new environment, which is slow beside compiling a short
// condition; and a definition has hundreds of expressions that may use one of a few lists of
// variables.
type Compiler struct {
	limits Limits
	known  map[string]*cel.Env // by the sorted names, with commas between them

	tracking *cel.Env // of FindWays; nil before the first
}

// maxKnown bounds the environments that a Compiler keeps.
const maxKnown = 64

// NewCompiler returns a Compiler with the given limits.
func NewCompiler(lim Limits) *Compiler {
	return &Compiler{limits: lim.withDefaults(), known: map[string]*cel.Env{}}
}

// Compile compiles source, in which the given variables may be used, in any
// order. An error is an *Error with its place.
func (c *Compiler) Compile(source string, variables []string) (*Program, error) {
	p, err := c.compileSource(source, variables)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// compileSource does it in five steps: bounds, parse, rewrite, check, plan. References are
// found between parsing and rewriting, when the tree is what the author wrote.
func (c *Compiler) compileSource(source string, variables []string) (*Program, *Error) {
	// Compiling a large definition takes long; here it steps back for others.
	pace.Pause()
	if len(source) > c.limits.Source {
		return nil, limitError(LimitSource, uint64(c.limits.Source))
	}
	env, err := c.environmentOf(variables)
	if err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(source)
	if len(issues.Errors()) > 0 {
		return nil, issueError(CodeSyntax, issues, issueContext{source: source})
	}
	tree := parsed.NativeRep()
	refs := findReferences(tree.Expr(), variables)
	// The checker sees the rewritten tree, so that it types the calls that will be made.
	if err := rewriteTree(tree); err != nil {
		return nil, err
	}
	checked, issues := env.Check(parsed)
	if len(issues.Errors()) > 0 {
		if checked = checkLoosely(env, source); checked == nil {
			return nil, issueError(CodeType, issues, issueContext{source, variables, tree.Expr()})
		}
	}
	program, problem := env.Program(checked, programOptions(c.limits.Cost)...)
	if problem != nil {
		return nil, newError(CodeType, "%v", problem)
	}
	typed := kinds{checked.NativeRep()}
	return &Program{
		source: source, kind: typed.kindOfTree(), optional: typed.isOptional(typed.tree.Expr()), references: refs,
		limits: c.limits, program: program, info: typed.tree.SourceInfo(),
	}, nil
}

// checkLoosely checks an expression in which the values of optionals are of any type, and branches of c ? x : y may be an int and a
// double; nil if it does not compile so either, or has none.
//
// The checker gives x[?k].orValue(null) the type of the default, and refuses to take a field of null. An expression that it lets through
// is not checked so: the tree decides what an evaluation costs, and stored definitions keep theirs.
func checkLoosely(env *cel.Env, source string) *cel.Ast {
	parsed, issues := env.Parse(source)
	if issues.Err() != nil || rewriteTree(parsed.NativeRep()) != nil || !loosenTree(parsed.NativeRep()) {
		return nil
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil
	}
	return checked
}

// typeOf returns the name of a type in JSON Schema, of the form that [Program.Eval] gives its values; "" is any.
func typeOf(t *cel.Type) string {
	switch t.Kind() {
	case cel.BoolKind:
		return "boolean"
	case cel.IntKind, cel.UintKind:
		return "integer"
	case cel.DoubleKind:
		return "number"
	case cel.StringKind, cel.TimestampKind, cel.DurationKind:
		return "string"
	case cel.ListKind:
		return "array"
	case cel.MapKind:
		return "object"
	default:
		return ""
	}
}

// environmentOf returns the base environment with the variables declared as dyn.
//
// Every variable is dyn, since values come as JSON: which type a field has is known only when
// it is read. A type error is found at compile time only among literals and results of
// functions.
func (c *Compiler) environmentOf(variables []string) (*cel.Env, *Error) {
	names := slices.Compact(slices.Sorted(slices.Values(variables)))
	key := strings.Join(names, ",")
	if env, ok := c.known[key]; ok {
		return env, nil
	}
	var declare []cel.EnvOption
	for _, name := range names {
		declare = append(declare, cel.Variable(name, cel.DynType))
	}
	env, err := base.Extend(declare...)
	if err != nil {
		return nil, newError(CodeType, "declare the variables: %v", err)
	}
	// Beyond the bound environments are made and thrown away: that is slow, and not wrong.
	if len(c.known) < maxKnown {
		c.known[key] = env
	}
	return env, nil
}

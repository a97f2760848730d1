package expr

import (
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/decls"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// The checker guesses where it does not know: in x[?k].orValue(0), with an x of any type, it takes
// the type of the default for that of the value. A program has the type that it is checked with, for
// its overloads and so its cost depend on it; to others the package tells a type only if it is right
// for every value.

// A trust says how much of the type that the checker gives an expression holds for every value.
type trust int

const (
	trustNothing trust = iota
	trustKind          // that it is a list, a number, and so on, and not of what a list is
	trustAll           // all of it; dyn always holds
)

// kinds tell how far the types of a checked tree are to be trusted.
type kinds struct{ tree *ast.AST }

// kindOfTree returns the type of the tree's value by the names of JSON Schema, if it holds whatever the variables are; else "".
func (k kinds) kindOfTree() string {
	e := k.tree.Expr()
	name := typeOf(k.typeOf(e))
	if name == "" || k.trustIn(e) == trustNothing {
		return ""
	}
	return name
}

// isOptional reports whether the value of an expression is an optional one, whatever the variables are. A field of an optional value is optional too.
func (k kinds) isOptional(e ast.Expr) bool {
	switch functionNameOf(e) {
	case operators.OptSelect, operators.OptIndex:
		return true
	case operators.Index:
		return k.isOptional(e.AsCall().Args()[0])
	case operators.Conditional:
		return k.isOptional(e.AsCall().Args()[1]) && k.isOptional(e.AsCall().Args()[2])
	}
	if e.Kind() == ast.SelectKind && !e.AsSelect().IsTestOnly() {
		return k.isOptional(e.AsSelect().Operand())
	}
	return k.typeOf(e).TypeName() == types.OptionalType.TypeName() && k.trustIn(e) != trustNothing
}

func (k kinds) typeOf(e ast.Expr) *cel.Type { return k.tree.GetType(e.ID()) }

// trustIn returns how much of an expression's type holds.
func (k kinds) trustIn(e ast.Expr) trust {
	if k.typeOf(e).Kind() == cel.DynKind {
		return trustAll
	}
	switch e.Kind() {
	case ast.LiteralKind:
		return trustAll
	case ast.ListKind, ast.MapKind:
		return k.trustInParts(partsOf(e))
	case ast.SelectKind:
		return k.trustInField(e.AsSelect())
	case ast.CallKind:
		return k.trustInCall(e)
	case ast.ComprehensionKind:
		// A binding has the type of its body, in which the bound name is dyn. All else makes a bool, a list or a map.
		if c := e.AsComprehension(); !strings.HasPrefix(c.AccuVar(), "@") {
			return k.trustIn(c.Result())
		}
		return trustKind
	default:
		return trustNothing
	}
}

// trustInParts returns how much of the type of a list or a map holds that is written in the expression.
func (k kinds) trustInParts(parts []ast.Expr) trust {
	for _, part := range parts {
		if k.trustIn(part) != trustAll {
			return trustKind
		}
	}
	return trustAll
}

func (k kinds) trustInField(s ast.SelectExpr) trust {
	if s.IsTestOnly() {
		return trustAll
	}
	if k.trustIn(s.Operand()) == trustAll {
		return trustAll
	}
	return trustNothing
}

// An argument is what is known of an argument of a call.
type argument struct {
	is    *cel.Type
	trust trust
}

// trustInCall looks at all overloads that the call may come to. A result whose type the overload takes
// from its arguments is known if those are; one that is no more than such a type is nothing without them.
func (k kinds) trustInCall(e ast.Expr) trust {
	call := e.AsCall()
	if call.FunctionName() == operators.Conditional {
		return k.trustInChoice(call.Args()[1], call.Args()[2])
	}
	var args []argument
	for _, part := range partsOf(e) {
		args = append(args, argument{k.typeOf(part), k.trustIn(part)})
	}
	overloads, is := k.overloadsOf(e, args), k.typeOf(e)
	if len(overloads) == 0 {
		return trustNothing
	}
	known, out := areKnown(args), trustAll
	for _, o := range overloads {
		switch result := o.ResultType(); {
		case isGeneric(result) && known: // the checker has put the types of the arguments in place
		case result.Kind() != is.Kind():
			return trustNothing
		case isGeneric(result) || !result.IsExactType(is):
			out = trustKind
		}
	}
	return out
}

// trustInChoice returns how much of the type of c ? x : y holds.
func (k kinds) trustInChoice(x, y ast.Expr) trust {
	one, other := k.typeOf(x), k.typeOf(y)
	switch least := min(k.trustIn(x), k.trustIn(y)); {
	case one.Kind() != other.Kind():
		return trustNothing
	case !one.IsExactType(other):
		return min(least, trustKind)
	default:
		return least
	}
}

// overloadsOf returns the overloads that a call may come to: those of the checker, if the types of all arguments hold, else those
// that take what is known of them.
func (k kinds) overloadsOf(e ast.Expr, args []argument) (out []*decls.OverloadDecl) {
	function, ok := base.Functions()[e.AsCall().FunctionName()]
	if !ok {
		return nil
	}
	chosen := k.tree.GetOverloadIDs(e.ID())
	guessed := slices.ContainsFunc(args, func(a argument) bool { return a.trust != trustAll })
	for _, o := range function.OverloadDecls() {
		if guessed && o.IsMemberFunction() == e.AsCall().IsMemberFunction() && mayTake(o, args) || !guessed && slices.Contains(chosen, o.ID()) {
			out = append(out, o)
		}
	}
	return out
}

// mayTake reports whether an overload is for such arguments, as far as they are known.
func mayTake(o *decls.OverloadDecl, args []argument) bool {
	if len(o.ArgTypes()) != len(args) {
		return false
	}
	for i, a := range args {
		is, wants := a.is.Kind(), o.ArgTypes()[i].Kind()
		anything := a.trust == trustNothing || is == cel.DynKind || wants == cel.DynKind || wants == cel.TypeParamKind
		if !anything && is != wants {
			return false
		}
	}
	return true
}

// areKnown reports whether the types of all arguments hold, and leave nothing open.
func areKnown(args []argument) bool {
	return !slices.ContainsFunc(args, func(a argument) bool { return a.trust != trustAll || hasPart(a.is, cel.DynKind) })
}

// isGeneric reports whether the type of a result depends on those of the arguments.
func isGeneric(t *cel.Type) bool { return hasPart(t, cel.TypeParamKind) }

// hasPart reports whether a type is of a kind, or has a part that is.
func hasPart(t *cel.Type, kind cel.Kind) bool {
	return t.Kind() == kind || slices.ContainsFunc(t.Parameters(), func(part *cel.Type) bool { return hasPart(part, kind) })
}

package expr

import (
	"fmt"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/debug"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/parser"
)

// A Way is an expression, or a part of one: values choose between the Ways below it. One with none below is evaluated as a whole.
type Way struct {
	Source  string // as an expression of its own
	Choice  []Way  // of c ? x : y, these three
	Either  []Way  // the operands of && or ||: the error of one does not count if another one decides
	Chooses bool   // values choose between parts of an argument, or of the body of a macro
}

// IsWhole reports whether all parts of an expression are evaluated with every value.
func (w *Way) IsWhole() bool { return w.Choice == nil && w.Either == nil && !w.Chooses }

// FindWays takes apart an expression that compiles. Calls of macros are kept as they are parsed, so that a Way is what its author wrote.
func (c *Compiler) FindWays(source string) (Way, error) {
	if c.tracking == nil {
		env, err := base.Extend(cel.EnableMacroCallTracking())
		if err != nil {
			return Way{}, err
		}
		c.tracking = env
	}
	parsed, issues := c.tracking.Parse(source)
	if err := issues.Err(); err != nil {
		return Way{}, fmt.Errorf("find the ways of an expression: %w", err)
	}
	tree := parsed.NativeRep()
	return c.wayOf(tree.Expr(), tree.SourceInfo())
}

// wayOf takes a tree apart, down to what is no choice.
func (c *Compiler) wayOf(e ast.Expr, info *ast.SourceInfo) (w Way, err error) {
	if w.Source, err = parser.Unparse(e, info); err != nil {
		return w, err
	}
	if !c.isSource(w.Source, e) {
		w.Chooses = true // it cannot be told apart from others by a text
		return w, nil
	}
	var parts *[]Way
	var args []ast.Expr
	switch function := functionNameOf(e); function {
	case operators.Conditional:
		parts, args = &w.Choice, e.AsCall().Args()
	case operators.LogicalAnd, operators.LogicalOr:
		parts, args = &w.Either, operandsOf(e, function)
	default:
		w.Chooses = choosesWithin(e, info)
		return w, nil
	}
	for _, arg := range args {
		part, err := c.wayOf(arg, info)
		if err != nil {
			return w, err
		}
		*parts = append(*parts, part)
	}
	return w, nil
}

// isSource reports whether a text is parsed to a tree. Unparse leaves out backticks, and some parentheses that count.
func (c *Compiler) isSource(text string, e ast.Expr) bool {
	parsed, issues := c.tracking.Parse(text)
	return issues.Err() == nil && debug.ToDebugString(parsed.NativeRep().Expr()) == debug.ToDebugString(e)
}

// functionNameOf returns the function that an expression calls; "" for one that is no call.
func functionNameOf(e ast.Expr) string {
	if e.Kind() != ast.CallKind {
		return ""
	}
	return e.AsCall().FunctionName()
}

// operandsOf returns the operands of a chain of one operator, which is parsed as a tree of pairs.
func operandsOf(e ast.Expr, function string) (out []ast.Expr) {
	if functionNameOf(e) != function {
		return []ast.Expr{e}
	}
	for _, arg := range e.AsCall().Args() {
		out = append(out, operandsOf(arg, function)...)
	}
	return out
}

// choosesWithin reports whether values choose between parts of an expression. A macro is looked at as it is written: what it is expanded
// to chooses by itself, such as whether a loop goes on.
func choosesWithin(e ast.Expr, info *ast.SourceInfo) (found bool) {
	if macro, ok := info.GetMacroCall(e.ID()); ok {
		e = macro
	}
	switch functionNameOf(e) {
	case operators.Conditional, operators.LogicalAnd, operators.LogicalOr, operators.OptSelect, operators.OptIndex:
		return true
	case operators.Index: // of a map or list that is written there
		if of := e.AsCall().Args()[0].Kind(); of == ast.MapKind || of == ast.ListKind {
			return true
		}
	}
	if hasOptionalPart(e) {
		return true
	}
	for _, below := range partsOf(e) {
		found = found || choosesWithin(below, info)
	}
	return found
}

// hasOptionalPart reports whether an expression is a list or a map whose elements may be left out.
func hasOptionalPart(e ast.Expr) bool {
	switch e.Kind() {
	case ast.ListKind:
		return len(e.AsList().OptionalIndices()) > 0
	case ast.MapKind:
		return slices.ContainsFunc(e.AsMap().Entries(), func(x ast.EntryExpr) bool { return x.AsMapEntry().IsOptional() })
	default:
		return false
	}
}

// partsOf returns the expressions of which one is made.
func partsOf(e ast.Expr) (out []ast.Expr) {
	switch e.Kind() {
	case ast.CallKind:
		if e.AsCall().IsMemberFunction() {
			out = append(out, e.AsCall().Target())
		}
		return append(out, e.AsCall().Args()...)
	case ast.SelectKind:
		return []ast.Expr{e.AsSelect().Operand()}
	case ast.ListKind:
		return e.AsList().Elements()
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			out = append(out, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	default:
	}
	return out
}

package expr

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
)

// An Equality is a part of a condition, and must hold for the whole to hold: a chain, as
// References has them, is one of some texts.
//
// Package filter narrows a search for runs by it, and refuses a text that no run can have.
type Equality struct {
	Chain        []string
	Texts        []string
	Line, Column int // of the comparison, from 1; 0 if there is no place
}

// Equalities returns those parts of an expression that && joins and that compare a chain with
// constant texts, by == or in. If any of them is false the expression is false; what is not an
// expression has none.
//
// It goes down through && only: below || or ! a comparison may be false and the whole true.
func Equalities(source string, variables []string) []Equality {
	if len(source) > DefaultSource {
		return nil
	}
	parsed, issues := base.Parse(source)
	if len(issues.Errors()) > 0 {
		return nil
	}
	tree := parsed.NativeRep()
	w := equalityWalker{walker: walker{variables: variables, hidden: map[string]int{}}, info: tree.SourceInfo()}
	w.walkConjunction(tree.Expr())
	return w.found
}

// An equalityWalker finds equalities with the chains of the walker that it embeds.
type equalityWalker struct {
	walker
	info  *ast.SourceInfo
	found []Equality
}

// walkConjunction looks at e, which must be true for the whole to be true.
func (w *equalityWalker) walkConjunction(e ast.Expr) {
	if e.Kind() != ast.CallKind || len(e.AsCall().Args()) != 2 {
		return
	}
	call := e.AsCall()
	left, right := call.Args()[0], call.Args()[1]
	switch call.FunctionName() {
	case operators.LogicalAnd:
		w.walkConjunction(left)
		w.walkConjunction(right)
	case operators.Equals:
		// A text may stand on either side of ==.
		if _, ok := textOfLiteral(left); ok {
			left, right = right, left
		}
		if text, ok := textOfLiteral(right); ok {
			w.addEquality(e, left, []string{text})
		}
	case operators.In:
		if texts, ok := textsOfList(right); ok {
			w.addEquality(e, left, texts)
		}
	}
}

// addEquality adds the comparison e of a chain with texts; what is compared may be no chain,
// such as size(x), and is left out.
func (w *equalityWalker) addEquality(e, left ast.Expr, texts []string) {
	chain := w.chainOf(left)
	if chain == nil {
		return
	}
	var at Error
	_ = at.atExpression(w.info, e.ID()) // changes at
	w.found = append(w.found, Equality{Chain: chain, Texts: texts, Line: at.Line, Column: at.Column})
}

// textOfLiteral returns a text that is written out.
func textOfLiteral(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := e.AsLiteral().Value().(string)
	return text, ok
}

// textsOfList returns the texts of a list that has nothing else.
func textsOfList(e ast.Expr) (texts []string, ok bool) {
	if e.Kind() != ast.ListKind {
		return nil, false
	}
	for _, element := range e.AsList().Elements() {
		text, ok := textOfLiteral(element)
		if !ok {
			return nil, false
		}
		texts = append(texts, text)
	}
	return texts, true
}

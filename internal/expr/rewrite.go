package expr

import (
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
)

// rewriteTree prepares a parsed expression, in place, so that evaluation is
// deterministic and bounded:
//
//   - the range of a comprehension becomes @ordered(range), which sorts maps;
//   - the value of a binding becomes @any(value). Neither of the two has a static
//     type: the type of cel.bind(b, {a: a}, ...) is twice as large as that of a,
//     and the checker would take ever longer;
//   - a computed key, in m[k] and in {k: v}, becomes @key(k), which charges for
//     its length before it is hashed, and refuses what cannot be.
//
// It refuses messages.
func rewriteTree(tree *ast.AST) *Error {
	r := rewriter{factory: ast.NewExprFactory(), info: tree.SourceInfo(), next: ast.MaxID(tree)}
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(r.visitExpr))
	return r.problem
}

// loosenTree puts @any around each orValue and value of an optional, and around each c ? x : y, whose branches become @branch(x) and
// @branch(y): to the checker that is a double if it is an int. It does so in place, and reports whether there are any.
func loosenTree(tree *ast.AST) (found bool) {
	r := rewriter{factory: ast.NewExprFactory(), info: tree.SourceInfo(), next: ast.MaxID(tree)}
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch functionNameOf(e) {
		case "orValue", "value":
		case operators.Conditional:
			r.putInCall(branchFunction, e.AsCall().Args()[1])
			r.putInCall(branchFunction, e.AsCall().Args()[2])
		default:
			return
		}
		found = true
		r.putInCall(anyFunction, e)
	}))
	return found
}

// A rewriter walks over a tree once, the parts of an expression before the expression. next is
// the largest id in the tree; each call that is put in gets one more. problem is the first of
// the tree.
type rewriter struct {
	factory ast.ExprFactory
	info    *ast.SourceInfo
	next    int64
	problem *Error
}

func (r *rewriter) visitExpr(e ast.Expr) {
	switch e.Kind() {
	case ast.ComprehensionKind:
		r.rewriteComprehension(e)
	case ast.CallKind:
		r.rewriteIndex(e)
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			r.wrapInCall(keyFunction, entry.AsMapEntry().Key())
		}
	case ast.StructKind:
		if r.problem == nil {
			r.problem = newError(CodeType, "messages such as %s{} do not exist here", e.AsStruct().TypeName()).atExpression(r.info, e.ID())
		}
	case ast.UnspecifiedExprKind, ast.IdentKind, ast.ListKind, ast.LiteralKind, ast.SelectKind:
	}
}

// rewriteComprehension puts functions around the range and the start of a macro. An empty list,
// which is the range of cel.bind, is left alone. The accumulator of a macro has a name with @,
// that of a binding one of the author's.
func (r *rewriter) rewriteComprehension(e ast.Expr) {
	c := e.AsComprehension()
	if over := c.IterRange(); over.Kind() != ast.ListKind || over.AsList().Size() > 0 {
		r.wrapInCall(orderedFunction, over)
	}
	if !strings.HasPrefix(c.AccuVar(), "@") {
		r.wrapInCall(anyFunction, c.AccuInit())
	}
}

// rewriteIndex puts @key around computed keys of m[k] and m[?k].
func (r *rewriter) rewriteIndex(e ast.Expr) {
	switch call := e.AsCall(); call.FunctionName() {
	case operators.Index, operators.OptIndex:
		r.wrapInCall(keyFunction, call.Args()[1])
	}
}

// wrapInCall turns e, in place, into a call of function on what e was. A literal
// that can be a key stays as it is.
func (r *rewriter) wrapInCall(function string, e ast.Expr) {
	if e.Kind() != ast.LiteralKind || !isKey(e.AsLiteral()) {
		r.putInCall(function, e)
	}
}

// putInCall is wrapInCall for literals too.
func (r *rewriter) putInCall(function string, e ast.Expr) {
	// The content of e moves into a new expression, which gets e's place in the source for
	// errors; e becomes the call. So code that holds e holds the call.
	r.next++
	inner := r.factory.NewUnspecifiedExpr(r.next)
	inner.SetKindCase(e)
	if place, ok := r.info.GetOffsetRange(e.ID()); ok {
		r.info.SetOffsetRange(r.next, place)
	}
	e.SetKindCase(r.factory.NewCall(e.ID(), function, inner))
}

// findReferences returns the chains of constant keys that start at a variable.
//
// They tell which data an expression may read: package workflow checks them against the
// definition, and explanations show what stood there.
func findReferences(root ast.Expr, variables []string) [][]string {
	w := walker{variables: variables, hidden: map[string]int{}}
	w.walkExpr(root)
	slices.SortFunc(w.chains, slices.Compare[[]string])
	return slices.CompactFunc(w.chains, slices.Equal[[]string])
}

// A walker collects chains. Names that a comprehension binds hide variables.
type walker struct {
	variables []string
	hidden    map[string]int
	chains    [][]string
}

// walkExpr collects the chains in e. A chain is taken whole: of a.b.c only ["a", "b", "c"], and
// not its beginnings.
func (w *walker) walkExpr(e ast.Expr) {
	if chain := w.chainOf(e); chain != nil {
		w.chains = append(w.chains, chain)
		return
	}
	switch e.Kind() {
	case ast.CallKind:
		w.walkCall(e.AsCall())
	case ast.ComprehensionKind:
		w.walkComprehension(e.AsComprehension())
	case ast.ListKind:
		w.walkAll(e.AsList().Elements())
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			w.walkExpr(entry.AsMapEntry().Key())
			w.walkExpr(entry.AsMapEntry().Value())
		}
	case ast.SelectKind:
		w.walkExpr(e.AsSelect().Operand())
	case ast.UnspecifiedExprKind, ast.IdentKind, ast.LiteralKind, ast.StructKind:
	}
}

// walkAll collects the chains in several expressions.
func (w *walker) walkAll(list []ast.Expr) {
	for _, e := range list {
		w.walkExpr(e)
	}
}

// walkCall collects those in the target and the arguments of a call.
func (w *walker) walkCall(call ast.CallExpr) {
	if call.IsMemberFunction() {
		w.walkExpr(call.Target())
	}
	w.walkAll(call.Args())
}

// walkComprehension collects those in a macro. The range and the start are outside of what it
// binds; the result sees the accumulator only.
func (w *walker) walkComprehension(c ast.ComprehensionExpr) {
	w.walkExpr(c.IterRange())
	w.walkExpr(c.AccuInit())
	w.hideNames(1, c.AccuVar(), c.IterVar(), c.IterVar2())
	w.walkExpr(c.LoopCondition())
	w.walkExpr(c.LoopStep())
	w.hideNames(-1, c.IterVar(), c.IterVar2())
	w.walkExpr(c.Result())
	w.hideNames(-1, c.AccuVar())
}

// hideNames adds to how many bindings hide each name: they may be nested.
func (w *walker) hideNames(by int, names ...string) {
	for _, name := range names {
		w.hidden[name] += by
	}
}

// chainOf returns the chain that e spells, nil if it spells none.
//
// A dot in front, as in .input, means the variable even if something hides it.
func (w *walker) chainOf(e ast.Expr) []string {
	switch e.Kind() {
	case ast.IdentKind:
		name := strings.TrimPrefix(e.AsIdent(), ".")
		hidden := w.hidden[name] > 0 && name == e.AsIdent()
		if hidden || !slices.Contains(w.variables, name) {
			return nil
		}
		return []string{name}
	case ast.SelectKind:
		return w.extendChain(e.AsSelect().Operand(), e.AsSelect().FieldName())
	case ast.CallKind:
		return w.indexChain(e.AsCall())
	default:
		return nil
	}
}

// indexChain is chainOf for a["b"], a[?"b"] and a.?b.
func (w *walker) indexChain(call ast.CallExpr) []string {
	switch call.FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect:
	default:
		return nil
	}
	if args := call.Args(); len(args) == 2 && args[1].Kind() == ast.LiteralKind {
		if key, ok := args[1].AsLiteral().Value().(string); ok {
			return w.extendChain(args[0], key)
		}
	}
	return nil
}

// extendChain adds a key to the chain of operand, if it has one.
func (w *walker) extendChain(operand ast.Expr, key string) []string {
	chain := w.chainOf(operand)
	if chain == nil {
		return nil
	}
	return append(chain, key)
}

package expr

import (
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
)

// rewrite prepares a parsed expression, in place, so that evaluation is
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
func rewrite(tree *ast.AST) *Error {
	r := rewriter{factory: ast.NewExprFactory(), info: tree.SourceInfo(), next: ast.MaxID(tree)}
	ast.PostOrderVisit(tree.Expr(), ast.NewExprVisitor(r.visit))
	return r.problem
}

type rewriter struct {
	factory ast.ExprFactory
	info    *ast.SourceInfo
	next    int64
	problem *Error
}

func (r *rewriter) visit(e ast.Expr) {
	switch e.Kind() {
	case ast.ComprehensionKind:
		r.comprehension(e)
	case ast.CallKind:
		r.index(e)
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			r.wrap(keyFunction, entry.AsMapEntry().Key())
		}
	case ast.StructKind:
		if r.problem == nil {
			r.problem = failf(CodeType, "messages such as %s{} do not exist here", e.AsStruct().TypeName()).at(r.info, e.ID())
		}
	case ast.UnspecifiedExprKind, ast.IdentKind, ast.ListKind, ast.LiteralKind, ast.SelectKind:
	}
}

func (r *rewriter) comprehension(e ast.Expr) {
	c := e.AsComprehension()
	if over := c.IterRange(); over.Kind() != ast.ListKind || over.AsList().Size() > 0 {
		r.wrap(orderedFunction, over)
	}
	if !strings.HasPrefix(c.AccuVar(), "@") {
		r.wrap(anyFunction, c.AccuInit())
	}
}

func (r *rewriter) index(e ast.Expr) {
	switch call := e.AsCall(); call.FunctionName() {
	case operators.Index, operators.OptIndex:
		r.wrap(keyFunction, call.Args()[1])
	}
}

// wrap turns e, in place, into a call of function on what e was. Literals stay,
// unless they are no key.
func (r *rewriter) wrap(function string, e ast.Expr) {
	if e.Kind() == ast.LiteralKind && isKey(e.AsLiteral()) {
		return
	}
	r.next++
	inner := r.factory.NewUnspecifiedExpr(r.next)
	inner.SetKindCase(e)
	if place, ok := r.info.GetOffsetRange(e.ID()); ok {
		r.info.SetOffsetRange(r.next, place)
	}
	e.SetKindCase(r.factory.NewCall(e.ID(), function, inner))
}

// references returns the chains of constant keys that start at a variable.
func references(root ast.Expr, variables []string) [][]string {
	w := walker{variables: variables, hidden: map[string]int{}}
	w.walk(root)
	slices.SortFunc(w.chains, slices.Compare[[]string])
	return slices.CompactFunc(w.chains, slices.Equal[[]string])
}

// A walker collects chains. Names that a comprehension binds hide variables.
type walker struct {
	variables []string
	hidden    map[string]int
	chains    [][]string
}

func (w *walker) walk(e ast.Expr) {
	if chain := w.chain(e); chain != nil {
		w.chains = append(w.chains, chain)
		return
	}
	switch e.Kind() {
	case ast.CallKind:
		w.call(e.AsCall())
	case ast.ComprehensionKind:
		w.comprehension(e.AsComprehension())
	case ast.ListKind:
		w.all(e.AsList().Elements())
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			w.walk(entry.AsMapEntry().Key())
			w.walk(entry.AsMapEntry().Value())
		}
	case ast.SelectKind:
		w.walk(e.AsSelect().Operand())
	case ast.UnspecifiedExprKind, ast.IdentKind, ast.LiteralKind, ast.StructKind:
	}
}

func (w *walker) all(list []ast.Expr) {
	for _, e := range list {
		w.walk(e)
	}
}

func (w *walker) call(call ast.CallExpr) {
	if call.IsMemberFunction() {
		w.walk(call.Target())
	}
	w.all(call.Args())
}

func (w *walker) comprehension(c ast.ComprehensionExpr) {
	w.walk(c.IterRange())
	w.walk(c.AccuInit())
	w.hide(1, c.AccuVar(), c.IterVar(), c.IterVar2())
	w.walk(c.LoopCondition())
	w.walk(c.LoopStep())
	w.hide(-1, c.IterVar(), c.IterVar2())
	w.walk(c.Result())
	w.hide(-1, c.AccuVar())
}

func (w *walker) hide(by int, names ...string) {
	for _, name := range names {
		w.hidden[name] += by
	}
}

// chain returns the chain that e is, or nil.
func (w *walker) chain(e ast.Expr) []string {
	switch e.Kind() {
	case ast.IdentKind:
		name := strings.TrimPrefix(e.AsIdent(), ".")
		hidden := w.hidden[name] > 0 && name == e.AsIdent()
		if hidden || !slices.Contains(w.variables, name) {
			return nil
		}
		return []string{name}
	case ast.SelectKind:
		return w.extend(e.AsSelect().Operand(), e.AsSelect().FieldName())
	case ast.CallKind:
		return w.indexChain(e.AsCall())
	default:
		return nil
	}
}

func (w *walker) indexChain(call ast.CallExpr) []string {
	switch call.FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect:
	default:
		return nil
	}
	if args := call.Args(); len(args) == 2 && args[1].Kind() == ast.LiteralKind {
		if key, ok := args[1].AsLiteral().Value().(string); ok {
			return w.extend(args[0], key)
		}
	}
	return nil
}

func (w *walker) extend(operand ast.Expr, key string) []string {
	chain := w.chain(operand)
	if chain == nil {
		return nil
	}
	return append(chain, key)
}

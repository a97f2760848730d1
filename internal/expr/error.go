package expr

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/pawl-run/pawl/internal/value"
)

// The codes of an Error. All but the last two are of Compile.
const (
	CodeSyntax          = "syntax"           // not an expression
	CodeUnknownVariable = "unknown_variable" // Name is not among the variables
	CodeType            = "type"             // an operation which these types do not have
	CodeExpression      = "expression_error" // evaluation failed
	CodeLimit           = "limit_exceeded"   // Limit was exceeded
)

// The names of the limits in an Error.
const (
	LimitCost    = "celCost"    // units of work
	LimitSource  = "celSource"  // bytes of source
	LimitNesting = "celNesting" // expressions inside each other
	LimitNodes   = "celNodes"   // expressions after macros are expanded
	LimitPattern = "celPattern" // bytes of a regular expression
	LimitRegexp  = "celRegexp"  // its instructions
	LimitDepth   = "jsonDepth"  // containers inside each other in the result
	LimitBytes   = "celBytes"   // size of the result
)

// An Error says why an expression could not be compiled or evaluated.
//
// Messages come from the library in part. For frequent mistakes, explainSyntax and
// explainVariable put them into the words of users.
type Error struct {
	Code    string
	Message string
	Line    int    // of the source, from 1; 0 if there is no place
	Column  int    // in code points, from 1
	Name    string // the variable, with CodeUnknownVariable
	Limit   string // the limit, with CodeLimit
	Max     uint64 // the value of that limit
}

// Error returns the message and its place on one line.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Message)
}

// newError makes an Error without a place.
func newError(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: value.Shorten(fmt.Sprintf(format, args...), maxMessage)}
}

// maxMessage bounds a message: it may quote a key or a type of any length.
const maxMessage = 400

// limitError says which limit was exceeded.
func limitError(limit string, limitValue uint64) *Error {
	e := newError(CodeLimit, "%s exceeds the limit of %d", limit, limitValue)
	e.Limit, e.Max = limit, limitValue
	return e
}

// atExpression adds the place of the expression with the given id.
func (e *Error) atExpression(info *ast.SourceInfo, id int64) *Error {
	if loc := info.GetStartLocation(id); loc.Line() > 0 {
		e.Line, e.Column = loc.Line(), max(loc.Column()+1, 1)
	}
	return e
}

var undeclared = regexp.MustCompile(`^undeclared reference to '\.?([^']*)'`)

// An issueContext is the expression that an issue is about.
//
// It is what is needed to explain the issue in words of the author's.
type issueContext struct {
	source    string
	variables []string
	root      ast.Expr // nil if it was not parsed
}

// issueError turns the first problem of the parser or the checker into an Error.
//
// Only the first is told: the others are often consequences of it. Limits of the parser come as
// messages, and are recognised by their words; there is no other way to tell.
func issueError(code string, issues *cel.Issues, at issueContext) *Error {
	first := issues.Errors()[0]
	message, _, _ := strings.Cut(first.Message, "\n")
	switch {
	case strings.Contains(message, "recursion"):
		return limitError(LimitNesting, maxNesting)
	case strings.Contains(message, "count exceeds limit"):
		return limitError(LimitNodes, maxNodes)
	}
	name := ""
	// An undeclared reference may be a variable or a function: the checker says the same of
	// both.
	switch m := undeclared.FindStringSubmatch(message); {
	case at.root == nil && (strings.HasPrefix(message, "Syntax error: ") || reserved.MatchString(message)):
		message = explainSyntax(at.source, message)
	case m != nil && isVariable(at.root, first.ExprID):
		code, name = CodeUnknownVariable, m[1]
		message = explainVariable(at.source, name, at.variables, at.root, first.ExprID)
	case m != nil:
		message = explainFunction(m[1], at.variables)
	}
	e := newError(code, "%s", message)
	e.Name = name
	if line := first.Location.Line(); line > 0 {
		e.Line, e.Column = line, max(first.Location.Column()+1, 1)
	}
	return e
}

// isVariable reports whether the expression with the given id is an identifier.
func isVariable(root ast.Expr, id int64) bool {
	found := false
	if root != nil {
		ast.PostOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
			found = found || e.ID() == id && e.Kind() == ast.IdentKind
		}))
	}
	return found
}

// evaluationError turns an error of the library into an Error.
//
// An error of this package that went through the library, such as that of a pattern which is
// too large, keeps its code. It is copied, as it may be shared by evaluations: a constant
// pattern has its error from when it was planned.
func (p *Program) evaluationError(err error) *Error {
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		return limitError(LimitCost, p.limits.Cost)
	}
	e := newError(CodeExpression, "%s", err)
	var limit *Error
	if errors.As(err, &limit) {
		copied := *limit
		e = &copied
	}
	var at *types.Err
	if errors.As(err, &at) {
		_ = e.atExpression(p.info, at.NodeID()) // changes e
	}
	return e
}

// typeName names the type of a value for an error.
func typeName(v ref.Val) string {
	if v == nil {
		return "nothing"
	}
	return v.Type().TypeName()
}

package expr

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"

	"github.com/pawl-run/pawl/internal/value"
)

// quoteHint says how a text is written, in a format whose texts are expressions.
func quoteHint(text string) string {
	return fmt.Sprintf(`a text needs quotes of its own: "'%s'"`, value.Shorten(text, 40))
}

var (
	// plainText is what people write who mean a text: an address, a path, words.
	plainText = regexp.MustCompile(`^(\w[\w+.-]*://\S*|/[\w./-]+|[\w.+-]+@[\w-]+(\.[\w-]+)+|\pL[\pL\pN]*( +[\pL\pN]+)+[.!?]?)$`)
	// arrowKey is a key of a map of transitions that is written like a field.
	arrowKey = regexp.MustCompile(`\bcount\.(\w[\w-]*->\w+)`)
	atEnd    = regexp.MustCompile(`at '<EOF>'|input '<EOF>'`)
	missing  = regexp.MustCompile(`missing '(.+)' at`)
	found    = regexp.MustCompile(`input '([^']+)'`)
	unread   = regexp.MustCompile(`token recognition error at: '(.+)'$`)
	word     = regexp.MustCompile(`^\w+$`)
	// keyword is a word of the language, which cannot be a field behind a dot: all others that it reserves can.
	keyword  = regexp.MustCompile(`^(?s)[.?\s]*(in|true|false|null)$`)
	reserved = regexp.MustCompile(`^reserved identifier: (\w+)$`)
)

// explainSyntax says in a user's words what the parser's message means.
//
// The most likely mistakes are looked for first, such as a text without quotes in a field that
// holds an expression. Then the parser's message is taken apart; what nothing matches is passed
// on as it is.
func explainSyntax(source, message string) string {
	source = strings.TrimSpace(source)
	message, _, _ = strings.Cut(strings.TrimPrefix(message, "Syntax error: "), " expecting {")
	if m := arrowKey.FindStringSubmatch(source); m != nil {
		return fmt.Sprintf("%s is no name: write count[%q]", m[1], m[1])
	}
	if plainText.MatchString(source) {
		return fmt.Sprintf("%s is not an expression: %s", value.Shorten(source, 40), quoteHint(source))
	}
	if m := unread.FindStringSubmatch(message); m != nil {
		switch text := strings.TrimSpace(m[1]); {
		case strings.HasPrefix(text, "="):
			return "= is not an operator: == compares"
		case strings.HasPrefix(text, "'") || strings.HasPrefix(text, `"`):
			return fmt.Sprintf("the text that begins with %s has no closing quote", value.Shorten(text, 40))
		default:
			return fmt.Sprintf("%s has no meaning in an expression", value.Shorten(text, 40))
		}
	}
	if m := missing.FindStringSubmatch(message); m != nil {
		return fmt.Sprintf("%s is missing", m[1])
	}
	if atEnd.MatchString(message) {
		return fmt.Sprintf("the expression ends too early: something is missing behind %q", value.Shorten(lastWord(source), 40))
	}
	if m := found.FindStringSubmatch(message); m != nil {
		if hint := explainKeyword(source, m[1]); hint != "" {
			return hint
		}
		return explainToken(m[1])
	}
	if m := reserved.FindStringSubmatch(message); m != nil {
		return fmt.Sprintf("%s is a word that the language reserves, and no variable: a field of that name is written behind its section, as state.%s", m[1], m[1])
	}
	return message
}

// explainKeyword says how a field is written whose name is a word of the language. It returns "" if the token that is
// out of place is no such word, or does not come behind a dot.
//
// The parser names the token alone, so that what is in front of it is looked up in the source.
func explainKeyword(source, token string) string {
	m := keyword.FindStringSubmatch(strings.ReplaceAll(token, `\n`, "\n"))
	if m == nil {
		return ""
	}
	field := regexp.MustCompile(`([\w.]*)\s*\.(\??)\s*` + m[1] + `\b`).FindStringSubmatch(source)
	if field == nil {
		return ""
	}
	return fmt.Sprintf("%s is a word of the language: as a field it is written %s[%s%q]", m[1], field[1], field[2], m[1])
}

// explainToken says what to write in place of a token that is out of place.
//
// Words of other languages are translated; anything else is only named.
func explainToken(token string) string {
	operators := map[string]string{"and": "&&", "or": "||", "not": "!", "is": "==", "=": "=="}
	if o := operators[strings.ToLower(token)]; o != "" {
		return fmt.Sprintf("%s is not an operator: write %s", token, o)
	}
	return fmt.Sprintf("%s is out of place here", value.Shorten(token, 40))
}

// lastWord returns the end of an expression that is not finished.
func lastWord(source string) string {
	words := strings.Fields(source)
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

// explainVariable says which variable or function was probably meant by an unknown
// name; id is that of its identifier in root.
//
// A name before a dot may be a namespace, such as math: then its functions are proposed. If
// nothing is near, the list of all variables helps more than a guess.
func explainVariable(source, name string, variables []string, root ast.Expr, id int64) string {
	if function := functionOf(root, name, id); function != "" {
		if those := functionsOf(name); len(those) > 0 {
			return fmt.Sprintf("unknown function %s.%s; of %s there are %s", name, function, name, strings.Join(those, ", "))
		}
		if nearest(name, variables) == "" && !isFunction(function) {
			return fmt.Sprintf("unknown function %s.%s, and neither is %s a variable", name, function, name)
		}
	}
	message := "unknown variable " + name
	switch near := nearest(name, variables); {
	case near != "":
		return message + "; did you mean " + near + "?"
	case strings.TrimSpace(source) == name:
		message += "; " + quoteHint(name)
	}
	return message + "; there are " + strings.Join(slices.Compact(slices.Sorted(slices.Values(variables))), ", ")
}

// explainFunction says that there is no function of a name, and which there are in
// its namespace.
func explainFunction(name string, variables []string) string {
	space, _, dotted := strings.Cut(name, ".")
	if dotted {
		if those := functionsOf(space); len(those) > 0 {
			return fmt.Sprintf("unknown function %s; of %s there are %s", name, space, strings.Join(those, ", "))
		}
		if near := nearest(space, variables); near != "" {
			return fmt.Sprintf("unknown variable %s; did you mean %s?", space, near)
		}
	}
	message := "unknown function " + name
	if near := nearest(name, functionNames()); near != "" {
		message += "; did you mean " + near + "?"
	}
	return message
}

// functionOf returns the function that is called on the identifier with the given id,
// "" if no function is.
//
// The checker reports an unknown namespace as an unknown variable, since it looks at the
// identifier first.
func functionOf(root ast.Expr, name string, id int64) string {
	function := ""
	if root != nil {
		ast.PostOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
			if e.Kind() != ast.CallKind || !e.AsCall().IsMemberFunction() {
				return
			}
			if target := e.AsCall().Target(); target.ID() == id && target.Kind() == ast.IdentKind && target.AsIdent() == name {
				function = e.AsCall().FunctionName()
			}
		}))
	}
	return function
}

// macroNames are the functions with a namespace that are expanded as they are parsed.
//
// They are no functions of the environment, and are therefore listed by hand.
var macroNames = []string{"cel.bind", "math.greatest", "math.least"}

// functionNames returns the functions that can be written, sorted.
func functionNames() []string {
	names := slices.Clone(macroNames)
	for name := range library {
		if !strings.ContainsAny(name, "@_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// isFunction reports whether there is a function of that name.
func isFunction(name string) bool { return slices.Contains(functionNames(), name) }

// functionsOf returns the functions of a namespace, sorted.
func functionsOf(namespace string) []string {
	var out []string
	for _, name := range functionNames() {
		if short, ok := strings.CutPrefix(name, namespace+"."); ok && word.MatchString(short) {
			out = append(out, short)
		}
	}
	return out
}

// nearest returns the first of names that is nearly equal to one, "" if none is.
func nearest(name string, names []string) string {
	for _, n := range names {
		if len(name) > 2 && (strings.EqualFold(name, n) || value.NearlyEqual(name, n)) {
			return n
		}
	}
	return ""
}

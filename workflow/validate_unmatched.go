package workflow

import (
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/problem"
)

// checkUnmatched warns of nodes whose success may match no transition without the definition saying what is to happen
// then: the token ends, and a run whose last token ends so completes, which hides a condition that is wrong. With
// mode: dag such a node is the end of dead paths. Saying unmatched, be it the default, answers the warning.
func (c *checker) checkUnmatched() {
	if c.def.Mode == ModeDAG {
		return
	}
	for i := range c.graph.nodes {
		n := &c.graph.nodes[i]
		if n.Unmatched != "" || c.graph.index[n.ID] != i || !c.graph.mayMatchNothing(i) {
			continue
		}
		has, none, without := "a condition", "if none holds", "a condition"
		if slices.ContainsFunc(c.graph.out[i], func(e edge) bool { return e.transition != nil && e.transition.Loop != nil }) {
			has, none, without = "a condition or a loop", "if no condition holds and each loop is at its bound", "either"
		}
		c.reportWarning(c.atNode(i), "", problem.MayMatchNothing,
			"every transition that leaves it has %s: %s, the thread ends here and nothing fails. "+
				"Add one without %s and with a higher priority, or say unmatched: fail (or end, if that is meant)", has, none, without)
	}
}

// mayMatchNothing reports whether every transition that node n may take when it completes has a condition or a loop, and no
// two of the conditions are opposites, but for those of loops. It goes by the texts of conditions and proves nothing: a condition that it cannot
// see through counts as one that may fail.
func (g *adjacency) mayMatchNothing(n int) bool {
	var conditions []string
	mayFail := false
	for _, e := range g.out[n] {
		t := e.transition
		if t == nil || t.Outcome == OnError {
			continue
		}
		switch certain := t.Condition == "" || t.Condition == "true"; {
		case t.Loop != nil: // at its bound a loop is not taken, whatever its condition says
			mayFail = true
		case certain:
			return false
		default:
			mayFail, conditions = true, append(conditions, withoutSpaces(t.Condition))
		}
	}
	// A node that nothing leaves is an end, and meant to be.
	return mayFail && !haveOpposites(conditions)
}

// haveOpposites reports whether one of two conditions always holds, as far as their text tells. Each condition is
// looked up among the opposites of those before it, which takes one pass.
func haveOpposites(conditions []string) bool {
	seen := make(map[string]bool, len(conditions))
	for _, a := range conditions {
		if seen[a] {
			return true
		}
		for _, b := range oppositesOf(a) {
			seen[b] = true
		}
	}
	return false
}

// A comparison is an expression with one operator; compared are its operands.
var comparison = regexp.MustCompile(`^([^=!<>]+)(==|!=|<=|>=|<|>)([^=!<>]+)$`)

var oppositeOperators = map[string]string{"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}

// oppositesOf returns the conditions, without spaces, that are written as the opposite of one. Examples: result.ok
// and !result.ok; input.n > 3 and input.n <= 3; !(a && b) and a && b.
func oppositesOf(condition string) []string {
	out := []string{"!(" + condition + ")"}
	// !(a) && (b) begins and ends like a term in parentheses, and is not one.
	if inner, ok := strings.CutPrefix(condition, "!("); ok && strings.HasSuffix(inner, ")") && isOneTerm(inner[:len(inner)-1]) {
		out = append(out, inner[:len(inner)-1])
	}
	// A ! or another operator in front of such a text would bind to its first part only.
	if strings.ContainsAny(condition, "&|?:") {
		return out
	}
	if m := comparison.FindStringSubmatch(condition); m != nil {
		return append(out, m[1]+oppositeOperators[m[2]]+m[3])
	}
	if inner, ok := strings.CutPrefix(condition, "!"); ok {
		return append(out, inner)
	}
	return append(out, "!"+condition)
}

// isOneTerm reports whether the parentheses of a text are balanced at no place before
// its end has been reached, so that those around it belong together.
func isOneTerm(text string) bool {
	open := 0
	for _, r := range text {
		switch r {
		case '(':
			open++
		case ')':
			open--
		}
		if open < 0 {
			return false
		}
	}
	return open == 0
}

// withoutSpaces leaves out the spaces of an expression, those within its texts as
// well: what is compared is not evaluated.
func withoutSpaces(s string) string { return strings.Join(strings.Fields(s), "") }

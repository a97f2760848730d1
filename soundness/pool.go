package soundness

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Expressions are looked at as text here, not as trees. A literal that is found in a string or
// in a part that never decides only adds a value to try; one that is missed makes the search
// less thorough, and addUntrue says so. Neither
// makes up a run that cannot be, since the planner plays each of them.
var (
	literals = regexp.MustCompile(`'([^']*)'|"([^"]*)"|\b\d+\.\d+\b|\b\d+\b`)
	lists    = regexp.MustCompile(`\bsize\(|\bin\b|\.(map|filter|all|exists)\(`)
	// comparisons are fields, literals, operators that compare, and those of logic.
	comparisons = regexp.MustCompile(`^[\w.\s<>=!&|()'"]*$`)
	optional    = regexp.MustCompile(`\bhas\(|\.\?|[[{]\s*\?|\boptional\.|\.or(Value)?\(`)
)

// poolOf returns the values to try for a reference of a use.
//
// The values come from the expressions that the reference reaches: a condition amount > 100
// gives 101, 100 and 99, which are both sides of it and its edge. A collection gives lists of
// two, one and no elements, because a fan-out behaves differently for each; an operand of an
// object merge gives objects. Where nothing says what the value is it is tried as a bool, a
// number and a text.
func (v *values) poolOf(u *use, ref []string) []any {
	// The expression is the collection itself, and not, for example, the filter of one: only
	// then is the value a list.
	if u.list && strings.TrimSpace(u.program.Source()) == strings.Join(ref, ".") {
		first, second := any(int64(1)), any(int64(2)) // of a list within an element
		if ref[0] != "item" && !v.isElementName(ref[0]) {
			first, second = v.elements()
		}
		whole := []any{first, second}
		// A join that asks for m of n can fire only if the fan-out has at least m branches.
		for len(whole) < v.quorum {
			whole = append(whole, whole[len(whole)%2])
		}
		return []any{whole, []any{first}, []any{}}
	}
	// Two objects, and one has a field: merging is tried with nothing and with something.
	if u.object {
		return []any{map[string]any{}, map[string]any{"a": int64(1)}}
	}
	var out []any
	for _, source := range v.readers(u) {
		literals := literalPool(source)
		out = append(out, literals...)
		// A function of lists may be applied to the value: it is tried as an empty list and as
		// one of a single element as well, a number or what the expression names first.
		if lists.MatchString(source) {
			out = append(out, []any{}, []any{int64(1)})
			if len(literals) > 0 {
				out = append(out, literals[:1:1])
			}
		}
		// The expression asks whether the field is there, so that it must be tried without it.
		if optional.MatchString(source) {
			out = append(out, absent{})
		}
	}
	if len(out) == 0 {
		// Nothing is compared with: one value of each type, and for bools and numbers both that
		// are likely to be told apart.
		out = append(out, true, false, int64(1), int64(0), "a")
	} else {
		out = append(out, true, false)
	}
	return distinct(out)
}

// readers returns the sources of the expressions by which a value that u reads decides
// something: u itself, and control that reads what u writes.
//
// A result that a node writes to state.total and that a condition elsewhere compares, as
// state.total > 5, must be tried with what that condition compares with: the literal stands in
// another expression than the one that reads the result. One step is followed, from what is
// written to control that reads it; what is copied twice is not.
func (v *values) readers(u *use) []string {
	var out []string
	if !u.whole {
		out = append(out, u.readingText())
	}
	if u.target == "" {
		return out
	}
	for i := range v.uses {
		other := &v.uses[i]
		if !other.control {
			continue
		}
		for _, ref := range other.refs() {
			// A target is a section and a field: what is deeper in the reference is a part of
			// that field.
			if strings.Join(ref[:min(len(ref), 2)], ".") == u.target {
				out = append(out, other.readingText())
			}
		}
	}
	return out
}

// readingText returns the source of the expression, with what it may choose as literals.
//
// A choice names its alternatives elsewhere in the definition, not in its expression. They are
// added as quoted texts, for literalPool to find like any others.
func (u *use) readingText() string {
	text := u.program.Source()
	for _, name := range u.names {
		text += fmt.Sprintf(" %q", name)
	}
	return text
}

// literalPool returns the values that an expression compares with, and those beside them.
//
// For a text it returns the text and one that is probably no other literal; for a number the
// number and its neighbours, so that each of < <= == >= > is true for one of the three and
// false for another. Fractions have neighbours a quarter away, which a float holds exactly. An
// integer that does not fit into 32 bits gives nothing.
func literalPool(source string) (out []any) {
	for _, m := range literals.FindAllStringSubmatch(source, -1) {
		text := m[0]
		switch {
		case text[0] == '\'' || text[0] == '"':
			out = append(out, m[1]+m[2], "other")
		case strings.Contains(text, "."):
			if f, err := strconv.ParseFloat(text, 64); err == nil {
				for _, x := range []float64{f + 0.25, f, f - 0.25} {
					out = append(out, normalNumber(x))
				}
			}
		default:
			if n, err := strconv.ParseInt(text, 10, 32); err == nil {
				out = append(out, n+1, n, n-1)
			}
		}
	}
	return out
}

// normalNumber returns a number of the model: an integer if it is one.
//
// The model has no float that is whole: 3.0 is the integer 3. A planner that was given another
// form could not be compared with a run, whose values come from JSON.
func normalNumber(f float64) any {
	if f == float64(int64(f)) {
		return int64(f)
	}
	return f
}

// elements returns two elements for lists that are fanned out over, which differ where
// expressions look at them.
//
// It calls poolOf for references to elements only, and poolOf calls it for other collections
// only: this is why there is no endless recursion between the two.
//
// Every field of an element that any expression asks for gets the values of its pool in turn:
// the first element has the first of each, the second the second. Two are enough to have
// branches that differ and branches that do not, since the list of one takes the first alone.
// Elements that are read as a whole, as item > 3, are values and not objects.
func (v *values) elements() (first, second any) {
	fields := map[string]*slot{}
	for i := range v.uses {
		if v.check.isStopped() {
			break
		}
		u := &v.uses[i]
		for _, ref := range u.refs() {
			if ref[0] == "item" || v.isElementName(ref[0]) {
				addToSlot(fields, ref[1:], v.poolOf(u, ref), false)
			}
		}
	}
	// The pool is taken round: a field with one value has it in both elements. A field whose
	// value is absent is left out of the object, which is how has() is tried.
	slots := sortedSlots(fields)
	pick := func(k int) any {
		m := any(map[string]any{})
		for _, s := range slots {
			pool := distinct(s.pool)
			switch {
			case len(s.path) > 0:
				m = withPath(m, s.path, pool[k%len(pool)])
			case len(slots) == 1:
				return pool[k%len(pool)]
			}
		}
		// Nothing looks at elements: two numbers that differ do.
		if object, _ := m.(map[string]any); len(object) == 0 {
			return int64(k + 1)
		}
		return m
	}
	return pick(0), pick(1)
}

// isElementName reports whether a foreach calls its element so, in place of item.
func (v *values) isElementName(name string) bool {
	for _, t := range v.graph.Transitions {
		if t.Foreach != nil && t.Foreach.As == name && name != "" {
			return true
		}
	}
	return false
}

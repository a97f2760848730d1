package soundness

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	literals = regexp.MustCompile(`'([^']*)'|"([^"]*)"|\b\d+\.\d+\b|\b\d+\b`)
	lists    = regexp.MustCompile(`\bsize\(|\bin\b|\.(map|filter|all|exists)\(`)
	// comparisons are fields, literals, operators that compare, and those of logic.
	comparisons = regexp.MustCompile(`^[\w.\s<>=!&|()'"]*$`)
	optional    = regexp.MustCompile(`\bhas\(|\.\?|\[\?`)
)

// poolOf returns the values to try for a reference of a use.
func (v *values) poolOf(u *use, ref []string) []any {
	if u.list && strings.TrimSpace(u.program.Source()) == strings.Join(ref, ".") {
		first, second := any(int64(1)), any(int64(2)) // of a list within an element
		if ref[0] != "item" && !v.isElementName(ref[0]) {
			first, second = v.elements()
		}
		whole := []any{first, second}
		for len(whole) < v.quorum {
			whole = append(whole, whole[len(whole)%2])
		}
		return []any{whole, []any{first}, []any{}}
	}
	if u.object {
		return []any{map[string]any{}, map[string]any{"a": int64(1)}}
	}
	var out []any
	for _, source := range v.readers(u) {
		out = append(out, literalPool(source)...)
		if lists.MatchString(source) {
			out = append(out, []any{}, []any{int64(1)})
		}
		if optional.MatchString(source) {
			out = append(out, absent{})
		}
	}
	if len(out) == 0 {
		out = append(out, true, false, int64(1), int64(0), "a")
	} else {
		out = append(out, true, false)
	}
	return distinct(out)
}

// readers returns the sources of the expressions by which a value that u reads decides
// something: u itself, and control that reads what u writes.
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
			if strings.Join(ref[:min(len(ref), 2)], ".") == u.target {
				out = append(out, other.readingText())
			}
		}
	}
	return out
}

// readingText returns the source of the expression, with what it may choose as literals.
func (u *use) readingText() string {
	text := u.program.Source()
	for _, name := range u.names {
		text += fmt.Sprintf(" %q", name)
	}
	return text
}

// literalPool returns the values that an expression compares with, and those beside them.
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
func normalNumber(f float64) any {
	if f == float64(int64(f)) {
		return int64(f)
	}
	return f
}

// elements returns two elements for lists that are fanned out over, which differ where
// expressions look at them.
func (v *values) elements() (first, second any) {
	fields := map[string][]any{}
	for i := range v.uses {
		u := &v.uses[i]
		for _, ref := range u.refs() {
			isItem := ref[0] == "item" || v.isElementName(ref[0])
			if isItem && len(ref) > 1 {
				fields[ref[1]] = append(fields[ref[1]], v.poolOf(u, ref)...)
			} else if isItem {
				fields[""] = append(fields[""], v.poolOf(u, ref)...)
			}
		}
	}
	pick := func(k int) any {
		if whole := distinct(fields[""]); len(fields) == 1 && len(whole) > 0 {
			return whole[k%len(whole)]
		}
		m := map[string]any{}
		for name, pool := range fields {
			if pool = distinct(pool); name != "" {
				if x := pool[k%len(pool)]; x != (absent{}) {
					m[name] = x
				}
			}
		}
		if len(m) == 0 {
			return int64(k + 1)
		}
		return m
	}
	return pick(0), pick(1)
}

func (v *values) isElementName(name string) bool {
	for _, t := range v.graph.Transitions {
		if t.Foreach != nil && t.Foreach.As == name && name != "" {
			return true
		}
	}
	return false
}

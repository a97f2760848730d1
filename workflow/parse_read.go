package workflow

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/document"
)

// A place is where a field was written.
type place struct {
	field        string // path from its node, its transition or the definition
	line, column int
}

// places are those of the fields of one node, transition or definition, sorted
// by field.
type places []place

// find returns the place of a field, or of what it is a part of.
func (ps places) find(field string) place {
	for len(ps) > 0 {
		i, ok := slices.BinarySearchFunc(ps, field, func(p place, field string) int { return strings.Compare(p.field, field) })
		if ok {
			return ps[i]
		}
		if field == "" {
			break
		}
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return place{}
}

// An owner is what the fields at hand belong to.
type owner struct {
	node       NodeID
	transition TransitionID
	prefix     string // of fields, if there is no id
	places     *places
}

// A parser reads elements into a definition and collects what is wrong.
type parser struct {
	owner    owner
	here     place
	problems []Problem
}

// report adds a problem at the place in hand.
func (p *parser) report(code, format string, args ...any) {
	p.problems = append(p.problems, Problem{
		Code: code, Message: fmt.Sprintf(format, args...),
		Node: p.owner.node, Transition: p.owner.transition,
		Field: p.owner.prefix + p.here.field, Line: p.here.line, Column: p.here.column,
	})
}

// expected reports that e is something else.
func (p *parser) expected(e *document.Element, what string) {
	p.report(ProblemWrongType, "%s where %s is needed", e.Describe(), what)
}

// is reports a problem unless e is of the given kind.
func (p *parser) is(e *document.Element, kind document.Kind) bool {
	if e.Kind != kind {
		p.expected(e, kind.String())
	}
	return e.Kind == kind
}

// own reads something whose fields belong to o.
func (p *parser) own(o owner, read func()) {
	outer, here := p.owner, p.here
	if o.node == "" && o.transition == "" && here.field != "" {
		o.prefix = here.field + "."
	}
	p.owner, p.here = o, place{line: here.line, column: here.column}
	p.note()
	read()
	slices.SortStableFunc(*o.places, func(a, b place) int { return strings.Compare(a.field, b.field) })
	p.owner, p.here = outer, here
}

// note keeps the place in hand for problems that are found later.
func (p *parser) note() { *p.owner.places = append(*p.owner.places, p.here) }

// within reads something at another place.
func (p *parser) within(at place, read func()) {
	outer := p.here
	p.here = at
	read()
	p.here = outer
}

// fields reads the members of an object into fields.
func (p *parser) fields(e *document.Element, fields []field) {
	p.each(e, func(key string, value *document.Element) {
		for i := range fields {
			if fields[i].name == key {
				p.note()
				fields[i].read(p, value)
				return
			}
		}
		p.report(ProblemUnknownField, "there is no such field%s", suggestion(key, fields))
	})
}

// suggestion names the field that was probably meant.
func suggestion(key string, fields []field) string {
	joined := strings.ReplaceAll(strings.ReplaceAll(key, "_", ""), "-", "")
	for _, f := range fields {
		if strings.EqualFold(joined, f.name) || near(key, f.name) {
			return fmt.Sprintf("; did you mean %s?", f.name)
		}
	}
	return ""
}

// near reports whether a and b differ by one character, left out, put in or
// changed, or by the order of two.
func near(a, b string) bool {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	a, b = a[n:], b[n:]
	switch len(a) - len(b) {
	case 0:
		swapped := len(a) > 1 && a[0] == b[1] && a[1] == b[0] && a[2:] == b[2:]
		return len(a) > 0 && a[1:] == b[1:] || swapped
	case 1:
		return a[1:] == b
	case -1:
		return b[1:] == a
	}
	return false
}

// each reads the members of an object, with their keys in the path.
func (p *parser) each(e *document.Element, read func(key string, value *document.Element)) {
	if !p.is(e, document.Object) {
		return
	}
	seen := make(map[string]bool, len(e.Members))
	for i := range e.Members {
		m := &e.Members[i]
		path := m.Key
		if p.here.field != "" {
			path = p.here.field + "." + m.Key
		}
		p.within(place{path, m.Line, m.Column}, func() {
			switch {
			case m.Wrong != "":
				p.report(ProblemWrongType, "%s as a key: a key is a string", m.Wrong)
			case seen[m.Key]:
				p.report(ProblemDuplicateKey, "the key is there twice")
			default:
				seen[m.Key] = true
				read(m.Key, m.Value)
			}
		})
	}
}

// items reads the items of a list, with their indices in the path.
func (p *parser) items(e *document.Element, read func(*document.Element)) {
	if !p.is(e, document.List) {
		return
	}
	for i, item := range e.Items {
		path := p.here.field + "[" + strconv.Itoa(i) + "]"
		p.within(place{path, item.Line, item.Column}, func() { read(item) })
	}
}

// name returns a string that is not empty.
func (p *parser) name(e *document.Element) (string, bool) {
	switch {
	case e.Kind == document.String && e.Text == "":
		p.report(ProblemMissing, "the string is empty: leave the field out or fill it")
	case e.Kind == document.String && e.Plain && ambiguous.MatchString(e.Text):
		p.report(ProblemWrongType, "%s is a boolean for some readers of YAML: write %q, in quotes", e.Text, e.Text)
	case e.Kind == document.Number || e.Kind == document.Bool:
		p.report(ProblemWrongType, "%s where a string is needed: write %q, in quotes", e.Text, e.Text)
	default:
		return e.Text, p.is(e, document.String)
	}
	return "", false
}

// ambiguous are plain words that YAML 1.1 reads as booleans, and YAML 1.2 as
// strings.
var ambiguous = regexp.MustCompile(`^(?i:yes|no|on|off)$`)

func (p *parser) expression(e *document.Element) string {
	switch e.Kind {
	case document.Number, document.Bool:
		return e.Text
	case document.String:
		if e.Text == "" {
			p.report(ProblemMissing, "the expression is empty")
		}
		return e.Text
	case document.Invalid, document.Null, document.List, document.Object:
	}
	p.expected(e, "an expression, a string,")
	return ""
}

func (p *parser) integer(e *document.Element) (n int64, ok bool) {
	v, err := e.Number()
	if err != nil {
		p.report(ProblemWrongType, "%s", err)
		return 0, false
	}
	if n, ok = v.(int64); !ok || int64(int(n)) != n {
		p.report(ProblemWrongType, "%s is not an integer", e.Describe())
		return 0, false
	}
	return n, true
}

func (p *parser) number(e *document.Element) float64 {
	v, err := e.Number()
	if err != nil {
		p.report(ProblemWrongType, "%s", err)
	}
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return math.NaN()
}

// duration returns a duration that is not negative; zero says whether it may
// be 0.
func (p *parser) duration(e *document.Element, zero bool) time.Duration {
	if e.Kind != document.String {
		p.expected(e, "a duration, a string such as 30s,")
		return 0
	}
	d, err := time.ParseDuration(e.Text)
	switch {
	case err != nil:
		p.report(ProblemWrongType, "%q is not a duration such as 30s or 1h15m", e.Text)
	case d < 0:
		p.report(ProblemOutOfRange, "%s is less than 0", e.Text)
	case d == 0 && !zero:
		p.report(ProblemOutOfRange, "%s where a duration above 0 is needed", e.Text)
	}
	return max(d, 0)
}

// value returns e as a value of the JSON model.
func (p *parser) value(e *document.Element) any {
	switch e.Kind {
	case document.Null:
		return nil
	case document.Bool:
		return e.Text == "true"
	case document.String:
		return e.Text
	case document.Number:
		v, err := e.Number()
		if err != nil {
			p.report(ProblemInvalidValue, "%s", err)
		}
		return v
	case document.List:
		out := make([]any, 0, len(e.Items))
		p.items(e, func(e *document.Element) { out = append(out, p.value(e)) })
		return out
	case document.Object:
		out := make(map[string]any, len(e.Members))
		p.each(e, func(key string, e *document.Element) { out[key] = p.value(e) })
		return out
	case document.Invalid:
	}
	p.report(ProblemInvalidValue, "%s", e.Describe())
	return nil
}

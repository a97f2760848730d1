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
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/value"
)

// A place is where a field was written. Lines and columns count from 1; 0 is unknown, as in a definition that was
// built in Go.
type place struct {
	field        string // path from its node, its transition or the definition
	line, column int
}

// places are those of the fields of one node, transition or definition, sorted by field. They outlive the text:
// problems that the checker finds later have lines too. Each belongs to a node or transition, so that a definition
// which is put together of parts keeps them.
type places []place

// findPlace returns the place of a field, or of the field that it is a part of. Example:
// synchronization.merge.target, if it was not written, has the place of synchronization.merge, and that of
// synchronization without a merge.
func (ps places) findPlace(field string) place {
	for len(ps) > 0 {
		i, ok := slices.BinarySearchFunc(ps, field, func(p place, field string) int { return strings.Compare(p.field, field) })
		if ok {
			return ps[i]
		}
		// The whole has no place, as in a definition that was built in Go.
		if field == "" {
			break
		}
		// One step outwards: from an index to its list, from a field to what it is in, and at last to the whole.
		field = field[:max(0, strings.LastIndexAny(field, ".["))]
	}
	return place{}
}

// Place returns the line and column, from 1, of a field, or of the part around it that was written; 0 in a definition that was made in Go.
func (ps places) Place(_ expr.Pass, field string) (line, column int) {
	at := ps.findPlace(field)
	return at.line, at.column
}

// An owner is what the fields at hand belong to. Problems name it, and places are kept in it.
type owner struct {
	node       NodeID
	transition TransitionID
	prefix     string // of fields, if there is no id
	places     *places
}

// A parser reads elements into a definition and collects what is wrong. It reads one text and goes on after a
// problem, so that all of them are told at once. here is the place of what is read at the moment.
type parser struct {
	owner    owner
	here     place
	problems []Problem
}

// reportProblem adds a problem at the place in hand.
func (p *parser) reportProblem(code, format string, args ...any) {
	// Further problems are not told.
	if len(p.problems) == maxProblems {
		return
	}
	p.problems = append(p.problems, Problem{
		Code: code, Message: fmt.Sprintf(format, args...),
		Node: p.owner.node, Transition: p.owner.transition,
		Field: p.owner.prefix + p.here.field, Line: p.here.line, Column: p.here.column,
	})
}

// reportType reports that e is not what is needed. It says what there is as well, such as the list [1, 2] where a
// string is needed.
func (p *parser) reportType(e *document.Element, what string) {
	p.reportProblem(problem.WrongType, "%s where %s is needed", e.Describe(), what)
}

// isKind reports whether e is of the given kind, and a problem if it is not.
func (p *parser) isKind(e *document.Element, kind document.Kind) bool {
	if e.Kind != kind {
		p.reportType(e, kind.String())
	}
	return e.Kind == kind
}

// readOwned reads something whose fields belong to o. The fields in it are named from there on: a problem says node
// "a": retry.jitter, and not nodes[3].retry.jitter, unless the node has no id.
func (p *parser) readOwned(o owner, read func()) {
	// The path begins anew: fields of a node are named from the node on.
	outer, here := p.owner, p.here
	if o.node == "" && o.transition == "" && here.field != "" {
		o.prefix = here.field + "."
	}
	p.owner, p.here = o, place{line: here.line, column: here.column}
	p.notePlace()
	read()
	// findPlace searches in them.
	slices.SortStableFunc(*o.places, func(a, b place) int { return strings.Compare(a.field, b.field) })
	p.owner, p.here = outer, here
}

// notePlace keeps the place in hand for problems that are found later.
func (p *parser) notePlace() { *p.owner.places = append(*p.owner.places, p.here) }

// atPlace reads something at another place. Places are nested like calls.
func (p *parser) atPlace(at place, read func()) {
	outer := p.here
	p.here = at
	read()
	p.here = outer
}

// readFields reads the members of an object into fields. The order of keys means nothing. Tables are short, so they
// are searched one by one.
func (p *parser) readFields(e *document.Element, fields []field) {
	p.eachMember(e, func(key string, e *document.Element) {
		for i := range fields {
			if fields[i].name == key {
				// Known fields have a place, for problems that are found when the text is gone.
				p.notePlace()
				fields[i].read(p, e)
				return
			}
		}
		// A field that nobody reads would be a wish that is silently not granted.
		p.reportProblem(problem.UnknownField, "there is no such field%s", suggestField(key, fields))
	})
}

// suggestField names the field that was probably meant. It finds other ways of writing, such as sibling_group, and
// slips of a letter.
func suggestField(key string, fields []field) string {
	// As it would be without the separators of other conventions.
	joined := strings.ReplaceAll(strings.ReplaceAll(key, "_", ""), "-", "")
	for _, f := range fields {
		if strings.EqualFold(joined, f.name) || value.NearlyEqual(key, f.name) {
			return fmt.Sprintf("; did you mean %s?", f.name)
		}
	}
	return ""
}

// eachMember reads the members of an object, with their keys in the path. A key that is no string, or is there twice,
// is reported, and its value not read.
func (p *parser) eachMember(e *document.Element, read func(key string, value *document.Element)) {
	if !p.isKind(e, document.Object) {
		return
	}
	seen := make(map[string]bool, len(e.Members))
	for i := range e.Members {
		m := &e.Members[i]
		// At the top, keys are fields of the owner.
		path := m.Key
		if p.here.field != "" {
			path = p.here.field + "." + m.Key
		}
		p.atPlace(place{path, m.Line, m.Column}, func() {
			switch {
			case m.Wrong != "":
				p.reportProblem(problem.WrongType, "%s as a key: a key is a string", m.Wrong)
			case seen[m.Key]:
				p.reportProblem(problem.DuplicateKey, "the key is there twice")
			default:
				seen[m.Key] = true
				read(m.Key, m.Value)
			}
		})
	}
}

// eachItem reads the items of a list, with their indices in the path.
func (p *parser) eachItem(e *document.Element, read func(*document.Element)) {
	if !p.isKind(e, document.List) {
		return
	}
	for i, item := range e.Items {
		path := p.here.field + "[" + strconv.Itoa(i) + "]"
		p.atPlace(place{path, item.Line, item.Column}, func() { read(item) })
	}
}

// readName returns a string that is not empty. YAML takes 1, null or yes without quotes for something else than a
// text; to turn it into one would make ids that nobody wrote.
func (p *parser) readName(e *document.Element) (string, bool) {
	switch {
	case e.Kind == document.String && e.Text == "":
		p.reportProblem(problem.Missing, "the string is empty: leave the field out or fill it")
	// In quotes it is a text for everybody.
	case e.Kind == document.String && e.Plain && ambiguous.MatchString(e.Text):
		p.reportProblem(problem.WrongType, "%s is a boolean for some readers of YAML: write %q, in quotes", e.Text, e.Text)
	case e.Kind == document.Number || e.Kind == document.Bool:
		p.reportProblem(problem.WrongType, "%s where a string is needed: write %q, in quotes", e.Text, e.Text)
	default:
		return e.Text, p.isKind(e, document.String)
	}
	return "", false
}

// ambiguous are plain words that YAML 1.1 reads as booleans, and YAML 1.2 as
// strings.
var ambiguous = regexp.MustCompile(`^(?i:yes|no|on|off)$`)

// readExpression returns the source of an expression: a text, or a number or bool as it is written.
func (p *parser) readExpression(e *document.Element) string {
	switch e.Kind {
	case document.Number, document.Bool:
		return e.Text
	case document.String:
		if e.Text == "" {
			p.reportProblem(problem.Missing, "the expression is empty")
		}
		return e.Text
	// Every kind is named, so that a new one is not passed over.
	case document.Invalid, document.Null, document.List, document.Object:
	}
	p.reportType(e, "an expression, a string,")
	return ""
}

// readInteger returns an integer that fits into an int; 1.0 is an integer, 1.5 is not.
func (p *parser) readInteger(e *document.Element) (n int64, ok bool) {
	v, err := e.Number()
	if err != nil {
		p.reportProblem(problem.WrongType, "%s", err)
		return 0, false
	}
	// On a system whose int has 32 bits, a larger number is refused and not cut off.
	if n, ok = v.(int64); !ok || int64(int(n)) != n {
		p.reportProblem(problem.WrongType, "%s is not an integer", e.Describe())
		return 0, false
	}
	return n, true
}

// readNumber returns a number, NaN for anything else.
func (p *parser) readNumber(e *document.Element) float64 {
	v, err := e.Number()
	if err != nil {
		p.reportProblem(problem.WrongType, "%s", err)
	}
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	// A problem was reported, so that the definition is not used.
	return math.NaN()
}

// readDuration returns a duration that is not negative; zero says whether it may be 0. It is a text with a unit: a
// number alone would leave open of what.
func (p *parser) readDuration(e *document.Element, zero bool) time.Duration {
	if e.Kind != document.String {
		p.reportType(e, "a duration, a string such as 30s,")
		return 0
	}
	d, err := time.ParseDuration(e.Text)
	switch {
	case err != nil:
		p.reportProblem(problem.WrongType, "%q is not a duration such as 30s or 1h15m", e.Text)
	case d < 0:
		p.reportProblem(problem.OutOfRange, "%s is less than 0", e.Text)
	case d == 0 && !zero:
		p.reportProblem(problem.OutOfRange, "%s where a duration above 0 is needed", e.Text)
	}
	// A refused duration is read as 0.
	return max(d, 0)
}

// readValue returns e as a value of the JSON model. Numbers have the types of the model: an integer is an int64, any
// other a float64.
func (p *parser) readValue(e *document.Element) any {
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
			p.reportProblem(problem.InvalidValue, "%s", err)
		}
		return v
	case document.List:
		out := make([]any, 0, len(e.Items))
		p.eachItem(e, func(e *document.Element) { out = append(out, p.readValue(e)) })
		return out
	case document.Object:
		out := make(map[string]any, len(e.Members))
		p.eachMember(e, func(key string, e *document.Element) { out[key] = p.readValue(e) })
		return out
	// Such as .nan in YAML.
	case document.Invalid:
	}
	p.reportProblem(problem.InvalidValue, "%s", e.Describe())
	return nil
}

package workflow

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/value"
)

// An expressionPlace says where an expression stands, on which it depends
// which variables are bound.
type expressionPlace int

const (
	placeOutput     expressionPlace = iota // output.mapping of the definition
	placeMapping                           // input or output of a node
	placeUntil                             // of a wait
	placeMatch                             // of a wait
	placeTransition                        // any field of a transition
)

// A binding says which variables some token of a definition can have. It is gathered from the whole definition, and
// lenient: a variable that may have a value for some token is taken as bound for all, since to know it of each node
// would need all paths through the graph. If the variable is then missing in a run, the node fails with
// expression_error.
type binding struct {
	foreach bool            // an element
	names   map[string]bool // an element of this name
	fans    bool            // a branch
	caught  map[NodeID]bool // an error, at this node
}

// newBinding looks through all transitions once.
func newBinding(d *Definition) binding {
	b := binding{names: map[string]bool{}, caught: map[NodeID]bool{}}
	for i := range d.Transitions {
		t := &d.Transitions[i]
		// A siblingGroup alone makes a branch as well.
		b.fans = b.fans || t.SpawnCount > 0 || t.Foreach != nil || t.SiblingGroup != ""
		if t.Foreach != nil {
			b.foreach, b.names[t.Foreach.As] = true, true
		}
		if t.Outcome == OnError || t.Outcome == OnAlways {
			b.caught[t.To] = true
		}
	}
	return b
}

// checkOptionalExpression checks an expression; "" means no expression.
func (c *checker) checkOptionalExpression(s site, field, source string, at expressionPlace) {
	if source != "" {
		c.checkExpression(s, field, source, at)
	}
}

// tooMuchSource reports whether the expressions up to this one are larger than the bounds allow, and reports the
// problem once. Expressions beyond the bound are not compiled, which would be the cost. An expression that was
// compiled before costs nothing more.
func (c *checker) tooMuchSource(s site, field, source string) bool {
	if _, known := c.compiler.programs[source]; known {
		return false
	}
	// The sum goes on when it is too large, so that only the expression that passes the bound is reported.
	most, before := c.bounded.Expressions, c.source
	c.source += len(source)
	if before <= most && c.source > most {
		c.reportProblem(s, field, problem.TooLarge, "up to here the expressions have more than %d bytes", most)
	}
	return c.source > most
}

// checkExpression checks an expression that must be there.
func (c *checker) checkExpression(s site, field, source string, at expressionPlace) {
	if source == "" {
		c.reportProblem(s, field, problem.Missing, "the expression is empty")
		return
	}
	// This comes before it is compiled: an expression of the largest size takes long.
	if c.tooMuchSource(s, field, source) {
		return
	}
	program, err := c.compiler.compileSource(source)
	if err != nil {
		code, message := expressionProblem(err)
		c.reportProblem(s, field, code, "%s", message)
		return
	}
	if program.IsOptional() {
		c.reportWarning(s, field, problem.ResultType, "%.80q is an optional value, which no result can be: it fails with %s; add .orValue(DEFAULT)", source, CodeExpression)
	}
	reported := ""
	// A variable is told once, however often the expression uses it in a row.
	for _, ref := range program.References() {
		if why := c.unboundVariable(s, ref[0], at); why != "" && ref[0] != reported {
			reported = ref[0]
			c.reportProblem(s, field, problem.UnboundVariable, "%s has no value here: %s", ref[0], why)
		}
		c.checkReference(s, field, ref)
		c.stored.noteRead(s, field, source, ref)
	}
}

// checkResult warns of an expression whose result is known not to be of the type that is needed where it stands: every thread that comes
// there fails. It is no error, since definitions that are stored may have it.
func (c *checker) checkResult(s site, field, source, want string) {
	known, ok := c.compiler.programs[source]
	if !ok || known.err != nil {
		return // it is told already
	}
	if is := typeOf(known.program); is != "" && is != want {
		c.reportWarning(s, field, problem.ResultType, "%.80q is always of the type %s, and %s is needed: the node fails with %s", source, is, want, CodeExpression)
	}
}

// typeOf returns the type of an expression's result by the names of JSON Schema, if it is known whatever the variables are; else "".
func typeOf(program *expr.Program) string {
	if strings.TrimSpace(program.Source()) == "null" {
		return "null"
	}
	return program.Type()
}

// checkText checks an expression of a node whose result is a text, if there is one.
func (c *checker) checkText(s site, field, source string) {
	c.checkOptionalExpression(s, field, source, placeMapping)
	c.checkResult(s, field, source, "string")
}

// expressionProblem returns the code and the message of a problem. The place in an expression is counted from its own
// beginning, and is told in the message: the place of the problem is that of the field.
func expressionProblem(err error) (code, message string) {
	var e *expr.Error
	if !errors.As(err, &e) {
		return problem.Expression, err.Error()
	}
	code, message = problem.Expression, e.Message
	if e.Code == expr.CodeUnknownVariable {
		code = problem.UnknownVariable
	}
	// Errors that concern the whole expression have no place.
	if e.Line > 0 {
		message = fmt.Sprintf("at %d:%d of the expression: %s", e.Line, e.Column, message)
	}
	return code, message
}

// unboundVariable says why a variable can never have a value where it is used; "" if
// it may have one.
func (c *checker) unboundVariable(s site, variable string, at expressionPlace) string {
	switch variable {
	// Only while a signal is offered to a wait is there a payload.
	case "payload":
		if at != placeMatch {
			return "it is for match"
		}
	// The output of a run is made when its last token has ended.
	case "result":
		if at == placeOutput {
			return "no node has just ended when the run completes"
		}
	case "error":
		return c.unboundError(s, at)
	// It is bound in each branch of any fan-out, also of one without elements.
	case "branch":
		if !c.binding.fans || at == placeOutput {
			return "it is for branches of a fan-out"
		}
	// A branch of a foreach has both, and what is nested in it too.
	case "item", "index":
		if !c.binding.foreach || at == placeOutput {
			return "it is for branches of a foreach"
		}
	// Names of foreach elements; all other variables are always bound.
	default:
		if c.binding.names[variable] && at == placeOutput {
			return "it is for branches of a foreach"
		}
	}
	return ""
}

// unboundError says why error has no value at a place; "" if it may have one. It is bound on transitions that are
// taken with a failure, and in the mappings of the node that they enter.
func (c *checker) unboundError(s site, at expressionPlace) string {
	switch at {
	case placeOutput:
		return "no error is caught when the run completes"
	case placeTransition:
		// The rank of a site says which transition it is of.
		t := &c.def.Transitions[s.rank-1-len(c.def.Nodes)]
		if t.Outcome != OnError && t.Outcome != OnAlways {
			return "it is for transitions with outcome: error or always"
		}
	case placeMapping, placeUntil, placeMatch:
		if !c.binding.caught[s.node] {
			return "no transition with outcome: error or always leads here"
		}
	}
	return ""
}

// checkReference warns of a reference to something that the definition does not have. A patch may add it. The keys
// of nodes, active and count are ids of the definition. Under a wrong id a run never has anything.
func (c *checker) checkReference(s site, field string, ref []string) {
	// The variable as a whole names nothing.
	if len(ref) < 2 {
		return
	}
	switch variable, key := ref[0], ref[1]; variable {
	case "nodes", "active":
		if !c.graph.hasNode(NodeID(key)) {
			c.reportWarning(s, field, problem.UnknownReference, "there is no node %q for %s", key, variable)
		}
	// 0 is what count has for every loop that was not taken, and nothing for any other transition.
	case "count":
		if !c.graph.loops[TransitionID(key)] {
			c.reportWarning(s, field, problem.UnknownReference, "there is no transition %q with a loop for count", key)
		}
	}
}

// parsePath checks where something is to be written. Only state and output can be written; input is immutable, and
// nodes is the engine's.
func (c *checker) parsePath(s site, field, text string) (value.Path, bool) {
	if text == "" {
		c.reportProblem(s, field, problem.Missing, "name where to write, such as state.total")
		return value.Path{}, false
	}
	path, err := value.ParsePath(text)
	if err != nil {
		c.reportProblem(s, field, problem.InvalidPath, "%q is not a path: %s", text, err)
		return path, false
	}
	// ParsePath has given it at least one segment.
	switch section := path.Segments[0]; {
	case section != "state" && section != "output":
		c.reportProblem(s, field, problem.InvalidPath, "%q is neither in state nor in output", text)
	// A section is an object: state.log[] is a target, state[] is not.
	case len(path.Segments) == 1 && path.Append:
		c.reportProblem(s, field, problem.InvalidPath, "%s is not a list", section)
	default:
		c.stored.noteWritten(path)
		if len(path.Segments) > 1 && section == "state" && forbidsProperty(c.def.State.Schema, path.Segments[1]) {
			c.stored.forbidden = append(c.stored.forbidden, stateAccess{s, field, path.Segments[1]})
		}
		return path, true
	}
	return path, false
}

// A storedState has the fields of the state that a definition reads and writes.
type storedState struct {
	reads     []stateAccess   // by expressions that fail without the field
	written   map[string]bool // by the definition, or asked for by an expression that does without them
	whole     bool            // the whole state is written: it may have any field
	forbidden []stateAccess   // writes of fields that state.schema forbids
}

// A stateAccess says where a field of the state is read or written.
type stateAccess struct {
	at         site
	field, key string
}

// asksForFields finds expressions that ask whether a field is there.
var asksForFields = regexp.MustCompile(`\bhas\(|\.\?|\[\?`)

// noteRead notes what an expression reads of the state.
func (o *storedState) noteRead(s site, field, source string, ref []string) {
	switch {
	case ref[0] != "state" || len(ref) < 2:
	case asksForFields.MatchString(source):
		o.noteField(ref[1])
	default:
		o.reads = append(o.reads, stateAccess{s, field, ref[1]})
	}
}

// noteWritten notes a path to which something is written.
func (o *storedState) noteWritten(path value.Path) {
	switch {
	case path.Segments[0] != "state":
	case len(path.Segments) == 1:
		o.whole = true
	default:
		o.noteField(path.Segments[1])
	}
}

func (o *storedState) noteField(key string) {
	if o.written == nil {
		o.written = map[string]bool{}
	}
	o.written[key] = true
}

// checkState warns of fields of the state that an expression reads and nothing writes, mostly since one of both is misspelt. Each is told
// once, where it is read first.
func (c *checker) checkState() {
	o := &c.stored
	for key := range c.def.State.Initial {
		o.noteField(key)
	}
	if o.whole {
		return
	}
	names := sortedKeys(o.written)
	for _, r := range o.reads {
		if o.written[r.key] {
			continue
		}
		o.noteField(r.key) // it is told
		hint := ""
		if i := slices.IndexFunc(names, func(name string) bool { return value.NearlyEqual(name, r.key) }); i >= 0 {
			hint = fmt.Sprintf("; did you mean %s?", value.Path{Segments: []string{"state", names[i]}})
		}
		c.reportWarning(r.at, r.field, problem.UnwrittenState, "nothing writes %s, and without it the expression fails with %s%s", value.Path{Segments: []string{"state", r.key}}, CodeExpression, hint)
	}
}

// checkForbidden warns of targets that state.schema forbids. A write is checked against the schema of its property, and
// these have none: the run fails as it completes, where nothing can catch that. Branches have data of their own, which
// no schema describes as a whole, and nodes behind a fan-out may belong to one: they are left out.
func (c *checker) checkForbidden() {
	o := &c.stored
	if len(o.forbidden) == 0 || o.whole {
		return
	}
	inBranch, nested := c.findBranches()
	for _, w := range o.forbidden {
		n, isNode := c.graph.index[w.at.node]
		if isNode && inBranch[n] {
			continue
		}
		if i := w.at.rank - 1 - len(c.def.Nodes); i >= 0 && nested[c.def.Transitions[i].Synchronization.SiblingGroup] {
			continue
		}
		c.reportWarning(w.at, w.field, problem.ForbiddenState, "state.schema has no property %.100q and allows no others: a run that writes it fails with %s as it completes", w.key, CodeSchema)
	}
}

// findBranches returns the nodes that a token of a branch may reach, and the groups that one may fan out, a few too many:
// it takes all nodes behind a fan-out for such nodes, those behind its join as well.
func (c *checker) findBranches() (nodes []bool, groups map[string]bool) {
	var first []int
	for i := range c.def.Transitions {
		t := &c.def.Transitions[i]
		if to, ok := c.graph.index[t.To]; ok && (t.SpawnCount > 0 || t.Foreach != nil || t.SiblingGroup != "") {
			first = append(first, to)
		}
	}
	nodes, groups = c.graph.findReached(first), map[string]bool{}
	for i := range c.def.Transitions {
		t := &c.def.Transitions[i]
		if from, ok := c.graph.index[t.From]; ok && nodes[from] && t.SiblingGroup != "" {
			groups[t.SiblingGroup] = true
		}
	}
	return nodes, groups
}

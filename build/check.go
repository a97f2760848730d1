package build

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/edges"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/typecheck"
	"github.com/pawl-run/pawl/workflow"
)

// Definition returns the definition, or a [workflow.DefinitionError] with all that is wrong: each problem has the file
// and the line of the call that it comes from. Warnings are for [workflow.Definition.Check]. The builder may go on afterwards, and
// the definition that was returned stays as it is.
func (b *Builder) Definition() (*workflow.Definition, error) {
	if b == nil {
		b = &Builder{}
	}
	d := b.definition
	d.Nodes, d.Transitions, d.Signals = slices.Clone(d.Nodes), slices.Clone(d.Transitions), slices.Clone(d.Signals)
	if d.Start == "" && d.Mode != workflow.ModeDAG && len(d.Nodes) > 0 {
		d.Start = d.Nodes[0].ID
	}
	wrong := faultsOf(&d)
	problems := slices.Clone(b.wrong)
	for _, p := range wrong {
		problems = append(problems, b.placeProblem(&d, p))
	}
	problems = append(problems, b.typeProblems(&d, wrong)...)
	if err := b.errorOf(problems); err != nil {
		return nil, err
	}
	return &d, nil
}

// MustDefinition is Definition for a program that cannot go on without it: it panics where Definition fails.
func (b *Builder) MustDefinition() *workflow.Definition {
	d, err := b.Definition()
	if err != nil {
		panic(fmt.Sprintf("build: a definition of the program: %v", err))
	}
	return d
}

// Err returns what is known to be wrong with the calls so far, as a [workflow.DefinitionError]: an expression that cannot be
// read, a node that is made twice. Definition tells the problems of the whole, such as a transition to a node that is never made.
func (b *Builder) Err() error {
	if b == nil {
		return nil
	}
	return b.errorOf(slices.Concat(b.wrong, b.unreadable))
}

// errorOf returns an error for problems, sorted by their places.
func (b *Builder) errorOf(problems []workflow.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	slices.SortStableFunc(problems, func(p, q workflow.Problem) int {
		return cmp.Or(cmp.Compare(p.File, q.File), cmp.Compare(p.Line, q.Line))
	})
	return &workflow.DefinitionError{Name: b.definition.Name, Problems: problems}
}

// faultsOf returns the problems of a definition but for warnings.
func faultsOf(d *workflow.Definition) []workflow.Problem {
	return slices.DeleteFunc(d.Check(), func(p workflow.Problem) bool { return p.Warning })
}

// typeProblems compares the definition with the types of the functions that its nodes were made from. Parts with one of the
// problems in wrong are not compared, and nothing is if the rest is no definition.
func (b *Builder) typeProblems(d *workflow.Definition, wrong []workflow.Problem) (out []workflow.Problem) {
	types := map[string]typecheck.Types{}
	for i := range d.Nodes {
		own, typed := b.types[i]
		if !typed {
			continue
		}
		task := d.Nodes[i].Task
		if other, ok := types[task]; ok && (other.In.Go != own.types.In.Go || other.Out.Go != own.types.Out.Go) {
			p := workflow.Problem{
				Code: problem.HandlerType, Node: d.Nodes[i].ID, Field: "task",
				Message: fmt.Sprintf("another node has the task %q with other types: %s and %s", task, other.In.Go, other.Out.Go),
			}
			out = append(out, b.placeProblem(d, p))
		}
		types[task] = own.types
	}
	if len(types) == 0 || len(out) > 0 {
		return out
	}
	sound := b.leaveOutFaults(*d, wrong)
	if sound == nil {
		return nil
	}
	g, err := compiled.Compile(compiled.Boundless(), sound)
	if err != nil {
		return []workflow.Problem{b.placeProblem(d, workflow.Problem{Code: problem.InvalidValue, Message: err.Error()})}
	}
	for _, p := range typecheck.Problems(g, types) {
		p.Warning = false
		out = append(out, b.placeProblem(d, p))
	}
	return out
}

// maxRounds bounds how often faults are left out: without a part, another may be a fault.
const maxRounds = 3

// leaveOutFaults returns a copy of a definition without the parts that have the problems in wrong, for the comparison of types.
// It is nil if there is no such copy.
func (b *Builder) leaveOutFaults(d workflow.Definition, wrong []workflow.Problem) *workflow.Definition {
	ids := transitionIDs(&d) // as they are, whatever is left out
	d.Nodes, d.Transitions = slices.Clone(d.Nodes), slices.Clone(d.Transitions)
	for i, id := range ids {
		d.Transitions[i].ID = id
	}
	for range maxRounds {
		for _, p := range wrong {
			b.leaveOut(&d, p)
		}
		if len(wrong) == 0 {
			return &d
		}
		wrong = faultsOf(&d)
	}
	return nil
}

// leaveOut takes the part that has a problem out of a definition.
func (b *Builder) leaveOut(d *workflow.Definition, p workflow.Problem) {
	i, known := b.indices[p.Node]
	section, name, _ := strings.Cut(p.Field, ".")
	switch {
	case p.Transition != "":
		d.Transitions = slices.DeleteFunc(d.Transitions, func(t workflow.Transition) bool { return t.ID == p.Transition })
	case p.Node != "" && !known: // the calls are wrong, not the definition
	case p.Node != "" && section == "input": // a field that is filled, by a value of any type
		d.Nodes[i].Input = withKey(d.Nodes[i].Input, name, "null")
	case p.Node != "" && section == "output":
		d.Nodes[i].Output = maps.Clone(d.Nodes[i].Output)
		delete(d.Nodes[i].Output, name)
	case p.Node != "":
		n := &d.Nodes[i]
		*n = workflow.Node{ID: n.ID, Task: n.Task, Input: n.Input, Output: n.Output}
	case section == "start" && d.Mode != workflow.ModeDAG && len(d.Nodes) > 0:
		d.Start = d.Nodes[0].ID
	default: // the whole has no types but those of its input
		*d = workflow.Definition{Name: "copy", Mode: d.Mode, Start: d.Start, Groups: d.Groups, Nodes: d.Nodes, Transitions: d.Transitions}
	}
}

// A part is the definition itself, which is the zero part, a node or a transition.
type part struct {
	kind partKind
	i    int
}

type partKind int

const (
	ofNode partKind = iota + 1
	ofTransition
)

func partOfNode(i int) part       { return part{ofNode, i} }
func partOfTransition(i int) part { return part{ofTransition, i} }

// A place is a line of Go.
type place struct {
	file string
	line int
}

// String returns the file's name and the line.
func (p place) String() string { return path.Base(p.file) + ":" + strconv.Itoa(p.line) }

// ownPackage is how the names of the functions of this package begin.
const ownPackage = "github.com/pawl-run/pawl/build."

// callerPlace returns the place of the call that led into this package.
func callerPlace() place {
	var callers [16]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, ownPackage) || !more {
			return place{f.File, f.Line}
		}
	}
}

// notePlace notes which call says a field of a part. It reports a field that another call has said, and returns false.
func (b *Builder) notePlace(of part, field string) bool {
	here := callerPlace()
	if first, said := b.places[of][field]; said {
		p := b.problemOf(of, field, problem.Conflict, "it is said already, at "+first.String())
		p.File, p.Line = here.file, here.line
		b.wrong = append(b.wrong, p)
		return false
	}
	if b.places == nil {
		b.places = map[part]map[string]place{}
	}
	if b.places[of] == nil {
		b.places[of] = map[string]place{}
	}
	b.places[of][field] = here
	return true
}

// placeOf returns the place of the call that said a field, or the innermost part around it.
func (b *Builder) placeOf(of part, field string) place {
	for field != "" {
		if at, ok := b.places[of][field]; ok {
			return at
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	if at, ok := b.places[of][""]; ok {
		return at
	}
	return b.made
}

// problemOf returns a problem with a field of a part.
func (b *Builder) problemOf(of part, field, code, message string) workflow.Problem {
	p := workflow.Problem{Code: code, Message: message, Field: field}
	switch of.kind {
	case ofNode:
		p.Node = b.definition.Nodes[of.i].ID
	case ofTransition:
		p.Transition = transitionIDs(&b.definition)[of.i]
	}
	at := b.placeOf(of, field)
	p.File, p.Line = at.file, at.line
	return p
}

// reportWrong adds a problem of the call that led into this package.
func (b *Builder) reportWrong(p workflow.Problem) {
	at := callerPlace()
	p.File, p.Line = at.file, at.line
	b.wrong = append(b.wrong, p)
}

// placeProblem returns a problem of the definition with the place of the call that it comes from.
func (b *Builder) placeProblem(d *workflow.Definition, p workflow.Problem) workflow.Problem {
	var of part
	switch {
	case p.Node != "":
		if i, ok := b.indices[p.Node]; ok {
			of = partOfNode(i)
		}
	case p.Transition != "":
		if i := slices.Index(transitionIDs(d), p.Transition); i >= 0 {
			of = partOfTransition(i)
		}
	default: // a node without an id is named by its index
		var i int
		if _, err := fmt.Sscanf(p.Field, "nodes[%d]", &i); err == nil && i < len(d.Nodes) {
			of = partOfNode(i)
		}
	}
	at := b.placeOf(of, p.Field)
	if of.kind == ofTransition {
		at = b.placeOfJoin(&d.Transitions[of.i], p.Field, at)
	}
	p.File, p.Line, p.Column = at.file, at.line, 0
	return p
}

// placeOfJoin returns the place of the settings of a group, for a problem with what a transition has from them.
func (b *Builder) placeOfJoin(t *workflow.Transition, field string, at place) place {
	rest, ok := strings.CutPrefix(field, "synchronization.")
	if !ok || t.Synchronization == nil || rest == "siblingGroup" {
		return at
	}
	settings, ok := b.places[part{}]["groups."+t.Synchronization.SiblingGroup]
	if !ok || rest == "merge.source" && t.Synchronization.Merge != nil {
		return at
	}
	return settings
}

// transitionIDs returns the ids of transitions, with those that they get if they say none.
func transitionIDs(d *workflow.Definition) []workflow.TransitionID {
	ids := make([]workflow.TransitionID, len(d.Transitions))
	for i := range ids {
		ids[i] = d.Transitions[i].ID
	}
	edges.NameEdges(len(ids), func(i int) (id *workflow.TransitionID, from, to workflow.NodeID) {
		return &ids[i], d.Transitions[i].From, d.Transitions[i].To
	})
	return ids
}

// checkSource looks at an expression as a call says it.
func (b *Builder) checkSource(of part, field, source string) {
	if source == "" {
		return
	}
	message, known := b.read[source]
	if !known {
		message = b.readSource(source)
		if b.read == nil {
			b.read = map[string]string{}
		}
		b.read[source] = message
	}
	if message != "" {
		b.unreadable = append(b.unreadable, b.problemOf(of, field, problem.Expression, message))
	}
}

// variables are those of every definition. The elements of a foreach have names of their own.
var variables = []string{"input", "state", "output", "result", "error", "nodes", "item", "index", "branch", "run", "active", "count", "now", "payload"}

// identifier finds the words of an expression that may be variables.
var identifier = regexp.MustCompile(`(^|[^.\w])([A-Za-z_]\w*)`)

// readSource says why an expression cannot be read, whatever the names of elements will be; "" if it can.
func (b *Builder) readSource(source string) string {
	if b.compiler == nil {
		b.compiler = expr.NewCompiler(expr.Limits{Source: limits.MaxExpression})
	}
	_, err := b.compiler.Compile(source, variables)
	if err == nil {
		return ""
	}
	names := slices.Clone(variables)
	for _, m := range identifier.FindAllStringSubmatch(source, -1) {
		if !slices.Contains(names, m[2]) {
			names = append(names, m[2])
		}
	}
	if _, again := b.compiler.Compile(source, names); again == nil {
		return ""
	}
	var wrong *expr.Error
	if errors.As(err, &wrong) && wrong.Code == expr.CodeUnknownVariable {
		return ""
	}
	return err.Error()
}

// An expression is one of a node's fields.
type expression struct{ field, source string }

// expressionsOf returns the expressions of a node as it is made.
func expressionsOf(n *workflow.Node) []expression {
	out := []expression{{"taskExpr", n.TaskExpr}}
	if n.Subworkflow != nil {
		out = append(out, expression{"subworkflow.nameExpr", n.Subworkflow.NameExpr})
	}
	if n.Approval != nil {
		out = append(out, expression{"approval.messageExpr", n.Approval.MessageExpr})
	}
	if n.End != nil {
		out = append(out, expression{"end.codeExpr", n.End.CodeExpr}, expression{"end.messageExpr", n.End.MessageExpr})
	}
	if n.Wait != nil {
		out = append(out, expression{"wait.until", n.Wait.Until}, expression{"wait.match", n.Wait.Match})
		for i, w := range n.Wait.Any {
			at := "wait.any[" + strconv.Itoa(i) + "]."
			out = append(out, expression{at + "until", w.Until}, expression{at + "match", w.Match})
		}
	}
	for field, source := range n.Input {
		out = append(out, expression{"input." + field, source})
	}
	for target, source := range n.Output {
		out = append(out, expression{"output." + target, source})
	}
	slices.SortStableFunc(out, func(a, b expression) int { return cmp.Compare(a.field, b.field) })
	return out
}

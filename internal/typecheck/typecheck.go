// Package typecheck compares the types of task handlers with the definitions that use them: the fields that a node's input
// mapping fills with those of the handler's input, and the fields of its result that expressions read with those of the
// handler's output.
//
// It finds a task type that no handler performs, and a field that a handler does not have or does not give, a field that it needs and nobody fills, and a value of
// another type, as far as these are certain before a run: the type of an expression is known where it is one of
// literals and functions, where it names a part of the run's input that the definition's schema describes, and where it names a part
// of another node's output whose handler is known. Every problem is a warning: the definition can run.
package typecheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/expr"
	"github.com/pawl-run/pawl/internal/goschema"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/workflow"
)

// Types are what a handler takes and gives.
type Types struct {
	In  *goschema.Schema `json:"input"`
	Out *goschema.Schema `json:"output"`
}

// UnmarshalJSON reads what a handler takes and gives, and refuses it without one of both.
func (t *Types) UnmarshalJSON(data []byte) error {
	type plain Types // without this method
	if err := json.Unmarshal(data, (*plain)(t)); err != nil {
		return err
	}
	if t.In == nil || t.Out == nil {
		return errors.New("a task has no schema of its input, or of its output")
	}
	return nil
}

// A File is what pawl.WriteSchemas writes.
type File struct {
	Tasks  map[string]Types `json:"tasks"`  // by task type
	Others []string         `json:"others"` // names of the handlers without types, sorted; nil: the file does not tell
}

// Problems returns the problems of a definition with handlers, which are named by their task types, in the order of its
// nodes and transitions. It knows nothing of a task type that is not among them.
func Problems(g *compiled.Graph, handlers map[string]Types) []workflow.Problem {
	c := &checker{graph: g, handlers: handlers}
	for i := range g.Definition.Nodes {
		n := g.Nodes[g.Definition.Nodes[i].ID]
		for _, task := range tasksOf(n) {
			if types, ok := handlers[task]; ok {
				c.checkInput(n, task, types.In.Resolve())
			}
		}
		for _, m := range n.Input {
			c.checkReads(m.Program, nil, c.atNode(n, "input."+m.Name))
		}
		for _, m := range n.Output {
			c.checkReads(m.Program, n, c.atNode(n, "output."+m.Name))
		}
	}
	for _, n := range g.Definition.Nodes {
		for _, t := range g.Nodes[n.ID].Outgoing {
			c.checkTransition(t, g.Nodes[n.ID])
		}
	}
	return c.found
}

// Compare returns the problems of a definition with all handlers of a process, which are named by their task types: a task type that
// none of them performs, and then [Problems] with the types of some.
func Compare[F any](g *compiled.Graph, handlers map[string]F, types map[string]Types) []workflow.Problem {
	return append(findMissing(g, slices.Sorted(maps.Keys(handlers))), Problems(g, types)...)
}

// CompareFiles is Compare for the handlers that files tell of, each those of one process. It reports a task type that none performs only if all
// files tell of all handlers.
func CompareFiles(g *compiled.Graph, files []File) []workflow.Problem {
	names, types, all := map[string]bool{}, map[string]Types{}, len(files) > 0
	for _, f := range files {
		all = all && f.Others != nil
		maps.Copy(types, f.Tasks)
		for name := range f.Tasks {
			names[name] = true
		}
		for _, name := range f.Others {
			names[name] = true
		}
	}
	if !all {
		return Problems(g, types)
	}
	return Compare(g, names, types)
}

// maxNames bounds the names in a problem: each node may have a problem.
const maxNames = 10

// findMissing returns a problem for each task type of a node that has no handler of its name, nor one for all names.
func findMissing(g *compiled.Graph, names []string) []workflow.Problem {
	if slices.Contains(names, "*") {
		return nil
	}
	c, known := &checker{graph: g}, strings.Join(names[:min(len(names), maxNames)], ", ")
	if len(names) > maxNames {
		known += fmt.Sprintf(" and %d more", len(names)-maxNames)
	}
	for i := range g.Definition.Nodes {
		n := g.Nodes[g.Definition.Nodes[i].ID]
		for _, task := range tasksOf(n) {
			if !slices.Contains(names, task) {
				c.atNode(n, "task")(problem.HandlerMissing, "no handler performs %q: a run that comes there fails with %s; there are: %s", task, workflow.CodeUnknownTask, known)
			}
		}
	}
	return c.found
}

// A checker collects problems.
type checker struct {
	graph    *compiled.Graph
	handlers map[string]Types
	found    []workflow.Problem
}

// A site is where in the definition a problem is. It reports one.
type site func(code, format string, args ...any)

func (c *checker) atNode(n *compiled.Node, field string) site {
	return func(code, format string, args ...any) {
		line, column := n.Place(expr.Pass{}, field)
		c.found = append(c.found, workflow.Problem{Code: code, Message: fmt.Sprintf(format, args...), Node: n.ID, Field: field, Line: line, Column: column, Warning: true})
	}
}

func (c *checker) atTransition(t *compiled.Transition, field string) site {
	return func(code, format string, args ...any) {
		line, column := t.Place(expr.Pass{}, field)
		c.found = append(c.found, workflow.Problem{Code: code, Message: fmt.Sprintf(format, args...), Transition: t.ID, Field: field, Line: line, Column: column, Warning: true})
	}
}

// tasksOf returns the task types that a node has, or may choose.
func tasksOf(n *compiled.Node) []string {
	if n.Task != "" {
		return []string{n.Task}
	}
	return n.Tasks
}

// checkInput compares a node's input mapping with what the handler takes.
func (c *checker) checkInput(n *compiled.Node, task string, in *goschema.Schema) {
	if in.Type == "" {
		return
	}
	if in.Type != "object" {
		c.atNode(n, "task")(problem.HandlerType, "the handler of %q takes %s, and the input of a node is an object", task, in.Go)
		return
	}
	filled := map[string]bool{}
	for _, m := range n.Input {
		at := c.atNode(n, "input."+m.Name)
		p, name := in.Property(m.Name)
		if p == nil {
			if !in.IsOpen() {
				at(problem.HandlerType, "%s, which the handler of %q takes, has no such field%s", in.Go, task, in.Suggest(m.Name))
			}
			continue
		}
		filled[name] = true
		if got := c.typeOf(m.Program); !mayHold(got, p.Resolve().Type) {
			at(problem.HandlerType, "it is of type %s, and %s, which the handler of %q takes, is of type %s", got, p.Go, task, p.Resolve().Type)
		}
	}
	for _, name := range in.Required {
		if !filled[name] {
			c.atNode(n, "input")(problem.HandlerType, "%s is missing: the handler of %q needs %s", name, task, in.Properties[name].Go)
		}
	}
}

// checkTransition looks at what a transition reads of the result of the node that it leaves.
func (c *checker) checkTransition(t *compiled.Transition, from *compiled.Node) {
	result := from
	if t.Outcome == workflow.OnError {
		result = nil
	}
	c.checkReads(t.Condition, result, c.atTransition(t, "condition"))
	c.checkReads(t.Collection, result, c.atTransition(t, "foreach.collection"))
	c.checkReads(t.Source, result, c.atTransition(t, "synchronization.merge.source"))
}

// checkReads looks at the parts of outputs that an expression reads: of nodes.ID.output and, with a node whose output it
// is, of result.
func (c *checker) checkReads(p *expr.Program, result *compiled.Node, at site) {
	if p == nil || mayAsk(p.Source()) {
		return
	}
	for _, chain := range p.References() {
		owner, rest := c.outputOf(chain, result)
		if owner == nil || isAskedFor(p.Source(), chain) {
			continue
		}
		for _, task := range tasksOf(owner) {
			types, ok := c.handlers[task]
			if !ok {
				continue
			}
			if s, key := followSteps(types.Out, rest); key != "" {
				at(problem.HandlerType, "it reads %s, and %s, which the handler of %q returns, has no such field%s", strings.Join(chain, "."), s.Go, task, s.Suggest(key))
			}
		}
	}
}

// outputOf returns the node whose output a chain reads, and the steps into it.
func (c *checker) outputOf(chain []string, result *compiled.Node) (*compiled.Node, []string) {
	switch {
	case result != nil && chain[0] == "result":
		return result, chain[1:]
	case len(chain) > 2 && chain[0] == "nodes" && chain[2] == "output":
		return c.graph.Nodes[workflow.NodeID(chain[1])], chain[3:]
	default:
		return nil, nil
	}
}

// followSteps goes along steps into a schema. It returns the part that lacks a step, and the step; none where all are there, or nobody knows.
func followSteps(s *goschema.Schema, steps []string) (*goschema.Schema, string) {
	for _, step := range steps {
		s = s.Resolve()
		if s.Type != "" && s.Type != "object" {
			return s, step
		}
		p := s.Exact(step)
		if p == nil {
			if s.IsOpen() {
				return nil, ""
			}
			return s, step
		}
		s = p
	}
	return nil, ""
}

// mayAsk says whether an expression uses optional values, which ask for what may not be there.
func mayAsk(source string) bool {
	return strings.Contains(source, ".?") || strings.Contains(source, "[?")
}

// isAskedFor says whether has(...) asks for a part of a chain.
func isAskedFor(source string, chain []string) bool {
	for n := 2; n <= len(chain); n++ {
		if strings.Contains(source, "has("+strings.Join(chain[:n], ".")+")") {
			return true
		}
	}
	return false
}

// typeOf returns the type of an expression's value, by the names of JSON Schema; "" is not known.
func (c *checker) typeOf(p *expr.Program) string {
	if p == nil {
		return ""
	}
	if t := p.Type(); t != "" {
		return t
	}
	refs := p.References()
	if len(refs) != 1 || strings.Join(refs[0], ".") != strings.TrimSpace(p.Source()) {
		return ""
	}
	chain := refs[0]
	if chain[0] == "input" {
		return typeIn(c.graph.Definition.Input.Schema, chain[1:])
	}
	owner, rest := c.outputOf(chain, nil)
	if owner == nil || owner.Task == "" {
		return ""
	}
	s := c.handlers[owner.Task].Out
	for _, step := range rest {
		if s == nil {
			return ""
		}
		s = s.Exact(step)
	}
	if s == nil {
		return ""
	}
	return s.Resolve().Type
}

// typeIn returns the type of a part that a JSON Schema describes by properties alone.
func typeIn(schema any, steps []string) string {
	for _, step := range steps {
		m, _ := schema.(map[string]any)
		properties, _ := m["properties"].(map[string]any)
		schema = properties[step]
	}
	m, _ := schema.(map[string]any)
	t, _ := m["type"].(string)
	return t
}

// mayHold says whether a value of one type may be of another. A number may be an integer, and null counts as absent.
func mayHold(got, want string) bool {
	return got == "" || want == "" || got == want || got == "null" || got == "integer" && want == "number" || got == "number" && want == "integer"
}

package workflow

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/pawl-run/pawl/internal/problem"
)

// Validate returns a *DefinitionError with every problem of d that is not a warning, nil without such problems.
func (d *Definition) Validate() error { return d.completed().errorOf(d.Check()) }

// Check returns all problems of d, including warnings, in this order: those of the definition, of its nodes and of its
// transitions, in definition order, and then in the order of the text that was parsed. It takes time in proportion to
// the size of d, or n log n. It does not stop at the first problem.
func (d *Definition) Check() []Problem { return newChecker(d.completed()).checkAll() }

// errorOf returns an error for those problems that are not warnings. Problems keep their order.
func (d *Definition) errorOf(problems []Problem) error {
	errs := slices.DeleteFunc(slices.Clone(problems), func(p Problem) bool { return p.Warning })
	if len(errs) == 0 {
		return nil
	}
	return &DefinitionError{Name: d.Name, Problems: errs}
}

// A checker looks for the problems of a completed definition. Its functions report and go on, and none relies on what
// another has found to be in order: a node may lack its id, and a transition its ends.
type checker struct {
	def             *Definition
	limits          Limits
	bounded         Bounds // of its size
	compiler        *compiler
	graph           *adjacency
	binding         binding
	found           []finding
	stored          storedState
	source          int    // bytes of the expressions so far, each different one once
	literals        int    // bytes of the literal texts so far that were compiled
	wrongSchemas    int    // so far
	subschemas      int    // so far, of all schemas
	unknownKeywords int    // so far, of all schemas
	hash            string // of the definition, if it has no problem
	json            string // canonical
}

// A finding is a problem with its rank: that of what it belongs to. The rank is 0 for the definition, 1 + i for node
// i, and behind all nodes comes transition i: problems are sorted by it, whichever check found them first.
type finding struct {
	rank    int
	problem Problem
}

// newChecker returns a checker of a completed definition with the default bounds of its size.
func newChecker(d *Definition) *checker {
	return &checker{
		def: d, limits: d.Limits.withDefaults(DefaultLimits()), bounded: Bounds{}.withDefaults(), compiler: newCompiler(d),
		graph: newAdjacency(d), binding: newBinding(d),
	}
}

// checkAll makes all checks and returns what they found, in the order that Check promises. The parts are checked one
// by one, then what concerns several of them, then the form of the whole.
func (c *checker) checkAll() []Problem {
	// Each of these reports; none returns anything that the next would need.
	c.checkDefinition()
	// In definition order, so that the bounds of all expressions and schemas cut off the end.
	for i := range c.def.Nodes {
		c.checkNode(c.atNode(i), &c.def.Nodes[i])
	}
	for i := range c.def.Transitions {
		c.checkTransition(c.atTransition(i), &c.def.Transitions[i])
	}
	c.checkIDs()
	c.checkReachable()
	c.checkUnmatched()
	c.checkState()
	c.checkForbidden()
	c.checkCycles()
	c.checkGroups()
	c.checkReach()
	c.checkLoops()
	c.checkEncoding()
	// Problems at the same place stay in the order in which they were found.
	slices.SortStableFunc(c.found, func(a, b finding) int {
		p, q := &a.problem, &b.problem
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column))
	})
	problems := make([]Problem, len(c.found))
	for i, f := range c.found {
		problems[i] = f.problem
	}
	return problems
}

// checkEncoding finds what has no JSON form, in a definition without other problems. A definition with other problems
// would only repeat them here. The hash is made of the same bytes, so it is kept.
func (c *checker) checkEncoding() {
	for _, f := range c.found {
		if !f.problem.Warning {
			return
		}
	}
	data, err := c.def.MarshalJSON()
	if err != nil {
		c.reportProblem(c.atDefinition(), "", problem.InvalidValue, "%s", err)
		return
	}
	if most := c.bounded.Bytes; len(data) > most {
		c.reportProblem(c.atDefinition(), "", problem.TooLarge, "%d bytes as JSON are more than %d", len(data), most)
		return
	}
	c.hash, c.json = hashOf(data), string(data)
}

// A site is what a problem belongs to. It is what reportProblem needs to say where a problem is: by id and field, and
// by line and column if the definition was read from a text.
type site struct {
	rank       int
	node       NodeID
	transition TransitionID
	prefix     string // of fields, if there is no id
	places     places
}

// atDefinition is the site of what belongs to no node and no transition.
func (c *checker) atDefinition() site { return site{places: c.def.places} }

// atNode is the site of node i. A node without an id is named by its place in the list.
func (c *checker) atNode(i int) site {
	n := &c.def.Nodes[i]
	s := site{rank: 1 + i, node: n.ID, places: n.places}
	if n.ID == "" {
		s.prefix = "nodes[" + strconv.Itoa(i) + "]"
	}
	return s
}

// atTransition is the site of transition i, which has an id since the definition was completed.
func (c *checker) atTransition(i int) site {
	t := &c.def.Transitions[i]
	return site{rank: 1 + len(c.def.Nodes) + i, transition: t.ID, places: t.places}
}

// reportProblem adds a problem with a field of s. If the field was not written, as when it is missing, the place is
// that of the innermost part around it that was.
func (c *checker) reportProblem(s site, field, code, format string, args ...any) {
	at := s.places.findPlace(field)
	p := Problem{
		Code: code, Message: fmt.Sprintf(format, args...), Node: s.node, Transition: s.transition,
		Field: field, Line: at.Line, Column: at.Column,
	}
	if s.prefix != "" {
		// There is no id that would say where the field is.
		p.Field = s.prefix
		if field != "" {
			p.Field += "." + field
		}
	}
	c.found = append(c.found, finding{s.rank, p})
}

// reportWarning is report for a problem with which the definition can run.
func (c *checker) reportWarning(s site, field, code, format string, args ...any) {
	c.reportProblem(s, field, code, format, args...)
	c.found[len(c.found)-1].problem.Warning = true
}

// checkGraphIDs makes only the checks that compare ids, and returns those problems that need nothing but all ids of nodes to be known.
func (c *checker) checkGraphIDs() (problems []Problem) {
	c.checkStart(c.atDefinition())
	for i := range c.def.Nodes {
		c.checkReferences(c.atNode(i), "cancels", c.def.Nodes[i].Cancels)
		c.checkReferences(c.atNode(i), "needs", c.def.Nodes[i].Needs)
	}
	for i := range c.def.Transitions {
		c.checkEnds(c.atTransition(i), &c.def.Transitions[i])
	}
	c.checkIDs()
	for _, f := range c.found {
		if f.problem.Code == problem.Dangling || f.problem.Code == problem.DuplicateID {
			problems = append(problems, f.problem)
		}
	}
	return problems
}

// checkIDs finds those that are there twice. The second and each further one is reported. The other checks go by the
// first.
func (c *checker) checkIDs() {
	nodes := make(map[NodeID]bool, len(c.def.Nodes))
	for i := range c.def.Nodes {
		id := c.def.Nodes[i].ID
		if nodes[id] && id != "" {
			c.reportProblem(c.atNode(i), "id", problem.DuplicateID, "an earlier node has this id")
		}
		nodes[id] = true
	}
	transitions := make(map[TransitionID]bool, len(c.def.Transitions))
	for i := range c.def.Transitions {
		id := c.def.Transitions[i].ID
		if transitions[id] {
			c.reportProblem(c.atTransition(i), "id", problem.DuplicateID, "an earlier transition has this id")
		}
		transitions[id] = true
	}
}

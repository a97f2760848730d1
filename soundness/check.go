package soundness

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/workflow"
)

// Options bound the search. The zero value has the defaults.
type Options struct {
	States int // that are looked at; 0 means 3,000
	Plans  int // that are asked of the planner; 0 means 60,000
	Tokens int // of one run; 0 means 500. A run that makes more is not followed

	// StallAfter says that the engine fails runs that stall: a task without a time-out is then
	// no finding.
	StallAfter bool

	// Stop, if it is set, is asked between small steps of the work, in the goroutine that called
	// Check: once it has returned true the search ends, and the report says that it was ended. Each
	// other bound is one of numbers; a definition that is made for it may take hours within them.
	Stop func() bool
}

// withDefaults replaces bounds that are zero or negative by the defaults. Every bound is
// therefore positive in what follows: a search without an end is no option, since a definition
// with a counter in its state may have states without number.
func (o Options) withDefaults() Options {
	o.States, o.Plans, o.Tokens = cmp.Or(max(o.States, 0), 3_000), cmp.Or(max(o.Plans, 0), 60_000), cmp.Or(max(o.Tokens, 0), 500)
	return o
}

// The codes of a Finding.
const (
	Deadlock       = "deadlock"        // only joins that can never fire are left
	UnmeetableJoin = "unmeetable_join" // tokens come to a join, and it never fires
	ShadowedTier   = "shadowed_tier"   // an earlier tier always matches
	EndlessLoop    = "endless_loop"    // a run comes to where no end can be reached
	LeftoverTokens = "leftover_tokens" // an end is reached while tokens wait at a join
	ExpressionType = "expression_type" // an expression fails with every value that the schemas allow
	NoTimeout      = "no_timeout"      // a task may stay out for ever: a warning
)

// A Finding is one thing that is wrong with a definition.
// Node and Transition say where it is. A cycle that no run has shown has the code of the warning of
// Definition.Check, endless_cycle. There is at most one finding for each code and place,
// which addFinding sees to, so that a fault which a thousand states show is told once, by the
// state that was found first: the nearest one to the start.
type Finding struct {
	Code       string                `json:"code"`
	Message    string                `json:"message"`
	Node       workflow.NodeID       `json:"node,omitempty"`
	Transition workflow.TransitionID `json:"transition,omitempty"`
	Warning    bool                  `json:"warning,omitempty"`  // it may be meant so
	Scenario   string                `json:"scenario,omitempty"` // the shortest run that shows it, as a scenario file; a fault has one, unless a bound of the report says that some were left out

	source string // of the expression that fails; "" if it is about something else
}

// String returns the finding in one line.
func (f Finding) String() string {
	var b strings.Builder
	if f.Warning {
		b.WriteString("warning: ")
	}
	if f.Node != "" {
		fmt.Fprintf(&b, "node %q: ", string(f.Node))
	}
	if f.Transition != "" {
		fmt.Fprintf(&b, "transition %q: ", string(f.Transition))
	}
	fmt.Fprintf(&b, "%s (%s)", f.Message, f.Code)
	return b.String()
}

// A Report is what Check has found.
// It says nothing about values that were not tried: Complete is relative to the inputs, results
// and payloads that the type values makes up. Bounds is empty if and only if Complete is true.
type Report struct {
	Workflow string    `json:"workflow"`
	Findings []Finding `json:"findings,omitempty"` // faults before warnings, in definition order
	States   int       `json:"states"`             // that were looked at
	Complete bool      `json:"complete"`           // there are no others
	Bounds   []string  `json:"bounds,omitempty"`   // why there may be others, a sentence each
}

// Faults returns the findings that are not warnings.
// The command pawl check and the tests that want a sound definition go by them.
func (r Report) Faults() []Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Warning })
}

// String returns the report in a few lines.
func (r Report) String() string { return r.Text(0) }

// Text returns what String does, and counts so many warnings more, which validation has told of the definition.
func (r Report) Text(warnings int) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintln(&b, f)
	}
	faults := len(r.Faults())
	warnings += len(r.Findings) - faults
	if r.States == 0 && faults == 0 {
		fmt.Fprintf(&b, "%s: not checked, since no state was looked at, %s", r.Workflow, counted(warnings, "warning"))
	} else {
		fmt.Fprintf(&b, "%s: %s, %s, %s looked at", r.Workflow, counted(faults, "fault"), counted(warnings, "warning"), counted(r.States, "state"))
	}
	if r.Complete {
		b.WriteString(", all that the inputs tried lead to")
	}
	for _, bound := range r.Bounds {
		fmt.Fprintf(&b, "\nundecided: %s", bound)
	}
	return b.String()
}

// counted writes a number with its noun, in the singular for one.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Check looks for faults of a definition. It fails with a *workflow.DefinitionError if the
// definition is not valid.
//
// The checks come in an order that matters. The checks of the definition alone come first: the
// search asks isShadowed, so as not to complain that nothing was found for which a shadowed
// transition is taken. The search comes next, and checkExplored reads what it has left. The
// cycles of the definition are last, because a run that shows such a cycle says more than the
// sentence of Definition.Check does.
func Check(d *workflow.Definition, o Options) (Report, error) {
	if d == nil {
		d = &workflow.Definition{}
	}
	o = o.withDefaults()
	g, err := compiled.Compile(workflow.Bounds{}, d)
	if err != nil {
		return Report{}, err
	}
	// The graph that findings speak of is the one that was compiled here; the explorer plans on
	// one of its own, which has a smaller limit of tokens.
	c := &checker{graph: g, options: o}
	c.values = newValues(c)
	c.checkTypes()
	c.checkShadowed()
	x, err := newExplorer(c)
	if err != nil {
		return Report{}, err
	}
	x.explore()
	c.checkExplored(x)
	c.checkCycles(x)
	x.addScenarios()
	if !o.StallAfter {
		c.checkTimeouts()
	}
	c.sortFindings()
	return Report{Workflow: g.Definition.Name, Findings: c.findings, States: len(x.states), Complete: len(c.bounds) == 0, Bounds: c.bounds}, nil
}

// A checker collects findings.
//
// All checks of one call of Check share it, and it belongs to that call: nothing in it is safe
// for several goroutines.
type checker struct {
	graph    *compiled.Graph // of the definition as it was given
	options  Options
	values   *values
	findings []Finding // in the order in which they were found, until sortFindings
	bounds   []string  // why the search has not seen everything; "nothing was seen" proves something only if it is empty
	stopped  bool      // Options.Stop has said so
}

// isStopped reports whether the caller has ended the search. Each loop asks it whose steps may be many and dear: what it
// has found until then stands, and the bound keeps the report from concluding anything from what it has not seen.
func (c *checker) isStopped() bool {
	if !c.stopped && c.options.Stop != nil && c.options.Stop() {
		c.stopped = true
		c.addBound("the search was ended before it was done")
	}
	return c.stopped
}

// addFinding adds a finding, unless that place has one of that code.
func (c *checker) addFinding(f Finding) {
	for _, g := range c.findings {
		if g.Code == f.Code && g.Node == f.Node && g.Transition == f.Transition {
			return
		}
	}
	c.findings = append(c.findings, f)
}

// isShadowed reports whether a transition is one of a tier that was told of as never taken.
func (c *checker) isShadowed(id workflow.TransitionID) bool {
	return slices.ContainsFunc(c.findings, func(f Finding) bool { return f.Code == ShadowedTier && f.Transition == id })
}

// addBound adds a reason why the search is not complete, once.
//
// A bound is what keeps the report from saying that there is nothing more, so that every cut in
// the search must come here: one that is forgotten would make a promise of the report that
// nobody has kept.
func (c *checker) addBound(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(c.bounds, text) {
		c.bounds = append(c.bounds, text)
	}
}

// sortFindings puts faults before warnings and, among either, those of nodes in the order in
// which the definition has the nodes. The sort is stable: two findings at a node stay in the
// order of the checks.
func (c *checker) sortFindings() {
	rank := func(f Finding) int {
		// The shift is more than the index of any node, so that no warning comes before a
		// fault. A finding without a node counts as one of the first node.
		at := 0
		if f.Warning {
			at = 1 << 30
		}
		if n := c.graph.Node(f.Node); n != nil {
			at += n.Index
		}
		return at
	}
	slices.SortStableFunc(c.findings, func(a, b Finding) int { return cmp.Compare(rank(a), rank(b)) })
}

// checkTimeouts warns of tasks that nothing ends when their executor forgets them.
//
// A task that was dispatched waits for its result without an end, unless it, or its run, has a
// time-out, or it has a heartbeat. Such a task is not wrong: a person or a slow machine may be
// behind it. Hence a warning, and one for all tasks of the definition, at the first: a long
// list of the same sentence would hide the faults.
func (c *checker) checkTimeouts() {
	if c.graph.Definition.Timeout > 0 {
		return
	}
	var nodes []string
	var first workflow.NodeID
	for i := range c.graph.Definition.Nodes {
		if n := &c.graph.Definition.Nodes[i]; n.Kind() == workflow.KindTask && n.Timeout == 0 && n.Heartbeat == 0 {
			if nodes = append(nodes, string(n.ID)); first == "" {
				first = n.ID
			}
		}
	}
	if len(nodes) == 0 {
		return
	}
	const most = 5
	if len(nodes) > most {
		nodes = append(nodes[:most:most], fmt.Sprintf("and %d more", len(nodes)-most))
	}
	c.addFinding(Finding{
		Code: NoTimeout, Warning: true, Node: first,
		Message: "without a timeout or a heartbeat a task that never answers keeps its run for ever, unless the engine has StallAfter: " + strings.Join(nodes, ", "),
	})
}

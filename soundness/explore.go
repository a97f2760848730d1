package soundness

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// epoch is that of the engine that the explored runs seem to have.
const epoch workflow.Epoch = 1

// dawn is when they begin.
var dawn = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// A node of the search: a state of a run, and how a run comes there first.
type found struct {
	state  *state.State
	now    time.Time
	from   int  // the state before it; -1 for a first one
	by     move // what led here
	leads  []int
	stuck  bool // it waits for somebody whom the search does not play
	joined bool // it ended while tokens waited at joins
	depth  int
}

// An explorer looks at the states of a definition, breadth first.
type explorer struct {
	check    *checker
	graph    *workflow.Graph
	pins     workflow.Pins
	states   []*found
	byForm   map[string]int
	plans    int
	taken    map[workflow.TransitionID]bool // in some run
	wasTrue  map[workflow.TransitionID]bool // conditions that were asked: whether they were true for one of the values
	ended    map[workflow.NodeID]bool       // nodes that completed in some run
	fired    map[string]bool                // joins, by group or node, that fired as they should
	waited   map[string]int                 // the first state in which a token waits there
	leftover map[string]int                 // ends with which tokens were left at joins
	limited  bool
	failing  string // why the last move did not work, if an expression failed
}

// newExplorer compiles the definition anew, with fewer tokens for a run.
func newExplorer(c *checker) (*explorer, error) {
	d := *c.graph.Definition
	if d.Limits.Tokens == 0 || d.Limits.Tokens > c.options.Tokens {
		d.Limits.Tokens = c.options.Tokens
	}
	g, err := workflow.Boundless().Compile(&d)
	if err != nil {
		return nil, err
	}
	x := emptyExplorer(c, g)
	for i := range d.Nodes {
		if d.Nodes[i].Subworkflow == nil {
			continue
		}
		for _, s := range d.Nodes[i].Subworkflow.Choices() {
			if x.pins.Of(&s) == "" {
				x.pins = append(x.pins, workflow.Pin{Name: s.Name, Version: s.Version, Hash: "pinned"})
			}
		}
	}
	return x, nil
}

// emptyExplorer returns an explorer that has looked at nothing.
func emptyExplorer(c *checker, g *workflow.Graph) *explorer {
	return &explorer{
		check: c, graph: g, byForm: map[string]int{}, taken: map[workflow.TransitionID]bool{}, wasTrue: map[workflow.TransitionID]bool{}, ended: map[workflow.NodeID]bool{},
		fired: map[string]bool{}, waited: map[string]int{}, leftover: map[string]int{},
	}
}

// explore looks at all states, or as many as the bounds allow.
func (x *explorer) explore() {
	if !x.startRuns() {
		x.check.addBound("no input was found with which a run begins; give input a schema")
		return
	}
	for i := 0; i < len(x.states); i++ {
		if x.isOverBound() {
			return
		}
		x.expand(i)
	}
	x.addUntrue()
	if x.limited {
		x.check.addBound("runs that make more than %d tokens were not followed", x.graph.Limits.Tokens)
	}
}

// addUntrue adds the conditions that were asked, and true for no value that was made up: what is behind them was not looked
// at, and other values may lead there. Of comparisons with literals the values that are made up stand for all others; what a
// shadowed tier asks is told of as that.
func (x *explorer) addUntrue() {
	for i := range x.graph.Definition.Transitions {
		t := x.graph.Transition(x.graph.Definition.Transitions[i].ID)
		if was, asked := x.wasTrue[t.ID]; !asked || was || len(t.Condition.References()) == 0 || comparisons.MatchString(t.Condition.Source()) || x.check.isShadowed(t.ID) {
			continue
		}
		x.check.addBound("no value was found for which transition %q is taken: its condition is %s", string(t.ID), value.Shorten(t.Transition.Condition, 200))
	}
}

func (x *explorer) isOverBound() bool {
	switch o := x.check.options; {
	case len(x.states) >= o.States:
		x.check.addBound("only the first %d states were looked at", o.States)
	case x.plans >= o.Plans:
		x.check.addBound("only %d plans were made", o.Plans)
	default:
		return false
	}
	return true
}

// startRuns starts a run with each input that makes a difference, and reports whether one began.
func (x *explorer) startRuns() bool {
	for _, some := range x.check.values.inputs() {
		for _, v := range some {
			input, ok := v.(map[string]any)
			if v != nil && !ok {
				continue
			}
			before := &found{state: state.NewState("run", x.graph), now: dawn, from: -1}
			x.tryMove(-1, before, move{input: input, message: state.Start{Input: input, Pins: x.pins}})
		}
		if len(x.states) > 0 {
			return true
		}
	}
	return false
}

// expand makes every move from a state.
func (x *explorer) expand(i int) {
	f := x.states[i]
	if f.state.Status.Final() {
		return
	}
	moved := false
	for _, step := range x.movesFrom(f) {
		moved = x.tryStep(i, f, step) || moved
	}
	if !moved {
		f.stuck = true
	}
}

// tryStep makes the moves of the first list of which one works, and reports whether one did. If
// none does, because of what is told, the right value was not found; because of something else,
// an earlier value was wrong, or the run fails whatever it is told.
func (x *explorer) tryStep(i int, f *found, step [][]move) bool {
	x.failing = ""
	for _, some := range step {
		worked := false
		for _, m := range some {
			worked = x.tryMove(i, f, m) || worked
		}
		if worked {
			return true
		}
	}
	if len(step) > 0 && len(step[0]) > 0 && step[0][0].node != "" && asksForTold.MatchString(x.failing) {
		x.check.addBound("at node %q no value was found with which its expressions, and those behind it, can be evaluated; give it an outputSchema", string(step[0][0].node))
	}
	return false
}

// tryMove makes a move and keeps the state to which it leads, if that is new. It reports
// false if the planner refuses the message, or an expression fails: then it is the wrong value.
func (x *explorer) tryMove(i int, f *found, m move) bool {
	x.plans++
	f.state.Epoch = epoch
	now := f.now
	if alarm, ok := m.message.(state.AlarmFired); ok {
		now = time.UnixMilli(alarm.At).UTC()
	}
	plan, routes, err := planning.Explain(f.state, m.message, now)
	if err != nil {
		return false
	}
	for _, d := range plan.Decisions {
		if x.failing = failureWithValue(d); x.failing != "" {
			return false
		}
	}
	if isSignal(m.message) && !slices.ContainsFunc(plan.Decisions, takesSignal) {
		x.failing = "payload" // it does not match
		return false
	}
	next := &found{state: state.Restore(f.state.Graph, f.state.AllRows()), now: now, from: i, by: m, depth: f.depth + 1}
	next.state.Epoch = epoch
	record := &decision.Record{Seq: int64(next.depth), At: now, Epoch: epoch, Message: m.message}
	for _, n := range plan.Trace {
		if n.Transition != "" && n.Expression != "" {
			x.wasTrue[n.Transition] = x.wasTrue[n.Transition] || n.Result
		}
	}
	for _, d := range plan.Decisions {
		x.noteDecision(next, d)
		decision.Apply(next.state, d, record)
	}
	for _, r := range routes {
		x.ended[r.Node] = true
		for _, id := range r.Transitions {
			x.taken[id] = true
		}
	}
	x.keepState(i, next)
	return true
}

// asksForTold matches the message of a failure of an expression that asks for what was told, or
// of a schema of it.
var asksForTold = regexp.MustCompile(`\b(result|payload|merge)\b`)

// failureWithValue returns the message of a decision which says that an expression, a schema or
// the output could not do with a value: the search has made up a wrong one. It is "" for others.
func failureWithValue(d decision.Decision) string {
	var f workflow.Failure
	switch d := d.(type) {
	case decision.FailToken:
		f = d.Failure
	case decision.FailRun:
		f = d.Failure
	case decision.FailBranch:
		f = d.Failure
	case decision.FailGroup:
		f = d.Failure
	default:
		return ""
	}
	switch f.Code {
	case workflow.CodeExpression, workflow.CodeSchema, workflow.CodeMerge:
		return cmp.Or(f.Message, f.Code)
	}
	return ""
}

func isSignal(m state.Message) bool { _, ok := m.(state.Signal); return ok }

func takesSignal(d decision.Decision) bool { _, ok := d.(decision.TakeSignal); return ok }

// keepState keeps a state unless one of its form is there.
func (x *explorer) keepState(from int, next *found) {
	s := next.state
	if s.Failure != nil && s.Failure.Code == workflow.CodeLimit {
		x.limited = true
	}
	form := string(value.Encode(x.keptInput(s))) + formOf(s, x.check.values.keeps)
	at, known := x.byForm[form]
	if !known {
		at = len(x.states)
		x.byForm[form] = at
		x.states = append(x.states, next)
		x.noteWaiting(at, s)
	}
	if next.joined {
		x.noteLeftover(at, next)
	}
	if from >= 0 && !slices.Contains(x.states[from].leads, at) {
		x.states[from].leads = append(x.states[from].leads, at)
	}
}

// keptInput returns the fields of the input that can change where tokens go.
func (x *explorer) keptInput(s *state.State) map[string]any {
	out := map[string]any{}
	for k, v := range s.Input {
		if x.check.values.keeps("input", k) {
			out[k] = v
		}
	}
	return out
}

// joinName names a join: that of a sibling group, or of a node.
func joinName(group string, node workflow.NodeID) string {
	if group != "" {
		return "group " + group
	}
	return "node " + string(node)
}

// noteDecision notes joins that fire, before the decision is applied.
func (x *explorer) noteDecision(next *found, d decision.Decision) {
	s := next.state
	switch d := d.(type) {
	case decision.FireJoin:
		x.fired[joinName("", d.Node)] = true
	case decision.FireGroup:
		if !d.Shortfall {
			x.fired[joinName(s.Group(d.Group).Name, "")] = true
		}
	case decision.AwaitSiblings:
		at := joinName(s.Group(d.Scope.Group).Name, "")
		if _, ok := x.waited[at]; !ok {
			x.waited[at] = -1 // where is known once the state is kept
		}
	case decision.CompleteRun:
		next.joined = waitsAtJoin(s) // so that an end node ends the run
	default: // is of no interest
	}
}

// waitsAtJoin reports whether a token waits at a join.
func waitsAtJoin(s *state.State) bool {
	return s.CountByStatus(workflow.WaitingForJoin)+s.CountByStatus(workflow.WaitingForSiblings) > 0
}

// noteWaiting notes the joins at which tokens wait in a state, and the groups that gather.
func (x *explorer) noteWaiting(at int, s *state.State) {
	for id := workflow.TokenID(1); id < s.NextToken; id++ {
		t := s.Token(id)
		if t.Status == workflow.WaitingForJoin || t.Status == workflow.Cancelled && t.Via != "" && x.graph.Node(t.Node).Join != workflow.JoinNone {
			name := joinName("", t.Node)
			if _, ok := x.waited[name]; !ok {
				x.waited[name] = at
			}
		}
	}
	for id := workflow.GroupID(1); id < s.NextGroup; id++ {
		g := s.Group(id)
		if g.Name == "" || g.Total == 0 {
			continue
		}
		if first, ok := x.waited[joinName(g.Name, "")]; !ok || first < 0 {
			x.waited[joinName(g.Name, "")] = at
		}
	}
}

// noteLeftover notes an end with which tokens are left at joins.
func (x *explorer) noteLeftover(at int, next *found) {
	s := next.state
	for id := workflow.TokenID(1); id < s.NextToken; id++ {
		t := s.Token(id)
		if t.Status != workflow.Cancelled || t.Via == "" {
			continue
		}
		name := joinName("", t.Node)
		if tr := x.graph.Transition(t.Via); tr != nil && tr.Joins != nil {
			name = joinName(tr.Joins.Name, "")
		}
		if _, ok := x.leftover[name]; !ok {
			x.leftover[name] = at
		}
	}
}

// pathTo returns the states of the shortest run to a state, first to last.
func (x *explorer) pathTo(at int) (path []*found) {
	for ; at >= 0; at = x.states[at].from {
		path = append(path, x.states[at])
	}
	slices.Reverse(path)
	return path
}

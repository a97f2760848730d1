package soundness

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// epoch is that of the engine that the explored runs seem to have.
// It never changes: an explored run is never taken over by another process, so that no result
// can come from an earlier epoch.
const epoch state.Epoch = 1

// dawn is when they begin.
// It is a fixed instant, because reports must not differ from day to day; each finding's
// scenario counts its time from here.
var dawn = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// A node of the search: a state of a run, and how a run comes there first. States are kept in
// the order in which they were found, so that from is smaller than the state's own index, and
// following it always comes to a start. leads and stuck are set as the search goes on, all else
// when the state is made.
type found struct {
	state  *state.State
	now    time.Time
	from   int   // the state before it; -1 for a first one
	by     move  // what led here
	leads  []int // the states to which moves from here lead, each once, in the order in which they were found
	stuck  bool  // it waits for somebody whom the search does not play
	joined bool  // it ended while tokens waited at joins
	depth  int   // messages up to here, the start included: the sequence of the last record
}

// An explorer looks at the states of a definition, breadth first.
//
// It is a transcript of what happened in any run, besides a list of states: taken, ended,
// fired, waited and leftover collect facts over all moves, also over those which lead to a
// state that is known. The checks in faults.go read them when the search is over.
type explorer struct {
	check    *checker
	graph    *compiled.Graph
	pins     state.Pins
	states   []*found                       // in the order in which they were found; those from explore's index on wait to be expanded
	byForm   map[string]int                 // the index of the state of each form, which is what makes two states one
	plans    int                            // messages for which the planner was asked, those that it refused included
	taken    map[workflow.TransitionID]bool // in some run
	wasTrue  map[workflow.TransitionID]bool // conditions that were asked: whether they were true for one of the values
	ended    map[workflow.NodeID]bool       // nodes that completed in some run
	endedAt  map[workflow.NodeID]int        // the first state behind that
	failed   map[string]*found              // the first failure of each expression that does not fit its schemas
	fired    map[string]bool                // joins, by group or node, that fired as they should
	waited   map[string]int                 // the first state in which a token waits there
	leftover map[string]int                 // ends with which tokens were left at joins
	limited  bool                           // some run failed at the limit of tokens, and what comes behind that was not seen
	cut      map[workflow.NodeID]*found     // the first run that failed at a limit since it went round through the node for ever
	lowered  bool                           // the limit of tokens is that of the search, and the engine's is higher
	rings    map[int]int                    // of each state that has an alarm, the state to which the earliest leads
	rung     map[int]bool                   // states in which the later alarms have fired as well
	over     bool                           // the search ended at a bound among later alarms
	missed   *miss                          // why the moves of a step did not work, if an expression failed
	refused  error                          // why the planner has refused the last one
	told     map[string]bool                // misses that are told
	text     string                         // of the definition, for scenarios; "" if none was written
	written  int                            // bytes of scenarios
}

// newExplorer compiles the definition anew, with fewer tokens for a run.
//
// A definition that makes tokens without an end would otherwise fill the memory with one state.
// The planner fails a run that reaches the limit, as the engine would, and keepState notes that
// this was the bound of the search and not the definition's.
func newExplorer(c *checker) (*explorer, error) {
	d := *c.graph.Definition
	lowered := d.Limits.Tokens == 0 || d.Limits.Tokens > c.options.Tokens
	if lowered {
		d.Limits.Tokens = c.options.Tokens
	}
	// The definition passed workflow.Compile in Check; only the smaller limit is new.
	g, err := compiled.Compile(compiled.Boundless(), &d)
	if err != nil {
		return nil, err
	}
	x := emptyExplorer(c, g)
	x.lowered = lowered
	for i := range d.Nodes {
		if d.Nodes[i].Subworkflow == nil {
			continue
		}
		// The planner wants a pin for each child definition that a node may choose. Children
		// are never run: a move says how they end, and any hash will do.
		for _, s := range state.Pinned(d.Nodes[i].Subworkflow) {
			if x.pins.Of(&s) == "" {
				x.pins = append(x.pins, state.Pin{Name: s.Name, Version: s.Version, Hash: "pinned"})
			}
		}
	}
	return x, nil
}

// emptyExplorer returns an explorer that has looked at nothing.
//
// moveBetween uses one for a single step, so that the facts of the search stay as they are.
func emptyExplorer(c *checker, g *compiled.Graph) *explorer {
	return &explorer{
		check: c, graph: g, byForm: map[string]int{}, taken: map[workflow.TransitionID]bool{}, wasTrue: map[workflow.TransitionID]bool{}, ended: map[workflow.NodeID]bool{}, endedAt: map[workflow.NodeID]int{}, failed: map[string]*found{},
		fired: map[string]bool{}, waited: map[string]int{}, leftover: map[string]int{}, told: map[string]bool{}, cut: map[workflow.NodeID]*found{}, rings: map[int]int{}, rung: map[int]bool{},
	}
}

// explore looks at all states, or as many as the bounds allow.
//
// The slice of states is the queue. A state is appended when it is new, and the loop comes to
// it once all that were found before have been expanded: this is breadth first, and makes from,
// and thus every scenario, the shortest way.
func (x *explorer) explore() {
	if !x.startRuns() {
		if x.check.isStopped() {
			return
		}
		x.tellNoInput()
		return
	}
	for i := 0; i < len(x.states) || x.ringOvertaken(); i++ {
		// The bound is asked before a state is expanded, so that a search may go beyond it by
		// the moves of one state.
		if x.isOverBound() {
			return
		}
		x.expand(i)
	}
	// The last states were perhaps not expanded in full: what was not seen there proves nothing.
	if x.over || x.check.isStopped() {
		return
	}
	x.addUntrue()
	// That is said once for the definition, not for each run that was cut.
	if x.limited {
		x.check.addBound("runs that make more than %d threads were not followed", x.graph.Limits.Tokens)
	}
}

// addUntrue adds the conditions that were asked, and true for no value that was made up: the nodes behind them were not
// looked at, and other values may lead there. It leaves out comparisons with literals, where the made-up values stand for
// all others, and the conditions of a shadowed tier, which is told as that.
func (x *explorer) addUntrue() {
	for i := range x.graph.Definition.Transitions {
		t := x.graph.Transition(x.graph.Definition.Transitions[i].ID)
		if was, asked := x.wasTrue[t.ID]; !asked || was || len(t.Condition.References()) == 0 || comparisons.MatchString(t.Condition.Source()) || x.check.isShadowed(t.ID) {
			continue
		}
		x.check.addBound("no value was found for which transition %q is taken: its condition is %s", string(t.ID), value.Shorten(t.Transition.Condition, 200))
	}
}

// isOverBound says whether the search has to stop, and notes why.
func (x *explorer) isOverBound() bool {
	switch o := x.check.options; {
	case len(x.states) >= o.States:
		x.check.addBound("not all states were looked at: the search ends at %d", o.States)
	case x.plans >= o.Plans:
		x.check.addBound("only %d plans were made", o.Plans)
	case x.check.isStopped():
	default:
		return false
	}
	return true
}

// startRuns starts a run with each input that makes a difference, and reports whether one began.
//
// The inputs come in lists that differ in fields which decide nothing. The first list with
// which a run begins is enough; the others are there because the schema, or an expression, may
// refuse the first.
func (x *explorer) startRuns() bool {
	for _, some := range x.check.values.inputs() {
		for _, v := range some {
			input, ok := v.(map[string]any)
			// An input is an object or absent.
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
//
// A final state leads nowhere. One from which no message is taken, though it is not final,
// waits for something that the search does not play, such as an operator who retries a parked
// task: it is stuck, which checkEnds takes for an end and not for an endless loop.
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

// ringOvertaken lets later alarms fire in the states to which moves lead back behind their earliest alarm, and reports whether that
// led to new states: there are timers that begin anew as they end. The forms of the states do not tell how long the later ones
// still have, and the earliest would overtake them for ever.
func (x *explorer) ringOvertaken() (more bool) {
	known, circles := len(x.states), x.numberCircles()
	for at := range known {
		if to, rings := x.rings[at]; !rings || x.rung[at] || circles[to] != circles[at] {
			continue
		}
		if x.over = x.isOverBound(); x.over {
			return false
		}
		x.rung[at] = true
		f := x.states[at]
		late := []time.Time{f.state.Due}
		for _, it := range f.state.DueBy(f.now.Add(timeout.MaxWait)) {
			late = append(late, it.At)
		}
		slices.SortFunc(late, time.Time.Compare)
		for _, due := range slices.Compact(late) {
			if due.After(f.state.Alarm()) {
				x.tryMove(at, f, move{message: state.AlarmFired{At: due.UnixMilli()}})
			}
		}
	}
	return len(x.states) > known
}

// numberCircles numbers the states so that those have the same number from each of which moves lead to the others: Kosaraju, as
// in Sharir, A strong-connectivity algorithm and its applications in data flow analysis, 1981.
func (x *explorer) numberCircles() []int {
	n := len(x.states)
	back := make([][]int, n)
	for at, f := range x.states {
		for _, to := range f.leads {
			back[to] = append(back[to], at)
		}
	}
	numbers, next := make([]int, n), 0
	for _, root := range slices.Backward(x.listFinished()) {
		if numbers[root] != 0 {
			continue
		}
		next++
		numbers[root] = next
		for work := []int{root}; len(work) > 0; {
			at := work[len(work)-1]
			work = work[:len(work)-1]
			for _, from := range back[at] {
				if numbers[from] == 0 {
					numbers[from] = next
					work = append(work, from)
				}
			}
		}
	}
	return numbers
}

// listFinished lists the states depth first, each behind those to which its moves lead, but for circles.
func (x *explorer) listFinished() (out []int) {
	seen, taken := make([]bool, len(x.states)), make([]int, len(x.states)) // taken counts the moves of a state that were followed
	for root := range x.states {
		if seen[root] {
			continue
		}
		seen[root] = true
		for work := []int{root}; len(work) > 0; {
			at := work[len(work)-1]
			if taken[at] == len(x.states[at].leads) {
				out, work = append(out, at), work[:len(work)-1]
				continue
			}
			to := x.states[at].leads[taken[at]]
			taken[at]++
			if !seen[to] {
				seen[to] = true
				work = append(work, to)
			}
		}
	}
	return out
}

// tryStep makes the moves of the first list in which one works, and reports whether one did. If
// none does, the right value was not found, in this message or in an earlier one.
//
// A step is one thing that can happen, such as the completion of a task; its lists are the
// values with which it may happen. All values of a list are tried, for each may lead elsewhere;
// the later lists are tried only if the whole list failed, because they vary what decides
// nothing.
func (x *explorer) tryStep(i int, f *found, step [][]move) bool {
	x.missed = nil
	for _, some := range step {
		worked := false
		for _, m := range some {
			worked = x.tryMove(i, f, m) || worked
		}
		if worked {
			return true
		}
	}
	// An earlier value may be to blame, which the failing expression may read by way of state: there may be states
	// behind this move that were never seen, and the report must not be called complete.
	switch {
	case x.check.isStopped(): // it was not tried
	case x.missed == nil || len(step) == 0 || len(step[0]) == 0: // the planner does not take it here
	case x.check.values.failsForInput(x.missed.failure.Message): // other inputs are tried as well
	default:
		x.tellNoValue(step[0][0].node)
	}
	return false
}

// tryMove makes a move and keeps the state to which it leads, if that is new. It reports
// false if the planner refuses the message, or an expression fails: then it is the wrong value.
//
// A move is played exactly as the engine plays it: the planner plans, and the decisions are
// applied in their order, by the same functions. This is why a finding is a run that can
// happen. The state from which the move is made stays as it is, since others are made from it:
// the decisions are applied to a restored copy.
func (x *explorer) tryMove(i int, f *found, m move) bool {
	if x.check.isStopped() {
		return false
	}
	// A refused move counts as well: the bound is one of work.
	x.plans++
	f.state.Epoch = epoch
	now := f.now
	// An alarm is the only move that takes time. All others happen at the instant of the state
	// before them, which keeps instants out of the question whether two states are alike.
	alarm, isAlarm := m.message.(state.AlarmFired)
	if isAlarm {
		now = time.UnixMilli(alarm.At).UTC()
	}
	plan, routes, err := planning.Explain(f.state, m.message, now)
	if err != nil {
		x.refused = err
		return false
	}
	// The value was wrong, not the definition: the move is as if it had not been made, and
	// nothing of it is noted.
	if failure, after := firstMiss(plan.Decisions); failure != nil {
		x.noteMiss(failure, after)
		x.noteFailed(i, f, m, now, plan.Decisions)
		return false
	}
	// A transient signal that nobody takes changes nothing, and would be a move in a circle.
	if isSignal(m.message) && !slices.ContainsFunc(plan.Decisions, takesSignal) {
		x.noteMiss(&workflow.Failure{Node: m.node, Message: "no payload was found that its match accepts"}, 0)
		return false
	}
	next := &found{state: state.Restore(f.state.Graph, f.state.AllRows()), now: now, from: i, by: m, depth: f.depth + 1}
	next.state.Epoch = epoch
	record := &decision.Record{Seq: int64(next.depth), At: now, Epoch: epoch, Message: m.message}
	// The trace has each condition that was evaluated, those that were false included;
	// addUntrue needs both.
	for _, n := range plan.Trace {
		if n.Transition != "" && n.Expression != "" {
			x.wasTrue[n.Transition] = x.wasTrue[n.Transition] || n.Result
		}
	}
	// A decision is noted before it is applied: the group of a join that fires and the tokens
	// that an end cuts off are still there.
	for _, d := range plan.Decisions {
		x.noteDecision(next, d)
		decision.Apply(next.state, d, record)
	}
	// The routes have the transitions that were taken, of each node that completed in this
	// move.
	for _, r := range routes {
		x.ended[r.Node] = true
		for _, id := range r.Transitions {
			x.taken[id] = true
		}
	}
	at := x.keepState(i, next)
	if _, known := x.rings[i]; isAlarm && !known { // the earliest is tried first
		x.rings[i] = at
	}
	for _, r := range routes {
		if _, known := x.endedAt[r.Node]; !known {
			x.endedAt[r.Node] = at
		}
	}
	x.noteSpinning(next)
	return true
}

// noteFailed keeps the first run in which an expression fails that was found not to fit its schemas.
func (x *explorer) noteFailed(i int, f *found, m move, now time.Time, decisions []decision.Decision) {
	failure, _ := firstMiss(decisions)
	for _, g := range x.check.findings {
		if g.source == "" || x.failed[g.source] != nil || !strings.HasPrefix(failure.Message, g.source+": ") {
			continue
		}
		next := &found{state: state.Restore(f.state.Graph, f.state.AllRows()), now: now, from: i, by: m, depth: f.depth + 1}
		record := &decision.Record{Seq: int64(next.depth), At: now, Epoch: epoch, Message: m.message}
		for _, d := range decisions {
			decision.Apply(next.state, d, record)
		}
		x.failed[g.source] = next
	}
}

// addScenarios adds a run to findings that were made without one: in which the expression fails, or in which the node completes and
// an earlier tier is taken. A fault that no run shows is a warning: perhaps none comes to where it is.
func (x *explorer) addScenarios() {
	for i := range x.check.findings {
		g := &x.check.findings[i]
		at, ended := x.endedAt[g.Node]
		switch f := x.failed[g.source]; {
		case g.Scenario != "" || g.Warning:
		case g.source != "" && f != nil:
			g.Scenario = x.scenarioOf(append(x.pathTo(f.from), f), g.Code, string(g.Node))
		case g.Code == ShadowedTier && ended:
			g.Scenario = x.scenarioTo(x.endFrom(at), g.Code, string(g.Node))
		default:
			g.Warning, g.Message = true, g.Message+"; no run was found that shows it"
		}
		if g.Scenario == unwritten {
			g.Scenario = ""
		}
	}
}

// firstMiss returns the first failure of a plan for which a made-up value is to blame, and how many decisions come before it; nil if there
// is none.
func firstMiss(decisions []decision.Decision) (f *workflow.Failure, after int) {
	for i, d := range decisions {
		if failure := failureWithValue(d); failure != nil {
			return failure, i
		}
	}
	return nil, 0
}

// failureWithValue returns the failure of a decision which says that an expression, a schema or
// the output could not do with a value: the search has made up a wrong one. It is nil for others.
func failureWithValue(d decision.Decision) *workflow.Failure {
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
		return nil
	}
	switch f.Code {
	case workflow.CodeExpression, workflow.CodeSchema, workflow.CodeMerge:
		f.Message = cmp.Or(f.Message, f.Code)
		return &f
	}
	return nil
}

// A signal is taken by a token whose match is true; without one it would be kept, and its time
// to live would end.
func isSignal(m state.Message) bool { _, ok := m.(state.Signal); return ok }

func takesSignal(d decision.Decision) bool { _, ok := d.(decision.TakeSignal); return ok }

// isCut reports whether a run has failed at the limit of tokens of the search. No run of an engine comes to this end: it
// goes on until it has made as many tokens as the engine allows, which may take it minutes.
func (x *explorer) isCut(s *state.State) bool {
	return x.lowered && s.Failure != nil && s.Failure.Code == workflow.CodeLimit && strings.HasPrefix(s.Failure.Message, "limit tokens: ")
}

// keepState keeps a state unless one of its form is there, and returns which it is.
//
// Three things are done for a known state as well, because the move to it is new: the limit,
// the tokens that were left over, and the edge from the state before it, for the graph of
// checkEnds.
func (x *explorer) keepState(from int, next *found) (at int) {
	s := next.state
	if s.Failure != nil && s.Failure.Code == workflow.CodeLimit {
		x.limited = true
	}
	// Two states whose inputs differ where an expression looks are not one: a run keeps its
	// input to the end.
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
	return at
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

// pathTo returns the states of the shortest run to a state, first to last.
//
// It follows from, and begins with the state that the start has led to.
func (x *explorer) pathTo(at int) (path []*found) {
	for ; at >= 0; at = x.states[at].from {
		path = append(path, x.states[at])
	}
	slices.Reverse(path)
	return path
}

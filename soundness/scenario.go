package soundness

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A script is a run as a scenario tells it: what each call of a task comes to, and what happens
// from outside.
//
// The search has messages and states; a scenario has mocks that answer after a delay, and
// events at instants of virtual time. A script is what is between: addCalls sees tasks begin,
// addMove sees them answered and everything else happen, and writeScenario prints both.
type script struct {
	calls   map[workflow.NodeID][]*call // of each node, in the order in which they were handed out, which is the order in which the scenario's mocks are used
	stands  map[string]*stand           // in the place of the subworkflows that have runs, by name
	pending map[workflow.TokenID]*call  // those without an answer so far
	events  []string
	now     time.Duration               // of the scenario
	late    map[time.Time]time.Duration // how far behind the search the scenario is at what is due, by when that is in the search
}

// A call is one attempt of a task.
type call struct {
	since time.Duration // when it was handed out
	delay time.Duration // from then to the answer
	text  string        // of what it comes to; "" if it never answers
}

// never is how long a task takes that does not answer.
const never = 10_000 * time.Hour

// scenarioTo writes the shortest run to a state as a scenario, which expects that state.
//
// A run that has not ended at this state would leave the scenario waiting: it is cancelled at once, before anything else happens.
func (x *explorer) scenarioTo(at int, code, place string) string {
	return x.scenarioOf(x.pathTo(at), code, place)
}

// maxWritten bounds the bytes of all scenarios of a report: each has the definition, which may be large, and there may be one for
// each node.
const maxWritten = 64 << 20

// unwritten stands for the scenario of a finding that a run has shown, and for which there was no room or time.
const unwritten = "unwritten"

// hasRoom reports whether another scenario may be written. The reason why it may not is noted.
func (x *explorer) hasRoom() bool {
	if x.text == "" {
		definition, err := json.Marshal(x.check.graph.Definition)
		if err != nil {
			return false
		}
		x.text = unescaped.Replace(string(definition))
	}
	if x.written > 0 && x.written+len(x.text) > maxWritten {
		x.check.addBound("the scenarios of some faults were left out: all together have at most %d bytes", maxWritten)
		return false
	}
	return !x.check.isStopped()
}

// scenarioOf writes a run as a scenario, which expects how it stands at its end.
func (x *explorer) scenarioOf(path []*found, code, place string) string {
	if !x.hasRoom() {
		return unwritten
	}
	s := scriptOf(path)
	last := path[len(path)-1].state
	expect := fmt.Sprintf("  status: %v\n", last.Status)
	if last.Failure != nil {
		expect += fmt.Sprintf("  error: {code: %s}\n", quoted(last.Failure.Code))
	}
	if !last.Status.Final() { // the run is not over: it is ended from outside
		s.events = append(s.events, fmt.Sprintf("  - {at: %v, cancel: true}", s.now))
		expect = "  status: cancelled\n"
	}
	return x.writeScenario(fmt.Sprintf("%s at %s", code, place), path[0].by.input, s, expect)
}

// loopFrom writes a run that comes to a state and from there twice to where it was before.
//
// A cycle needs to be gone round to be believed. The states of the search are known by their
// forms, so that an edge back into a known state is not a message with the tokens of this run:
// each step is played anew, by moveBetween. It follows the first edge of each state, for at
// most 200 steps, until it has been in one state for the third time.
func (x *explorer) loopFrom(at int, place string) string {
	if !x.hasRoom() {
		return unwritten
	}
	path := x.pathTo(at)
	seen := map[int]int{}
	for range 200 {
		seen[at]++
		leads := x.states[at].leads
		if seen[at] > 2 || len(leads) == 0 {
			break
		}
		next := leads[0]
		f := x.moveBetween(next, path[len(path)-1])
		if f == nil {
			break
		}
		path, at = append(path, f), next
	}
	s := scriptOf(path)
	s.events = append(s.events, fmt.Sprintf("  - {at: %v, cancel: true}", s.now))
	return x.writeScenario(fmt.Sprintf("%s at %s", EndlessLoop, place), path[0].by.input, s, "  status: cancelled\n")
}

// moveBetween makes the move of a run that leads to a state of the form of to; nil if none does.
//
// Only the forms are equal, not the tokens: the move is looked for among those that the run can
// make now.
func (x *explorer) moveBetween(to int, run *found) *found {
	probe := emptyExplorer(x.check, x.graph)
	own := *run // the moves that are tried lead to states of the probe
	own.leads = nil
	probe.states = []*found{&own}
	probe.expand(0)
	want := formOf(x.states[to].state, x.check.values.keeps)
	for _, f := range probe.states[1:] {
		if formOf(f.state, x.check.values.keeps) == want {
			return f
		}
	}
	return nil
}

// scriptOf makes a script of a run. A move is a millisecond behind the one before it, so that they
// come in their order, and before the next timer, for which the search takes no time; an alarm comes when it comes.
func scriptOf(path []*found) *script {
	s := &script{calls: map[workflow.NodeID][]*call{}, stands: map[string]*stand{}, pending: map[workflow.TokenID]*call{}, late: map[time.Time]time.Duration{}}
	for i, f := range path {
		if i > 0 {
			s.addMove(path[i-1], f)
		}
		s.addCalls(f.state)
		s.addTimers(f)
	}
	// A task that was never answered in the run must not answer in the scenario.
	for _, calls := range s.calls {
		for _, c := range calls {
			if c.text == "" {
				c.delay = never
			}
		}
	}
	return s
}

// addMove notes the move from one state to the next.
func (s *script) addMove(before, after *found) {
	// Time has passed: the move was an alarm, and nothing is told. In the scenario it comes later, as what has made the
	// timer did.
	if waited := after.now.Sub(before.now); waited > 0 {
		s.now = max(s.now, after.now.Sub(dawn)+s.late[after.now])
		return
	}
	s.now += time.Millisecond
	switch m := after.by.message.(type) {
	case state.TaskCompleted:
		s.answer(m.Token, "output: "+jsonText(m.Output))
	case state.TaskFailed:
		s.answer(m.Token, failureText(m.Failure.Code))
	case state.Signal:
		s.events = append(s.events, fmt.Sprintf("  - {at: %v, signal: {name: %s, payload: %s, ttl: 0s}}", s.now, quoted(m.Name), jsonText(m.Payload)))
	case state.Ballot:
		s.events = append(s.events, fmt.Sprintf("  - {at: %v, vote: {%s, by: %s, approved: %t}}", s.now, voteTarget(before.state, m.Token, after.by.node), m.By, m.Approved))
	case state.CloseGroup:
		s.events = append(s.events, fmt.Sprintf("  - {at: %v, closeGroup: {%s}}", s.now, groupTarget(before.state, m.Group, m.Origin)))
	case state.AddBranch:
		s.events = append(s.events, fmt.Sprintf("  - {at: %v, addBranch: {%s, item: %s}}", s.now, groupTarget(before.state, m.Group, m.Origin), jsonText(m.Item)))
	case state.ChildEnded:
		if m.Failure != nil {
			s.answer(m.Token, failureText(m.Failure.Code))
		} else {
			s.answer(m.Token, "output: "+jsonText(s.standFor(before.state, before.state.Token(m.Token)).resultFor(m.Output)))
		}
	default: // time, which was told above, and the start
	}
}

// failureText is a call of a task that fails for good.
func failureText(code string) string {
	return fmt.Sprintf("error: {code: %s, message: made up, retryable: false}", quoted(code))
}

// voteTarget says whose approval a vote is on: that at its node, or, where several are open there, that of the token.
func voteTarget(st *state.State, id workflow.TokenID, node workflow.NodeID) string {
	text := "node: " + quoted(string(node))
	for _, other := range st.LiveTokens() {
		if t := st.Token(other); other != id && t.Node == node && t.Status == workflow.WaitingForApproval {
			return fmt.Sprintf("%s, token: %d", text, id)
		}
	}
	return text
}

// groupTarget says what group an event is about: that of the name, or, where several gather, that which a token began.
func groupTarget(st *state.State, name string, origin workflow.TokenID) string {
	text := "group: " + quoted(name)
	for id := workflow.GroupID(1); id < st.NextGroup; id++ {
		if g := st.Group(id); g.Name == name && g.Phase == workflow.Gathering && g.Origin != origin {
			return fmt.Sprintf("%s, origin: %d", text, origin)
		}
	}
	return text
}

// answer ends the call of a token. The delay is counted from when the call began, so that the
// mock answers at this instant.
func (s *script) answer(id workflow.TokenID, text string) {
	if c := s.pending[id]; c != nil {
		c.delay, c.text = s.now-c.since, text
		delete(s.pending, id)
	}
}

// addTimers notes how late the timers are that a state has.
func (s *script) addTimers(f *found) {
	behind := s.now - f.now.Sub(dawn)
	note := func(at time.Time) {
		if _, known := s.late[at]; !known && !at.IsZero() {
			s.late[at] = behind
		}
	}
	for _, id := range f.state.LiveTokens() {
		note(f.state.Token(id).Alarm())
	}
	note(f.state.Alarm())
}

// addCalls notes the tasks and children that were handed out, in the order of their tokens.
func (s *script) addCalls(st *state.State) {
	for _, id := range st.LiveTokens() {
		t := st.Token(id)
		// A token with a call that is not answered yet is the same attempt as in the state
		// before.
		out := t.Status == workflow.Dispatched || t.Status == workflow.WaitingForChild
		if !out || s.pending[id] != nil {
			continue
		}
		task := t.Node
		if t.Status == workflow.WaitingForChild {
			task = s.standFor(st, t).task
		}
		c := &call{since: s.now}
		s.pending[id] = c
		s.calls[task] = append(s.calls[task], c)
	}
}

// writeScenario prints the file: the definition in one line of JSON, which is YAML as well,
// then what goes in, what happens, and what is expected. Nodes come sorted, for the text of a
// report must not differ from one check to the next.
func (x *explorer) writeScenario(title string, input map[string]any, s *script, expect string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "scenario: %s\n", quoted(title))
	fmt.Fprintf(&b, "definition: %s\n", x.text)
	if !s.writeStands(&b, x.check.graph) {
		return ""
	}
	if len(input) > 0 {
		fmt.Fprintf(&b, "input: %s\n", jsonText(input))
	}
	if len(s.calls) > 0 {
		b.WriteString("mocks:\n")
	}
	for _, node := range slices.Sorted(maps.Keys(s.calls)) {
		fmt.Fprintf(&b, "  %s:\n", quoted(string(node)))
		for _, c := range s.calls[node] {
			if c.text == "" {
				fmt.Fprintf(&b, "    - {delay: %v}\n", c.delay)
			} else {
				fmt.Fprintf(&b, "    - {%s, delay: %v}\n", c.text, c.delay)
			}
		}
	}
	if len(s.events) > 0 {
		fmt.Fprintf(&b, "events:\n%s\n", strings.Join(s.events, "\n"))
	}
	b.WriteString("expect:\n" + expect)
	x.written += b.Len()
	return b.String()
}

// unescaped undoes what JSON for HTML escapes: people read it.
var unescaped = strings.NewReplacer(`\\`, `\\`, `\u003e`, ">", `\u003c`, "<", `\u0026`, "&")

func jsonText(v any) string { return string(value.Encode(v)) }

func quoted(text string) string { return jsonText(text) }

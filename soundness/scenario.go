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
type script struct {
	calls   map[workflow.NodeID][]*call
	pending map[workflow.TokenID]*call
	events  []string
	now     time.Duration // of the scenario
}

// A call is one attempt of a task.
type call struct {
	since time.Duration
	delay time.Duration
	text  string // of what it comes to; "" if it never answers
}

// never is how long a task takes that does not answer.
const never = 10_000 * time.Hour

// scenarioTo writes the shortest run to a state as a scenario, which expects that state.
func (x *explorer) scenarioTo(at int, code, place string) string {
	path := x.pathTo(at)
	s := scriptOf(path)
	last := path[len(path)-1].state
	expect := fmt.Sprintf("  status: %v\n", last.Status)
	if last.Failure != nil {
		expect += fmt.Sprintf("  error: {code: %s}\n", quoted(last.Failure.Code))
	}
	if !last.Status.Final() { // the run is not over: it is ended from outside
		s.now += time.Second
		s.events = append(s.events, fmt.Sprintf("  - {at: %v, cancel: true}", s.now))
		expect = "  status: cancelled\n"
	}
	return x.writeScenario(fmt.Sprintf("%s at %s", code, place), path[0].by.input, s, expect)
}

// loopFrom writes a run that comes to a state and from there twice to where it was before.
func (x *explorer) loopFrom(at int, place string) string {
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
	s.now += time.Second
	s.events = append(s.events, fmt.Sprintf("  - {at: %v, cancel: true}", s.now))
	return x.writeScenario(fmt.Sprintf("%s at %s", EndlessLoop, place), path[0].by.input, s, "  status: cancelled\n")
}

// moveBetween makes the move of a run that leads to a state of the form of to; nil if none does.
func (x *explorer) moveBetween(to int, run *found) *found {
	probe := emptyExplorer(x.check, x.graph)
	probe.states = []*found{run}
	probe.expand(0)
	want := formOf(x.states[to].state, x.check.values.keeps)
	for _, f := range probe.states[1:] {
		if formOf(f.state, x.check.values.keeps) == want {
			return f
		}
	}
	return nil
}

// scriptOf makes a script of a run. A move is a second behind the one before it, so that they
// come in their order; an alarm comes when it comes.
func scriptOf(path []*found) *script {
	s := &script{calls: map[workflow.NodeID][]*call{}, pending: map[workflow.TokenID]*call{}}
	for i, f := range path {
		if i > 0 {
			s.addMove(path[i-1], f)
		}
		s.addCalls(f.state)
	}
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
	if waited := after.now.Sub(before.now); waited > 0 {
		s.now = max(s.now+time.Millisecond, after.now.Sub(dawn))
		return
	}
	s.now += time.Second
	switch m := after.by.message.(type) {
	case state.TaskCompleted:
		s.answer(m.Token, "output: "+jsonText(m.Output))
	case state.TaskFailed:
		s.answer(m.Token, fmt.Sprintf("error: {code: %s, message: made up, retryable: false}", quoted(m.Failure.Code)))
	case state.Signal:
		s.events = append(s.events, fmt.Sprintf("  - {at: %v, signal: {name: %s, payload: %s, ttl: 0s}}", s.now, quoted(m.Name), jsonText(m.Payload)))
	case state.Ballot:
		s.events = append(s.events, fmt.Sprintf("  - {at: %v, vote: {node: %s, by: %s, approved: %t}}", s.now, quoted(string(after.by.node)), m.By, m.Approved))
	case state.CloseGroup:
		s.events = append(s.events, fmt.Sprintf("  - {at: %v, closeGroup: {group: %s}}", s.now, quoted(m.Group)))
	default: // a child: its definition is not known here
	}
}

func (s *script) answer(id workflow.TokenID, text string) {
	if c := s.pending[id]; c != nil {
		c.delay, c.text = s.now-c.since, text
		delete(s.pending, id)
	}
}

// addCalls notes the tasks that were handed out, in the order of their tokens.
func (s *script) addCalls(st *state.State) {
	for _, id := range st.LiveTokens() {
		t := st.Token(id)
		if t.Status == workflow.Dispatched && s.pending[id] == nil {
			c := &call{since: s.now}
			s.pending[id] = c
			s.calls[t.Node] = append(s.calls[t.Node], c)
		}
	}
}

func (x *explorer) writeScenario(title string, input map[string]any, s *script, expect string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "scenario: %s\n", quoted(title))
	definition, err := json.Marshal(x.check.graph.Definition)
	if err != nil {
		return ""
	}
	fmt.Fprintf(&b, "definition: %s\n", unescaped.Replace(string(definition)))
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
	return b.String()
}

// unescaped undoes what JSON for HTML escapes: people read it.
var unescaped = strings.NewReplacer(`\\`, `\\`, `\u003e`, ">", `\u003c`, "<", `\u0026`, "&")

func jsonText(v any) string { return string(value.Encode(v)) }

func quoted(text string) string { return jsonText(text) }

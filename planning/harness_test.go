package planning_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// A failer is a testing.TB or a *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// epoch0 is the life of the engine in which tests play.
const epoch0 state.Epoch = 7

// dawn is when tests begin.
var dawn = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// A player plays messages against the planner as an actor would, and checks
// after every one of them what must always hold.
type player struct {
	t       failer
	graph   *compiled.Graph
	state   *state.State
	now     time.Time
	store   *rows
	journal []decision.Encoded
	events  []decision.Event
	fired   map[workflow.GroupID]int
	quick   bool // without the checks

	unmet unmetJoins

	failures int // of 40 attempts
	sent     int // messages
}

func newPlayer(t failer, g *compiled.Graph) *player {
	p := &player{t: t, graph: g, state: state.NewState("r", g), now: dawn, store: newRows(), fired: map[workflow.GroupID]int{}}
	p.state.Epoch = epoch0
	return p
}

// compile reads a definition in YAML.
func compile(t failer, yaml string) *compiled.Graph {
	t.Helper()
	d, err := workflow.ParseYAML([]byte(yaml))
	if err != nil {
		t.Fatalf("%v", err)
	}
	g, err := compiled.Compile(workflow.Bounds{}, d)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return g
}

// send plans m, and applies what was decided.
func (p *player) send(m state.Message) (decision.Plan, error) {
	p.t.Helper()
	if p.quick {
		plan, err := planning.Step(p.state, m, p.now)
		for _, d := range plan.Decisions {
			decision.Evolve(p.state, d)
		}
		return plan, err
	}
	plan, err := p.plan(m)
	if err != nil {
		return plan, err
	}
	for _, d := range p.record(m, plan) {
		if f, ok := d.(decision.FireGroup); ok {
			p.fired[f.Group]++
		}
		decision.Withdrawn(p.state, d)
		p.events = append(p.events, decision.Apply(p.state, d, &decision.Record{Seq: int64(len(p.journal)), At: p.now, Planner: planning.Version, Message: m})...)
		if err := p.holds(); err != nil {
			p.t.Fatalf("after %v: %v", d, err)
		}
	}
	p.check()
	return plan, nil
}

// plan asks the planner twice: Step is pure, and Explain decides as it does.
func (p *player) plan(m state.Message) (decision.Plan, error) {
	p.t.Helper()
	before := snapshot(p.state)
	plan, _, err := planning.Explain(p.state, m, p.now)
	again, errAgain := planning.Step(p.state, m, p.now)
	if text(decision.Plan{Decisions: plan.Decisions}) != text(again) || fmt.Sprint(err) != fmt.Sprint(errAgain) {
		p.t.Fatalf("Step(%#v) is not a function:\n%s%v\n%s%v", m, text(plan), err, text(again), errAgain)
	}
	if after := snapshot(p.state); !bytes.Equal(before, after) {
		p.t.Fatalf("Step(%#v) changes its state:\n%s\n%s", m, before, after)
	}
	return plan, err
}

// record writes a plan to the journal and returns the decisions as they are
// read from it.
func (p *player) record(m state.Message, plan decision.Plan) []decision.Decision {
	p.t.Helper()
	r := decision.Record{Seq: int64(len(p.journal) + 1), At: p.now, Epoch: p.state.Epoch, Planner: planning.Version, Message: m, Decisions: plan.Decisions}
	e, err := r.Encode()
	if err != nil {
		p.t.Fatalf("encode %#v: %v", m, err)
	}
	back, err := e.Decode(e.Values.Lookup)
	if err != nil {
		p.t.Fatalf("decode %s: %v", e.Decisions, err)
	}
	if got := text(decision.Plan{Decisions: back.Decisions, Trace: plan.Trace}); got != text(plan) {
		p.t.Fatalf("the journal reads differently:\n%s\n%s", got, text(plan))
	}
	p.journal = append(p.journal, e)
	return back.Decisions
}

// replay plays the journal again: it gives the same decisions, byte for byte.
func (p *player) replay() {
	p.t.Helper()
	s := state.NewState("r", p.graph)
	for _, e := range p.journal {
		r, err := e.Decode(e.Values.Lookup)
		if err != nil {
			p.t.Fatalf("decode record %d: %v", e.Seq, err)
		}
		s.Epoch = r.Epoch
		plan, err := planning.Step(s, r.Message, r.At)
		if err != nil {
			p.t.Fatalf("replay record %d: %v", e.Seq, err)
		}
		r.Decisions = plan.Decisions
		again, err := r.Encode()
		if err != nil || !bytes.Equal(again.Decisions, e.Decisions) {
			p.t.Fatalf("record %d replays differently (%v):\n%s\n%s", e.Seq, err, e.Decisions, again.Decisions)
		}
		for _, d := range plan.Decisions {
			decision.Apply(s, d, &r)
		}
	}
	if got, want := snapshot(s), snapshot(p.state); !bytes.Equal(got, want) {
		p.t.Fatalf("the journal replays to another state:\n%s\n%s", got, want)
	}
}

// fire plays the alarm if it is due by t.
func (p *player) fire(t time.Time) (decision.Plan, bool) {
	p.t.Helper()
	at := p.state.Alarm()
	if at.IsZero() || at.After(t) {
		return decision.Plan{}, false
	}
	if at.After(p.now) {
		p.now = at
	}
	plan, err := p.send(state.AlarmFired{At: at.UnixMilli()})
	if err != nil {
		p.t.Fatalf("alarm: %v", err)
	}
	if next := p.state.Alarm(); next.Equal(at) {
		p.t.Fatalf("the alarm of %v fired and is still set: %s", at, text(plan))
	}
	return plan, true
}

func (p *player) complete(id workflow.TokenID, output any) error {
	p.t.Helper()
	t := p.state.Token(id)
	_, err := p.send(state.TaskCompleted{Token: id, Attempt: t.Attempt, Epoch: t.Epoch, Output: output})
	return err
}

// text is a plan, a line each decision and note.
func text(p decision.Plan) string {
	var b bytes.Buffer
	for _, d := range p.Decisions {
		fmt.Fprintln(&b, d)
	}
	for _, n := range p.Trace {
		fmt.Fprintln(&b, "  why", n)
	}
	return b.String()
}

// snapshot is a whole state as text.
func snapshot(s *state.State) []byte {
	data, err := json.Marshal(s.AllRows())
	if err != nil {
		panic(err)
	}
	return data
}

package planning

import (
	"errors"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/amount"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/schema"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// startRun checks the input and puts the first token on the first node; in a dag, one on
// every node to which nothing leads. A caller's input that is too large, or does not fit the
// schema, is refused, so that there is no run; everything later that goes wrong fails the
// run.
func (p *planner) startRun(m state.Start) error {
	g := p.s.Graph
	if err := p.checkStart(m); err != nil {
		return err
	}
	p.decide(p.startOf(m))
	if p.isDAG() {
		p.startRootNodes()
		return nil
	}
	p.createToken(state.Token{Node: g.Definition.Start}, nil)
	return nil
}

// startOf returns the decision that begins a run.
func (p *planner) startOf(m state.Start) decision.StartRun {
	return decision.StartRun{
		Input: inputOf(m), At: p.now, Due: timeout.Deadline(p.now, p.s.Graph.Definition.Timeout), Parent: m.Parent, Pins: m.Pins, Tenant: m.Tenant,
		Labels: m.Labels, As: m.As, ScheduledAt: m.ScheduledAt, Trace: m.Trace, Limits: p.ownLimits(m),
	}
}

// CheckStart returns why a run of a graph would refuse the message that begins it; nil if it would take it.
func CheckStart(g *compiled.Graph, m state.Start) error {
	p := &planner{s: state.NewState("", g), budget: newBudget(g)}
	return p.checkStart(m)
}

// checkStart returns why the input of a run is refused.
func (p *planner) checkStart(m state.Start) error {
	measure := m.Measure
	if measure == (value.Measure{}) {
		measure = value.MeasureOf(inputOf(m))
	}
	if err := p.refuseMeasure(measure); err != nil {
		return err
	}
	if err := p.spendCheck(p.s.Graph.InputSchema, inputOf(m)); err != nil {
		return refusedInput(m, err)
	}
	return nil
}

// maxPlaces bounds the places of a refused input that are told.
const maxPlaces = 10

// refusedInput returns why an input is refused. The parent of a child records the text, which therefore has one place only, as ever.
func refusedInput(m state.Start, err error) error {
	var misfit *schema.Error
	if !errors.As(err, &misfit) {
		return checkError(err)
	}
	e := &workflow.InputError{Path: misfit.Path, Message: misfit.Message, Schema: true}
	if m.Parent != nil {
		return e
	}
	others, beyond := misfit.Others(maxPlaces - 1)
	e.Beyond = beyond
	for _, o := range others {
		e.More = append(e.More, workflow.SchemaError{Path: o.Path, Message: o.Message})
	}
	return e
}

// ownLimits returns the limits of what a run may report that its start sets, where they are lower than those of its
// definition.
func (p *planner) ownLimits(m state.Start) (out amount.Sums) {
	limits := amount.FromFloats(p.s.Graph.Limits.Meta)
	for _, x := range m.Limits {
		if most, ok := limits.Named(x.Name); !ok || x.Compare(most) < 0 {
			out = append(out, x)
		}
	}
	return out
}

// inputOf returns the input of a run, which is an object even if the caller gives none, so
// that expressions may ask for its fields.
func inputOf(m state.Start) map[string]any {
	if m.Input == nil {
		return map[string]any{}
	}
	return m.Input
}

// createToken puts a token on a node, to begin there with the result of the node that was
// left. If a limit forbids the token, the plan is given up.
func (p *planner) createToken(t state.Token, result any) {
	if p.tooManyTokens(1) {
		return
	}
	t.ID = p.s.NextToken
	p.decide(decision.CreateToken{Token: t})
	p.entries = append(p.entries, entry{token: t.ID, result: result})
}

// tooManyTokens reports whether n more tokens would exceed a limit of the run; the plan is
// then given up. It is asked before they are made, and with the number of all that one
// decision makes, so that a fan-out far beyond the limit costs nothing.
func (p *planner) tooManyTokens(n int) bool {
	l := p.s.Graph.Limits
	switch {
	case int(p.s.NextToken)-1+n > l.Tokens:
		p.exceedLimit("tokens", l.Tokens, "tokens made")
	case p.s.LiveCount()+n > l.LiveTokens:
		p.exceedLimit("liveTokens", l.LiveTokens, "tokens alive at once")
	}
	return p.budget.limit != nil
}

// Pending returns the effects that s waits for, in the order of tokens. An
// actor sends them again when it wakes: delivery is at least once, under the
// key of the dispatch. For a paused run, these are the tasks that were out when
// it was paused.
//
// Nothing is marked as sent. A token that is dispatched is one whose task is out, whether or
// not anybody outside knows of it, so that a crash between commit and sending loses nothing.
// Executors and children must take the same twice, which the key lets them do.
//
// The children of a paused run are not among them: the actor asks for those by Children, with
// which a child is told to be paused as its parent is.
func Pending(s *state.State) []decision.Effect {
	if s.Status != workflow.RunRunning && s.Status != workflow.RunPaused {
		return nil
	}
	var out []decision.Effect
	for _, id := range s.LiveTokens() {
		switch t := s.Token(id); t.Status {
		case workflow.Dispatched:
			n := s.Graph.Node(t.Node)
			out = append(out, decision.DispatchTask{
				Token: id, Task: t.TaskAt(n), Attempt: t.Attempt, Epoch: t.Epoch,
				Input: t.Input, Due: t.Due, Beat: t.Beat, Evaluated: n.Choice != nil, Budget: t.Remembered().Budget,
			})
		case workflow.WaitingForChild:
			if s.Status == workflow.RunRunning {
				out = append(out, pendingChild(s, t))
			}
		default:
		}
	}
	return out
}

package planning

import (
	"fmt"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// keepResult keeps what a token came with, if its node's input may ask for it once
// more. The result that the branches of a group begin with is kept once, by the group.
//
// Only a node that may be parked, and asks for the result as it is entered, has it kept:
// results may be large. 10,000 branches of one fan-out begin with the same result, which is
// then written once.
func (p *planner) keepResult(t *state.Token, n *compiled.Node, result any) {
	if !n.KeepsResult {
		return
	}
	if g := p.groupBegunBy(t); g != nil && g.Result != nil {
		return
	}
	p.decide(decision.KeepResult{Token: t.ID, Result: result})
}

// keptResult returns what a token came with, if it was kept. It reports false if it was not,
// which is not the same as a result of null.
func (p *planner) keptResult(t *state.Token) (any, bool) {
	if t.Memory != nil && t.Memory.Kept != nil {
		return t.Memory.Kept["result"], true
	}
	if g := p.groupBegunBy(t); g != nil && g.Result != nil {
		return g.Result, true
	}
	return nil, false
}

// groupBegunBy returns the group one of whose branches began with the token; nil if no
// branch did.
func (p *planner) groupBegunBy(t *state.Token) *state.Group {
	if g := p.s.Group(t.Scope.Group); g != nil && g.TokenOf(t.Scope.Branch) == t.ID {
		return g
	}
	return nil
}

// evalInputAnew evaluates the input of a task for an operator's retry: of a dead
// letter, if the definition was patched since it was evaluated, and of any task if the
// operator asks. It returns nil where the input stays as it was; a wait or an approval
// has none.
//
// It is evaluated from the data as they are now, and before anything is decided: if it fails,
// the retry is refused with the reason and the task stays as it was.
func (p *planner) evalInputAnew(t *state.Token, which workflow.RetryInput) (*decision.RenewInput, error) {
	n := p.s.Graph.Node(t.Node)
	patched := t.Status == workflow.WaitingForOperator && t.Remembered().Patches != p.s.Patches
	switch {
	case n.Kind != workflow.KindTask && n.Kind != workflow.KindSubworkflow, which == workflow.InputKept:
		return nil, nil
	case which != workflow.InputAgain && !patched:
		return nil, nil
	}
	v := vars{p: p, scope: t.Scope, token: t, caught: t.Caught}
	v.result, v.bound = p.keptResult(t)
	input, f := p.evalInput(n, v)
	chosen := ""
	if f == nil {
		chosen, f = p.evalChoice(n, v)
	}
	if f != nil && n.AsksResult && !v.bound {
		f.Message += ": the result that the token came with was not kept, because the input did not ask for it then"
	}
	if f != nil {
		f = p.stampFailure(t, f)
		return nil, fmt.Errorf("retry node %q: its input cannot be evaluated anew; mend it with a patch, or keep the old one: %w", string(t.Node), f)
	}
	return &decision.RenewInput{Token: t.ID, Input: input, Asked: which == workflow.InputAgain, Chosen: chosen}, nil
}

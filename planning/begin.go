package planning

import (
	"cmp"
	"fmt"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// beginToken lets a token begin at the node that it has come to: a task is
// dispatched, a wait waits, a gateway completes at once.
//
// It is called by drainWork for every token that was made, and for those that have waited at
// their node and now may begin.
func (p *planner) beginToken(e entry) {
	t := p.s.Token(e.token)
	if t == nil || t.Status != workflow.Pending {
		return // cancelled before it began
	}
	n := p.s.Graph.Node(t.Node)
	if p.queueAtNode(t, n, e.result) {
		return
	}
	// The token may have taken its lock, which has put another in its place.
	t = p.s.Token(t.ID)
	// The input mapping sees the result of the node that was left, and the error if an error
	// transition led here.
	v := vars{p: p, scope: t.Scope, token: t, result: e.result, bound: true, caught: t.Caught}
	switch n.Kind {
	case workflow.KindGateway:
		p.completeNode(t, completion{output: map[string]any{}})
	case workflow.KindEnd:
		p.reachEndNode(t, n, v)
	case workflow.KindTask, workflow.KindSubworkflow:
		p.beginFirstAttempt(t, n, v)
	case workflow.KindWait:
		p.beginWait(t, n, v)
	case workflow.KindApproval:
		p.beginApproval(t, n, v)
	default:
		panic("planning: unknown node kind " + string(n.Kind))
	}
}

// beginFirstAttempt begins a task or a child with what the node's expressions say. The input
// is evaluated once: every attempt has the same, unless an operator asks for another. If it
// fails no attempt has been made, so that it is neither retried nor parked.
func (p *planner) beginFirstAttempt(t *state.Token, n *compiled.Node, v vars) {
	input, f := p.evalInput(n, v)
	chosen := ""
	if f == nil {
		chosen, f = p.evalChoice(n, v)
	}
	if f != nil {
		p.failAttempt(t, f, false)
		return
	}
	p.keepResult(t, n, v.result)
	if n.Kind == workflow.KindTask {
		p.dispatchTask(t, chosen, input)
		return
	}
	p.startChild(t, chosen, input)
}

// queueAtNode lets a token wait before its node if it may not begin there yet: at
// the node's join, until a paused run resumes, or for the node's lock. It reports
// whether the token waits, or the plan has been given up.
//
// The order matters. At a join the token has not begun, and a pause does not concern it. A
// paused run takes no locks, so that a token is held before it asks for one. The lock is
// last, because from then on the token keeps others waiting.
func (p *planner) queueAtNode(t *state.Token, n *compiled.Node, result any) bool {
	switch via := p.arrivedVia(t, n); {
	case via != "":
		p.decide(decision.AwaitJoin{Token: t.ID, Via: via})
		p.arrived = append(p.arrived, joinPlace{n.ID, t.Scope})
		return true
	case p.s.Status == workflow.RunPaused && heldByPause(n):
		p.decide(decision.HoldToken{Token: t.ID, Result: result})
		return true
	case n.Lock == "" || t.Holds != "":
		return false
	}
	// A lock may be free while others wait for it, within a plan that has freed it: they come
	// first.
	if p.s.LockHolder(n.Lock) != 0 || p.s.FirstInLine(state.WaitKey{Kind: state.LineLock, Name: n.Lock}) != nil {
		p.decide(decision.AwaitLock{Token: t.ID, Result: result})
		return true
	}
	p.decide(decision.TakeLock{Token: t.ID, Lock: n.Lock})
	return p.hasStopped()
}

// heldByPause reports whether a pause keeps tokens from beginning at a node. Waits, approvals
// and gateways begin while the run is paused, because time and people go on.
func heldByPause(n *compiled.Node) bool {
	return n.Kind == workflow.KindTask || n.Kind == workflow.KindSubworkflow || n.Lock != ""
}

// evalInput evaluates a node's input mapping. The fields are evaluated in the order of their
// names, which decides which of several errors is told. It returns an object, which is empty
// if the node maps nothing.
func (p *planner) evalInput(n *compiled.Node, v vars) (map[string]any, *workflow.Failure) {
	out := make(map[string]any, len(n.Input))
	for _, m := range n.Input {
		x, f := v.evalProgram(m.Program)
		if f != nil {
			return nil, f
		}
		out[m.Name] = x
	}
	if most := p.s.Graph.Limits.PayloadBytes; len(out) > 0 && value.Size(out) > most {
		return nil, &workflow.Failure{
			Code: workflow.CodeLimit, Permanent: true,
			Message: fmt.Sprintf("limit payloadBytes: the input of node %q has %d bytes, at most %d are taken inline: use a blob for what is large", string(n.ID), value.Size(out), most),
		}
	}
	return out, nil
}

// dispatchTask hands the next attempt of a task to the executor. chosen is its type, if an
// expression chooses. The key of the attempt is complete with it: token, attempt, and the
// epoch of the engine that plans. The times run from the dispatch and not from when an
// executor begins. It waits if its budget has no room.
func (p *planner) dispatchTask(t *state.Token, chosen string, input any) {
	n := p.s.Graph.Node(t.Node)
	budget, ok := p.reserveBudget(t, chosen, input)
	if !ok {
		return
	}
	p.decide(decision.DispatchTask{
		Token: t.ID, Task: cmp.Or(chosen, n.Task), Evaluated: chosen != "", Attempt: t.Attempt + 1, Epoch: p.s.Epoch, Input: input,
		Due: timeout.Deadline(p.now, n.Timeout), Beat: timeout.Deadline(p.now, n.Heartbeat), Budget: budget,
	})
}

// beginNextAttempt begins the next attempt of a token whose retry is due, or which an
// operator or the end of a pause has set going again. It has the input of the attempt before.
// A wait evaluates its instants anew and begins from now.
func (p *planner) beginNextAttempt(t *state.Token) {
	n := p.s.Graph.Node(t.Node)
	if p.s.Status == workflow.RunPaused && heldByPause(n) {
		p.decide(decision.HoldToken{Token: t.ID, Result: t.Input})
		return
	}
	switch n.Kind {
	case workflow.KindTask:
		p.dispatchTask(t, t.ChosenAt(n), t.Input)
	case workflow.KindSubworkflow:
		input, _ := t.Input.(map[string]any)
		p.startChild(t, t.ChosenAt(n), input)
	case workflow.KindApproval:
		p.requestApprovalAgain(t, n)
	case workflow.KindWait:
		p.beginWait(t, n, vars{p: p, scope: t.Scope, token: t, result: t.Input, bound: true, caught: t.Caught})
	case workflow.KindGateway, workflow.KindEnd:
		panic("planning: a " + string(n.Kind) + " node has no attempts")
	}
}

// reachEndNode ends the run at an end node. An end node ends the run at once, with whatever
// else lives in it. Its mapping may write the output of the run and may fail, in which case
// the run goes on as after the failure of any node.
func (p *planner) reachEndNode(t *state.Token, n *compiled.Node, v vars) {
	// The code and the message of a failure see the result that the token came with; up to version 5 they saw that of the
	// node itself, as its mapping does.
	came := v.result
	v.result = map[string]any{}
	// The mapping is tried on a fork: a mapping that fails half way must not have written the
	// first half.
	q := p.forkPlanner()
	v.p = q
	if f := q.writeOutput(n.Output, v); f != nil {
		p.failAttempt(t, f, false)
		return
	}
	said := v
	if p.planLike() >= 6 {
		said.result = came
	}
	failure, f := q.endFailure(t, n, said)
	if f != nil {
		p.failAttempt(t, f, false)
		return
	}
	p.adoptFork(q)
	p.decide(decision.CompleteToken{Token: t.ID, Output: keptOutput(n, v.result)})
	if failure != nil {
		p.failRun(*failure)
		return
	}
	p.completeRun()
}

// keptOutput returns a node's output if some expression asks for it, else nil. Outputs may be
// large, and a run with many nodes would keep all of them for nobody.
func keptOutput(n *compiled.Node, output any) any {
	if n.KeepsOutput {
		return output
	}
	return nil
}

package planning

import (
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// begin lets a token that has come to its node begin there.
func (p *planner) begin(e entry) {
	t := p.s.Token(e.token)
	if t == nil || t.Status != workflow.Pending {
		return // cancelled before it began
	}
	v := vars{p: p, scope: t.Scope, token: t, result: e.result, bound: true, caught: t.Caught}
	switch n := p.s.Graph.Node(t.Node); n.Kind {
	case workflow.KindGateway:
		p.complete(t, completion{output: map[string]any{}})
	case workflow.KindEnd:
		p.end(t, n, v)
	case workflow.KindTask:
		input, f := p.input(n, v)
		if f != nil {
			p.fail(t, f, false)
			return
		}
		p.dispatch(t, input)
	case workflow.KindWait:
		p.wait(t, n, v)
	case workflow.KindSubworkflow, workflow.KindApproval:
		panic("planning: node kind " + string(n.Kind) + " is refused by Validate")
	default:
		panic("planning: unknown node kind " + string(n.Kind))
	}
}

// input evaluates a node's input mapping.
func (p *planner) input(n *workflow.GraphNode, v vars) (map[string]any, *workflow.Failure) {
	out := make(map[string]any, len(n.Input))
	for _, m := range n.Input {
		x, f := v.eval(m.Program)
		if f != nil {
			return nil, f
		}
		out[m.Name] = x
	}
	if most := p.s.Graph.Limits.PayloadBytes; len(out) > 0 && value.Size(out) > most {
		f := limitFailure("payloadBytes", most, "bytes of input")
		return nil, &f
	}
	return out, nil
}

// dispatch hands the next attempt of a task to the executor.
func (p *planner) dispatch(t *workflow.Token, input any) {
	n := p.s.Graph.Node(t.Node)
	p.decide(decision.DispatchTask{
		Token: t.ID, Task: n.Task, Attempt: t.Attempt + 1, Epoch: p.s.Epoch, Input: input,
		Due: timeout.Deadline(p.now, n.Timeout), Beat: timeout.Deadline(p.now, n.Heartbeat),
	})
}

// wait starts a durable timer, or completes at once where it is past.
func (p *planner) wait(t *workflow.Token, n *workflow.GraphNode, v vars) {
	due := timeout.Deadline(p.now, n.Wait.For)
	if n.Until != nil {
		at, err := n.Until.EvalTime(v)
		if err != nil {
			p.fail(t, evalFailure(n.Until, err), false)
			return
		}
		due = timeout.Instant(at)
	}
	if due.IsZero() || !due.After(p.now) {
		p.complete(t, completion{output: timerOutput()})
		return
	}
	d := decision.AwaitTimer{Token: t.ID, Attempt: t.Attempt + 1, Due: due, Limit: timeout.Deadline(p.now, n.Timeout)}
	if n.Until != nil && n.Node.Retry != nil {
		d.Result = v.result
	}
	p.decide(d)
}

// timerOutput is the output of a wait that a timer ended.
func timerOutput() map[string]any { return map[string]any{"cause": "timer"} }

// again begins the next attempt of a token that waited for it.
func (p *planner) again(t *workflow.Token) {
	n := p.s.Graph.Node(t.Node)
	switch n.Kind {
	case workflow.KindTask:
		p.dispatch(t, t.Input)
	case workflow.KindWait:
		p.wait(t, n, vars{p: p, scope: t.Scope, token: t, result: t.Input, bound: true, caught: t.Caught})
	case workflow.KindGateway, workflow.KindEnd, workflow.KindSubworkflow, workflow.KindApproval:
		panic("planning: a " + string(n.Kind) + " node has no attempts")
	}
}

// end ends the run at an end node.
func (p *planner) end(t *workflow.Token, n *workflow.GraphNode, v vars) {
	v.result = map[string]any{}
	q := p.fork()
	v.p = q
	if f := q.apply(n.Output, v); f != nil {
		p.fail(t, f, false)
		return
	}
	p.adopt(q)
	p.decide(decision.CompleteToken{Token: t.ID, Output: kept(n, v.result)})
	if n.End.Fail != "" {
		p.failRun(workflow.Failure{Code: n.End.Fail, Message: n.End.Message, Permanent: true, Node: n.ID, Token: t.ID})
		return
	}
	p.completeRun()
}

// kept returns an output if some expression asks for it.
func kept(n *workflow.GraphNode, output any) any {
	if n.KeepsOutput {
		return output
	}
	return nil
}

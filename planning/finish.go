package planning

import (
	"fmt"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// finishIfDone completes the run when nothing is left in it, or fails it when only
// joins that can never fire are left. It is called after every message.
//
// That it is called after every message is what keeps a run from being left over: a token
// that ends by being cancelled is the last one just as well as one that completes. A run that
// is paused ends as well, since a pause holds back only what would be dispatched.
func (p *planner) finishIfDone() {
	switch {
	case p.s.Status != workflow.RunRunning && p.s.Status != workflow.RunPaused:
	case p.s.LiveCount() == 0 && p.s.OpenGroups() == 0:
		p.completeRun()
	case p.onlyJoinsWait():
		p.failRun(p.deadlockFailure())
	}
}

// completeRun ends the run with its output, or fails it if the output cannot be made or does
// not fit, or if the failure of a node was put off. It is also the end of a run that reaches
// an end node.
func (p *planner) completeRun() {
	if p.s.Deferred != nil {
		p.failRun(*p.s.Deferred)
		return
	}
	output, f := p.runOutput()
	if f != nil {
		p.failRun(*f)
		return
	}
	p.decide(decision.CompleteRun{Output: output, At: p.now})
}

// runOutput returns the output of a run that completes: the values of the definition's output
// expressions or, without those, the section output. The failure says which schema the state
// or the output does not fit. All of state is checked here once more, because during the run
// only what was written to it was. The output expressions are evaluated outside any branch,
// without a token or a result.
func (p *planner) runOutput() (map[string]any, *workflow.Failure) {
	g := p.s.Graph
	if g.StateSchema != nil {
		if f := p.schemaFailure("state", g.StateSchema, p.s.Section(state.SectionState)); f != nil {
			return nil, f
		}
	}
	if g.Output == nil {
		out := p.s.Section(state.SectionOutput)
		return out, p.schemaFailure("output", g.OutputSchema, out)
	}
	out := make(map[string]any, len(g.Output))
	for _, m := range g.Output {
		x, f := vars{p: p}.evalProgram(m.Program)
		if f != nil {
			return nil, f
		}
		out[m.Name] = x
	}
	return out, p.schemaFailure("output", g.OutputSchema, out)
}

// expireRun ends the run as timed out. No transition can catch it: it is the run's own
// timeout, not that of a node.
func (p *planner) expireRun() {
	p.decide(decision.ExpireRun{At: p.now, Failure: workflow.Failure{
		Code: workflow.CodeTimeout, Permanent: true,
		Message: fmt.Sprintf("the run did not end within %v", p.s.Graph.Definition.Timeout),
	}})
}

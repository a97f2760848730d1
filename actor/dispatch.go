package actor

import (
	"fmt"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A Dispatch is a task on its way to the executor. It has all that the executor needs, taken from the state in the
// actor's turn: who gets it does not look at the run. Node belongs to the compiled definition, which never
// changes; a patch makes another.
type Dispatch struct {
	decision.DispatchTask
	Run      workflow.RunID
	Root     workflow.RunID       // the first of its ancestors, Run itself if it has none
	Workflow *workflow.Definition // of the run, as it is now
	Tenant   string               // of the run; "" without
	Node     *compiled.Node
	Trace    *state.Trace   // of the run; nil without
	Branch   workflow.Scope // the innermost branch; zero outside any
	Total    int            // branches of its group
	Details  any            // what the attempts before have said of how far they were; nil if nothing
	Returns  bool           // it comes from the goroutine of a caller of Deliver, which is about to return
	Again    bool           // it was dispatched before, and somebody may perform it
}

// NewDispatch returns the task of a token of a run in state s, which is dispatched; one without a node if there is no
// such token. Details are of earlier attempts: a task that moves files continues where the last heartbeat said that
// it was.
func NewDispatch(s *state.State, e decision.DispatchTask) Dispatch {
	t := s.Token(e.Token)
	if t == nil {
		return Dispatch{DispatchTask: e, Run: s.Run}
	}
	d := Dispatch{
		DispatchTask: e, Run: s.Run, Workflow: s.Graph.Definition, Tenant: s.Tenant, Node: s.Graph.Node(t.Node), Trace: s.Trace,
		Branch: t.Scope, Details: t.Remembered().Details,
	}
	if d.Root = s.Run; s.Parent != nil {
		d.Root = s.Parent.Root
	}
	if g := s.Group(t.Scope.Group); g != nil {
		d.Total = g.Total
	}
	return d
}

// sendEffect hands one effect to the outbox. An effect was decided when its message was planned, and leaves when the
// batch is committed: a later message of the batch may have cancelled its token, or ended the attempt.
//
// The last effect of a turn in the goroutine of a caller of Deliver says so: who performs tasks may leave that one to
// the caller, which has nothing else to do. Again says that it was sent before the run was loaded.
func (a *Actor) sendEffect(e decision.Effect, last, again bool) {
	switch e := e.(type) {
	case decision.DispatchTask:
		t := a.state.Token(e.Token)
		if t.Status != workflow.Dispatched || t.Attempt != e.Attempt {
			return // withdrawn in the same batch
		}
		a.hook.Hit("release.dispatch")
		d := NewDispatch(a.state, e)
		d.Returns, d.Again = last && a.lent, again
		a.outbox.Dispatch(d)
	case decision.StartChild:
		a.sendChild(e)
	default:
		panic(fmt.Sprintf("actor: unknown effect %T", e))
	}
}

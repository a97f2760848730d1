// Package simulating plays messages on a copy of a run in memory: the planner of the run itself decides, and nothing is written.
package simulating

import (
	"fmt"
	"time"

	"github.com/pawl-run/pawl/actor"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/dispatch"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/timeout"
	"github.com/pawl-run/pawl/workflow"
)

// maxSteps bounds the steps of a copy.
const maxSteps = 10_000

// A Copy is a run in memory, with a clock that stands still until Elapse moves it. The zero Copy is of no run. It is for one goroutine at a
// time.
type Copy struct {
	Head  store.Head // what a state does not know
	State *state.State
	Now   time.Time // of its clock
	Steps []Step    // what has been decided in it so far
}

// A Step is what came of one message.
type Step struct {
	Record decision.Record
	Events []history.Event // that it would tell
	Notes  []history.Note  // why it is decided so
}

// ErrNone says that a Copy is of no run.
var ErrNone = fmt.Errorf("%w: a Simulation comes from Engine.Simulate", refusal.ErrInvalid)

// CheckRun returns an error if the copy is of another run.
func (c *Copy) CheckRun(id workflow.RunID) error {
	switch {
	case c.State == nil:
		return ErrNone
	case id == c.Head.Run, id == c.State.Run: // which differ in a fork before it was one
		return nil
	}
	return fmt.Errorf("%w: the simulation is of run %q, not of %q", refusal.ErrInvalid, string(c.Head.Run), string(id))
}

// Take plans a message for a run on the copy, and lets what is due by then happen.
func (c *Copy) Take(id workflow.RunID, m state.Message) error {
	if err := c.CheckRun(id); err != nil {
		return err
	}
	if err := c.Plan(m); err != nil {
		return err
	}
	return c.ringAlarms(c.Now)
}

// Plan adds a step, unless the message changes nothing. Errors: that of the planner, *workflow.LimitError.
func (c *Copy) Plan(m state.Message) (err error) {
	if len(c.Steps) >= maxSteps {
		return &workflow.LimitError{Limit: "simulated steps", Max: maxSteps}
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: the planner panicked: %v", state.ErrSuspended, r)
		}
	}()
	plan, _, err := planning.Explain(c.State, m, c.Now)
	if err != nil || len(plan.Decisions) == 0 {
		return err
	}
	step := Step{Notes: plan.Trace, Record: decision.Record{
		Seq: c.Head.Seq + 1, At: c.Now, Epoch: c.State.Epoch, Planner: planning.Version, Message: m, Decisions: plan.Decisions,
	}}
	for _, d := range plan.Decisions {
		step.Events = append(step.Events, decision.Apply(c.State, d, &step.Record)...)
	}
	c.Head.Seq++
	c.Steps = append(c.Steps, step)
	return nil
}

// ringAlarms lets what is due by an instant happen, in order.
func (c *Copy) ringAlarms(until time.Time) error {
	for {
		at := c.State.Alarm()
		if at.IsZero() || at.After(until) {
			return nil
		}
		if at.After(c.Now) {
			c.Now = at
		}
		before := c.Head.Seq
		if err := c.Plan(state.AlarmFired{At: at.UnixMilli()}); err != nil || c.Head.Seq == before {
			return err
		}
	}
}

// Elapse lets time pass: what is due meanwhile happens, each at its instant.
func (c *Copy) Elapse(d time.Duration) error {
	switch {
	case c.State == nil:
		return ErrNone
	case d < 0:
		return fmt.Errorf("%w: %v is negative: time goes on only", refusal.ErrInvalid, d)
	}
	until := timeout.Instant(c.Now.Add(d))
	if err := c.ringAlarms(until); err != nil {
		return err
	}
	c.Now = until
	return nil
}

// EndChild tells the copy how the child run has ended that a token waits for, or a node.
func (c *Copy) EndChild(run workflow.RunID, token workflow.TokenID, node workflow.NodeID, o workflow.Outcome) error {
	if !o.Status.Final() {
		return fmt.Errorf("%w: a child that is %s has not ended", refusal.ErrInvalid, o.Status)
	}
	if err := c.CheckRun(run); err != nil {
		return err
	}
	child, err := planning.FindToken(c.State, token, node, workflow.WaitingForChild)
	if err != nil {
		return err
	}
	return c.Take(run, actor.Ended(workflow.Parent{Token: child.ID, Attempt: child.Attempt}, o, nil))
}

// ListDispatched returns the tasks that are dispatched, oldest token first.
func (c *Copy) ListDispatched() (out []*dispatch.Task) {
	for _, e := range planning.Pending(c.State) {
		if d, ok := e.(decision.DispatchTask); ok {
			out = append(out, &dispatch.Task{Dispatch: actor.NewDispatch(c.State, d)})
		}
	}
	return out
}

// IsOut reports whether a task is still the one that its token has dispatched.
func (c *Copy) IsOut(t *dispatch.Task) bool {
	token := c.State.Token(t.Token)
	return token != nil && token.Status == workflow.Dispatched && token.Attempt == t.Attempt && token.Epoch == t.Epoch
}

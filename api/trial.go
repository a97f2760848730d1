package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A Trial is what is tried on a copy of a run: acts, one after the other, and the results of the
// tasks that come of them.
type Trial struct {
	At      int64                      `json:"-"` // on the run as it was after this record, from 1; 0 is as it stands. Of a request, its query has it
	Acts    []Operation                `json:"acts,omitzero"`
	Results map[workflow.NodeID]Result `json:"results,omitzero"` // by node; of others the tasks go on
}

// A Result is what the tasks at a node come to: an output, or the code of an error.
type Result struct {
	Output  json.RawMessage `json:"output,omitzero"`
	Code    string          `json:"code,omitzero"`
	Message string          `json:"message,omitzero"`
}

// A trialRequest is a Trial whose acts are still to be checked. They stay raw until decodeAct has
// compared the fields of each with its kind.
type trialRequest struct {
	Acts    []json.RawMessage          `json:"acts"`
	Results map[workflow.NodeID]Result `json:"results"`
}

// A Future is what would become of a run.
type Future struct {
	At      time.Time         `json:"at"`      // when it stands so, by the clock of the copy
	Outcome *workflow.Outcome `json:"outcome"` // how it stands
	Steps   []Step            `json:"steps"`   // what is decided on the way
}

// A Step is what a run would make of one message.
type Step struct {
	Record Record       `json:"record"`
	Events []pawl.Event `json:"events,omitzero"`
	Notes  []pawl.Note  `json:"notes,omitzero"` // why it is decided so
}

// showFuture returns what has become of a copy.
func (v *viewer) showFuture(s *pawl.Simulation) *Future {
	o := v.showOutcome(s.Snapshot().Outcome)
	out := &Future{At: s.Now(), Outcome: &o, Steps: []Step{}}
	for _, step := range s.Steps() {
		shown := Step{Record: v.recordOf(&step.Record), Notes: v.showNotes(step.Notes)}
		for i := range step.Events {
			shown.Events = append(shown.Events, v.eventOf(&step.Events[i]))
		}
		out.Steps = append(out.Steps, shown)
	}
	return out
}

// replyToTrial answers what would become of a run, whose copy try makes. A trial shows input and
// decisions, so it takes View and Values even from who may act; the check comes before the copy is
// made, which costs.
func (c *call) replyToTrial(id workflow.RunID, try func() (*pawl.Simulation, error)) error {
	if err := c.requireRights(View | Values); err != nil {
		return err
	}
	copied, err := try()
	if err != nil {
		return err
	}
	s, v := copied.Summary(), c.viewerOf(id)
	s.Outcome = v.showOutcome(s.Outcome)
	return c.reply(Tried{RunSummary: s, Future: v.showFuture(copied), SentAgain: copied.SentAgain()})
}

// A Tried is the run that a start or a fork would make, and what would be decided on the way.
type Tried struct {
	pawl.RunSummary
	*Future
	SentAgain []workflow.NodeID `json:"sentAgain,omitzero"` // of a fork: whose tasks and child runs would be sent again
}

// maxActs bounds the acts of a trial.
const maxActs = 1000

// tryActs answers what would come of acts. Nothing is changed. Tasks are played before the first
// act and after each one, with the results that the request has for their nodes; tasks of other
// nodes stay dispatched. So "vote, then two hours later" sees what the vote has led to before time
// passes.
func (c *call) tryActs() error {
	text, err := c.readBody(maxBody)
	if err != nil {
		return err
	}
	var q trialRequest
	if err := decodeObject(text, &q); err != nil {
		return err
	}
	if len(q.Acts) > maxActs {
		return invalidf("there are %d acts, at most %d", len(q.Acts), maxActs)
	}
	acts := make([]*Operation, len(q.Acts))
	for i, raw := range q.Acts {
		if acts[i], err = decodeAct(raw, ""); err != nil {
			return placeRefusal(i, len(acts), err)
		}
	}
	ctx, cancel := context.WithTimeout(c.context(), commitTime)
	defer cancel()
	p := &performer{engine: c.engine, run: c.runID()}
	if p.copied, err = c.pastRun(); err == nil && p.copied == nil {
		p.copied, err = c.engine.Simulate(ctx, p.run)
	}
	if err != nil {
		return err
	}
	// A result for a node that is misspelt would change nothing, and the trial would look as if the
	// run waited. A patch among the acts may add the node, hence a look before and one after.
	unknown := maps.Clone(q.Results) // those whose nodes there are neither before the acts nor after
	if err := dropKnown(unknown, p.copied); err != nil {
		return err
	}
	play := func() error { return p.copied.Play(ctx, resultsOf(q.Results)) }
	if err := play(); err != nil {
		return err
	}
	for i, a := range acts {
		if err := p.performAct(ctx, a); err != nil {
			return placeRefusal(i, len(acts), err)
		}
		if err := play(); err != nil {
			return err
		}
	}
	if err := dropKnown(unknown, p.copied); err != nil {
		return err
	}
	for node := range unknown {
		return invalidf("results has %q, and the run has no node of that name", string(node))
	}
	return c.reply(Acted{Run: p.run, Revision: p.revision, Future: c.viewerOf(p.run).showFuture(p.copied)})
}

// placeRefusal says which of several acts is refused. A single act needs no place. The error is
// copied, as it may be shared.
func placeRefusal(i, of int, err error) error {
	if of == 1 {
		return err
	}
	e := *errorOf(err)
	e.Message = fmt.Sprintf("act %d of %d: %s", i+1, of, e.Message)
	return &e
}

// dropKnown drops the results of nodes that the definition of a copy has.
func dropKnown(results map[workflow.NodeID]Result, copied *pawl.Simulation) error {
	if len(results) == 0 {
		return nil
	}
	d, _, err := copied.Definition()
	if err != nil {
		return err
	}
	for i := range d.Nodes {
		delete(results, d.Nodes[i].ID)
	}
	return nil
}

// resultsOf performs tasks by their nodes. ErrPending leaves a task without a result dispatched, as
// a task that goes on.
type resultsOf map[workflow.NodeID]Result

// Execute implements pawl.Executor.
func (r resultsOf) Execute(_ context.Context, t pawl.Task) (any, error) {
	result, ok := r[t.Node]
	switch {
	case !ok:
		return nil, pawl.ErrPending
	case result.Code != "":
		return nil, pawl.TaskError{Code: result.Code, Message: result.Message}
	}
	return valueOf(result.Output), nil
}

package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A Fork is a new run to be made of another one, as that was after one of its records.
type Fork struct {
	To       workflow.RunID    `json:"to"`                // the id of the new run
	At       int64             `json:"at,omitzero"`       // the record; 0 is the last one after which the run had not ended
	Node     workflow.NodeID   `json:"node,omitzero"`     // in place of At: the node that is to be performed again; or
	Token    workflow.TokenID  `json:"token,omitzero"`    // one of its tokens
	InFlight workflow.InFlight `json:"inFlight,omitzero"` // what becomes of tasks that were out: "" sends them again, park leaves them to an operator
	Results  []ForkResult      `json:"results,omitzero"`  // what some of them come to
	Again    bool              `json:"again,omitzero"`    // with Node or Token: what has completed and cannot be kept is done again
	By       string            `json:"by,omitzero"`       // who forks the run
	Reason   string            `json:"reason"`
}

// A Forked is a fork that was made, and what it has sent again: see pawl.Engine.SentAgain.
type Forked struct {
	pawl.RunSummary
	SentAgain []workflow.NodeID `json:"sentAgain,omitzero"`
}

// A ForkResult is what a task that was out comes to in a fork.
type ForkResult struct {
	Token  workflow.TokenID `json:"token,omitzero"` // that has the task, or
	Node   workflow.NodeID  `json:"node,omitzero"`  // the node, where one task is out
	Output json.RawMessage  `json:"output,omitzero"`
}

// forkRun makes a fork: 201, or 200 if it was made so before. Node or Token make it a rerun, which
// performs that node again; else At chooses the record. As with a start, the same fork may be asked
// for again.
func (c *call) forkRun() error {
	q := c.query()
	dry := q.flag("dryRun")
	if q.err != nil {
		return q.err
	}
	text, err := c.readBody(smallBody)
	if err != nil {
		return err
	}
	var f Fork
	if err := decodeObject(text, &f); err != nil {
		return err
	}
	if f.Node != "" && f.Token != 0 {
		return invalidf("a run is performed again from a node or from a token, not both")
	}
	if err := c.signAct(&f.By, f.Reason); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(pawl.Because(pawl.As(context.WithoutCancel(c.r.Context()), f.By), f.Reason), commitTime)
	defer cancel()
	o := pawl.ForkOptions{At: f.At, InFlight: f.InFlight, Again: f.Again}
	for _, r := range f.Results {
		o.Results = append(o.Results, workflow.ForkResult{Token: r.Token, Node: r.Node, Output: valueOf(r.Output)})
	}
	from := pawl.Target{Run: c.runID(), Node: f.Node, Token: f.Token}
	again := f.Node != "" || f.Token != 0
	if dry {
		return c.replyToTrial(f.To, func() (*pawl.Simulation, error) {
			if again {
				return c.engine.SimulateRerun(ctx, from, f.To, o)
			}
			return c.engine.SimulateFork(ctx, from.Run, f.To, o)
		})
	}
	status := http.StatusOK
	if _, err := c.engine.Summary(ctx, f.To); errors.Is(err, pawl.ErrRunNotFound) {
		status = http.StatusCreated
	}
	if again {
		err = c.engine.Rerun(ctx, from, f.To, o)
	} else {
		err = c.engine.Fork(ctx, from.Run, f.To, o)
	}
	if err != nil {
		return unknownIfLate(err)
	}
	s, err := c.engine.Summary(ctx, f.To)
	if err != nil {
		return err
	}
	sent, err := c.engine.SentAgain(ctx, f.To)
	if err != nil {
		return err
	}
	s.Outcome = c.viewerOf(f.To).showOutcome(s.Outcome)
	return c.replyStatus(status, Forked{RunSummary: s, SentAgain: sent})
}

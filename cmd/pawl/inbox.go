package main

import (
	"context"
	"fmt"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

var inboxVerb = verb{
	name:    "inbox",
	help:    "List what waits for people in all runs: approvals, and tasks that have used up their attempts.",
	example: []string{"pawl inbox", "pawl inbox --workflow order --node approve"},
	command: func() command { return new(inboxCommand) },
}

// An inboxCommand lists what waits for people.
type inboxCommand struct {
	Workflow string `placeholder:"NAME" help:"What is in runs of definitions of this name."`
	Node     string `placeholder:"NODE" help:"What waits at this node."`
	Where    string `placeholder:"CONDITION" help:"What is in runs of which this is true, in CEL."`
	dirFlag
}

// An inboxItem is one thing that waits, as the command writes it for programs. One of its fields is
// set: a program reads the lines without knowing their order.
type inboxItem struct {
	Approval   *pawl.Approval   `json:"approval,omitempty"`
	DeadLetter *pawl.DeadLetter `json:"deadLetter,omitempty"`
	Incident   *pawl.RunSummary `json:"incident,omitempty"` // its failure says at which node a join can no longer be met
}

// runCommand lists approvals, then dead letters, then joins that can no longer be met. Each kind
// asks something else of a person, which the column WAITS FOR names: a vote, a retry or a skip, a
// patch or a fork.
func (c *inboxCommand) runCommand(ctx context.Context, con *console) error {
	return c.withEngine(ctx, con, func(e *reached) error {
		rows, now, wrong := [][]string{{"RUN", "TOKEN", "NODE", "WAITS FOR", "DUE", "WHAT"}}, con.Now(), troubled{}
		noteTrouble := func(run workflow.RunID, trouble string) error {
			if trouble == "" {
				return nil
			}
			return wrong.note(ctx, con, run, fmt.Errorf("%w: %s", pawl.ErrCorrupt, trouble))
		}
		add := func(item inboxItem, row ...string) {
			if c.JSON {
				con.writeLine(true, item)
			} else {
				rows = append(rows, row)
			}
		}
		for a, err := range e.Approvals(ctx, pawl.ApprovalFilter{Workflow: c.Workflow, Node: workflow.NodeID(c.Node), Where: c.Where}) {
			if err == nil {
				err = noteTrouble(a.Run, a.Trouble)
			}
			if err != nil {
				return err
			}
			due := ""
			if !a.Due.IsZero() {
				due = c.instantText(a.Due, now)
			}
			votes := fmt.Sprintf("vote (%d yes, %d no)", a.Approved, a.Rejected)
			add(inboxItem{Approval: &a}, string(a.Run), fmt.Sprintf("t%d", a.Token), string(a.Node), votes, due, a.Message)
		}
		for l, err := range e.DeadLetters(ctx, pawl.DeadLetterFilter{Workflow: c.Workflow, Node: workflow.NodeID(c.Node), Where: c.Where}) {
			if err == nil {
				err = noteTrouble(l.Run, l.Trouble)
			}
			if err != nil {
				return err
			}
			add(inboxItem{DeadLetter: &l}, string(l.Run), fmt.Sprintf("t%d", l.Token), string(l.Node), "retry or skip", "", failureText(&l.Failure))
		}
		for run, err := range e.Runs(ctx, pawl.IncidentFilter(pawl.RunFilter{Workflow: c.Workflow, Where: c.Where})) {
			if err == nil {
				err = noteTrouble(run.Run, run.Trouble)
			}
			if err != nil {
				return err
			}
			// The filter of incidents has no node, so the node of its failure is compared here.
			if f := run.Failure; f != nil && (c.Node == "" || string(f.Node) == c.Node) {
				add(inboxItem{Incident: &run}, string(run.Run), "", string(f.Node), "patch or fork", "", failureText(f))
			}
		}
		if c.JSON {
			return wrong.saysNo()
		}
		if len(rows) > 1 {
			con.printTable(rows)
		}
		con.printLine("%s for people · %s", pluralText(len(rows)-1, "thing"), e.source)
		return wrong.saysNo()
	})
}

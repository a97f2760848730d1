package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

var tokensVerb = verb{
	name:    "tokens",
	help:    "List the tokens of a run, those that live unless --all or --status says otherwise.",
	example: []string{"pawl tokens import-7 --node load --status waiting_for_operator"},
	command: func() command { return new(tokensCommand) },
}

// A tokensCommand lists tokens.
type tokensCommand struct {
	Run    string   `arg:"" help:"The id of the run."`
	Node   string   `placeholder:"NODE" help:"Tokens at this node."`
	Status []string `placeholder:"STATUS" help:"Tokens in any of these, such as dispatched, retrying, waiting_for_operator, failed."`
	Group  int64    `placeholder:"N" help:"Tokens in a branch of this group."`
	All    bool     `help:"Also those that have ended."`
	dirFlag
}

// liveStatuses are those of tokens that can still change.
func liveStatuses() (out []workflow.TokenStatus) {
	for s := range workflow.Completed {
		out = append(out, s)
	}
	return out
}

// runCommand lists the tokens by number.
func (c *tokensCommand) runCommand(ctx context.Context, con *console) error {
	f := pawl.TokenFilter{Node: workflow.NodeID(c.Node), Group: workflow.GroupID(c.Group)}
	if !c.All {
		f.Status = liveStatuses()
	}
	// Statuses that are named win over the default and over --all.
	if c.Status != nil {
		f.Status = nil
	}
	for _, text := range c.Status {
		s, err := workflow.ParseTokenStatus(text)
		if err != nil {
			return fmt.Errorf("--status: %w", err)
		}
		f.Status = append(f.Status, s)
	}
	return c.withEngine(ctx, con, func(e *reached) error {
		rows, now := [][]string{{"TOKEN", "NODE", "STATUS", "BRANCH", "TRY", "DUE", "FAILURE"}}, con.Now()
		for t, err := range e.Tokens(ctx, workflow.RunID(c.Run), f) {
			if err != nil {
				return err
			}
			if c.JSON {
				con.writeLine(true, t)
				continue
			}
			rows = append(rows, c.tokenRow(&t, now))
		}
		if c.JSON {
			return nil
		}
		if len(rows) > 1 {
			con.printTable(rows)
		}
		con.printLine("%s · %s", pluralText(len(rows)-1, "token"), e.source)
		return nil
	})
}

// tokenRow returns the cells of a token in the table of pawl tokens. A group and a branch are g2:0,
// the first branch of group 2.
func (f dirFlag) tokenRow(t *pawl.Token, now time.Time) []string {
	row := []string{fmt.Sprintf("t%d", t.ID), string(t.Node), t.Status.String(), "", "", "", ""}
	if t.Executing { // else its task is queued, or its result comes from elsewhere
		row[2] = "running"
		if !t.Since.IsZero() {
			row[2] += " " + max(now.Sub(t.Since), 0).Round(time.Second).String()
		}
		if t.Worker != "" {
			row[2] += " " + t.Worker
		}
	}
	if q := t.Queued; q != nil {
		row[2] = "queued: " + q.For
		if q.Place > 0 {
			row[2] += fmt.Sprintf(" %d/%d", q.Place, q.Of)
		}
		row[2] += " " + max(now.Sub(q.Since), 0).Round(time.Second).String()
	}
	if t.JoinAt != "" {
		row[2] += " at " + string(t.JoinAt)
	}
	if t.Scope.Group != 0 {
		row[3] = fmt.Sprintf("g%d:%d", t.Scope.Group, t.Scope.Branch)
	}
	if t.Attempt > 0 {
		row[4] = fmt.Sprint(t.Attempt)
	}
	if !t.Due.IsZero() {
		row[5] = f.instantText(t.Due, now)
	}
	if t.Failure != nil {
		row[6] = t.Failure.Code
	}
	return row
}

// tokenCells is a token in a few words.
func (f dirFlag) tokenCells(t *pawl.Token, now time.Time) []string {
	out := []string{string(t.Node), fmt.Sprintf("t%d", t.ID), statusText(t.Status)}
	if due := f.dueText(t.Due, now); due != "" {
		out = append(out, due)
	}
	if t.Failure != nil {
		out = append(out, t.Failure.Code)
	}
	return out
}

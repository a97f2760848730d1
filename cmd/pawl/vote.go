package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

var voteVerb = verb{
	name:    "vote",
	help:    "Vote on an approval.",
	example: []string{"pawl vote order-42 approve yes -m checked", "pawl vote order-42 approve no -m late", "pawl vote order-42 approve -m trial --dry-run   # what each answer would do"},
	command: func() command { return new(voteCommand) },
}

// A voteCommand votes.
type voteCommand struct {
	Run     string `arg:"" help:"The id of the run."`
	Target  string `arg:"" name:"token-or-node" help:"The approval: its node where one waits, or its token, as t5."`
	Answer  string `arg:"" optional:"" enum:"yes,no," default:"" help:"yes or no; with --dry-run both are tried, if this is not given."`
	Comment string `placeholder:"TEXT" help:"What the run is told beside the answer; the reason, if this is not given."`
	Data    string `placeholder:"JSON" help:"A value that the run is given."`
	actFlag
}

// runCommand votes. The reason is the comment of the ballot too, unless there is one.
func (c *voteCommand) runCommand(ctx context.Context, con *console) error {
	data, err := jsonText("--data", c.Data)
	if err != nil {
		return err
	}
	if c.Comment == "" {
		c.Comment = c.Reason
	}
	if c.Answer == "" && !c.DryRun {
		return errNoAnswer
	}
	return c.withActor(ctx, con, func(e *reached) error {
		t, err := e.targetIn(ctx, c.Run, c.Target)
		if err != nil {
			return err
		}
		vote := pawl.Vote{Target: t, Approved: c.Answer == "yes", Comment: c.Comment, Data: data}
		if c.Answer == "" {
			return c.tryBoth(ctx, con, e, vote)
		}
		return c.doAll(ctx, con, e, deed{workflow.RunID(c.Run), vote, fmt.Sprintf("has the vote of %s: %s", c.By, c.Answer)})
	})
}

// errNoAnswer asks for the answer.
var errNoAnswer = errors.New("say yes or no; with --dry-run and neither, both are tried")

// tryBoth says what each answer would do. Each answer is tried on a copy of its own, so the second
// does not come on top of the first.
func (c *voteCommand) tryBoth(ctx context.Context, con *console, e *reached, vote pawl.Vote) error {
	for _, answer := range []string{"yes", "no"} {
		vote.Approved = answer == "yes"
		if !c.JSON {
			con.printLine("%s:", answer)
		}
		if err := c.doDeed(ctx, con, e, deed{workflow.RunID(c.Run), vote, ""}, false); err != nil {
			return err
		}
	}
	if !c.JSON {
		con.printLine("%s", c.sourceText(e))
	}
	return nil
}

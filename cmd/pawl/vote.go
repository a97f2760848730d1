package main

import (
	"context"
	"fmt"

	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

var voteVerb = verb{
	name:    "vote",
	help:    "Vote on an approval.",
	example: []string{"pawl vote order-42 approve yes -m checked", "pawl vote order-42 approve no -m late --dry-run"},
	command: func() command { return new(voteCommand) },
}

// A voteCommand votes.
type voteCommand struct {
	Run     string `arg:"" help:"The id of the run."`
	Target  string `arg:"" name:"token-or-node" help:"The approval: its node where one waits, or its token, as t5."`
	Answer  string `arg:"" enum:"yes,no" help:"yes or no."`
	Comment string `placeholder:"TEXT" help:"What the run is told beside the answer; the reason, if this is not given."`
	Data    string `placeholder:"JSON" help:"A value that the run is given."`
	actFlag
}

func (c *voteCommand) runCommand(ctx context.Context, con *console) error {
	data, err := jsonText("--data", c.Data)
	if err != nil {
		return err
	}
	if c.Comment == "" {
		c.Comment = c.Reason
	}
	approved := c.Answer == "yes"
	return c.withActor(ctx, con, func(e *reached) error {
		act, err := e.targetIn(ctx, c.Run, api.Operation{Do: "vote", Approved: &approved, Comment: c.Comment, Data: data}, c.Target)
		if err != nil {
			return err
		}
		return c.doAll(ctx, con, e, deed{workflow.RunID(c.Run), act, fmt.Sprintf("has the vote of %s: %s", c.By, c.Answer)})
	})
}

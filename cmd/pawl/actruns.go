package main

import (
	"context"

	"github.com/pawl-run/pawl/api"
)

var cancelVerb = verb{
	name:    "cancel",
	help:    "End runs as cancelled.",
	example: []string{"pawl cancel order-42 -m duplicate", "pawl cancel --tenant acme -m left --yes"},
	command: func() command { return &runsCommand{do: "cancel", said: "is cancelled"} },
}

var pauseVerb = verb{
	name:    "pause",
	help:    "Hold back what runs would dispatch; time passes, and results, signals and votes are taken.",
	example: []string{"pawl pause --workflow import -m maintenance"},
	command: func() command { return &runsCommand{do: "pause", said: "is paused"} },
}

var resumeVerb = verb{
	name:    "resume",
	help:    "Let runs go on that are paused or suspended.",
	example: []string{"pawl resume order-42 -m repaired"},
	command: func() command { return &runsCommand{do: "resume", said: "goes on"} },
}

// A runsCommand does something to whole runs.
type runsCommand struct {
	do, said string
	runsFlag
	actFlag
}

// runCommand does it to one run after the other.
func (c *runsCommand) runCommand(ctx context.Context, con *console) error {
	return c.withActor(ctx, con, func(e *reached) error {
		ids, err := c.chooseRuns(ctx, e)
		if err == nil && len(c.Run) == 0 {
			err = c.confirmChange(ctx, con, &c.bulkFlag, c.do+" "+pluralText(len(ids), "run"))
		}
		if err != nil {
			return err
		}
		var deeds []deed
		for _, id := range ids {
			deeds = append(deeds, deed{id, api.Operation{Do: c.do}, c.said})
		}
		return c.doAll(ctx, con, e, deeds...)
	})
}

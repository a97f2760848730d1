package main

import (
	"context"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/workflow"
)

var cancelVerb = verb{
	name:    "cancel",
	help:    "End runs as cancelled, or what is at some of their nodes.",
	example: []string{"pawl cancel order-42 -m duplicate", "pawl cancel order-42 --node refund -m paid", "pawl cancel --tenant acme -m left --yes"},
	command: func() command { return new(cancelCommand) },
}

var pauseVerb = verb{
	name:    "pause",
	help:    "Hold back what runs would dispatch; time passes, and results, signals and votes are taken.",
	example: []string{"pawl pause --workflow import -m maintenance"},
	command: func() command { return &runsCommand{deed: deed{act: pawl.Pause{}, said: "is paused"}} },
}

var resumeVerb = verb{
	name:    "resume",
	help:    "Let runs go on that are paused or suspended.",
	example: []string{"pawl resume order-42 -m repaired"},
	command: func() command { return &runsCommand{deed: deed{act: pawl.Resume{}, said: "goes on"}} },
}

// A cancelCommand ends runs, or the tokens at some nodes.
type cancelCommand struct {
	Node []string `placeholder:"NODE" help:"End what is at this node alone: the run goes on, as after a branch that ended by choice. A branch that has arrived is at the node that its join leads to. Of several, at each."`
	runsFlag
	actFlag
}

// runCommand cancels one run after the other. With --node the run itself goes on, so that is
// another act; all the rest, the choice of runs, the question and the report, is that of
// runsCommand.
func (c *cancelCommand) runCommand(ctx context.Context, con *console) error {
	of := runsCommand{deed{act: pawl.Cancel{}, said: "is cancelled"}, c.runsFlag, c.actFlag}
	if len(c.Node) > 0 {
		var act pawl.CancelNodes
		for _, node := range c.Node {
			act.Nodes = append(act.Nodes, workflow.NodeID(node))
		}
		of.deed = deed{act: act, said: "goes on without what was at " + strings.Join(c.Node, ", ")}
	}
	return of.runCommand(ctx, con)
}

// A runsCommand does something to whole runs. pause, resume and cancel are values of it, which
// differ in the act and in what is said when it is done.
type runsCommand struct {
	deed // to each run
	runsFlag
	actFlag
}

// runCommand does it to one run after the other. Runs that are named are not asked about: the user
// has written each of them. Those that are chosen are, with their number.
func (c *runsCommand) runCommand(ctx context.Context, con *console) error {
	return c.withActor(ctx, con, func(e *reached) error {
		ids, err := c.chooseRuns(ctx, e)
		if err == nil && len(c.Run) == 0 {
			err = c.confirmChange(ctx, con, &c.bulkFlag, acts.Of(c.act).Name+" "+pluralText(len(ids), "run"))
		}
		if err != nil {
			return err
		}
		var deeds []deed
		for _, id := range ids {
			deeds = append(deeds, deed{id, c.act, c.said})
		}
		return c.doAll(ctx, con, e, deeds...)
	})
}

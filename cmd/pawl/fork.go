package main

import (
	"context"

	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

var forkVerb = verb{
	name:    "fork",
	help:    "Make a new run of another one, as that was after one of its records.",
	example: []string{"pawl fork order-42 order-42b --at 12 -m trial", "pawl fork order-42 order-42b --node ship -m rerun --dry-run"},
	command: func() command { return new(forkCommand) },
}

// A forkCommand forks a run.
type forkCommand struct {
	Run      string `arg:"" help:"The id of the run."`
	To       string `arg:"" name:"new-run" help:"The id of the new run."`
	At       int64  `xor:"place" placeholder:"N" help:"After this record; the last one after which the run had not ended, if this is not given."`
	Node     string `xor:"place" placeholder:"NODE" help:"Before this node, or this token, as t5, was performed last."`
	InFlight string `enum:"again,park" default:"again" help:"Tasks that were out: again sends them again, park leaves them to an operator."`
	DryRun   bool   `help:"Say what the new run would be. Nothing is changed."`
	By       string `placeholder:"NAME" help:"Who acts; the user of this process, if this is not given."`
	Reason   string `short:"m" required:"" placeholder:"TEXT" help:"Why, in one line. The journal keeps it."`
	Offline  bool   `help:"If no engine has the directory open, commit this now, and send nothing."`
	dirFlag
}

func (c *forkCommand) runCommand(ctx context.Context, con *console) error {
	a := actFlag{By: c.By, Reason: c.Reason, DryRun: c.DryRun, Offline: c.Offline, dirFlag: c.dirFlag}
	return a.withActor(ctx, con, func(e *reached) error {
		f := api.Fork{To: workflow.RunID(c.To), At: c.At, By: a.By, Reason: c.Reason}
		if c.Node != "" {
			at, err := e.targetIn(ctx, c.Run, api.Operation{}, c.Node)
			if err != nil {
				return err
			}
			f.Node, f.Token = at.Node, at.Token
		}
		if c.InFlight == "park" {
			f.InFlight = workflow.InFlightPark
		}
		if c.DryRun {
			done, err := e.DryRunFork(ctx, workflow.RunID(c.Run), f)
			return a.printTrial(con, e, f.To, done, err)
		}
		s, err := e.Fork(ctx, workflow.RunID(c.Run), f)
		if err != nil {
			return err
		}
		if c.JSON {
			con.writeLine(true, s)
			return nil
		}
		con.printLine("%s is %s after record %d", c.To, c.Run, s.ForkedFrom.Record)
		con.printLine("%s", a.sourceText(e))
		return nil
	})
}

package main

import (
	"context"

	"github.com/pawl-run/pawl/workflow"
)

var dataVerb = verb{
	name:    "data",
	help:    "Write the values of a run as JSON: its state and, if it has completed, its output.",
	example: []string{"pawl data order-42"},
	command: func() command { return new(dataCommand) },
}

// A dataCommand writes values.
type dataCommand struct {
	Run string `arg:"" help:"The id of the run."`
	dirFlag
}

// runCommand writes the values as of the last record.
func (c *dataCommand) runCommand(ctx context.Context, con *console) error {
	return c.withEngine(ctx, con, func(e *reached) error {
		d, err := e.Data(ctx, workflow.RunID(c.Run))
		if err != nil {
			return err
		}
		if c.JSON {
			con.writeLine(true, d)
			return nil
		}
		if err := con.writeValue(d); err != nil {
			return err
		}
		con.sayFiles(e, false)
		return nil
	})
}

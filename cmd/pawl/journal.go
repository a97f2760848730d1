package main

import (
	"context"

	"github.com/pawl-run/pawl/workflow"
)

var journalVerb = verb{
	name:    "journal",
	help:    "List the records of a run: each message, and what was decided.",
	example: []string{"pawl journal order-42 --after 12"},
	command: func() command { return new(journalCommand) },
}

// A journalCommand lists records.
type journalCommand struct {
	followFlag
}

// runCommand lists the records, and ends without an error if the user interrupts it.
func (c *journalCommand) runCommand(ctx context.Context, con *console) error {
	return c.withEngine(ctx, con, func(e *reached) error {
		for r, err := range e.Journal(ctx, workflow.RunID(c.Run), c.position(e)) {
			if err != nil {
				return ignoreInterrupt(ctx, err)
			}
			if c.JSON {
				con.writeLine(true, r)
				continue
			}
			con.printLine("record %d  %s  %s", r.Seq, c.zoneOf(r.At).Format("2006-01-02 15:04:05.000"), r.Message)
			if r.By != "" || r.Reason != "" {
				con.printLine("  by %s: %s", r.By, r.Reason)
			}
			for _, d := range r.Decisions {
				con.printLine("  %s", d)
			}
		}
		con.sayFiles(e, c.JSON)
		return nil
	})
}

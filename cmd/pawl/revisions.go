package main

import (
	"context"
	"strconv"

	"github.com/pawl-run/pawl/workflow"
)

var revisionsVerb = verb{
	name:    "revisions",
	help:    "List the revisions of a run's definition, or write one as JSON.",
	example: []string{"pawl revisions order-42", "pawl revisions order-42 1"},
	command: func() command { return new(revisionsCommand) },
}

// A revisionsCommand shows what a run executed when.
type revisionsCommand struct {
	Run      string `arg:"" help:"The id of the run."`
	Revision int    `arg:"" optional:"" help:"The revision that is written; all are listed, if this is not given."`
	dirFlag
}

// runCommand lists the revisions with who has patched the run, and why.
func (c *revisionsCommand) runCommand(ctx context.Context, con *console) error {
	return c.withEngine(ctx, con, func(e *reached) error {
		if c.Revision != 0 {
			d, err := e.Revision(ctx, workflow.RunID(c.Run), c.Revision)
			if err != nil {
				return err
			}
			if c.JSON {
				con.writeLine(true, d)
				return nil
			}
			return con.writeValue(d)
		}
		rows := [][]string{{"REVISION", "RECORD", "AT", "OPS", "BY", "WHY"}}
		for r, err := range e.Revisions(ctx, workflow.RunID(c.Run), 0) {
			if err != nil {
				return err
			}
			if c.JSON {
				con.writeLine(true, r)
				continue
			}
			rows = append(rows, []string{strconv.Itoa(r.Revision), strconv.FormatInt(r.Seq, 10), c.zoneOf(r.At).Format("2006-01-02 15:04:05"), strconv.Itoa(r.Ops), r.By, r.Reason})
		}
		if !c.JSON {
			con.printTable(rows)
		}
		con.sayFiles(e, c.JSON)
		return nil
	})
}

package main

import (
	"context"

	"github.com/pawl-run/pawl/replay"
)

var diffVerb = verb{
	name:    "diff",
	help:    "Tell where two recorded runs part, and the first value that differs.",
	example: []string{"pawl diff order-41 order-42", "pawl diff order-41.db backup:order-41"},
	command: func() command { return new(diffCommand) },
	working: "comparing",
}

// A diffCommand compares two runs.
type diffCommand struct {
	A string `arg:"" help:"The id of a run in the directory, DIR:RUN for one of another directory, or the file of a run."`
	B string `arg:"" help:"The other run."`
	recordedFlag
}

// runCommand compares; the answer is no if the runs part or were given different values.
func (c *diffCommand) runCommand(ctx context.Context, con *console) error {
	var from sources
	a, err := c.openRecording(ctx, con, c.A, &from)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := c.openRecording(ctx, con, c.B, &from)
	if err != nil {
		return err
	}
	defer b.Close()
	found, err := replay.Diff(a, b)
	if err != nil {
		return err
	}
	con.writeLine(c.JSON, found)
	con.saySources(c.JSON, from)
	if found.Differs() {
		return errNo
	}
	return nil
}

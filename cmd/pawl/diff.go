package main

import (
	"context"

	"github.com/pawl-run/pawl/replay"
)

var diffVerb = verb{
	name:    "diff",
	help:    "Tell where two recorded runs part, and the first value that differs.",
	example: []string{"pawl diff order-41.db order-42.db", "pawl diff data:order-41 data:order-42"},
	command: func() command { return new(diffCommand) },
}

// A diffCommand compares two runs.
type diffCommand struct {
	A string `arg:"" help:"The file of a run, or DIR:RUN for a run of an engine directory that nobody has open."`
	B string `arg:"" help:"The other run."`
	keyFlag
	jsonFlag
}

// runCommand compares; the answer is no if the runs part or were given different values.
func (c *diffCommand) runCommand(_ context.Context, con *console) error {
	a, err := c.openRecording(c.A)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := c.openRecording(c.B)
	if err != nil {
		return err
	}
	defer b.Close()
	found, err := replay.Diff(a, b)
	if err != nil {
		return err
	}
	con.writeLine(c.JSON, found)
	if found.Differs() {
		return errNo
	}
	return nil
}

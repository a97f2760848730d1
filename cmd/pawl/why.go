package main

import (
	"context"

	"github.com/pawl-run/pawl/replay"
)

var whyVerb = verb{
	name:    "why",
	help:    "Say what a recorded run waits for, or why it failed.",
	example: []string{"pawl why data:order-42"},
	command: func() command { return new(whyCommand) },
}

// A whyCommand explains where a run stands.
type whyCommand struct {
	Run string `arg:"" help:"The file of a run, or DIR:RUN for a run of an engine directory that nobody has open."`
	keyFlag
	jsonFlag
}

// runCommand explains the run after its last record.
func (c *whyCommand) runCommand(_ context.Context, con *console) error {
	keys, err := c.codec()
	if err != nil {
		return err
	}
	rec, err := replay.FindSealed(c.Run, keys)
	if err != nil {
		return err
	}
	defer rec.Close()
	x, err := replay.Why(rec)
	if err == nil {
		con.writeLine(c.JSON, x)
	}
	return err
}

package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

var whyVerb = verb{
	name:    "why",
	help:    "Say what a run waits for, or why it failed.",
	example: []string{"pawl why order-42", "pawl why data:order-42"},
	command: func() command { return new(whyCommand) },
}

// A whyCommand explains where a run stands.
type whyCommand struct {
	Run string `arg:"" help:"The id of a run in the directory, DIR:RUN for one of another directory, or the file of a run."`
	dirFlag
}

// runCommand explains the run after its last record.
func (c *whyCommand) runCommand(ctx context.Context, con *console) error {
	x, err := c.explainRecording()
	switch dir, id, of := strings.Cut(c.Run, ":"); {
	case of && errors.Is(err, pawl.ErrLocked):
		c.Dir, c.Run = dir, id
	case of || !errors.Is(err, fs.ErrNotExist):
		if err == nil {
			con.writeLine(c.JSON, x)
		}
		return err
	}
	return c.withEngine(ctx, con, func(e *reached) error {
		x, err := e.Why(ctx, workflow.RunID(c.Run))
		if err != nil {
			return err
		}
		con.writeLine(c.JSON, &x)
		con.sayFiles(e, c.JSON)
		return nil
	})
}

// explainRecording explains a run that is named as a recording.
func (c *whyCommand) explainRecording() (*replay.Explanation, error) {
	if !strings.Contains(c.Run, ":") {
		if _, err := os.Stat(c.Run); err != nil {
			return nil, err
		}
	}
	keys, err := c.codec()
	if err != nil {
		return nil, err
	}
	rec, err := replay.FindSealed(c.Run, keys)
	if err != nil {
		return nil, err
	}
	defer rec.Close()
	x, err := replay.Why(rec)
	return &x, err
}

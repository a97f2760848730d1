package main

import (
	"context"
	"errors"
	"io/fs"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

var whyVerb = verb{
	name:    "why",
	help:    "Say what a run waits for, or why it failed.",
	example: []string{"pawl why order-42", "pawl why data:order-42"},
	command: func() command { return new(whyCommand) },
	working: "explaining",
}

// A whyCommand explains where a run stands.
type whyCommand struct {
	Run string `arg:"" help:"The id of a run in the directory, DIR:RUN for one of another directory, or the file of a run."`
	dirFlag
}

// runCommand explains the run after its last record. A recording is looked for first: a file, or
// DIR:RUN. If the directory is locked its engine is asked; if nothing is there, the word is the id
// of a run in --dir.
func (c *whyCommand) runCommand(ctx context.Context, con *console) error {
	x, err := c.explainRecording()
	dir, id, of := replay.SplitName(c.Run)
	switch {
	case of && errors.Is(err, pawl.ErrLocked):
		c.Dir, c.Run = dir, string(id)
	case of || !errors.Is(err, fs.ErrNotExist):
		if err == nil {
			if !of {
				dir = c.Run
			}
			c.writeExplanation(con, x)
			con.saySources(c.JSON, sources{sourceOf(dir, c.zoneOf(con.Now()))})
		}
		return err
	}
	return c.withEngine(ctx, con, func(e *reached) error {
		x, err := e.Why(ctx, workflow.RunID(c.Run))
		if err != nil {
			return err
		}
		c.writeExplanation(con, &x)
		con.sayFiles(e, c.JSON)
		return nil
	})
}

// writeExplanation writes an explanation; for people with its instants in their zone. JSON keeps
// the instants as the engine gave them.
func (c *whyCommand) writeExplanation(con *console, x *replay.Explanation) {
	if !c.JSON {
		x.At = c.zoneOf(x.At)
		for i := range x.Waits {
			if w := &x.Waits[i]; !w.Until.IsZero() {
				w.Until = c.zoneOf(w.Until)
			}
		}
	}
	con.writeLine(c.JSON, x)
}

// explainRecording explains a run that is named as a recording.
func (c *whyCommand) explainRecording() (*replay.Explanation, error) {
	if err := checkNamed(c.Run); err != nil {
		return nil, err
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
	if dir, _, of := replay.SplitName(c.Run); of && err == nil {
		err = x.ExplainBelow(func(child workflow.RunID) (*replay.Recording, error) {
			return replay.FindSealed(dir+":"+string(child), keys)
		})
	}
	return &x, err
}

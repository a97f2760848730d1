package main

import (
	"context"
	"fmt"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/replay"
)

var replayVerb = verb{
	name:    "replay",
	help:    "Plan recorded runs again, and name the first decision that differs.",
	example: []string{"pawl replay data", "pawl replay data/runs                # while an engine has data open"},
	command: func() command { return new(replayCommand) },
}

// A replayCommand plans recorded runs again.
type replayCommand struct {
	Paths []string `arg:"" name:"file-or-dir" help:"Files of runs, folders of them, or engine directories that nobody has open."`
	keyFlag
	jsonFlag
}

// A replaySummary is the last line of what the command writes.
type replaySummary struct {
	Same       int `json:"same"` // runs
	Different  int `json:"different"`
	Unreadable int `json:"unreadable,omitempty"`
}

// String returns the summary for people.
func (s replaySummary) String() string {
	return fmt.Sprintf("%d replay, %d differ", s.Same, s.Different) + unreadableText(s.Unreadable)
}

// unreadableText ends a summary in which some runs are missing.
func unreadableText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d unreadable", n)
}

// runCommand plans the runs again. The answer is no if some decide otherwise.
func (c *replayCommand) runCommand(_ context.Context, con *console) error {
	keys, err := c.codec()
	if err != nil {
		return err
	}
	var sum replaySummary
	sum.Unreadable = con.eachRecording(keys, c.Paths, func(rec *replay.Recording) error {
		report, err := replay.Check(rec)
		if err != nil {
			return err
		}
		if report.Difference == nil {
			sum.Same++
		} else {
			sum.Different++
		}
		switch {
		case c.JSON:
			con.writeLine(true, report)
		case report.Difference != nil:
			con.writeLine(false, fmt.Sprintf("%s (%s@%d): %v", report.Run, report.Workflow, report.Version, report.Difference))
		}
		return nil
	})
	con.writeLine(c.JSON, sum)
	switch {
	case sum.Unreadable > 0:
		return errFiles
	case sum.Different > 0:
		return errNo
	}
	return nil
}

// eachRecording calls do with the recordings below some paths, says which cannot be read, and
// returns how many those are.
func (con *console) eachRecording(keys pawl.Codec, paths []string, do func(*replay.Recording) error) (unreadable int) {
	for rec, err := range replay.AllSealed(keys, paths...) {
		if err == nil {
			err = do(rec)
		}
		if err != nil {
			unreadable++
			fmt.Fprintln(con.Errs, "pawl:", err)
		}
	}
	return unreadable
}

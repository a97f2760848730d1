package main

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

var replayVerb = verb{
	name:    "replay",
	help:    "Plan recorded runs again, and name the first decision that differs.",
	example: []string{"pawl replay data", "pawl replay order-42", "pawl replay --definition new.yaml data"},
	command: func() command { return new(replayCommand) },
	working: "replaying",
}

// A replayCommand plans recorded runs again. It is a test of a new version of a program, or of a
// definition, against what has really happened: a difference says where runs that are under way
// would go another way.
type replayCommand struct {
	Paths      []string `arg:"" name:"file-dir-or-run" help:"Files of runs, folders of them, engine directories, or ids of runs in the directory."`
	Definition string   `placeholder:"FILE" help:"Tell what this definition would have decided of the runs of workflows of its name."`
	recordedFlag
}

// A replaySummary is the last line of what the command writes. Same and Different add up to the
// runs that were planned; Others and Unreadable were not.
type replaySummary struct {
	Same       int `json:"same"` // runs
	Different  int `json:"different"`
	Others     int `json:"others,omitempty"` // of workflows of another name
	Unreadable int `json:"unreadable,omitempty"`
}

// String returns the summary for people.
func (s replaySummary) String() string {
	text := fmt.Sprintf("%d replay, %d differ", s.Same, s.Different)
	if s.Others > 0 {
		text += fmt.Sprintf(", %d of other workflows", s.Others)
	}
	return text + unreadableText(s.Unreadable)
}

// unreadableText ends a summary in which some runs are missing.
func unreadableText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d unreadable", n)
}

// runCommand plans the runs again. The answer is no if some decide otherwise. The summary is
// written even if some runs cannot be read; that error then makes the exit status, since the answer
// is not about all of them.
func (c *replayCommand) runCommand(ctx context.Context, con *console) error {
	var definition *workflow.Definition
	if c.Definition != "" {
		var err error
		if definition, err = readDefinition(c.Definition); err != nil {
			return err
		}
	}
	var sum replaySummary
	others := map[string]bool{}
	g, err := c.eachRecording(ctx, con, c.Paths, func(rec *replay.Recording) error {
		if definition != nil {
			if rec.Definition().Name != definition.Name {
				others[rec.Definition().Name] = true
				sum.Others++
				return nil
			}
			return c.substituteDefinition(con, &sum, rec, definition)
		}
		return c.checkRun(con, &sum, rec)
	})
	switch sum.Unreadable = g.unreadable; {
	case g.read == 0 && err != nil:
		return err
	case g.read == 0:
		return nothingAt(c.Paths...)
	}
	con.writeLine(c.JSON, sum)
	con.saySources(c.JSON, g.from)
	switch {
	case err != nil:
		return err
	case sum.Different > 0:
		return errNo
	case g.read == sum.Others: // a check of nothing must not pass
		names := strings.Join(slices.Sorted(maps.Keys(others)), ", ")
		return &toldError{fmt.Sprintf("%s defines %q, and no run is of that workflow: there are runs of %s", c.Definition, definition.Name, names), fs.ErrNotExist}
	}
	return nil
}

// checkRun plans a run again.
func (c *replayCommand) checkRun(con *console, sum *replaySummary, rec *replay.Recording) error {
	r, err := replay.Check(rec)
	if err != nil {
		return err
	}
	sum.countRun(r.Difference)
	if c.JSON {
		con.writeLine(true, r)
	} else if r.Difference != nil {
		con.writeLine(false, fmt.Sprintf("%s (%s@%d): %v", r.Run, r.Workflow, r.Version, r.Difference))
	}
	return nil
}

// substituteDefinition plays a run on another definition of its workflow. The messages are those of
// the recording, so what is compared is what the definition decides of the same results.
func (c *replayCommand) substituteDefinition(con *console, sum *replaySummary, rec *replay.Recording, d *workflow.Definition) error {
	s, err := replay.Substitute(rec, d)
	if err != nil {
		return err
	}
	sum.countRun(s.Difference)
	if c.JSON {
		con.writeLine(true, s)
	} else if s.Difference != nil {
		con.writeLine(false, fmt.Sprintf("%s (%s@%d): %v", s.Run, s.Workflow, s.Version, &s))
	}
	return nil
}

func (s *replaySummary) countRun(d *replay.Difference) {
	if d == nil {
		s.Same++
	} else {
		s.Different++
	}
}

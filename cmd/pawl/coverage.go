package main

import (
	"context"

	"github.com/pawl-run/pawl/replay"
)

var coverageVerb = verb{
	name:    "coverage",
	help:    "List what recorded runs never went through: nodes, transitions, tiers, joins.",
	example: []string{"pawl coverage data", "pawl coverage --all data"},
	command: func() command { return new(coverageCommand) },
	working: "reading runs",
}

// A coverageCommand counts what recorded runs went through.
type coverageCommand struct {
	Paths []string `arg:"" name:"file-dir-or-run" help:"Files of runs, folders of them, engine directories, or ids of runs in the directory."`
	All   bool     `help:"Write the counts as well."`
	recordedFlag
}

// A coveredDefinition is a line of JSON.
type coveredDefinition struct {
	*replay.DefinitionCoverage
	Never []string `json:"never"` // what no run has come to, a sentence each
}

// runCommand counts. The answer is no if something was never gone through. Definitions are told
// apart by their hash, so runs of two revisions are not added up.
func (c *coverageCommand) runCommand(ctx context.Context, con *console) error {
	var counts replay.Coverage
	g, err := c.eachRecording(ctx, con, c.Paths, counts.Add)
	if g.read == 0 && err == nil {
		err = nothingAt(c.Paths...)
	}
	never := 0
	for _, d := range counts.Definitions() {
		if c.JSON {
			con.writeLine(true, coveredDefinition{d, append([]string{}, d.Never()...)})
		} else {
			c.writeDefinition(con, d)
		}
		never += len(d.Never())
	}
	con.saySources(c.JSON, g.from)
	switch {
	case err != nil:
		return err
	case never > 0:
		return errNo
	}
	return nil
}

func (c *coverageCommand) writeDefinition(con *console, d *replay.DefinitionCoverage) {
	word := "runs"
	if d.Runs == 1 {
		word = "run"
	}
	con.printProse("%s@%d, %d %s (%.12s)", d.Workflow, d.Version, d.Runs, word, d.Hash)
	if c.All {
		for _, n := range d.Nodes {
			con.printProse("  %6d  node %s: %d completed, %d failed, %d cancelled", n.Reached, n.Node, n.Completed, n.Failed, n.Cancelled)
			for _, x := range n.Choices {
				con.printProse("  %6d  node %s chose %s", x.Chosen, n.Node, x.Name)
			}
		}
		for _, t := range d.Transitions {
			kind := ""
			if t.Error {
				kind = "error "
			}
			con.printProse("  %6d  transition %s [%stier %d]", t.Taken, t.Transition, kind, t.Tier)
		}
		for _, j := range d.Joins {
			con.printProse("  %6d  join %s at %s: %d failed, %d abandoned, %d timed out", j.Fired, j.Group, j.Node, j.Failed, j.Abandoned, j.TimedOut)
		}
	}
	for _, line := range d.Never() {
		con.printProse("  %s", line)
	}
}

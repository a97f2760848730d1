package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

var showVerb = verb{
	name:    "show",
	help:    "Show one run: what is done, what it waits for, how it ended.",
	example: []string{"pawl show order-42"},
	command: func() command { return new(showCommand) },
}

// A showCommand shows a run.
type showCommand struct {
	Run string `arg:"" help:"The id of the run."`
	dirFlag
}

// runCommand shows the run as it is now.
func (c *showCommand) runCommand(ctx context.Context, con *console) error {
	return c.withEngine(ctx, con, func(e *reached) error {
		id := workflow.RunID(c.Run)
		o, err := e.Overview(ctx, id)
		if err != nil {
			return err
		}
		if c.JSON {
			con.writeLine(true, o)
			return nil
		}
		s, err := e.Summary(ctx, id)
		if err != nil {
			return err
		}
		c.printRun(con, &o, &s)
		if err := c.printWaits(ctx, con, e, &o); err != nil {
			return err
		}
		if !o.Status.Final() || o.Failure != nil {
			con.printWhole("hint: pawl why %s", c.Run)
		}
		con.printLine("%s", e.source)
		return nil
	})
}

// printRun writes what is known of the whole run.
func (c *showCommand) printRun(con *console, o *pawl.Overview, s *pawl.RunSummary) {
	now := con.Now()
	line := fmt.Sprintf("%s  %s@%d revision %d  %s · started %s", c.Run, s.Workflow, max(s.Version, 1), o.Revision, o.Status, c.instantText(o.StartedAt, now))
	if o.Status.Final() {
		line += " · ended " + c.instantText(o.EndedAt, now)
	}
	con.printProse("%s · record %d", line, o.Seq)
	for _, more := range [][2]string{{"tenant", s.Tenant}, {"parent", string(s.Parent)}, {"forked from", string(s.ForkedFrom.Run)}} {
		if more[1] != "" {
			con.printLine("  %s %s", more[0], more[1])
		}
	}
	var done []string
	for _, n := range o.Nodes {
		if k := n.Tokens[workflow.Completed]; k > 0 {
			done = append(done, fmt.Sprintf("%s ×%s", n.Node, countText(k)))
		}
	}
	if done != nil {
		con.printItems("  done", done)
	}
	if o.Failure != nil {
		con.printLine("  %s  %s", o.Status, failureText(o.Failure))
	}
	if o.Output != nil {
		con.printLine("  output %s", valueText(o.Output))
	}
}

// maxShown is how many live tokens are shown one by one. If there are more, the nodes are shown at which
// they are.
const maxShown = 10

// printWaits writes the tokens that live, or how many of them there are at each node.
func (c *showCommand) printWaits(ctx context.Context, con *console, e *reached, o *pawl.Overview) error {
	now := con.Now()
	var lines []string
	for t, err := range e.Tokens(ctx, o.Run, pawl.TokenFilter{Status: liveStatuses()}) {
		if err != nil {
			return err
		}
		if len(lines) == maxShown {
			for _, place := range placeTexts(o.Nodes) {
				con.printLine("  %s", place)
			}
			con.printWhole("  each of them: pawl tokens %s", c.Run)
			return nil
		}
		lines = append(lines, strings.Join(c.tokenCells(&t, now), "  "))
	}
	for _, line := range lines {
		con.printLine("  %s", line)
	}
	return nil
}

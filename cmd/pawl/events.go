package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/columns"
	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/workflow"
)

var eventsVerb = verb{
	name:    "events",
	help:    "List what has happened in a run, and with -f what happens.",
	example: []string{"pawl events -f import-7 --type 'task.*,fan_*'"},
	command: func() command { return new(eventsCommand) },
}

// A followFlag is embedded in the commands that list what a run leaves behind.
type followFlag struct {
	Run    string `arg:"" help:"The id of the run."`
	Follow bool   `short:"f" help:"Go on with what comes, until the run has ended."`
	After  int64  `placeholder:"N" help:"Only those after number N."`
	dirFlag
}

// An eventsCommand lists events.
type eventsCommand struct {
	Type []string `placeholder:"PATTERN" help:"Events of these types; * stands for anything."`
	followFlag
}

// runCommand lists the events, and ends without an error if the user interrupts it.
func (c *eventsCommand) runCommand(ctx context.Context, con *console) error {
	for _, pattern := range c.Type {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("--type: %w", err)
		}
	}
	return c.withEngine(ctx, con, func(e *reached) error {
		for v, err := range e.Events(ctx, workflow.RunID(c.Run), c.position(e)) {
			if err != nil {
				return ignoreInterrupt(ctx, err)
			}
			if !c.fitsType(string(v.Type)) {
				continue
			}
			if c.JSON {
				con.writeLine(true, v)
			} else {
				c.printEvent(con, &v)
			}
		}
		con.sayFiles(e, c.JSON)
		return nil
	})
}

// position says where the list begins. Files do not change while they are listed.
func (f *followFlag) position(e *reached) pawl.EventsOptions {
	return pawl.EventsOptions{After: f.After, Follow: f.Follow && e.live}
}

// ignoreInterrupt returns nil in place of an error that only says that the user has had enough.
func ignoreInterrupt(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return nil
	}
	return err
}

// sayFiles says on the side whence a list came.
func (con *console) sayFiles(e *reached, asJSON bool) {
	if !asJSON {
		fmt.Fprintln(con.Errs, e.source)
	}
}

func (c *eventsCommand) fitsType(name string) bool {
	return len(c.Type) == 0 || slices.ContainsFunc(c.Type, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // it was checked
		return ok
	})
}

// dataIndent is how far in the particulars of an event begin that have no room behind it.
const dataIndent = 6

// printEvent writes an event as a line. Where the console has no room for its particulars, they have lines of their own
// below.
func (c *eventsCommand) printEvent(con *console, v *pawl.Event) {
	text := fmt.Sprintf("%5d %s %-20s %-12s", v.Seq, c.zoneOf(v.At).Format("15:04:05.000"), v.Type, v.Node)
	if v.Token != 0 {
		text += fmt.Sprintf(" t%d", v.Token)
	}
	if v.Group != 0 {
		text += fmt.Sprintf(" g%d", v.Group)
	}
	if len(v.Data) == 0 {
		con.printLine("%s", text)
		return
	}
	data := valueText(v.Data)
	if whole := text + strings.Repeat(" ", columns.Gap) + data; con.Width == 0 || diagram.CountColumns(printableText(whole)) <= con.Width {
		con.printLine("%s", whole)
		return
	}
	con.printLine("%s", text)
	con.printBeside(strings.Repeat(" ", dataIndent-columns.Gap), data)
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

var startVerb = verb{
	name:    "start",
	help:    "Start a run in an engine, of a definition that is published there or in a file.",
	example: []string{"pawl start order --id order-44 --input order.json", "pawl start order.yaml --input order.json --dry-run", "pawl start order.yaml --offline"},
	command: func() command { return new(startCommand) },
}

// A startCommand starts a run.
type startCommand struct {
	Definition string            `arg:"" name:"name-or-file" help:"The name of a published definition, or the file of one."`
	Version    int               `placeholder:"N" help:"Of a published one; the latest, if this is not given."`
	ID         string            `placeholder:"ID" help:"The id of the run; a new one, if this is not given."`
	Input      string            `placeholder:"FILE" help:"The input, an object of JSON."`
	Tenant     string            `placeholder:"NAME" help:"On whose behalf."`
	Label      map[string]string `mapsep:"," placeholder:"KEY=VALUE" help:"What the run is about, to find it by."`

	DryRun  bool   `help:"Say what the run would decide at once. Nothing is changed."`
	By      string `placeholder:"NAME" help:"Who acts; the user of this process, if this is not given."`
	Reason  string `short:"m" placeholder:"TEXT" help:"Why, in one line. The journal keeps it."`
	Offline bool   `help:"If no engine has the directory open, commit this now: the run begins when your program opens the directory."`
	dirFlag
}

func (c *startCommand) runCommand(ctx context.Context, con *console) error {
	a := actFlag{By: c.By, Reason: c.Reason, DryRun: c.DryRun, Offline: c.Offline, dirFlag: c.dirFlag}
	s, err := c.readStart()
	if err != nil {
		return err
	}
	if c.ID == "" {
		c.ID = string(pawl.NewRunID())
	}
	return a.withActor(ctx, con, func(e *reached) error {
		s.By, s.Reason, s.Tenant, s.Labels = a.By, c.Reason, c.Tenant, c.Label
		if c.DryRun {
			done, err := e.DryRunStart(ctx, workflow.RunID(c.ID), s)
			return a.printTrial(con, e, workflow.RunID(c.ID), done, err)
		}
		started, err := e.Start(ctx, workflow.RunID(c.ID), s)
		if err != nil {
			return fmt.Errorf("run %s: %w", c.ID, err) // the id may be a new one
		}
		if c.JSON {
			con.writeLine(true, started)
			return nil
		}
		con.printLine("%s is %s", c.ID, started.Status)
		con.printLine("%s", a.sourceText(e))
		return nil
	})
}

// readStart returns the definition and the input.
func (c *startCommand) readStart() (s api.Start, err error) {
	if c.Input != "" {
		text, err := os.ReadFile(c.Input)
		if err != nil {
			return s, err
		}
		if !json.Valid(text) {
			return s, fmt.Errorf("--input: %s is not JSON", c.Input)
		}
		s.Input = text
	}
	if info, err := os.Stat(c.Definition); errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
		s.Workflow, s.Version = c.Definition, c.Version
		return s, nil
	}
	d, err := readDefinition(c.Definition)
	if err != nil {
		return s, err
	}
	if c.Version != 0 {
		return s, fmt.Errorf("--version: %s is a file", c.Definition)
	}
	s.Definition, err = d.MarshalJSON()
	return s, err
}

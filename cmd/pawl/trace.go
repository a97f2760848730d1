package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/retrace"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

var traceVerb = verb{
	name: "trace",
	help: "Make the trace of a run from its journal.",
	example: []string{
		"pawl trace order-42 -o order-42.json            # open it in ui.perfetto.dev",
		"pawl trace order-42 --format otlp -o order-42.otlp.json   # for a collector of OpenTelemetry",
	},
	command: func() command { return new(traceCommand) },
}

// A traceCommand makes a trace.
type traceCommand struct {
	Run    string `arg:"" help:"The id of a run in the directory, DIR:RUN, the file of a run, or an export."`
	Format string `enum:"otlp,perfetto" default:"perfetto" placeholder:"FORMAT" help:"perfetto, for ui.perfetto.dev, or otlp, for a collector of OpenTelemetry, in JSON."`
	Output string `short:"o" placeholder:"FILE" help:"Write to this file."`
	recordedFlag
}

// A traceReport is what the command writes as JSON.
type traceReport struct {
	Trace  string `json:"trace"`  // id, in hexadecimal
	Format string `json:"format"` // perfetto or otlp
	Spans  int    `json:"spans"`  // how many
	Text   string `json:"text"`   // the trace
}

// runCommand makes the trace of the run and of all runs below it.
func (c *traceCommand) runCommand(ctx context.Context, con *console) error {
	var from sources
	rec, err := c.openRecording(ctx, con, c.Run, &from)
	if err != nil {
		return err
	}
	defer rec.Close()
	t, err := retrace.Of(rec, 0, func(child workflow.RunID) (*replay.Recording, error) { return c.openChild(ctx, con, child) })
	if err != nil {
		return err
	}
	con.saySources(c.JSON, from)
	var text bytes.Buffer
	write := t.WritePerfetto
	if c.Format == "otlp" {
		write = t.WriteOTLP
	}
	if err := write(&text); err != nil {
		return err
	}
	if c.Output != "" {
		if err := os.WriteFile(c.Output, text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	switch {
	case c.JSON:
		con.writeLine(true, traceReport{fmt.Sprintf("%x", t.ID), c.Format, len(t.Spans), text.String()})
	case c.Output == "":
		_, err = con.Out.Write(text.Bytes())
	}
	return err
}

// openChild opens the recording of a child run, where that of its parent is; nil if it is not there.
func (c *traceCommand) openChild(ctx context.Context, con *console, child workflow.RunID) (*replay.Recording, error) {
	name := c.Run
	if info, err := os.Stat(name); err != nil || info.IsDir() {
		if name, err = c.pathOfRun(name); err != nil {
			return nil, err
		}
	}
	dir, _, ok := replay.SplitName(name)
	if !ok {
		return nil, nil // the file of one run
	}
	rec, err := c.openRecording(ctx, con, dir+":"+string(child), &sources{})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, pawl.ErrRunNotFound) {
		return nil, nil
	}
	return rec, err
}

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/below"
	"github.com/pawl-run/pawl/internal/retrace"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/store"
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
	rec, find, done, err := c.openRecording(ctx, con, c.Run, &from)
	if err != nil {
		return err
	}
	defer done()
	t, err := retrace.Of(rec, 0, func(child workflow.RunID) (*replay.Recording, error) {
		rec, err := find(child)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, pawl.ErrRunNotFound) {
			return nil, nil
		}
		return rec, err
	})
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
		if err := markFull(below.WriteOutput(c.Output, text.Bytes(), c.Run)); err != nil {
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

// A findRun opens the recording of a run, for as long as it finds no other one. It fails with pawl.ErrRunNotFound.
type findRun func(workflow.RunID) (*replay.Recording, error)

// openWithBelow opens a recording as replay.Find does, and returns with it what finds those of the runs below, in the same
// directory or export, which is opened once. Call done when all are read. Until then a directory may have to be given way to an
// engine, which ends what is read with the cause of ctx.
func (con *console) openWithBelow(ctx context.Context, name string, keys pawl.Codec) (rec *replay.Recording, find findRun, done func(), err error) {
	dir, id, ok := replay.SplitName(name)
	if ok && isEngineDirectory(dir) {
		return con.openInDirectory(ctx, dir, id, keys)
	}
	if !ok {
		dir = name
	}
	if rec, err = replay.Find(name, replay.Options{Codec: keys}); err != nil {
		return nil, nil, nil, err
	}
	var below map[workflow.RunID]*replay.Recording // in memory, as those of an export are; a file of one run has none
	var broken error                               // of a run that may be another one
	return rec, func(child workflow.RunID) (*replay.Recording, error) {
		if below == nil {
			below = map[workflow.RunID]*replay.Recording{}
			for r, err := range replay.All(replay.Options{Codec: keys}, dir) {
				if broken = cmp.Or(broken, err); err == nil && strings.HasPrefix(string(r.Run), string(rec.Run)+"/") {
					below[r.Run] = r
				}
			}
		}
		if r := below[child]; r != nil {
			return r, nil
		}
		return nil, cmp.Or(broken, pawl.ErrRunNotFound)
	}, rec.Close, nil
}

// openInDirectory is openWithBelow for a run of an engine directory that no engine has open.
func (con *console) openInDirectory(
	ctx context.Context, dir string, id workflow.RunID, keys pawl.Codec,
) (rec *replay.Recording, find findRun, done func(), err error) {
	in, err := store.Inspect(dir, keys)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	rec, closeRun, err := openInspected(ctx, in, id)
	if err != nil {
		closeRun()
		_ = in.Close() // it was only read
		return nil, nil, nil, err
	}
	stop, closeChild := con.giveWay(ctx, dir), func() {}
	find = func(child workflow.RunID) (found *replay.Recording, err error) {
		closeChild()
		found, closeChild, err = openInspected(ctx, in, child)
		return found, err
	}
	return rec, find, func() { stop(); closeChild(); closeRun(); _ = in.Close() }, nil
}

// openInspected opens the recording of a run of an inspected directory. Call done in any case.
func openInspected(ctx context.Context, in *store.Inspection, id workflow.RunID) (rec *replay.Recording, done func(), err error) {
	run, err := in.Snapshot(id)
	if err != nil {
		return nil, func() {}, err
	}
	graph, err := in.Graph(run.Definition)
	if err != nil {
		return nil, run.Close, err
	}
	rec = replay.New(id, graph, func(yield func(decision.Record, error) bool) {
		for e, err := range run.Journal() {
			var r decision.Record
			if err = cmp.Or(err, context.Cause(ctx)); err == nil {
				r, err = run.DecodeEntry(&e)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	})
	rec.Source = in.Path()
	return rec, run.Close, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

var importVerb = verb{
	name:    "import",
	help:    "Make a run of one in an export, an archive or the file of a run.",
	example: []string{"pawl import order-42.pawl order-42b -m moved", "pawl import 2026-11.pawl:order-7 order-7b --at 12 --in-flight park -m trial"},
	command: func() command { return new(importCommand) },
}

// An importCommand makes a run of a recorded one.
type importCommand struct {
	From     string `arg:"" help:"The file, whose first run is meant, or FILE:RUN or DIR:RUN."`
	To       string `arg:"" name:"new-run" help:"The id of the new run."`
	At       int64  `placeholder:"N" help:"After this record; the last one after which the run had not ended, if this is not given."`
	InFlight string `enum:"again,park" default:"again" help:"Tasks that were out: again sends them again, park leaves them to an operator."`
	By       string `placeholder:"NAME" help:"Who acts; the user of this process, if this is not given."`
	Reason   string `short:"m" required:"" placeholder:"TEXT" help:"Why, in one line. The journal keeps it."`
	dirFlag
}

// runCommand lets the engine that has the directory open make the run, else commits it to the files.
func (c *importCommand) runCommand(ctx context.Context, con *console) error {
	c.By = userName(c.By)
	client, err := api.Dial(ctx, c.Dir)
	if errors.Is(err, api.ErrNoEngine) {
		return c.importToFiles(ctx, con, err)
	}
	if err != nil {
		return explainLoss(err)
	}
	defer client.Close()
	from, err := filepath.Abs(c.From)
	if err != nil {
		return err
	}
	m := api.Import{From: from, To: workflow.RunID(c.To), At: c.At, InFlight: c.inFlight(), By: c.By, Reason: c.Reason}
	var s pawl.RunSummary
	err = con.whileWorking("importing "+c.From, func() (err error) {
		s, err = client.Import(ctx, m)
		return explainLoss(err)
	})
	if err != nil {
		return err
	}
	c.tellImported(con, &s, "live: it goes on")
	return nil
}

func (c *importCommand) inFlight() workflow.InFlight {
	if c.InFlight == "park" {
		return workflow.InFlightPark
	}
	return ""
}

// tellImported says what was made.
func (c *importCommand) tellImported(con *console, s *pawl.RunSummary, where string) {
	if c.JSON {
		con.writeLine(true, s)
		return
	}
	con.printLine("%s is %s after record %d", c.To, string(s.ForkedFrom.Run), s.ForkedFrom.Record)
	con.printLine("%s", where)
}

// importToFiles commits the run in a directory that no engine has open. unasked says why none was asked.
func (c *importCommand) importToFiles(ctx context.Context, con *console, unasked error) error {
	if _, err := os.Stat(filepath.Join(c.Dir, "pawl.db")); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is no engine directory, name one with --dir or PAWL_DIR: %w", c.Dir, fs.ErrNotExist)
	}
	keys, err := c.codec()
	if err != nil {
		return err
	}
	rec, err := replay.FindSealed(c.From, keys)
	if err != nil {
		return err
	}
	defer rec.Close()
	logger := slog.New(slog.NewTextHandler(con.Errs, &slog.HandlerOptions{Level: slog.LevelWarn}))
	engine, err := pawl.Open(ctx, c.Dir, pawl.Options{Maintenance: true, Codec: keys, Logger: logger})
	if errors.Is(err, pawl.ErrLocked) {
		return fmt.Errorf("%w: close that, or let it serve pawl.Options{Socket: inspector.Local}: %w", err, unasked)
	}
	if err != nil {
		return err
	}
	err = engine.Import(pawl.Because(pawl.As(ctx, c.By), c.Reason), rec, workflow.RunID(c.To), pawl.ForkOptions{At: c.At, InFlight: c.inFlight()})
	var s pawl.RunSummary
	if err == nil {
		s, err = engine.Summary(ctx, workflow.RunID(c.To))
	}
	if err := errors.Join(err, engine.Close(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	c.tellImported(con, &s, fmt.Sprintf("files, as of %s: it goes on when your program opens %s", c.zoneOf(con.Now()).Format("15:04:05"), c.Dir))
	return nil
}

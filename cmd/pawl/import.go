package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

var importVerb = verb{
	name:    "import",
	help:    "Make a run of one in an export, an archive or the file of a run.",
	example: []string{"pawl import order-42.pawl order-42b -m moved", "pawl import 2026-11.pawl:order-7 order-7b --at 12 --in-flight park -m trial --dry-run"},
	command: func() command { return new(importCommand) },
}

// An importCommand makes a run of a recorded one.
type importCommand struct {
	From     string `arg:"" help:"The file, whose first run is meant, or FILE:RUN or DIR:RUN."`
	To       string `arg:"" name:"new-run" help:"The id of the new run."`
	At       *int64 `placeholder:"N" help:"After this record; the last one after which the run had not ended, if this is not given."`
	InFlight string `enum:"again,park" default:"again" help:"Tasks that were out: again sends them again, park leaves them to an operator."`
	Create   bool   `help:"Make the directory, if there is none."`
	DryRun   bool   `help:"Say what the new run would be. Nothing is changed."`
	By       string `placeholder:"NAME" help:"Who acts; the user of this process, if this is not given."`
	Reason   string `short:"m" required:"" placeholder:"TEXT" help:"Why, in one line. The journal keeps it."`
	dirFlag
}

// runCommand lets the engine that has the directory open make the run, else commits it to the
// files. Offline is set without a flag, since an import starts from a file and surprises nobody's
// program: its tasks begin when the directory is opened. The path is made absolute, as the engine
// reads it.
func (c *importCommand) runCommand(ctx context.Context, con *console) error {
	a := actFlag{By: c.By, Reason: c.Reason, DryRun: c.DryRun, Offline: true, dirFlag: c.dirFlag}
	from, err := filepath.Abs(c.From)
	if err != nil {
		return err
	}
	at, err := recordOf(c.At)
	if err != nil {
		return err
	}
	if c.Create {
		if err := c.createDirectory(ctx); err != nil {
			return err
		}
	}
	err = a.withActor(ctx, con, func(e *reached) error {
		m := api.Import{From: from, To: workflow.RunID(c.To), At: at, By: a.By, Reason: c.Reason}
		if c.InFlight == "park" {
			m.InFlight = workflow.InFlightPark
		}
		if c.DryRun {
			var done api.Tried
			err := con.whileWorking("reading "+c.From, func() (err error) {
				done, err = e.DryRunImport(ctx, m)
				return err
			})
			return a.printTrial(con, e, m.To, done, err)
		}
		var s pawl.RunSummary
		err := con.whileWorking("importing "+c.From, func() (err error) {
			s, err = e.Import(ctx, m)
			return err
		})
		if err != nil {
			return err
		}
		if c.JSON {
			con.writeLine(true, s)
			return nil
		}
		con.printLine("%s is %s after record %d", c.To, string(s.ForkedFrom.Run), s.ForkedFrom.Record)
		if e.live {
			con.printLine("live: it goes on")
		} else {
			con.printLine("%s: it goes on when your program opens %s", e.source, c.Dir)
		}
		return nil
	})
	if _, missing := os.Stat(filepath.Join(c.Dir, "pawl.db")); errors.Is(err, fs.ErrNotExist) && missing != nil {
		return fmt.Errorf("%w: --create makes it", err)
	}
	return err
}

// createDirectory makes an engine directory without runs, where there is none: no other command makes one, as a program does when it opens it.
func (c *importCommand) createDirectory(ctx context.Context) error {
	if c.DryRun {
		return errors.New("--create makes a directory, and --dry-run changes nothing: leave one of them out")
	}
	if _, err := os.Stat(filepath.Join(c.Dir, "pawl.db")); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	keys, err := c.codec()
	if err != nil {
		return err
	}
	engine, err := pawl.Open(ctx, c.Dir, pawl.Options{Maintenance: true, Codec: keys})
	if err != nil {
		return err
	}
	return engine.Close(context.WithoutCancel(ctx))
}

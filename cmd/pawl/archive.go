package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

var archiveVerb = verb{
	name:    "archive",
	help:    "Move runs that have ended, with those below them, into one file that can be read.",
	example: []string{"pawl archive --age 720h --to 2026-11.pawl -m archive --yes", "pawl replay 2026-11.pawl"},
	command: func() command { return new(archiveCommand) },
}

// An archiveCommand exports runs, and forgets them once the file is durable and was read. The order
// is what makes it safe: the file is written and made durable, then read from its beginning to its
// end, and only then is the first run purged. A crash in between leaves runs that are in the
// archive and in the directory, never in neither.
type archiveCommand struct {
	To    string `required:"" placeholder:"FILE" help:"The file, which must not exist. It has the values of the runs in clear text."`
	Blobs bool   `help:"Write the blobs that the runs refer to as well; without, they are lost once nothing else refers to them."`
	purgeCommand
}

// runCommand writes the file, whole or not at all, and then forgets one run after the other.
func (c *archiveCommand) runCommand(ctx context.Context, con *console) error {
	return c.withActor(ctx, con, func(e *reached) error {
		ids, err := c.chooseEnded(ctx, con, e)
		if err != nil {
			return err
		}
		var sum purgeSum
		var runs []archivedRun
		err = con.whileWorking("looking at what has ended", func() (err error) {
			runs, err = c.findArchived(ctx, con, e, ids, &sum)
			return err
		})
		if err != nil || c.DryRun || len(runs) == 0 {
			return errors.Join(err, c.tellSum(con, e, &sum, "archive and purge"))
		}
		if len(c.Run) == 0 {
			if err := c.confirm(ctx, con, "archive "+pluralText(len(runs), "run")+" and what is below"); err != nil {
				return err
			}
		}
		size, err := con.createWhole(c.To, func(f *os.File) (err error) {
			runs, err = c.writeArchived(ctx, con, e, runs, f, &sum)
			return err
		}, func(path string) error { return checkArchive(path, sum.all) })
		if err != nil {
			return err
		}
		if !c.JSON {
			con.printLine("%s: %s, %s", c.To, pluralText(sum.all, "run"), bytesText(size))
		}
		sum = purgeSum{refused: sum.refused, unread: sum.unread}
		err = con.whileWorking("purging what is archived", func() error {
			for i := range runs {
				if err := c.forgetArchived(ctx, con, e, &runs[i].RunSummary, &sum); err != nil && ctx.Err() != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		return c.tellSum(con, e, &sum, "archive and purge")
	})
}

// An archivedRun is one that is written and then forgotten, with what is below it.
type archivedRun struct {
	pawl.RunSummary
	family api.Purged
}

// writeArchived writes the runs, and returns those that are written: a run that cannot be read is named, and is neither in the file
// nor forgotten.
func (c *archiveCommand) writeArchived(ctx context.Context, con *console, e *reached, runs []archivedRun, f *os.File, sum *purgeSum) (out []archivedRun, err error) {
	var ids []workflow.RunID
	for i := range runs {
		ids = append(ids, runs[i].Run)
	}
	var wrong troubled
	written, err := e.writeEach(ctx, con, ids, f, &wrong, func(id workflow.RunID, w io.Writer) error {
		return e.Export(ctx, id, w, pawl.ExportOptions{Blobs: c.Blobs})
	})
	for _, run := range runs {
		if slices.Contains(written, run.Run) {
			out = append(out, run)
			continue
		}
		sum.unread++
		sum.roots, sum.all, sum.bytes = sum.roots-1, sum.all-run.family.Runs, sum.bytes-run.family.Bytes
	}
	return out, err
}

// findArchived returns the runs that can be forgotten, and says which cannot. It asks the engine
// what each purge would do, so that a run below which something goes on is refused now, and is not
// in the file.
func (c *archiveCommand) findArchived(ctx context.Context, con *console, e *reached, ids []workflow.RunID, sum *purgeSum) (runs []archivedRun, err error) {
	for _, id := range ids {
		seen, err := e.DryRunPurge(ctx, id, api.Purge{By: c.By, Reason: c.Reason})
		var run pawl.RunSummary
		if err == nil {
			run, err = e.Summary(ctx, id)
		}
		if err != nil && (len(ids) == 1 || ctx.Err() != nil) {
			return nil, err
		}
		if err != nil {
			sum.refused++
			fmt.Fprintf(con.Errs, "pawl: %s: %v\n", printableText(string(id)), err)
			continue
		}
		runs = append(runs, archivedRun{run, seen})
		sum.roots, sum.all, sum.bytes = sum.roots+1, sum.all+seen.Runs, sum.bytes+seen.Bytes
	}
	return runs, nil
}

// checkArchive reads an archive from its beginning to its end: it must have so many runs, and all
// must have ended. It is the last look before what cannot be undone, so it plans every run again
// and does not trust that the export ended well.
func checkArchive(path string, want int) error {
	have := 0
	for r, err := range replay.All(path) {
		if err != nil {
			return err
		}
		seen, err := replay.Check(r)
		r.Close()
		if err == nil && seen.Difference == nil && !seen.Status.Final() { // where another planner has decided, it is not planned to its end
			err = fmt.Errorf("run %q has not ended in what was written: nothing is purged", string(seen.Run))
		}
		if err != nil {
			return err
		}
		have++
	}
	if have != want {
		return fmt.Errorf("%d of %d runs were written: nothing is purged", have, want)
	}
	return nil
}

// forgetArchived purges a run that is in the archive, unless its id is of another run by now.
// Between the export and this moment somebody may have purged the run and started another one under
// its id, which is in no archive: sequence and instants tell them apart.
func (c *archiveCommand) forgetArchived(ctx context.Context, con *console, e *reached, run *pawl.RunSummary, sum *purgeSum) error {
	now, err := e.Summary(ctx, run.Run)
	if err == nil && (now.Seq != run.Seq || !now.StartedAt.Equal(run.StartedAt) || !now.EndedAt.Equal(run.EndedAt)) {
		err = pawl.ErrRunNotFound
	}
	if err != nil {
		sum.refused++
		fmt.Fprintf(con.Errs, "pawl: %s: %v\n", printableText(string(run.Run)), err)
		return err
	}
	return c.purgeRun(ctx, con, e, run.Run, sum)
}

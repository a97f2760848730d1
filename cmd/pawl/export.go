package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/below"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

var exportVerb = verb{
	name:    "export",
	help:    "Write runs, with those below them, into one file that can be read anywhere.",
	example: []string{"pawl export order-42 --to order-42.pawl", "pawl export --status failed --workflow order --to failed.pawl", "pawl replay order-42.pawl"},
	command: func() command { return new(exportCommand) },
	working: "exporting",
}

// An exportCommand exports runs.
type exportCommand struct {
	Run []string `arg:"" optional:"" help:"The ids of the runs; none if they are chosen."`
	filterFlag
	To     string `required:"" placeholder:"FILE" help:"The file, which must not exist. It has the values of the runs in clear text."`
	Blobs  bool   `xor:"values" help:"Write the blobs that the runs refer to as well."`
	Redact bool   `xor:"values" help:"Write shapes in place of values: keys, lengths and counts. Such runs can be shown, not planned again."`
	dirFlag
}

// runCommand writes the file, whole or not at all.
func (c *exportCommand) runCommand(ctx context.Context, con *console) error {
	return c.withEngine(ctx, con, func(e *reached) error {
		ids, err := c.chooseExported(ctx, e)
		if err != nil {
			return err
		}
		wrong := troubled{chosen: len(c.Run) == 0}
		size, err := con.createWhole(c.To, func(f *os.File) error {
			ids, err = writeEach(ctx, con, ids, f, &wrong, func(id workflow.RunID, w io.Writer) error { return c.writeExport(ctx, e, id, w) })
			return err
		}, checkExported)
		if err != nil {
			return err
		}
		if !c.JSON {
			without := ""
			if c.Redact {
				without = ", without values"
			}
			con.printLine("%s: %s with what is below%s, %s", c.To, pluralText(len(ids), "run"), without, bytesText(size))
		} else {
			con.writeLine(true, exportedFile{c.To, ids, size})
		}
		con.sayFiles(e, c.JSON)
		return wrong.saysNo()
	})
}

// writeEach writes runs one after the other, and returns those that are written. One of several that cannot be read is named, and nothing
// of it is left in the file; if it is the only one, or there is no other, its error is that of the command.
func writeEach(
	ctx context.Context, con *console, ids []workflow.RunID, f *os.File, wrong *troubled, write func(workflow.RunID, io.Writer) error,
) (written []workflow.RunID, err error) {
	for _, id := range ids {
		at, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		to := &ownErrors{to: f}
		if err = write(id, to); err == nil {
			written = append(written, id)
			continue
		}
		if len(ids) == 1 || to.err != nil {
			return nil, err
		}
		if err := wrong.note(ctx, con, id, err); err != nil {
			return nil, err
		}
		if err := f.Truncate(at); err != nil {
			return nil, err
		}
		if _, err := f.Seek(at, io.SeekStart); err != nil {
			return nil, err
		}
	}
	switch {
	case len(written) == 0 && wrong.runs == 0:
		return nil, errNoneChosen
	case len(written) == 0:
		return nil, errNo
	}
	return written, nil
}

// An ownErrors remembers the first error of writing, which is of no run.
type ownErrors struct {
	to  io.Writer
	err error
}

// Write implements io.Writer.
func (w *ownErrors) Write(text []byte) (int, error) {
	n, err := w.to.Write(text)
	w.err = cmp.Or(w.err, err)
	return n, err
}

// An exportedFile is a line of JSON.
type exportedFile struct {
	File  string           `json:"file"`
	Runs  []workflow.RunID `json:"runs"`  // without those below them
	Bytes int64            `json:"bytes"` // of the file
}

// writeExport writes one run with what is below. The engine exports whole values, and replay.Redact takes them out here, on this machine, before a
// byte reaches the file. If the export fails, the reader sees a text that is cut short; the error of the export is the better one to tell.
func (c *exportCommand) writeExport(ctx context.Context, e *reached, id workflow.RunID, w io.Writer) error {
	if !c.Redact {
		return e.Export(ctx, id, w, pawl.ExportOptions{Blobs: c.Blobs})
	}
	from, to := io.Pipe()
	done := make(chan error, 1)
	go func() { // its end is awaited below
		err := e.Export(ctx, id, to, pawl.ExportOptions{})
		_ = to.CloseWithError(err) // it cannot fail
		done <- err
	}()
	err := replay.Redact(w, from)
	_ = from.Close() // it cannot fail
	if failed := <-done; failed != nil && !errors.Is(failed, io.ErrClosedPipe) {
		return failed
	}
	return err
}

// chooseExported returns the runs that are named or, of those without a parent, chosen. Runs that are named may be children. Only roots are chosen,
// as each brings what is below it, and nothing is to be in the file twice.
func (c *exportCommand) chooseExported(ctx context.Context, e *reached) (ids []workflow.RunID, err error) {
	if (len(c.Run) > 0) != c.isEmpty() {
		return nil, errors.New("name runs, or choose them by --workflow, --status, --tenant, --prefix, --label, --where or --roots")
	}
	if named := namedRoots(c.Run); named != nil {
		return named, nil
	}
	f, err := c.runFilter()
	if err != nil {
		return nil, err
	}
	f.Roots = true // the others come with them
	for run, err := range e.Runs(ctx, f) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, run.Run)
	}
	if len(ids) == 0 {
		return nil, errNoneChosen
	}
	return ids, nil
}

var errNoneChosen = &toldError{"no run is chosen", pawl.ErrRunNotFound}

// namedRoots returns the runs that are named, each once, and none that comes with another one that it is below: the id of a child begins
// with that of its parent.
func namedRoots(names []string) (ids []workflow.RunID) {
	for i, name := range names {
		comes := slices.Contains(names[:i], name) || slices.ContainsFunc(names, func(above string) bool { return strings.HasPrefix(name, above+"/") })
		if !comes {
			ids = append(ids, workflow.RunID(name))
		}
	}
	return ids
}

// checkExported reads a file of exported runs from its beginning to its end. A disk that has lost a
// write is found now, while the runs still are in the engine.
func checkExported(path string) error {
	for r, err := range replay.All(replay.Options{}, path) {
		if err != nil {
			return err
		}
		r.Close()
	}
	return nil
}

// createWhole makes a file that is durable and whole if it is there under its name, which must be free, and
// returns its size. check reads it before it gets the name.
func (con *console) createWhole(path string, write func(*os.File) error, check func(path string) error) (size int64, err error) {
	if _, err := os.Lstat(path); err == nil {
		return 0, takenError(path)
	}
	// It stands in the same folder, as neither links nor atomic renames cross file systems. A process
	// that is killed leaves a .tmp file, never half a file under the name.
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return 0, markFull(err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // it has another name by then, or is not wanted
	if err = con.whileWorking("writing "+path, func() error { return write(f) }); err == nil {
		err = f.Sync()
	}
	if info, again := f.Stat(); err == nil {
		if err = again; err == nil {
			size = info.Size()
		}
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		con.hook.Hit("whole.written")
		err = check(f.Name())
	}
	if err == nil {
		con.hook.Hit("whole.checked")
		err = nameWhole(f.Name(), path, os.Link)
	}
	if err == nil {
		err = below.SyncFolder(filepath.Dir(path))
	}
	con.hook.Hit("whole.named")
	return size, markFull(err)
}

func takenError(path string) error { return fmt.Errorf("%s is there already: name another file", path) }

// nameWhole gives a whole file, which is at from, the name to, unless something has got that name since createWhole looked: a rename would replace
// it, and it may be an archive whose runs are purged.
//
// A link is refused where the name is taken; the caller removes the other name. A file system without links (link fails otherwise) gets an empty file
// under the name first, which is refused as well where something is there, and then renames over that one. A crash in between leaves it empty.
func nameWhole(from, to string, link func(from, to string) error) error {
	err := link(from, to)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		var empty *os.File
		if empty, err = os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
			if err = empty.Close(); err == nil {
				err = os.Rename(from, to)
			}
			if err != nil {
				_ = os.Remove(to) // it is empty
			}
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return takenError(to)
	}
	return err
}

// markFull adds ErrNoSpace to an error of a full disk.
func markFull(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", pawl.ErrNoSpace, err)
	}
	return err
}

var archiveVerb = verb{
	name:    "archive",
	help:    "Move runs that have ended, with those below them, into one file that can be read.",
	example: []string{"pawl archive --age 720h --to 2026-11.pawl -m archive --yes", "pawl replay 2026-11.pawl"},
	command: func() command { return new(archiveCommand) },
}

// An archiveCommand exports runs, and forgets them once the file is durable and was read. The order is what makes it safe: the file is written and
// made durable, then read from its beginning to its end, and only then is the first run purged. A crash in between leaves runs that are in the
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
		if err != nil {
			return err // nothing is purged
		}
		if c.DryRun || len(runs) == 0 {
			return c.tellSum(con, e, &sum, "archive and purge")
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
		sum = purgeSum{refused: sum.refused, first: sum.first, unread: sum.unread}
		err = con.whileWorking("purging what is archived", func() error {
			for i := range runs {
				if err := c.forgetArchived(ctx, con, e, &runs[i].RunSummary, &sum); err != nil && (ctx.Err() != nil || sum.stopped != nil) {
					return err
				}
			}
			return nil
		})
		if err != nil && sum.stopped == nil {
			return err
		}
		return c.tellSum(con, e, &sum, "archive and purge")
	})
}

// An archivedRun is one that is written and then forgotten, with what is below it.
type archivedRun struct {
	pawl.RunSummary
	family api.PurgeReport
}

// writeArchived writes the runs, and returns those that are written: a run that cannot be read is named, and is neither in the file nor forgotten.
func (c *archiveCommand) writeArchived(ctx context.Context, con *console, e *reached, runs []archivedRun, f *os.File, sum *purgeSum) (out []archivedRun, err error) {
	var ids []workflow.RunID
	for i := range runs {
		ids = append(ids, runs[i].Run)
	}
	var wrong troubled
	written, err := writeEach(ctx, con, ids, f, &wrong, func(id workflow.RunID, w io.Writer) error {
		return e.Export(ctx, id, w, pawl.ExportOptions{AllBlobs: c.Blobs})
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

// findArchived returns the runs that can be forgotten, and says which cannot. It asks the engine what each purge would do, so that a run below which
// something goes on is refused now, and is not in the file.
func (c *archiveCommand) findArchived(ctx context.Context, con *console, e *reached, ids []workflow.RunID, sum *purgeSum) (runs []archivedRun, err error) {
	for _, id := range ids {
		seen, err := e.DryRunPurge(ctx, id, api.Purge{By: c.By, Reason: c.Reason})
		var run pawl.RunSummary
		if err == nil {
			run, err = e.Summary(ctx, id)
		}
		if err != nil && (len(ids) == 1 || ctx.Err() != nil || endsAll(err)) {
			return nil, err
		}
		if err != nil {
			sum.countRefused(err)
			fmt.Fprintf(con.Errs, "pawl: %s: %s\n", printableText(string(id)), errorText(err))
			continue
		}
		if c.DryRun && c.JSON {
			con.writeLine(true, seen)
		}
		runs = append(runs, archivedRun{run, seen})
		sum.roots, sum.all, sum.bytes = sum.roots+1, sum.all+seen.Runs, sum.bytes+seen.Bytes
	}
	return runs, nil
}

// checkArchive reads an archive from its beginning to its end: it must have so many runs, and all must have ended. It is the last look before what
// cannot be undone, so it plans every run again and does not trust that the export ended well.
func checkArchive(path string, want int) error {
	have := 0
	for r, err := range replay.All(replay.Options{}, path) {
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

// forgetArchived purges a run that is in the archive, unless its id is of another run by now. Between the export and this moment somebody may have
// purged the run and started another one under its id, which is in no archive: sequence and instants tell them apart.
func (c *archiveCommand) forgetArchived(ctx context.Context, con *console, e *reached, run *pawl.RunSummary, sum *purgeSum) error {
	now, err := e.Summary(ctx, run.Run)
	if err == nil && (now.Seq != run.Seq || !now.StartedAt.Equal(run.StartedAt) || !now.EndedAt.Equal(run.EndedAt)) {
		err = pawl.ErrRunNotFound
	}
	if err != nil {
		return c.noteKept(ctx, con, run.Run, err, sum)
	}
	return c.purgeRun(ctx, con, e, run.Run, sum)
}

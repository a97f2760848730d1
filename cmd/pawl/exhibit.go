package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/loopback"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

// errExhibit says that a file of runs is not changed.
var errExhibit = errors.New("runs in a file can be looked at, not changed: pawl import makes a run of one")

// isRunsFile reports whether a path is a file, not a directory: an export, an archive or the file of a run.
func isRunsFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// openExhibit opens the runs of a file as an engine would have them that is closed: in a directory of their own, which is removed in the end. Acts
// that would change them are refused. So every command that looks at runs works on an export as on a directory, without code of its own. The client
// may only read; carry may do more, and its users narrow their requests.
func (f dirFlag) openExhibit(ctx context.Context, con *console) (*reached, error) {
	if err := checkRunsFile(f.Dir); err != nil {
		return nil, fmt.Errorf("%w, and no engine directory", err)
	}
	dir, err := os.MkdirTemp("", "pawl-exhibit-")
	if err != nil {
		return nil, err
	}
	n, redacted := 0, false
	err = con.whileWorking("reading "+f.Dir, func() (err error) {
		n, redacted, err = f.fillExhibit(ctx, con, dir)
		return err
	})
	var e *reached
	if err == nil {
		// From here on it is a directory like any other, which no engine has open.
		copied := dirFlag{Dir: dir, UTC: f.UTC, keyFlag: f.keyFlag}
		e, err = copied.openFiles(ctx, con)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	opened := e.close
	e.close = func() error { return errors.Join(opened(), os.RemoveAll(dir)) }
	e.source = fmt.Sprintf("%s, %s", filepath.Base(f.Dir), pluralText(n, "run"))
	if redacted {
		e.source += ", without values"
		e.carry = withoutValues{e.carry}
	}
	e.fixed = true
	e.Client = api.NewClient("http://localhost", &http.Client{Transport: readOnly{e.carry}})
	return e, nil
}

// fillExhibit writes the runs of the file into a new directory, and returns how many there are, and whether one was exported without its values. Runs that cannot be
// read are told of, and left out, unless there is no other. With keys the directory is sealed as well: a command that
// is killed leaves it behind.
func (f dirFlag) fillExhibit(ctx context.Context, con *console, dir string) (n int, redacted bool, err error) {
	keys, err := f.codec()
	if err != nil {
		return 0, false, err
	}
	d, err := store.Open(dir, store.Options{Durability: store.ProcessCrash, Codec: keys})
	if err != nil {
		return 0, false, err
	}
	var unreadable error
	for rec, err := range replay.All(replay.Options{Codec: keys}, f.Dir) {
		if err == nil {
			redacted = redacted || rec.Redacted()
			err = exhibitRun(d, rec)
		}
		if err == nil {
			n++
		} else if unreadable == nil {
			unreadable = err
		}
		if err != nil && n > 0 {
			fmt.Fprintln(con.Errs, "pawl:", errorText(err))
		}
		if ctx.Err() != nil {
			unreadable, n = context.Cause(ctx), 0
			break
		}
	}
	if err := d.Close(); err != nil {
		return 0, false, err
	}
	if n == 0 {
		return 0, false, unreadable
	}
	return n, redacted, nil
}

// exhibitRun writes a recorded run into a directory, as it is. The records are written with their sequences and instants, so what is shown agrees
// with the recording. The heads of child runs are made of their ids, as an export has no heads.
func exhibitRun(d *store.Dir, rec *replay.Recording) error {
	p, err := playRecording(rec)
	if err != nil {
		return err
	}
	head := store.Head{Run: rec.Run}
	if start, ok := p.records[0].Message.(state.Start); ok {
		head.InputHash, head.Tenant, head.Labels = value.Hash(start.Input), start.Tenant, start.Labels
	}
	if i := strings.LastIndex(string(rec.Run), "/"); i > 0 { // the id of a child begins with that of its parent
		root, _, _ := strings.Cut(string(rec.Run), "/")
		head.Parent, head.Root = rec.Run[:i], workflow.RunID(root)
	}
	run := d.New(head, p.graph)
	return errors.Join(run.Commit(p.state, p.records), run.Close())
}

// A played run is a recorded one in memory.
type played struct {
	graph   *compiled.Graph // that it began with
	records []decision.Record
	state   *state.State // after the last one
}

// playRecording reads a recorded run. It holds all records of one run in memory at once. The bounds
// of definitions are lifted, as a recording was accepted under the bounds of its own engine.
func playRecording(rec *replay.Recording) (p played, err error) {
	if p.graph, err = compiled.Compile(compiled.Boundless(), rec.Definition()); err != nil {
		return p, err
	}
	for r, err := range rec.Records() {
		if err != nil {
			return p, err
		}
		p.records = append(p.records, r)
	}
	source, err := store.NewForkSource(store.Head{Run: rec.Run}, p.graph, p.records)
	if err == nil {
		p.state, err = source.Replay(p.records, nil)
	}
	if err != nil {
		err = fmt.Errorf("%s: run %q: %w", rec.Source, string(rec.Run), err)
	}
	return p, err
}

// openExported reads a run of an export, the first one if id is "".
func openExported(path string, id workflow.RunID, keys store.Codec) (*standing, error) {
	if id != "" {
		path += ":" + string(id)
	}
	rec, err := replay.Find(path, replay.Options{Codec: keys})
	if err != nil {
		return nil, err
	}
	defer rec.Close()
	p, err := playRecording(rec)
	if err != nil {
		return nil, err
	}
	return &standing{p.state, p.records[len(p.records)-1].Seq}, nil
}

// readOnly sends requests that change nothing. The request is cloned, since a RoundTripper must not change the one that it gets.
type readOnly struct{ to http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t readOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	api.NarrowLocal(r, "", true)
	return t.to.RoundTrip(r)
}

// withoutValues sends requests about runs that have no values. The engine of the exhibit does not
// know that values were left out; by this header it refuses to plan on what stands for them.
type withoutValues struct{ to http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t withoutValues) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	loopback.MarkRedacted(r)
	return t.to.RoundTrip(r)
}

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

// runCommand lets the engine that has the directory open make the run, else commits it to the files. Offline is set without a flag, since an import
// starts from a file and surprises nobody's program: its tasks begin when the directory is opened. The path is made absolute, as the engine reads it.
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
	if _, none := os.Lstat(from); errors.Is(none, fs.ErrNotExist) {
		if _, _, ok := replay.SplitName(from); !ok {
			return &toldError{fmt.Sprintf("%s: there is no such file, nor FILE:RUN or DIR:RUN of that name", c.From), none}
		}
	}
	m := api.Import{From: from, To: workflow.RunID(c.To), At: at, By: userName(c.By), Reason: c.Reason}
	if c.InFlight == "park" {
		m.InFlight = workflow.InFlightPark
	}
	if c.Create {
		if err := c.createDirectory(ctx, con, m); err != nil {
			return err
		}
	}
	err = a.withActor(ctx, con, func(e *reached) error {
		if c.DryRun {
			var done api.DryRunReport
			err := con.whileWorking("reading "+c.From, func() (err error) {
				done, err = e.DryRunImport(ctx, m)
				return err
			})
			return a.printDryRun(con, e, m.To, done, err)
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

// createDirectory makes a missing engine directory, without runs. No other command makes one; a program does when it opens it. The import is tried
// in another directory first, so that an import that is refused leaves none behind.
func (c *importCommand) createDirectory(ctx context.Context, con *console, m api.Import) error {
	if c.DryRun {
		return errors.New("--create makes a directory, and --dry-run changes nothing: leave one of them out")
	}
	if _, err := os.Stat(filepath.Join(c.Dir, "pawl.db")); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	trial, err := os.MkdirTemp("", "pawl-import-")
	if err != nil {
		return err
	}
	tried := dirFlag{Dir: trial, keyFlag: c.keyFlag}
	if err = tried.openNew(ctx); err == nil {
		err = tried.withEngine(ctx, con, func(e *reached) error {
			_, err := e.DryRunImport(ctx, m)
			return err
		})
	}
	if err := errors.Join(err, os.RemoveAll(trial)); err != nil {
		return err
	}
	return c.openNew(ctx)
}

// openNew opens a directory, which makes one that is missing, and closes it.
func (f dirFlag) openNew(ctx context.Context) error {
	keys, err := f.codec()
	if err != nil {
		return err
	}
	engine, err := pawl.Open(ctx, f.Dir, pawl.Options{Maintenance: true, Codec: keys})
	if err != nil {
		return err
	}
	return engine.Close(context.WithoutCancel(ctx))
}

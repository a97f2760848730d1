package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/store/folderlog"
)

var backupVerb = verb{
	name:    "backup",
	help:    "Copy an engine directory while its engine goes on, once or, with --follow, until it is interrupted.",
	example: []string{"pawl backup /backups/2026-11-22", "pawl backup --follow /mnt/other/orders", "pawl restore /mnt/other/orders data"},
	command: func() command { return new(backupCommand) },
}

// A backupCommand copies an engine directory.
type backupCommand struct {
	Into     string        `arg:"" help:"The new directory, which must not exist or be empty; with --follow the folder of the copy, also one that is there."`
	Follow   bool          `help:"Keep the copy seconds behind the engine, which must be live, so that pawl restore can go back to any moment. When the engine ends, the copy waits for the next one."`
	Interval time.Duration `default:"1s" placeholder:"DURATION" help:"With --follow: how long a commit waits for others."`
	Keep     time.Duration `default:"168h" placeholder:"DURATION" help:"With --follow: for how long one can go back."`
	dirFlag
}

// runCommand copies; the answer is no if something is damaged. The path is made absolute here,
// since the engine, which writes, may have another working directory.
func (c *backupCommand) runCommand(ctx context.Context, con *console) error {
	if !c.Follow && (c.Interval != time.Second || c.Keep != 168*time.Hour) {
		return errors.New("--interval and --keep are of a copy that follows: add --follow, or leave them out")
	}
	into, err := filepath.Abs(c.Into)
	if err != nil {
		return err
	}
	if c.Follow {
		return (&follower{backupCommand: c, into: into}).followEngines(ctx, con)
	}
	return c.withEngine(ctx, con, func(e *reached) error {
		var info api.BackupReport
		err := con.whileWorking("copying "+c.Dir, func() (err error) {
			info, err = e.Backup(ctx, api.Backup{Into: into})
			return err
		})
		if _, none := os.Stat(filepath.Dir(into)); err != nil && errors.Is(none, fs.ErrNotExist) {
			return &toldError{fmt.Sprintf("there is no folder %s", filepath.Dir(into)), none}
		}
		if err != nil {
			return err
		}
		if c.JSON {
			con.writeLine(true, info)
		} else {
			con.printLine("%s: %s, %s", c.Into, pluralText(info.Runs, "run"), bytesText(info.Bytes))
			for _, what := range info.Damaged {
				con.printLine("damaged, and not in it: %s", printableText(what))
			}
		}
		con.sayFiles(e, c.JSON)
		if len(info.Damaged) > 0 {
			return errNo
		}
		return nil
	})
}

// A follower keeps a copy up to date over all engines that the directory has, one after the other.
type follower struct {
	*backupCommand
	into  string
	last  api.FollowReport
	lost  bool          // no engine is followed, and that was told
	pause time.Duration // before the next engine is looked for
}

// The least and the most time between two looks for the next engine.
const (
	leastFollowPause = 100 * time.Millisecond
	mostFollowPause  = 5 * time.Second
)

// followEngines follows the engine of the directory, and whenever one ends the next one. It ends with the interrupt, or with an error that no other
// engine would mend. The files are never opened in between: that would keep the next engine waiting.
func (f *follower) followEngines(ctx context.Context, con *console) error {
	e, err := f.reachEngine(ctx, con)
	if err != nil {
		return err
	}
	if !e.live {
		return errors.Join(&toldError{"no engine has the directory open, so nothing changes: copy it without --follow", api.ErrNoEngine}, e.close())
	}
	for f.pause = leastFollowPause; ; {
		if err == nil {
			err = errors.Join(f.followEngine(ctx, con, e), e.close())
		}
		switch {
		case ctx.Err() != nil:
			return err
		case err != nil && !isLoss(err):
			return f.explainEnd(err)
		case !f.lost:
			fmt.Fprintf(con.Errs, "pawl: %s: the copy waits for the next engine that has %s open\n", errorText(cmp.Or(err, pawl.ErrClosed)), printableText(f.Dir))
		}
		f.lost = true
		if err := pauseFor(ctx, f.pause); err != nil {
			return err
		}
		f.pause = min(2*f.pause, mostFollowPause)
		e, err = f.askEngine(ctx)
	}
}

// isLoss reports whether an error of a follower says that its engine has ended, is about to end or has not time for it: the next one may be followed.
func isLoss(err error) bool {
	return slices.ContainsFunc([]error{errLost, errSilent, api.ErrNoEngine, pawl.ErrClosed, pawl.ErrFailed, pawl.ErrNoBase, &api.Error{Code: refusal.CodeBusy}},
		func(loss error) bool { return errors.Is(err, loss) })
}

// followEngine follows one engine, and says whenever there is a base, or something has failed. For people it tells changes only; programs get each
// report. A failure is tried again by the engine; the stream ends with the engine or with the interrupt.
func (f *follower) followEngine(ctx context.Context, con *console, e *reached) error {
	for r, err := range e.Follow(ctx, api.Backup{Into: f.into, Interval: f.Interval.String(), Keep: f.Keep.String()}) {
		if err != nil {
			return explainLoss(err)
		}
		if f.lost && r.Failure == "" {
			fmt.Fprintf(con.Errs, "%s: it goes on\n", printableText(e.source))
			f.lost = false
		}
		if !r.Base.IsZero() {
			f.pause = leastFollowPause
		}
		switch {
		case f.JSON:
			con.writeLine(true, r)
		case r.Failure != f.last.Failure && r.Failure != "":
			con.printLine("it fails, and is tried again: %s", printableText(r.Failure))
		case r.Failure != f.last.Failure:
			con.printLine("it goes on")
		case !r.Base.IsZero() && !r.Base.Equal(f.last.Base):
			con.printLine("%s: base of %s", f.Into, f.zoneOf(r.Base).Format(time.DateTime))
		}
		if r.Base.IsZero() { // of this engine: the copy has those before it
			r.Base = f.last.Base
		}
		f.last = r
	}
	return nil
}

// explainEnd says what the copy has when no engine is followed any more.
func (f *follower) explainEnd(err error) error {
	if f.last.Base.IsZero() {
		return err
	}
	return fmt.Errorf("%w: the copy has what was committed until then, but for the last moments", err)
}

var restoreVerb = verb{
	name:    "restore",
	help:    "Make an engine directory of what pawl backup has made, or pawl backup --follow has kept.",
	example: []string{"pawl restore /backups/2026-11-22 data", "pawl restore /mnt/other/orders data", "pawl restore /mnt/other/orders data --at 2026-11-22T03:00:00Z"},
	command: func() command { return new(restoreCommand) },
}

// A restoreCommand makes a directory of a copy: a backup, or one that has followed the original.
type restoreCommand struct {
	From string    `arg:"" help:"The folder of the backup or of the copy. It is only read."`
	Into string    `arg:"" help:"The new directory. It must not exist, or be empty."`
	At   time.Time `placeholder:"TIME" help:"As of when, as 2026-11-22T03:00:00Z; the last moment that there is otherwise."`
	UTC  bool      `name:"utc" help:"Show times in UTC, not in the zone of this machine."`
	keyFlag
	jsonFlag
}

// runCommand restores; the answer is no if something is damaged. It asks no engine: the copy and
// the new directory belong to none.
func (c *restoreCommand) runCommand(ctx context.Context, con *console) error {
	keys, err := c.codec()
	if err != nil {
		return err
	}
	if _, err := os.Stat(c.From); errors.Is(err, fs.ErrNotExist) {
		return &toldError{fmt.Sprintf("there is no %s: it is the folder of a backup, or of a copy that follows", c.From), err}
	}
	var info pawl.RestoreInfo
	err = con.whileWorking("restoring "+c.From, func() (err error) {
		info, err = pawl.Restore(ctx, c.Into, pawl.RestoreOptions{Folder: c.From, At: c.At, Codec: keys})
		return err
	})
	if err == nil && info.Base.IsZero() {
		err = con.verifyRestored(ctx, c.Into, keys, &info)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		con.writeLine(true, info)
	} else if info.Base.IsZero() {
		con.printLine("%s: %s, as the backup has them", c.Into, pluralText(info.Runs, "run"))
	} else {
		con.printLine("%s: %s as of %s", c.Into, pluralText(info.Runs, "run"), dirFlag{UTC: c.UTC}.zoneOf(info.At).Format(time.DateTime))
	}
	if !c.JSON {
		for _, what := range info.Damaged {
			con.printLine("%s%s", damagedText(&info), printableText(what))
		}
	}
	if len(info.Damaged) > 0 {
		return errNo
	}
	return nil
}

// damagedText says what a restored directory makes of what is damaged: a copy that has followed another leaves it out.
func damagedText(info *pawl.RestoreInfo) string {
	if info.Base.IsZero() {
		return "damaged, see pawl repair: "
	}
	return "damaged, and not in it: "
}

// verifyRestored looks at the copy of a backup as pawl verify does.
func (con *console) verifyRestored(ctx context.Context, dir string, keys pawl.Codec, info *pawl.RestoreInfo) error {
	return con.whileWorking("verifying "+dir, func() error {
		report, err := rescue.Verify(ctx, dir, rescue.Options{Codec: keys})
		if err != nil {
			return err
		}
		info.Runs = report.Runs
		for _, f := range report.Findings {
			if f.Damage {
				info.Damaged = append(info.Damaged, f.String())
			}
		}
		return nil
	})
}

var recoverVerb = verb{
	name:    "recover",
	help:    "Begin the log of a directory anew, in a folder, when it has a hole, is damaged or is gone.",
	example: []string{"pawl recover data --log /mnt/log --bases /mnt/bases", "pawl recover data --log /mnt/log --bases /mnt/bases --give-up 0"},
	command: func() command { return new(recoverCommand) },
}

// A recoverCommand begins the log of a directory anew.
type recoverCommand struct {
	Dir    string `arg:"" help:"The engine directory that is whole. No engine may have it open."`
	Log    string `required:"" placeholder:"FOLDER" help:"The log of the directory, a folder."`
	Bases  string `required:"" placeholder:"FOLDER" help:"Its store of bases, a folder."`
	GiveUp *int   `placeholder:"N" help:"Begin it anew, and give up at most N entries of the log that the directory lacks. Without it, bring the directory up to the log, and say how many there are."`
	keyFlag
	jsonFlag
}

// runCommand recovers; the answer is no if it only looks, and something is to be done.
func (c *recoverCommand) runCommand(ctx context.Context, con *console) error {
	keys, err := c.codec()
	if err != nil {
		return err
	}
	if _, err := os.Stat(c.Log); errors.Is(err, fs.ErrNotExist) && c.GiveUp == nil {
		return &toldError{fmt.Sprintf("there is no folder %s: with --give-up it is made", c.Log), err}
	}
	log, err := folderlog.Open(c.Log)
	if err != nil {
		return err
	}
	bases, err := blob.OpenFiles(c.Bases, blob.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = bases.Close() }() // what is in it is synced
	o := pawl.RecoverOptions{Log: log, Bases: bases, Codec: keys}
	if c.GiveUp != nil {
		o.Begin, o.GiveUp = true, *c.GiveUp
	}
	var report pawl.RecoverReport
	err = con.whileWorking("looking at the log of "+c.Dir, func() (err error) {
		report, err = pawl.Recover(ctx, c.Dir, o)
		return err
	})
	if err != nil && report.Directory.Seq == 0 {
		return err
	}
	if c.JSON {
		con.writeLine(true, report)
	} else {
		for line := range strings.Lines(report.String()) {
			con.printLine("%s", printableText(strings.TrimSuffix(line, "\n")))
		}
	}
	switch {
	case err != nil:
		return err
	case !report.Begun:
		return errNo
	}
	return nil
}

var verifyVerb = verb{
	name:    "verify",
	help:    "Check an engine directory that nobody has open. It is only read.",
	example: []string{"pawl verify data"},
	command: func() command { return new(verifyCommand) },
}

// A verifyCommand checks an engine directory.
type verifyCommand struct {
	Dir string `arg:"" help:"The engine directory. No engine may have it open."`
	keyFlag
	jsonFlag
}

// runCommand verifies; the answer is no if there is damage.
func (c *verifyCommand) runCommand(ctx context.Context, con *console) error {
	keys, err := c.codec()
	if err != nil {
		return err
	}
	var report *rescue.Report
	err = con.whileWorking("verifying "+c.Dir, func() (err error) {
		report, err = rescue.Verify(ctx, c.Dir, rescue.Options{Codec: keys})
		return err
	})
	if err != nil {
		return err
	}
	return con.writeFindings(report, c.JSON)
}

var repairVerb = verb{
	name:    "repair",
	help:    "Restore what is left of an engine directory into a new one.",
	example: []string{"pawl repair data repaired", "pawl verify repaired"},
	command: func() command { return new(repairCommand) },
}

// A repairCommand restores what is left of an engine directory.
type repairCommand struct {
	Dir  string `arg:"" help:"The engine directory. No engine may have it open. It is only read."`
	Into string `arg:"" help:"The new directory. It must not exist, or be empty."`
	keyFlag
	jsonFlag
}

// runCommand repairs; the answer is no if something is lost.
func (c *repairCommand) runCommand(ctx context.Context, con *console) error {
	keys, err := c.codec()
	if err != nil {
		return err
	}
	var report *rescue.Report
	err = con.whileWorking("repairing "+c.Dir, func() (err error) {
		report, err = rescue.Repair(ctx, c.Dir, c.Into, rescue.Options{Codec: keys})
		return err
	})
	if err != nil {
		return err
	}
	return con.writeFindings(report, c.JSON)
}

// writeFindings writes a line per finding and one with the counts. The answer is no if there is damage.
func (con *console) writeFindings(r *rescue.Report, asJSON bool) error {
	for _, f := range r.Findings {
		con.writeLine(asJSON, f)
	}
	con.writeLine(asJSON, r)
	if r.Damage > 0 {
		return errNo
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/rescue"
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
	Follow   bool          `help:"Keep the copy seconds behind the engine, which must be live, so that pawl restore can go back to any moment."`
	Interval time.Duration `default:"1s" placeholder:"DURATION" help:"With --follow: how long a commit waits for others."`
	Keep     time.Duration `default:"168h" placeholder:"DURATION" help:"With --follow: for how long one can go back."`
	dirFlag
}

// runCommand copies; the answer is no if something is damaged. The path is made absolute here,
// since the engine, which writes, may have another working directory.
func (c *backupCommand) runCommand(ctx context.Context, con *console) error {
	into, err := filepath.Abs(c.Into)
	if err != nil {
		return err
	}
	return c.withEngine(ctx, con, func(e *reached) error {
		if c.Follow {
			return c.followEngine(ctx, con, e, into)
		}
		var info api.BackedUp
		err := con.whileWorking("copying "+c.Dir, func() (err error) {
			info, err = e.Backup(ctx, api.Backup{Into: into})
			return err
		})
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

// followEngine keeps a copy up to date, and says whenever there is a base, or something has failed.
// For people it tells changes only; programs get each report. A failure is tried again by the
// engine; the stream ends with the engine or with the interrupt.
func (c *backupCommand) followEngine(ctx context.Context, con *console, e *reached, into string) error {
	if !e.live {
		return errors.New("no engine has the directory open, so nothing changes: copy it without --follow")
	}
	last := api.Followed{}
	for f, err := range e.Follow(ctx, api.Backup{Into: into, Interval: c.Interval.String(), Keep: c.Keep.String()}) {
		switch {
		case err != nil && ctx.Err() == nil:
			return fmt.Errorf("%w: the copy has what was committed until then, but for the last moments", explainLoss(err))
		case err != nil:
			return err
		case c.JSON:
			con.writeLine(true, f)
		case f.Failure != last.Failure && f.Failure != "":
			con.printLine("it fails, and is tried again: %s", printableText(f.Failure))
		case f.Failure != last.Failure:
			con.printLine("it goes on")
		case !f.Base.Equal(last.Base):
			con.printLine("%s: base of %s", c.Into, c.zoneOf(f.Base).Format(time.DateTime))
		}
		last = f
	}
	return nil
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
	var info pawl.RestoreInfo
	err = con.whileWorking("restoring "+c.From, func() (err error) {
		info, err = pawl.RestoreFolder(ctx, c.From, c.Into, c.At, keys)
		return err
	})
	if err == nil && info.Base.IsZero() {
		err = con.verifyRestored(c.Into, keys, &info)
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
func (con *console) verifyRestored(dir string, keys pawl.Codec, info *pawl.RestoreInfo) error {
	return con.whileWorking("verifying "+dir, func() error {
		report, err := rescue.VerifySealed(dir, keys)
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

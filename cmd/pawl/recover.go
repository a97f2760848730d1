package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/store/folderlog"
)

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
	GiveUp *int   `placeholder:"N" help:"Begin it anew, and give up at most N entries of the log that the directory lacks. Without it, only say how many there are."`
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
		return fmt.Errorf("there is no folder %s: with --give-up it is made", c.Log)
	}
	log, err := folderlog.Open(c.Log)
	if err != nil {
		return err
	}
	bases, err := blob.OpenFiles(c.Bases)
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

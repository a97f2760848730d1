package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

var purgeVerb = verb{
	name:    "purge",
	help:    "Forget runs that have ended, with those below them, and free their disk.",
	example: []string{"pawl purge --workflow import --age 2160h -m retention --dry-run", "pawl purge --status completed --keep 10000 -m retention --yes", "pawl purge order-42 -m erasure"},
	command: func() command { return new(purgeCommand) },
}

// A purgeCommand forgets runs.
type purgeCommand struct {
	Run []string `arg:"" optional:"" help:"The ids of the runs; none if they are chosen."`
	filterFlag
	Age  time.Duration `placeholder:"DURATION" help:"Only runs that ended longer ago, as 720h."`
	Keep int           `placeholder:"N" help:"So many of each workflow stay, of those chosen otherwise: the ones that ended last."`
	bulkFlag
	actFlag
}

// A purgeSum is the last line of what the command writes. roots are runs that were named or chosen,
// all has those below them too; refused and unknown count roots.
type purgeSum struct {
	roots, all int
	bytes      int64
	refused    int
	unknown    int
	first      error // of those that were refused
	unread     int   // named already
	stopped    error // an interrupt, or the engine refuses all, as on a full disk: the rest was not tried
}

// countRefused counts a run that stays, with why.
func (s *purgeSum) countRefused(err error) {
	s.refused++
	s.first = cmp.Or(s.first, err)
}

func (s *purgeSum) String() string {
	text := pluralText(s.roots, "run")
	if s.all != s.roots {
		text = fmt.Sprintf("%s and %s below", pluralText(s.roots, "run"), countText(s.all-s.roots))
	}
	return text + ", " + bytesText(s.bytes) + " of files"
}

// bytesText returns a size for people.
func bytesText(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return pluralText(int(n), "byte")
}

// runCommand forgets one run after the other.
func (c *purgeCommand) runCommand(ctx context.Context, con *console) error {
	return c.withActor(ctx, con, func(e *reached) error {
		ids, err := c.chooseEnded(ctx, con, e)
		if err != nil {
			return err
		}
		if len(c.Run) == 0 {
			if err := c.confirmChange(ctx, con, &c.bulkFlag, "purge "+pluralText(len(ids), "run")+" and what is below"); err != nil {
				return err
			}
		}
		var sum purgeSum
		err = con.whileWorking("purging", func() error {
			for _, id := range ids {
				if err := c.purgeRun(ctx, con, e, id, &sum); err != nil && (len(c.Run) == 1 || sum.stopped != nil) {
					return err
				}
			}
			return nil
		})
		if err != nil && sum.stopped == nil {
			return err
		}
		return c.tellSum(con, e, &sum, "purge")
	})
}

// errOfPurge says that an act was a purge: the journal of the run is gone with it.
var errOfPurge = errors.New("a purge")

// purgeRun forgets a run, or says that it cannot be done.
func (c *purgeCommand) purgeRun(ctx context.Context, con *console, e *reached, id workflow.RunID, sum *purgeSum) error {
	do := e.Purge
	if c.DryRun {
		do = e.DryRunPurge
	}
	done, err := do(ctx, id, api.Purge{By: c.By, Reason: c.Reason})
	if err != nil {
		return c.noteKept(ctx, con, id, err, sum)
	}
	sum.roots, sum.all, sum.bytes = sum.roots+1, sum.all+done.Runs, sum.bytes+done.Bytes
	if c.JSON {
		con.writeLine(true, done)
	}
	return nil
}

// noteKept counts a run that is not purged, and returns why. Where the command line names one run, the error is that of the
// command; where it names several, or chooses, noteKept tells the error, unless it ends the command.
func (c *purgeCommand) noteKept(ctx context.Context, con *console, id workflow.RunID, err error, sum *purgeSum) error {
	ends := len(c.Run) != 1 && (ctx.Err() != nil || endsAll(err))
	switch {
	case statusOf(err) == exitUnknown:
		sum.unknown++
		err = markUnknown(err, errOfPurge)
	case !ends:
		sum.countRefused(err)
	}
	switch {
	case ends:
		sum.stopped = err // which the last line has
	case len(c.Run) != 1:
		fmt.Fprintf(con.Errs, "pawl: %s: %s\n", printableText(string(id)), errorText(err))
	}
	return err
}

// tellSum says what was done in all, or would be in a dry run; what names that, such as purge. A
// run with an unknown outcome weighs more than a run that stays.
func (c *purgeCommand) tellSum(con *console, e *reached, sum *purgeSum, what string) error {
	if !c.JSON {
		text := "purged: "
		if c.DryRun {
			text = "nothing is changed; it would " + what + " "
		}
		con.printLine("%s%v", text, sum)
		con.printSource(e.source)
	}
	switch {
	case sum.stopped != nil:
		why := sum.stopped
		if sum.unknown > 0 {
			why = markUnknown(pawl.ErrUnknown, errOfPurge)
		}
		return &toldError{fmt.Sprintf("stopped behind %s: %s", pluralText(sum.roots, "run"), errorText(sum.stopped)), why}
	case sum.unknown > 0:
		return fmt.Errorf("of %s nobody knows: %w", pluralText(sum.unknown, "run"), markUnknown(pawl.ErrUnknown, errOfPurge))
	case sum.refused > 0:
		stay := " stay: %w"
		if sum.refused == 1 {
			stay = " stays: %w"
		}
		return fmt.Errorf(pluralText(sum.refused, "run")+stay, sum.first)
	case sum.unread > 0:
		return errNo
	}
	return nil
}

// An endedRun is one that may be purged.
type endedRun struct {
	id       workflow.RunID
	workflow string
	at       time.Time
}

// chooseEnded returns the runs that are named, or those that are chosen of the ones that have ended and are no children, the first that
// ended first. With Keep the age cannot be left to the engine's filter: the runs that are too young count among those that are kept.
func (c *purgeCommand) chooseEnded(ctx context.Context, con *console, e *reached) (ids []workflow.RunID, err error) {
	chosen := !c.isEmpty() || c.Age > 0 || c.Keep > 0
	if (len(c.Run) > 0) == chosen {
		return nil, errors.New("name runs, or choose them by --age (more than 0), --keep, --workflow, --status, --tenant, --prefix, --label, --where or --roots")
	}
	if c.Age < 0 || c.Keep < 0 {
		return nil, errors.New("neither --age nor --keep may be negative")
	}
	if named := namedRoots(c.Run); named != nil {
		return named, nil
	}
	f, err := c.runFilter()
	if err != nil {
		return nil, err
	}
	f.Roots = true
	if f.Status == nil {
		f.Status = finalStatuses
	}
	for _, s := range f.Status {
		if !s.Final() {
			return nil, fmt.Errorf("--status %v: only runs that have ended are purged", s)
		}
	}
	if c.Age > 0 && c.Keep == 0 {
		f.EndedUntil = con.Now().Add(-c.Age)
	}
	var runs []endedRun
	for r, err := range e.Runs(ctx, f) {
		if err != nil {
			return nil, err
		}
		if r.Trouble != "" { // nobody knows whether it has ended
			fmt.Fprintf(con.Errs, "pawl: %s: it is left as it is: %s\n", printableText(string(r.Run)), printableText(r.Trouble))
			continue
		}
		runs = append(runs, endedRun{r.Run, r.Workflow, r.EndedAt})
	}
	if ids = c.dropKept(runs, con.Now()); len(ids) == 0 {
		return nil, &toldError{"no run that has ended is chosen", pawl.ErrRunNotFound}
	}
	return ids, nil
}

// dropKept returns the runs but those of each workflow that stay. Three runs of one workflow that ended on Monday, Tuesday and Wednesday,
// with Keep 1: Monday's and Tuesday's are returned, in that order. An age spares those that are younger, of any rank.
func (c *purgeCommand) dropKept(runs []endedRun, now time.Time) (ids []workflow.RunID) {
	slices.SortStableFunc(runs, func(a, b endedRun) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(b.id, a.id)) })
	ended := map[string]int{}
	for _, r := range runs {
		if ended[r.workflow]++; ended[r.workflow] > c.Keep && now.Sub(r.at) >= c.Age {
			ids = append(ids, r.id)
		}
	}
	slices.Reverse(ids)
	return ids
}

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/workflow"
)

var waitVerb = verb{
	name:    "wait",
	help:    "Wait until a run has ended, and write its output.",
	example: []string{"pawl wait order-42 --timeout 10m", "pawl wait order-42 --status paused,suspended"},
	command: func() command { return new(waitCommand) },
}

// A waitCommand waits for a run.
type waitCommand struct {
	Run     string        `arg:"" help:"The id of the run."`
	Status  []string      `placeholder:"STATUS" help:"Wait until the run has any of these: running, paused, suspended, completed, failed, timed_out, cancelled. That it ends with another is the answer no."`
	Timeout time.Duration `placeholder:"DURATION" help:"Give up waiting after this time, as 10m: exit status 124."`
	dirFlag
}

// finalStatuses are those of runs that have ended.
var finalStatuses = []workflow.RunStatus{workflow.RunCompleted, workflow.RunFailed, workflow.RunTimedOut, workflow.RunCancelled}

// runCommand waits, and writes the output of a run that has completed, or how it stands. The answer is no if it has
// ended otherwise, unless that was waited for.
func (c *waitCommand) runCommand(ctx context.Context, con *console) error {
	if c.Timeout < 0 {
		return fmt.Errorf("--timeout: %v is less than 0", c.Timeout)
	}
	chosen, err := (&filterFlag{Status: c.Status}).runFilter()
	if err != nil {
		return err
	}
	waiting := ctx
	if c.Timeout > 0 {
		var stop context.CancelFunc
		waiting, stop = context.WithTimeout(ctx, c.Timeout)
		defer stop()
	}
	err = c.withEngine(waiting, con, func(e *reached) error {
		var s pawl.RunSummary
		err := con.whileWorking("waiting for "+printableText(c.Run), func() (err error) {
			s, err = c.awaitStatus(waiting, e, append(chosen.Status, finalStatuses...))
			return err
		})
		if err != nil {
			return err
		}
		return c.writeStatus(con, &s, chosen.Status)
	})
	if errors.Is(err, context.DeadlineExceeded) && waiting.Err() != nil && ctx.Err() == nil {
		return &toldError{fmt.Sprintf("%s has not come to that within %v", c.Run, c.Timeout), context.DeadlineExceeded}
	}
	return err
}

// awaitStatus returns how the run stands when it has one of these statuses. A run that no engine
// has can stand so already; it will not come to it, so that is an error at once and not a wait for
// ever. With an engine, the watch begins before the first look at the run, so no change between the
// two is missed.
func (c *waitCommand) awaitStatus(ctx context.Context, e *reached, statuses []workflow.RunStatus) (pawl.RunSummary, error) {
	id := workflow.RunID(c.Run)
	if !e.live {
		s, err := e.Summary(ctx, id)
		if err == nil && !slices.Contains(statuses, s.Status) {
			err = c.explainStill(e, s.Status)
		}
		return s, err
	}
	for change, err := range e.Watch(ctx, pawl.WatchFilter{Prefix: c.Run, Status: statuses}) {
		if err != nil {
			return pawl.RunSummary{}, err
		}
		if !change.Lost && change.Run != id {
			continue // the id of another run begins likewise
		}
		s, err := e.Summary(ctx, id) // the first change says that some are lost: it may stand so already
		if err != nil || slices.Contains(statuses, s.Status) {
			return s, err
		}
	}
	return pawl.RunSummary{}, errLost
}

// explainStill says that the run stays as it is, since no engine has it.
func (c *waitCommand) explainStill(e *reached, is workflow.RunStatus) error {
	text := fmt.Sprintf("%s is %s, and no engine with a socket has %s open: start your program", c.Run, is, c.Dir)
	if e.fixed {
		text = fmt.Sprintf("%s is %s, and nothing goes on in a file such as %s", c.Run, is, filepath.Base(c.Dir))
	}
	return &toldError{text, api.ErrNoEngine}
}

// writeStatus writes how the run stands, which is one of the statuses that were asked for, or final.
func (c *waitCommand) writeStatus(con *console, s *pawl.RunSummary, asked []workflow.RunStatus) error {
	completed := s.Status == workflow.RunCompleted
	wanted := completed && asked == nil || slices.Contains(asked, s.Status)
	switch {
	case c.JSON:
		con.writeLine(true, s)
	case completed:
		if err := con.writeValue(s.Output); err != nil {
			return err
		}
	case wanted:
		con.printLine("%s is %s", c.Run, s.Status)
	}
	if wanted {
		return nil
	}
	why := fmt.Sprintf("%s is %s", c.Run, s.Status)
	if err := s.Err(); err != nil {
		why = err.Error()
	}
	fmt.Fprintln(con.Errs, "pawl:", printableLines(why))
	return errNo
}

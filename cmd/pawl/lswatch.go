package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
)

// watchPause is how long a list stands at least before it is written again.
const watchPause = time.Second

// watchRuns writes the runs whenever one that may be among them has changed. A run that fits no more has changed as well, so that its
// status is left to the list.
func (c *lsCommand) watchRuns(ctx context.Context, con *console, e *reached, f pawl.RunFilter) error {
	if !e.live {
		return &toldError{fmt.Sprintf("no engine with a socket has %s open, so nothing changes: list it without --watch", c.Dir), api.ErrNoEngine}
	}
	changes := e.Watch(ctx, pawl.WatchFilter{Workflow: f.Workflow, Tenant: f.Tenant, Labels: f.Labels, Roots: f.Roots, Prefix: f.Prefix})
	if c.JSON {
		return ignoreInterrupt(ctx, c.writeChanges(ctx, con, e, f, changes))
	}
	moved, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() { // ends with ctx, as the command does, or with the engine
		for _, err := range changes {
			if err != nil {
				ended <- err
				return
			}
			select {
			case moved <- struct{}{}:
			default: // a list is to come already
			}
		}
		ended <- errLost
	}()
	for again := false; ; again = true {
		select {
		case <-moved: // first when the watch has begun, so that no change is missed
		case err := <-ended:
			return ignoreInterrupt(ctx, err)
		}
		con.beginScreen(again)
		err := passOver(errNo, c.listRuns(ctx, con, e, f))
		if err == nil {
			err = pauseFor(ctx, watchPause)
		}
		if err != nil {
			return ignoreInterrupt(ctx, err)
		}
	}
}

// writeChanges writes the runs, when the watch has begun, and then each that has changed and fits. It writes them all again if changes
// were lost.
func (c *lsCommand) writeChanges(ctx context.Context, con *console, e *reached, f pawl.RunFilter, changes iter.Seq2[pawl.RunChange, error]) error {
	for change, err := range changes {
		if err == nil && change.Lost {
			err = passOver(errNo, c.listRuns(ctx, con, e, f)) // what cannot be read is named
		} else if err == nil {
			err = c.writeChanged(ctx, con, e, f, &change)
		}
		if err != nil {
			return err
		}
	}
	return errLost
}

// writeChanged writes a run that has changed, if it fits as it is now: it is looked for in a list that has no other.
func (c *lsCommand) writeChanged(ctx context.Context, con *console, e *reached, f pawl.RunFilter, change *pawl.RunChange) error {
	if change.Purged {
		return nil
	}
	f.Prefix, f.Limit, f.Newest = string(change.Run), 0, false
	for run, err := range e.Runs(ctx, f) {
		if err != nil {
			return err
		}
		if run.Run != change.Run {
			continue // its id begins likewise
		}
		places, err := placesOf(ctx, e, &run)
		if errors.Is(err, pawl.ErrRunNotFound) {
			return nil
		}
		if err = new(troubled).note(ctx, con, run.Run, err); err == nil {
			con.writeLine(true, listedRun{run, places})
		}
		return err
	}
	return nil
}

// beginScreen clears the terminal for what takes the place of what is on it. Elsewhere an empty line stands between the two.
func (con *console) beginScreen(again bool) {
	switch {
	case con.Screen:
		fmt.Fprint(con.Out, "\x1b[H\x1b[J")
	case again:
		fmt.Fprintln(con.Out)
	}
}

// pauseFor lets time pass; the error is the cause of ctx.
func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// passOver returns an error, or nil if it is the one that is passed over.
func passOver(known, err error) error {
	if errors.Is(err, known) {
		return nil
	}
	return err
}

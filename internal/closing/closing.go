// Package closing lets the close of an engine take its time, and says what it waits for.
package closing

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl/internal/late"
	"github.com/pawl-run/pawl/internal/tasklog"
	"github.com/pawl-run/pawl/workflow"
)

const (
	patience  = 5 * time.Second  // that a close has with the disk and with runs when its context is done
	tellAfter = 10 * time.Second // how long a close waits before it says what for
	maxTold   = 10               // tasks, or runs, that a text names
)

// A Stage is what a close has come to.
type Stage int32

// The stages, in their order.
const (
	Socket Stage = iota
	Tasks
	Runs
	Messages
	Feed
	Directory
)

// A Disk is the engine directory as a close sees it; *store.Dir is one.
type Disk interface{ IsCommitting() bool }

// A Roster has the runs that are awake; *roster.Roster is one.
type Roster interface{ IDs() []workflow.RunID }

// Options say what a close waits for. All fields are needed.
type Options struct {
	Disk   Disk
	Roster Roster
	Tasks  func() []tasklog.Place // attempts that handlers perform, in the order of dispatch
	Logger *slog.Logger
}

// A Closer closes an engine once.
type Closer struct {
	o     Options
	once  sync.Once
	stage atomic.Int32
	ended chan struct{} // closed when the close is done, and err is set
	err   error
}

// New returns what closes an engine that is open.
func New(o Options) *Closer { return &Closer{o: o, ended: make(chan struct{})} }

// Enter says what the close has come to.
func (c *Closer) Enter(s Stage) { c.stage.Store(int32(s)) }

// Ended is closed when the close is done.
func (c *Closer) Ended() <-chan struct{} { return c.ended }

// Close has shutDown called in a goroutine, by the first call, and waits until it has returned or, for some seconds more in the
// first call, ctx is done.
func (c *Closer) Close(ctx context.Context, shutDown func(context.Context) error) error {
	left := time.Duration(0)
	c.once.Do(func() {
		left = patience
		go func() { // until the disk answers
			defer close(c.ended)
			c.err = shutDown(ctx)
		}()
	})
	if left > 0 {
		c.tellWaits(ctx)
	}
	select {
	case <-c.ended:
		return c.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-c.ended:
		return c.err
	case <-timer.C:
	}
	return fmt.Errorf("%s, the engine is still closing: %w", c.waitsFor(), late.Cause(ctx))
}

// tellWaits waits until the engine is closed or ctx is done, and tells of what it waits for.
//
// The first call tells, and not each: the log should have it once.
func (c *Closer) tellWaits(ctx context.Context) {
	for after := tellAfter; ; after *= 2 {
		timer := time.NewTimer(after)
		select {
		case <-c.ended:
		case <-ctx.Done():
		case <-timer.C:
			c.o.Logger.Warn("pawl: Close waits: " + c.waitsFor())
			continue
		}
		timer.Stop()
		return
	}
}

// waitsFor says what the close waits for now. A commit that is under way explains any of the later stages.
func (c *Closer) waitsFor() string {
	at, tasks := Stage(c.stage.Load()), c.o.Tasks()
	switch {
	case at == Socket:
		return "the function Options.Socket has not returned"
	case at == Tasks && len(tasks) > 0:
		return fmt.Sprintf("%d handlers have not returned", len(tasks)) + tasksText(tasks)
	case at == Directory, c.o.Disk.IsCommitting():
		return "the disk does not answer"
	case at == Feed:
		return "Feed.Publish has not returned"
	case at == Runs:
		ids := c.o.Roster.IDs() // sorted, so that the same runs are named each time
		return fmt.Sprintf("%d runs compute or read", len(ids)) + listText(ids, func(id workflow.RunID) string { return fmt.Sprintf("%q", string(id)) })
	}
	return "messages to runs are on their way"
}

// LeftBehindText says that the engine is closed but for tasks.
func LeftBehindText(tasks []tasklog.Place) string {
	if len(tasks) == 1 {
		return "closed, but a handler has not returned, although its context has ended" + tasksText(tasks)
	}
	return fmt.Sprintf("closed, but %d handlers have not returned, although their contexts have ended", len(tasks)) + tasksText(tasks)
}

// tasksText names tasks.
func tasksText(tasks []tasklog.Place) string {
	return listText(tasks, func(t tasklog.Place) string {
		return fmt.Sprintf("task %q at node %q of run %q", t.Task, t.Node, t.Run)
	})
}

// listText names the first of a list, behind a colon, and how many more there are.
func listText[T any](list []T, name func(T) string) (text string) {
	sep := ": "
	for _, x := range list[:min(len(list), maxTold)] {
		text += sep + name(x)
		sep = ", "
	}
	if more := len(list) - maxTold; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

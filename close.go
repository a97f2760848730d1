package pawl

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/pawl-run/pawl/internal/closing"
	"github.com/pawl-run/pawl/internal/socket"
	"github.com/pawl-run/pawl/internal/tasklog"
)

// Close begins no further task, gives running tasks Options.Grace, commits everything, and releases the directory. It waits until
// ctx is done for handlers that ignore their context, so ctx should have a deadline, and a handler must not call Close. Nothing
// is lost if Close does not run, or if it fails, with ErrNoSpace on a full disk: the next Open has all commits. If Close leaves
// handlers behind, it returns a *LeftBehindError; all else is closed. Further calls wait for the first until their own ctx is
// done, and return the same.
//
// If a disk does not answer or a run still computes, Close waits until 5 s after ctx is done. It then returns the cause of
// ctx, with a text that says what it waits for, and continues in the background. The directory stays in use until that has
// ended; a further call waits for it. The log also says what Close waits for, after 10 s, and each time the wait has
// doubled. The first call shuts down in a goroutine, so that Close returns in time even if a disk hangs.
func (e *Engine) Close(ctx context.Context) error {
	if err := e.checkUsable(ctx); err != nil {
		return err
	}
	return e.closer.Close(ctx, e.shutDown)
}

// newCloser returns what closes an engine.
func newCloser(e *Engine) *closing.Closer {
	return closing.New(closing.Options{Disk: e.dir, Roster: e.registry, Tasks: e.performedTasks, Logger: e.options.Logger})
}

// performedTasks returns the attempts that handlers perform.
func (e *Engine) performedTasks() (out []tasklog.Place) {
	for _, t := range e.dispatcher.Running() {
		out = append(out, t.Place())
	}
	return out
}

// shutDown is Close without its patience: it stops tasks, actors and background work, in this order, and closes the directory.
//
// Each step makes the next one finite. The socket goes first: no further calls come. Tasks are given their grace, and then
// cancelled; their results still find actors. When actors are refused and stopped they commit what they have taken. Then come the
// messages between runs, which nobody is left to take. The feed comes after the last commit, and the directory after all.
func (e *Engine) shutDown(ctx context.Context) error {
	e.hook.Hit("close.begin")
	e.dir.OpenOutbox()
	if !e.socket.Stop(ctx, socketPatience) {
		e.options.Logger.Warn("pawl: the function Options.Socket has not returned since its listener was closed: it gets ErrClosed from now on")
	}
	e.closer.Enter(closing.Tasks)
	grace, cancel := context.WithTimeout(ctx, max(e.options.Grace, 0))
	// If the grace is over before the handlers have returned their contexts are cancelled, and they have until ctx is done.
	late := e.dispatcher.StopAndWait(grace) != nil
	cancel()
	e.stopTasks(ErrClosed) // by which an executor tells them from those that are over
	e.dir.EndLog()         // also for the results of tasks
	var left error
	if late && e.dispatcher.StopAndWait(ctx) != nil {
		left = e.leftBehind()
	}
	e.closer.Enter(closing.Runs)
	e.registry.Refuse()
	e.stop()
	e.registry.Wait()
	e.closer.Enter(closing.Messages)
	e.runs.Messenger.Close()
	e.hook.Hit("close.actors")
	e.background.Wait()
	e.late.Close()
	e.closer.Enter(closing.Feed)
	e.feeder.Stop(ctx)
	e.waiters.Close()
	e.watches.Close()
	e.closer.Enter(closing.Directory)
	e.tracer.Close(ctx)
	e.timings.Keep(e.path, e.dir.Failed(), e.options.Logger)
	err := errors.Join(e.metrics.Close(), e.dir.Close())
	if err = errors.Join(err, e.blobs.Close()); err == nil {
		return left
	}
	return errors.Join(err, left)
}

// leftBehind logs the handlers that go on although the engine closes, and returns them
// as an error; nil if the last of them has just returned.
func (e *Engine) leftBehind() error {
	var left LeftBehindError
	for _, t := range e.dispatcher.Running() {
		p := t.Place()
		e.options.Logger.Error("pawl: Close leaves a handler behind that ignores its context: return when it is done", p.Args()...)
		left.Tasks = append(left.Tasks, TaskID{Run: t.Run, Node: t.Node.ID, Task: t.Task, Key: e.keyOf(t.Name())})
	}
	if left.Tasks == nil {
		return nil
	}
	return &left
}

// callUntil runs call, which commits by itself and not through an actor, but returns the cause of ctx if ctx ends first; call then
// continues in the background. Without a log, no commit waits for long, and callUntil returns when call does.
func (e *Engine) callUntil(ctx context.Context, call func() error) error {
	if e.options.Remote.Log == nil {
		return call()
	}
	return e.late.Until(ctx, call)
}

// openSocket listens in the directory, if the options say so.
//
// It is the last thing that Open does: a client that connects finds an engine that works.
func (e *Engine) openSocket(path string) (err error) {
	if e.options.Socket != nil {
		e.socket, err = socket.Serve(path, func(l net.Listener) { e.options.Socket(e, l) })
	}
	return err
}

// socketPatience is how long Close waits for the function Options.Socket to return.
const socketPatience = 10 * time.Second

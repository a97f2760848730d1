package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/timeout"
)

// leaveTime bounds how long the goodbye of a client may take.
const leaveTime = 5 * time.Second

// callBackoff is the pause after a call that failed.
var callBackoff = timeout.Backoff{First: 50 * time.Millisecond, Max: 5 * time.Second}

// Run works for the pool until ctx is done: it registers, polls, performs up to
// Capacity tasks at once, each in its goroutine, renews the leases, and delivers
// the results. It repeats each of these while the pool cannot be reached or restarts.
// When ctx is done, the tasks' contexts are cancelled, unfinished tasks are given back,
// and Run returns nil once all functions have returned. It also returns nil when the pool
// drains this worker, or Drain is closed, and all of its tasks are done. It returns the error of
// pawl.Handlers.Check, or an *Error if the pool refuses the worker, such as for a wrong token, once it has logged that and
// all functions have returned; or, before it has registered, an ErrCertificate or an *Error for a page that no pool has sent.
// Later it logs such an error and repeats the call.
//
// Three contexts: ctx is the caller's, and that of the tasks; polling is part of it and ends earlier
// when Drain is closed; beating outlives both until the last function has returned and its result is delivered, so that no
// lease runs out under a task that is being finished.
func (c *Client) Run(ctx context.Context, h pawl.Handlers) error {
	if err := h.Check(); err != nil {
		return err
	}
	named := *c
	c = &named
	c.instance = rand.Text()
	l := &clientLoop{client: c, handlers: h, types: c.Types, held: map[pawl.Key]*heldTask{}, room: make(chan struct{}, 1), log: c.Logger}
	if l.types == nil {
		l.types = handledTypes(h)
	}
	if l.log == nil {
		l.log = slog.Default()
	}
	polling, drain := context.WithCancelCause(ctx)
	defer drain(nil)
	go func() { // ends with polling
		select {
		case <-c.Drain:
			drain(errDrained)
		case <-polling.Done():
		}
	}()
	if err := l.registerWorker(polling); err != nil {
		return unlessStopped(polling, err)
	}
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.group.Go(func() { l.renewLeases(beating) })
	err := l.pollUntilDone(ctx, polling)
	l.tasks.Wait()
	stop()
	l.group.Wait()
	goodbye, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if gone := c.leavePool(goodbye); gone != nil {
		l.log.Warn("worker: the leases that are left must run out", "worker", c.ID, "error", gone)
	}
	if errors.Is(err, errDrained) {
		return nil
	}
	return unlessStopped(ctx, err)
}

// unlessStopped returns err, or nil if ctx is done, which is how a loop ends.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

var (
	errDrained = errors.New("the pool drains this worker")
	errDropped = errors.New("the task is no longer wanted from this worker")
)

// A clientLoop is one call of Run.
// lease is 0 before the first registration. A key is in held from delivery until its result has been
// answered, and not only while the function runs: polls and heartbeats name it for as long, if it is wanted. room has a
// note for each task that ended, one at most.
type clientLoop struct {
	client   *Client
	handlers pawl.Handlers
	types    []string
	log      *slog.Logger
	group    sync.WaitGroup // the heartbeat
	tasks    sync.WaitGroup
	room     chan struct{} // a task has ended

	mu    sync.Mutex
	lease time.Duration
	held  map[pawl.Key]*heldTask // until the result is delivered
}

// A heldTask is one whose function runs, or whose result is on the way. The pool is not told of one that it does not want: it would say so again at once.
type heldTask struct {
	cancel   context.CancelCauseFunc
	unwanted bool
}

// isFinalError says that a call will never succeed.
//
// An unknown worker is not final, as it can register again, and neither are faults of the pool (500
// and above), a pool that is full of workers, or another process in the place of this one, which may leave. The answer of something else, such as a proxy while its pool is replaced, is
// final where it forbids the call, or finds it too large.
func isFinalError(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Status >= 500 || e.Status == http.StatusTooManyRequests || e.Code == remote.CodeUnknownWorker || e.Code == remote.CodeReplaced {
		return false
	}
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestEntityTooLarge:
		return true
	}
	return !e.foreign
}

// isWrongAddress says that an error is one of configuration if it comes before the first registration: a certificate that is
// refused, or the answer of something that is no pool. Later it passes: certificates are renewed, and proxies find their pool again.
func isWrongAddress(err error) bool {
	var certificate *certificateError
	var e *Error
	return errors.As(err, &certificate) || errors.As(err, &e) && e.foreign && e.Status == http.StatusNotFound
}

// pauseAfterFailure waits, longer each time, and says whether there is time to go on.
// The caller keeps the pause in d, and sets it to 0 after a success.
func pauseAfterFailure(ctx context.Context, d *time.Duration) bool {
	*d = callBackoff.Next(*d)
	select {
	case <-time.After(*d):
		return true
	case <-ctx.Done():
		return false
	}
}

// registerWorker joins the pool, as soon as it can be reached.
func (l *clientLoop) registerWorker(ctx context.Context) error {
	var d time.Duration
	for {
		lease, err := l.client.Register(ctx, l.types...)
		if err == nil {
			l.mu.Lock()
			l.lease = lease
			l.mu.Unlock()
			return nil
		}
		if isFinalError(err) || l.leaseTime() == 0 && isWrongAddress(err) {
			return err
		}
		l.log.Warn("worker: the pool does not answer", "worker", l.client.ID, "error", err)
		if !pauseAfterFailure(ctx, &d) {
			return err
		}
	}
}

// pollWait is how long a poll waits for a task.
const pollWait = 30 * time.Second

// pollUntilDone polls until polling is done, which is part of ctx, or the pool refuses, and begins tasks in ctx.
//
// It polls only while there is room, so a poll always asks for something, and never for more: the pool does not count the tasks that it
// has dropped, though their functions may run on. While there is no room, or more keys than one message holds, heartbeats keep the
// leases. When the pool has forgotten the worker, it registers and polls again, and names the tasks that it holds, which makes it the
// holder again. A poll that ends early and brings nothing was ended by another one under the same id, where the pool cannot tell the
// two apart, and is followed by a pause like a failure.
func (l *clientLoop) pollUntilDone(ctx, polling context.Context) error {
	var failed, ended time.Duration // the pauses after polls that fail, and after those that another one ends
	var told bool                   // the log knows of another process under the id
	for polling.Err() == nil {
		holding, held := l.heldKeys()
		room := max(l.client.Capacity, 1) - held
		if room <= 0 || len(firstKeys(holding)) < len(holding) {
			select {
			case <-l.room:
			case <-polling.Done():
			}
			continue
		}
		begun := time.Now()
		polled, err := l.client.pollPool(polling, pollWait, room, holding...)
		if errors.Is(err, ErrUnknownWorker) {
			if err = l.registerWorker(polling); err == nil {
				continue
			}
		}
		early, pause := time.Since(begun) < pollWait/2, &failed
		switch {
		case err == nil:
			l.takePolled(ctx, polled)
			if polled.Draining {
				return errDrained
			}
			failed, told = 0, told && early
			if !early || len(polled.Tasks)+len(polled.unread)+len(polled.Drop) > 0 {
				ended = 0
				continue
			}
			pause = &ended
		case polling.Err() != nil:
			continue
		case isFinalError(err):
			l.log.Error("worker: the pool refuses this worker, which finishes what it holds", "worker", l.client.ID, "error", err)
			return err
		case !errors.Is(err, errReplaced):
			l.log.Warn("worker: the pool does not answer", "worker", l.client.ID, "error", err)
		}
		if !told && (errors.Is(err, errReplaced) || err == nil && ended == callBackoff.Max) {
			told = true
			l.log.Error("worker: another process works for the pool under this id, and gets the tasks: give each worker an id of its own", "worker", l.client.ID)
		}
		if !pauseAfterFailure(polling, pause) {
			return context.Cause(polling)
		}
	}
	return context.Cause(polling)
}

// takePolled drops and begins what the answer to a poll says. A task that cannot be read fails, since it would come again for ever
// otherwise; where the definition retries it, another worker may read it.
func (l *clientLoop) takePolled(ctx context.Context, polled polled) {
	l.dropTasks(polled.Drop)
	for _, t := range polled.Tasks {
		l.startTask(ctx, t, remote.Performer{Handlers: l.handlers, Logger: l.log}.PerformTask)
	}
	for _, u := range polled.unread {
		l.startTask(ctx, u.task, func(_ context.Context, _ pawl.Task, done func(any, error)) { done(nil, u.cause) })
	}
}

// heldKeys returns the keys that the worker holds, sorted, as polls and heartbeats name them, and how many tasks take a place.
func (l *clientLoop) heldKeys() (keys []pawl.Key, held int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys = make([]pawl.Key, 0, len(l.held))
	for k, task := range l.held {
		if !task.unwanted {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys, len(l.held)
}

// maxKeyBytes bounds the keys in one message, in bytes: half of what pools take as a body by default.
const maxKeyBytes = 1 << 20

// firstKeys returns the keys at the head of a list that go into one message.
func firstKeys(keys []pawl.Key) []pawl.Key {
	size := 0
	for i, k := range keys {
		if size += len(k) + len(`"",`); size > maxKeyBytes && i > 0 {
			return keys[:i]
		}
	}
	return keys
}

// leaseTime returns how long a lease is; 0 before the worker has registered.
func (l *clientLoop) leaseTime() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease
}

// dropTasks cancels tasks that are no longer wanted.
//
// Their functions are interrupted; what they return with an error is not sent. A success is sent all
// the same, and refused.
func (l *clientLoop) dropTasks(keys []pawl.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		if task := l.held[k]; task != nil {
			task.cancel(errDropped)
			task.unwanted = true
		}
	}
}

// startTask performs a task in a goroutine of its own, and delivers its result.
func (l *clientLoop) startTask(ctx context.Context, t pawl.Task, perform func(context.Context, pawl.Task, func(output any, err error))) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if task := l.held[t.Key]; task != nil {
		task.unwanted = false
		return // it was given again while its result was on the way
	}
	mine, cancel := context.WithCancelCause(ctx)
	l.held[t.Key] = &heldTask{cancel: cancel}
	l.tasks.Go(func() {
		defer l.taskEnded(t)
		defer cancel(nil)
		perform(mine, t, func(output any, err error) {
			if err == nil || mine.Err() == nil { // who was interrupted has not failed
				l.deliverResult(ctx, t, output, err)
			}
		})
	})
}

// taskEnded lets go of a task and wakes the poll that waits for room.
func (l *clientLoop) taskEnded(t pawl.Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, t.Key)
	select {
	case l.room <- struct{}{}:
	default:
	}
}

// deliverResult sends a result until the pool has answered; when ctx is done, once.
//
// It does not stop when the pool is away: the result is all that is left of the work, and the lease
// may be taken up again by whoever completes first. After a final error the result is dropped, because
// the pool has said that it will never be taken.
func (l *clientLoop) deliverResult(ctx context.Context, t pawl.Task, output any, cause error) {
	var d time.Duration
	for {
		sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		err := l.client.completeTask(sending, t, output, cause)
		cancel()
		if err == nil {
			return
		}
		if isFinalError(err) || !pauseAfterFailure(ctx, &d) {
			at := remote.PlaceOf(t)
			l.log.Warn("worker: a result was not taken", append(at.Args(), "worker", l.client.ID, "key", string(t.Key), "error", err)...)
			return
		}
	}
}

// renewLeases renews the leases, thrice in the time of one.
//
// Three times, so that two heartbeats in a row may be lost before the lease runs out.
func (l *clientLoop) renewLeases(ctx context.Context) {
	for {
		lease := l.leaseTime()
		select {
		case <-time.After(max(lease/3, time.Millisecond)):
		case <-ctx.Done():
			return
		}
		bounded, cancel := context.WithTimeout(ctx, max(lease/3, time.Second))
		for keys, _ := l.heldKeys(); len(keys) > 0; {
			some := firstKeys(keys)
			keys = keys[len(some):]
			drop, err := l.client.sendHeartbeat(bounded, some, nil)
			if err != nil && ctx.Err() == nil {
				l.log.Warn("worker: no heartbeat", "worker", l.client.ID, "error", err)
			}
			l.dropTasks(drop)
		}
		cancel()
	}
}

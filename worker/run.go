package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/timeout"
)

// leaveTime bounds how long the goodbye of a client may take.
const leaveTime = 5 * time.Second

// callBackoff is the pause after a call that failed.
var callBackoff = timeout.Backoff{First: 50 * time.Millisecond, Max: 5 * time.Second}

// Run works for the pool until ctx is done: it registers, polls, performs up to
// Capacity tasks at once, each in its goroutine, renews the leases, and delivers
// the results, over and over where the pool cannot be reached or was restarted.
// Then the tasks' contexts are cancelled, what they were at is given back, and
// Run returns nil once all functions have returned; so it does when the pool
// drains this worker and what it held is done. Any other error says that the
// pool does not take it: a wrong token, or a registration that is not valid.
func (c *Client) Run(ctx context.Context, h Handlers) error {
	if ctx == nil {
		return errNoContext
	}
	l := &loop{client: c, handlers: h, types: c.Types, held: map[pawl.Key]context.CancelCauseFunc{}, room: make(chan struct{}, 1), log: c.Logger}
	if l.types == nil {
		l.types = h.types()
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if err := l.register(ctx); err != nil {
		return stoppedBy(ctx, err)
	}
	beating, stop := context.WithCancel(ctx)
	l.group.Go(func() { l.beat(beating) })
	err := l.work(ctx)
	if errors.Is(err, errDrained) {
		l.tasks.Wait()
	}
	stop()
	l.tasks.Wait()
	l.group.Wait()
	goodbye, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if gone := c.Leave(goodbye); gone != nil {
		l.log.Warn("worker: the leases that are left must run out", "worker", c.ID, "error", gone)
	}
	if errors.Is(err, errDrained) {
		return nil
	}
	return stoppedBy(ctx, err)
}

// stoppedBy returns nil where err comes of ctx, which is how a loop ends.
func stoppedBy(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

var (
	errNoContext = fmt.Errorf("%w: the context is nil", pawl.ErrInvalid)
	errDrained   = errors.New("the pool drains this worker")
	errDropped   = errors.New("the task is no longer wanted from this worker")
)

// A loop is one call of Run.
type loop struct {
	client   *Client
	handlers Handlers
	types    []string
	log      *slog.Logger
	group    sync.WaitGroup // the heartbeat
	tasks    sync.WaitGroup
	room     chan struct{} // a task has ended

	mu    sync.Mutex
	lease time.Duration
	held  map[pawl.Key]context.CancelCauseFunc // until the result is delivered
}

// final says that a call will never succeed.
func final(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status < 500 && e.Status != http.StatusTooManyRequests && e.Code != CodeUnknownWorker
}

// pause waits, longer each time, and says whether the loop goes on.
func (l *loop) pause(ctx context.Context, d *time.Duration) bool {
	*d = callBackoff.Next(*d)
	select {
	case <-time.After(*d):
		return true
	case <-ctx.Done():
		return false
	}
}

// register joins the pool, as soon as it can be reached.
func (l *loop) register(ctx context.Context) error {
	var d time.Duration
	for {
		lease, err := l.client.Register(ctx, l.types...)
		if err == nil {
			l.mu.Lock()
			l.lease = lease
			l.mu.Unlock()
			return nil
		}
		if final(err) || !l.pause(ctx, &d) {
			return err
		}
	}
}

// work polls and begins tasks until ctx is done, or the pool refuses.
func (l *loop) work(ctx context.Context) error {
	var d time.Duration
	for ctx.Err() == nil {
		holding := l.holding()
		if len(holding) >= max(l.client.Capacity, 1) {
			select {
			case <-l.room:
			case <-ctx.Done():
			}
			continue
		}
		polled, err := l.client.Poll(ctx, 30*time.Second, holding...)
		var e *Error
		switch {
		case err == nil:
			d = 0
		case errors.As(err, &e) && e.Code == CodeUnknownWorker:
			err = l.register(ctx)
			fallthrough
		default:
			if err != nil && final(err) {
				return err
			}
			if err != nil && !l.pause(ctx, &d) {
				return context.Cause(ctx)
			}
			continue
		}
		l.drop(polled.Drop)
		for _, t := range polled.Tasks {
			l.begin(ctx, t)
		}
		if polled.Draining {
			return errDrained
		}
	}
	return context.Cause(ctx)
}

func (l *loop) holding() []pawl.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := make([]pawl.Key, 0, len(l.held))
	for k := range l.held {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// drop cancels tasks that are no longer wanted.
func (l *loop) drop(keys []pawl.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		if cancel := l.held[k]; cancel != nil {
			cancel(errDropped)
		}
	}
}

// begin performs a task, and delivers what it came to.
func (l *loop) begin(ctx context.Context, t Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[t.Key] != nil {
		return // it was given again while its result was on the way
	}
	mine, cancel := context.WithCancelCause(ctx)
	l.held[t.Key] = cancel
	l.tasks.Go(func() {
		defer l.ended(t)
		defer cancel(nil)
		l.handlers.perform(mine, t, func(output any, err error) {
			if err == nil || mine.Err() == nil { // who was interrupted has not failed
				l.deliver(ctx, t, output, err)
			}
		})
	})
}

func (l *loop) ended(t Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, t.Key)
	select {
	case l.room <- struct{}{}:
	default:
	}
}

// deliver sends a result until the pool has answered; when ctx is done, once.
func (l *loop) deliver(ctx context.Context, t Task, output any, cause error) {
	var d time.Duration
	for {
		sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		err := l.client.Complete(sending, t, output, cause)
		cancel()
		if err == nil {
			return
		}
		if final(err) || !l.pause(ctx, &d) {
			l.log.Warn("worker: a result was not taken", "worker", l.client.ID, "key", string(t.Key), "error", err)
			return
		}
	}
}

// beat renews the leases, thrice in the time of one.
func (l *loop) beat(ctx context.Context) {
	for {
		l.mu.Lock()
		lease := l.lease
		l.mu.Unlock()
		select {
		case <-time.After(max(lease/3, time.Millisecond)):
		case <-ctx.Done():
			return
		}
		keys := l.holding()
		if len(keys) == 0 {
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, max(lease/3, time.Second))
		drop, err := l.client.Heartbeat(bounded, keys...)
		cancel()
		if err != nil && ctx.Err() == nil {
			l.log.Warn("worker: no heartbeat", "worker", l.client.ID, "error", err)
		}
		l.drop(drop)
	}
}

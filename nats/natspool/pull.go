package natspool

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A puller asks for the tasks of one type and class, in a goroutine of its own. It is busy, and those of
// later classes wait for it, until it has heard that no task is there.
//
// busy is only read and written by its goroutine; the gate has the sum of all of them. The pullers of
// a worker share its room, in which each task takes a place for as long as it is held.
type puller struct {
	loop  *workerLoop
	queue classQueue
	busy  bool
}

// newPullers returns the pullers of all types and classes. Nobody knows yet whether there is a task.
func (l *workerLoop) newPullers() []*puller {
	var out []*puller
	for _, t := range l.types {
		for c := range class(classes) {
			p := &puller{loop: l, queue: classQueue{t, c}}
			p.setBusy(true)
			out = append(out, p)
		}
	}
	return out
}

// setBusy says whether the puller may find a task, and keeps the gate's count in step: each puller
// counts once or not at all.
func (p *puller) setBusy(busy bool) {
	switch {
	case busy && !p.busy:
		p.loop.gate.move(p.queue.class, 1)
	case !busy && p.busy:
		p.loop.gate.move(p.queue.class, -1)
	}
	p.busy = busy
}

// pullTasks takes tasks until ctx is done. It asks only while there is room, and never
// waits for the engine: a task that is delivered is looked at in its own goroutine.
//
// The gate must not wait for a puller that has failed, or is done: it is not busy in the pause, nor
// after the end. A missing consumer or stream is no fault, for the pool makes them with the first
// task; it is tried again after the pause. The one error is that the connection is closed for good,
// and ends Run.
func (p *puller) pullTasks(ctx context.Context) error {
	defer p.setBusy(false)
	l := p.loop
	var pause time.Duration
	for ctx.Err() == nil {
		if !p.awaitRoom(ctx) {
			return nil
		}
		err := p.pullSome(ctx)
		switch {
		case err == nil:
			pause = 0
			continue
		case ctx.Err() != nil:
			return nil
		case l.conn.IsClosed():
			return nats.ErrConnectionClosed
		case !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound):
			l.log.Warn("natspool: no task can be had", "worker", l.id, "consumer", p.queue.consumer(), "error", err)
		} // without its consumer no such task was dispatched yet
		p.setBusy(false)
		pause = workerBackoff.Next(pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	return nil
}

// awaitRoom waits until another task may be held. If none may now, the puller is busy: there may be a
// task when it comes to it.
//
// It takes a place and gives it back: the place itself is taken in startTask, when there is a task. In
// between another puller may take it, and then the task that comes goes back by Nak.
func (p *puller) awaitRoom(ctx context.Context) bool {
	room := p.loop.room
	select {
	case room <- struct{}{}:
		<-room
		return true
	default:
	}
	p.setBusy(true)
	select {
	case room <- struct{}{}:
		<-room
		return true
	case <-ctx.Done():
		return false
	}
}

// pullSome asks for tasks for a while, one at a time, and begins them. If all the room was taken
// meanwhile, by another task, it goes back at once.
//
// A puller that may have a task asks first without waiting: only the answer "none" lets the later
// classes ask. After that it asks with a wait, not busy, so that they are not held up; a task that it
// finds makes it busy again. The last class has nobody behind it, and a type with a bound only one
// class, so both ask with the wait at once. It returns after pullWait, so that the consumer is looked
// up again. The client library has the server wait for nine tenths of the time that is left: the last tenth is left
// over, in which requests would follow each other ever faster, until the library refuses one.
func (p *puller) pullSome(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, pullWait)
	defer cancel()
	consumer, err := p.loop.js.Consumer(asking, p.loop.names.stream(), p.queue.consumer())
	if err != nil {
		return err
	}
	bounded := consumer.CachedInfo().Config.MaxAckPending > 0 // it has no other class, and perhaps a task for later
	deadline, _ := asking.Deadline()
	for p.awaitRoom(asking) && p.loop.gate.await(asking, p.queue.class) && time.Until(deadline) > pullWait/8 {
		if len(p.loop.room) == cap(p.loop.room) {
			continue // it was taken while others asked
		}
		if p.busy && !bounded && p.queue.class < classes-1 {
			found, err := p.takeOne(ctx, func() (jetstream.MessageBatch, error) { return consumer.FetchNoWait(1) })
			if err != nil {
				return err
			}
			if found {
				continue
			}
		}
		p.setBusy(false)
		found, err := p.takeOne(ctx, func() (jetstream.MessageBatch, error) { return consumer.Fetch(1, jetstream.FetchContext(asking)) })
		if err != nil && asking.Err() == nil && time.Now().Before(deadline) {
			return err
		}
		if found {
			p.setBusy(true) // there may be more
		}
	}
	return nil
}

// takeOne begins the task that a request brings, and reports whether there was one.
//
// A time-out is the answer that there was none. An error beside a task that was delivered is left for
// the next request to say.
func (p *puller) takeOne(ctx context.Context, ask func() (jetstream.MessageBatch, error)) (found bool, err error) {
	batch, err := ask()
	if err != nil {
		return false, err
	}
	for m := range batch.Messages() {
		found = true
		p.loop.startTask(ctx, m)
	}
	if err = batch.Error(); found || errors.Is(err, nats.ErrTimeout) {
		err = nil
	}
	return found, err
}

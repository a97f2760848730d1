package natspool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl/nats/internal/jet"
)

// ensureStream makes the stream, or changes it to what the options say.
//
// One message of a subject, and new ones refused, is what makes it harmless to publish everything
// again. It is in the memory of the servers: the engine's directory is durable, and what
// the stream
// loses is published anew.
func (p *Pool) ensureStream(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, jet.Timeout)
	defer cancel()
	_, err := p.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: p.names.stream(), Subjects: []string{p.names.tasks()}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.MemoryStorage,
		Replicas: p.options.Replicas, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
		AllowDirect: false,
	})
	if err != nil {
		err = fmt.Errorf("make the stream %s: %w", p.names.stream(), err)
	}
	return p.noteState("", err)
}

// openStream is ensureStream for New, which waits until a broken stream is made anew.
func (p *Pool) openStream(ctx context.Context) error {
	for {
		err := p.ensureStream(ctx)
		if !errors.Is(err, errBroken) {
			return err
		}
		select {
		case <-time.After(publishPause):
		case <-ctx.Done():
			return err
		}
	}
}

// ensureConsumer makes the consumer of a type's tasks of a class, once in the life of a stream. No message
// may be of two consumers: that of the first class, which may have had all, is changed
// first, and where it gets them the others are deleted first.
//
// A work queue refuses a consumer whose filter meets that of another one, and both options and the
// program may have changed since the stream was made; hence the order. It calls itself once at most,
// for class 0. served remembers what is there, until restoreStream empties it.
func (p *Pool) ensureConsumer(q classQueue) error {
	filter, bound := p.names.tasksOfClass(q.taskType, q.class, "*"), p.options.boundOf(q.taskType)
	if bound > 0 {
		q.class, filter = 0, p.names.tasksOf(q.taskType)
	}
	p.mu.Lock()
	known := p.served[q]
	p.mu.Unlock()
	if known {
		return nil
	}
	ctx, cancel := context.WithTimeout(p.ctx, jet.Timeout)
	defer cancel()
	var err error
	switch {
	case q.class != 0:
		err = p.ensureConsumer(classQueue{q.taskType, 0})
	case bound > 0:
		err = p.deleteLater(ctx, q.taskType)
	}
	if err == nil {
		_, err = p.js.CreateOrUpdateConsumer(ctx, p.names.stream(), jetstream.ConsumerConfig{
			Durable: q.consumer(), FilterSubject: filter, AckPolicy: jetstream.AckExplicitPolicy,
			AckWait: p.options.Lease, MaxDeliver: -1, MaxAckPending: bound, MemoryStorage: true,
		})
		err = p.noteState(q.consumer(), err)
	}
	if err != nil {
		return fmt.Errorf("make the consumer %s: %w", q.consumer(), err)
	}
	p.mu.Lock()
	p.served[q] = true
	p.mu.Unlock()
	return nil
}

// deleteLater deletes the consumers of a type's classes behind the first.
func (p *Pool) deleteLater(ctx context.Context, taskType string) error {
	for c := class(1); c < classes; c++ {
		err := p.js.DeleteConsumer(ctx, p.names.stream(), classQueue{taskType, c}.consumer())
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return err
		}
	}
	return nil
}

// restoreStream makes the stream and, as they come, the consumers again where they are lost.
//
// served is emptied before and filled again by ensureConsumer, so that a consumer that fails here is
// made when its next task comes.
func (p *Pool) restoreStream() error {
	p.mu.Lock()
	served := p.served
	p.served = map[classQueue]bool{}
	p.mu.Unlock()
	if err := p.ensureStream(p.ctx); err != nil {
		return err
	}
	for q := range served {
		if err := p.ensureConsumer(q); err != nil {
			return err
		}
	}
	return nil
}

// brokenWait is how long the stream, or a consumer, is broken before the stream is made anew. Servers that can choose a leader do so within 9 s.
const brokenWait = 15 * time.Second

// errBroken says that the stream, or a consumer of it, is there and may never deliver what is out.
var errBroken = errors.New("the stream is broken")

// noteState deletes the stream if it, or a consumer of it, has been broken for brokenWait; consumer is "" for the stream itself, and err
// what came of making it, which is returned, or errBroken if it is broken.
//
// The memory of a server ends with it. If too many servers of the stream were started anew, the rest may choose no leader any more, or one whose
// stream is empty, while the consumer goes on behind the messages that it has delivered; and a stream of one replica has no leader while its server
// is away. The next try makes a new stream, into which everything that is out is published.
// It is called by New, and then by the goroutine of publishLoop.
func (p *Pool) noteState(consumer string, err error) error {
	var broken error
	switch {
	case p.ctx.Err() != nil:
		return err
	case err != nil:
		broken = p.checkLeader(consumer)
	case consumer != "":
		broken = p.checkPlace(consumer)
	}
	if broken == nil {
		delete(p.broken, consumer)
		return err
	}
	since, known := p.broken[consumer]
	if !known {
		p.broken[consumer] = time.Now()
	}
	if known && time.Since(since) > brokenWait {
		p.options.Logger.Warn("natspool: the stream is made anew", "stream", p.names.stream(), "consumer", consumer, "error", broken)
		p.deleteStream()
	}
	return broken
}

// deleteStream deletes the stream with all its consumers.
func (p *Pool) deleteStream() {
	ctx, cancel := context.WithTimeout(p.ctx, jet.Timeout)
	defer cancel()
	if err := p.js.DeleteStream(ctx, p.names.stream()); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		p.options.Logger.Warn("natspool: the stream cannot be deleted", "stream", p.names.stream(), "error", err)
		return
	}
	clear(p.broken)
}

// checkLeader fails with errBroken if the servers say that the stream, or a consumer of it, is there and has no leader.
func (p *Pool) checkLeader(consumer string) error {
	ctx, cancel := context.WithTimeout(p.ctx, jet.Timeout)
	defer cancel()
	var cluster *jetstream.ClusterInfo
	var err error
	if consumer == "" {
		var s jetstream.Stream
		if s, err = p.js.Stream(ctx, p.names.stream()); err == nil {
			cluster = s.CachedInfo().Cluster
		}
	} else {
		var c jetstream.Consumer
		if c, err = p.js.Consumer(ctx, p.names.stream(), consumer); err == nil {
			cluster = c.CachedInfo().Cluster
		}
	}
	if isOffline(err) || cluster != nil && cluster.Leader == "" {
		return fmt.Errorf("%w: it has no leader", errBroken)
	}
	return nil
}

// checkPlace fails with errBroken if a consumer is behind the end of the stream: it delivers nothing until the stream is that long again.
//
// The stream is asked last, so that it has whatever the consumer has delivered.
func (p *Pool) checkPlace(consumer string) error {
	ctx, cancel := context.WithTimeout(p.ctx, jet.Timeout)
	defer cancel()
	c, err := p.js.Consumer(ctx, p.names.stream(), consumer)
	if err != nil || c.CachedInfo().Delivered.Stream == 0 {
		return nil // what is wrong is seen when it is made the next time
	}
	s, err := p.js.Stream(ctx, p.names.stream())
	if last := c.CachedInfo().Delivered.Stream; err == nil && last > s.CachedInfo().State.LastSeq {
		return fmt.Errorf("%w: the consumer has delivered message %d, and the stream ends with %d", errBroken, last, s.CachedInfo().State.LastSeq)
	}
	return nil
}

// isOffline reports whether an error says that all servers of a stream, or of a consumer, are away.
func isOffline(err error) bool {
	var refused *jetstream.APIError
	return errors.As(err, &refused) && (refused.ErrorCode == codeStreamOffline || refused.ErrorCode == codeConsumerOffline)
}

// Codes of JetStream that its client has no names for.
const (
	codeStreamOffline   = 10118
	codeConsumerOffline = 10119
)

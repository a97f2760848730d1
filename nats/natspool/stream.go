package natspool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl/nats/internal/jet"
)

// A streamState is what the pool knows of its stream. It belongs to New, and then to the goroutine of publishLoop.
//
// A stream that is created anew is another one, and has nothing of what was published: renewed stays true until everything that is out is
// to be published again. last is the highest sequence of a message that it is known to have had; a stream that gives one of these to another
// message has been reset.
type streamState struct {
	created time.Time // zero before the first look
	last    uint64
	reset   bool
	renewed bool
	broken  map[string]sighting // of the stream, under "", and of consumers
}

// A sighting is when something was first and last seen to be broken.
type sighting struct{ first, last time.Time }

// The stream is made anew if it, or a consumer, has had no leader for leaderWait, since servers that can choose one do so within 9 s; or if
// it has begun anew for resetWait, in which a leader learns the rest of what it leads. A sighting before forgetSighting does not count.
const (
	leaderWait     = 15 * time.Second
	resetWait      = 2 * time.Second
	forgetSighting = 30 * time.Second
)

// The stream, or a consumer of it, is there and may never deliver what is out: errReset says that messages of the stream are lost, errBroken
// that or any other cause.
var (
	errBroken = errors.New("the stream is broken")
	errReset  = fmt.Errorf("%w: it has begun anew", errBroken)
)

// ensureStream makes the stream, or changes it to what the options say.
//
// One message of a subject, and new ones refused, is what makes it harmless to publish everything
// again. It is in the memory of the servers: the engine's directory is durable, and what
// the stream
// loses is published anew.
func (p *Pool) ensureStream(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, jet.Timeout)
	defer cancel()
	s, err := p.js.CreateOrUpdateStream(asking, jetstream.StreamConfig{
		Name: p.names.stream(), Subjects: []string{p.names.tasks()}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.MemoryStorage,
		Replicas: p.options.Replicas, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
		AllowDirect: false,
	})
	if err != nil {
		if broken := p.checkStreamLeader(ctx); broken != nil {
			return p.noteBroken(ctx, "", broken)
		}
		return fmt.Errorf("make the stream %s: %w", p.names.stream(), err)
	}
	is, last := &p.stream, s.CachedInfo().State.LastSeq
	if created := s.CachedInfo().Created; !created.Equal(is.created) {
		is.renewed = !is.created.IsZero()
		is.created, is.last, is.reset = created, 0, false
	}
	if is.reset || last < is.last {
		if s.CachedInfo().Config.Replicas > 1 {
			return p.noteBroken(ctx, "", fmt.Errorf("%w: it had message %d, and ends with %d now", errReset, is.last, last))
		}
		is.reset, is.renewed = false, true // its consumers were on the same server
	}
	is.last = last
	delete(is.broken, "")
	return nil
}

// openStream is ensureStream for New, which waits until a broken stream is made anew, or has its leader.
func (p *Pool) openStream(ctx context.Context) error {
	var broken error
	for {
		err := p.ensureStream(ctx)
		switch {
		case errors.Is(err, errBroken):
			broken = err
		case err == nil || broken == nil:
			return err
		}
		select {
		case <-time.After(publishPause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", broken, context.Cause(ctx))
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
	if _, broken := p.stream.broken[q.consumer()]; broken { // to make it would take until the servers do not answer in time
		if broken := p.checkConsumer(q.consumer()); broken != nil {
			return p.noteBroken(p.ctx, q.consumer(), broken)
		}
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
		if broken := p.checkConsumer(q.consumer()); broken != nil {
			err = p.noteBroken(p.ctx, q.consumer(), broken)
		} else if err == nil {
			delete(p.stream.broken, q.consumer())
		}
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

// restoreStream makes the stream and, as they come, the consumers again where they are lost. If that fails while
// there is a connection, publishLoop tries again after a pause.
//
// served is emptied before and filled again by ensureConsumer, so that a consumer that fails here is
// made when its next task comes.
func (p *Pool) restoreStream() (err error) {
	p.mu.Lock()
	served := p.served
	p.served = map[classQueue]bool{}
	p.mu.Unlock()
	defer func() {
		if err != nil && p.conn.IsConnected() {
			p.again = time.After(publishPause)
		}
	}()
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

// noteBroken notes that the stream, or a consumer of it, is seen to be broken, and deletes the stream if it has been for long enough; consumer
// is "" for the stream itself. It returns what is broken, or why the stream cannot be deleted.
//
// The memory of a server ends with it. If too many servers of the stream were started anew, the rest may choose no leader any more, or one whose
// stream is empty, while the consumers go on behind the messages that they have delivered; and a stream of one replica has no leader while its
// server is away. The next try makes a new stream, into which everything that is out is published.
func (p *Pool) noteBroken(ctx context.Context, consumer string, broken error) error {
	now, seen := time.Now(), p.stream.broken[consumer]
	if now.Sub(seen.last) > forgetSighting {
		seen.first = now
	}
	seen.last = now
	p.stream.broken[consumer] = seen
	wait := leaderWait
	if errors.Is(broken, errReset) {
		wait = resetWait
	}
	if now.Sub(seen.first) < wait {
		return broken
	}
	p.options.Logger.Warn("natspool: the stream is made anew", "stream", p.names.stream(), "consumer", consumer, "error", broken)
	ctx, cancel := context.WithTimeout(ctx, jet.Timeout)
	defer cancel()
	if err := p.js.DeleteStream(ctx, p.names.stream()); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("delete the stream %s, since %s: %w", p.names.stream(), broken.Error(), err)
	}
	clear(p.stream.broken)
	p.stream.broken[""] = sighting{now, now} // until the next one is there, which has its own time for a leader
	return broken
}

// checkStreamLeader fails with errBroken if the servers say that the stream is there and has no leader.
func (p *Pool) checkStreamLeader(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, jet.Timeout)
	defer cancel()
	s, err := p.js.Stream(ctx, p.names.stream())
	if isRefused(err, codeStreamOffline) || err == nil && !hasLeader(s) {
		return fmt.Errorf("%w: it has no leader", errBroken)
	}
	return nil
}

// hasLeader reports whether a stream has a leader, as far as is known.
func hasLeader(s jetstream.Stream) bool {
	c := s.CachedInfo().Cluster
	return c == nil || c.Leader != ""
}

// checkConsumer fails with errBroken if a consumer has no leader although its stream has one, or has delivered messages that are behind the end
// of the stream: then it delivers nothing until the stream is that long again.
//
// The stream is asked last, so that it has whatever the consumer has delivered.
func (p *Pool) checkConsumer(consumer string) error {
	ctx, cancel := context.WithTimeout(p.ctx, jet.Timeout)
	defer cancel()
	c, bad := p.js.Consumer(ctx, p.names.stream(), consumer)
	leaderless := isRefused(bad, codeNoLeader) || isRefused(bad, codeConsumerOffline)
	if bad != nil && !leaderless || bad == nil && c.CachedInfo().Delivered.Stream == 0 {
		return nil
	}
	s, err := p.js.Stream(ctx, p.names.stream())
	switch {
	case err != nil || !hasLeader(s):
		return nil // it is seen with the stream
	case leaderless:
		return fmt.Errorf("%w: its consumer %s has no leader", errBroken, consumer)
	case c.CachedInfo().Delivered.Stream > s.CachedInfo().State.LastSeq:
		return fmt.Errorf("%w: its consumer %s has delivered message %d, and it ends with %d", errReset, consumer, c.CachedInfo().Delivered.Stream, s.CachedInfo().State.LastSeq)
	}
	return nil
}

// isRefused reports whether an error is that of JetStream with a code.
func isRefused(err error, code jetstream.ErrorCode) bool {
	var refused *jetstream.APIError
	return errors.As(err, &refused) && refused.ErrorCode == code
}

// Codes of JetStream that its client has no names for: no leader can be asked, and all servers of a stream, or of a consumer, are away.
const (
	codeNoLeader        = 10008
	codeStreamOffline   = 10118
	codeConsumerOffline = 10119
)

package natspool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/nats/internal/jet"
)

// publishPause is the time after a batch that failed in part.
const publishPause = 500 * time.Millisecond

// publishLoop publishes what is dispatched, and what is out when it may have been lost.
//
// It publishes everything that is out again after each connection, because the servers may have been
// started anew without the stream, and once in Options.Republish for a loss that no sign tells of. It
// works off the queues before it looks at the next sign.
func (p *Pool) publishLoop() {
	connected := p.conn.StatusChanged(nats.CONNECTED)
	defer p.conn.RemoveStatusListener(connected)
	tick := time.NewTicker(p.options.Republish)
	defer tick.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.wake:
		case <-tick.C:
			p.republishTasks()
		case <-connected:
			p.republishTasks()
		case <-p.again:
			p.republishTasks()
		}
		for p.publishBatch() {
		}
	}
}

// republishTasks has everything published that is out and held by nobody: what is in the stream is
// refused.
//
// It is cheap where nothing is lost, but for a refusal for each task that waits. Without a connection it is the
// next one that has it tried again.
func (p *Pool) republishTasks() {
	p.again = nil
	if p.isIdle() {
		clear(p.stream.broken) // nobody looks until there is an engine
		return
	}
	if err := p.restoreStream(); err != nil {
		p.options.Logger.Warn("natspool: the stream cannot be had", "stream", p.names.stream(), "error", err)
		return
	}
	p.enqueueAll()
}

// enqueueAll has everything published that is out and held by nobody.
func (p *Pool) enqueueAll() {
	p.stream.renewed = false
	keys := p.outKeys(time.Now())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enqueue(keys...)
}

// isIdle reports whether the engine can do nothing more: what this pool has out may be another one's.
func (p *Pool) isIdle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.idle
}

// copyHeader is in each message that may be a copy: of one that its worker acknowledges at this instant, since the
// result has just been committed. The worker that gets the copy asks before it begins. copyHeaderBytes is more than it takes.
const (
	copyHeader      = "Pawl-Copy"
	copyHeaderBytes = 64
)

// A publication is a message on its way into the stream.
type publication struct {
	entry   *entry
	message *nats.Msg
	future  jetstream.PubAckFuture // once it is sent
}

// publishBatch publishes what comes next in the queue and says whether there may be more.
//
// All messages of a batch are sent before the first answer is read: one after another would cost a way
// there and back for each. A message that failed, or has no answer in time, goes back into the queue:
// a message that is there after all is refused as repeated, which counts as a success. While the stream is broken all wait for the next one.
func (p *Pool) publishBatch() bool {
	if _, broken := p.stream.broken[""]; broken || p.ctx.Err() != nil {
		return false
	}
	batch := p.nextBatch()
	if len(batch) == 0 {
		return false
	}
	var failure error
	var sent []publication
	var again []pawl.Key
	failed := map[classQueue]error{} // those whose consumer cannot be had
	for _, m := range batch {
		q := classQueue{m.entry.task.Type, classOf(m.entry.task.Priority)}
		err := failed[q]
		if err == nil {
			if err = p.ensureConsumer(q); err != nil {
				failed[q] = err
			}
		}
		if err == nil {
			if m.future, err = p.js.PublishMsgAsync(m.message); err == nil {
				sent = append(sent, m)
				continue
			}
		}
		failure, again = err, append(again, m.entry.task.Key)
	}
	answered, cancel := context.WithTimeoutCause(p.ctx, jet.Timeout, errNoAnswer)
	defer cancel()
	last := p.stream.last
	for _, s := range sent {
		at, err := p.awaitPublication(answered, s)
		if err == nil && at > 0 && at <= last {
			p.stream.reset = true
			err = fmt.Errorf("%w: it had a message %d, and has got another one", errReset, at)
		}
		if err != nil {
			failure, again = err, append(again, s.entry.task.Key)
			continue
		}
		p.stream.last = max(p.stream.last, at)
	}
	if failure != nil {
		p.publishLater(again, failure)
	}
	return p.ctx.Err() == nil
}

// publishLater puts what could not be published into the queue again, after a pause; and whatever is out if the stream is another one.
//
// The stream may be what is missing, so it is made again first. Nothing else is published during the
// pause; it would fail alike.
func (p *Pool) publishLater(keys []pawl.Key, failure error) {
	if p.ctx.Err() != nil {
		return
	}
	p.options.Logger.Warn("natspool: tasks could not be published, and will be again", "tasks", len(keys), "error", failure)
	select {
	case <-time.After(publishPause):
	case <-p.ctx.Done():
		return
	}
	if p.isIdle() {
		clear(p.stream.broken) // nobody looks until there is an engine
	} else if p.restoreStream() == nil && p.stream.renewed {
		p.enqueueAll()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enqueue(keys...)
}

// nextBatch takes tasks that are still out from the queues, those of the first class first.
//
// A later class waits until the earlier ones are published, and at most maxBatch tasks are between a
// new urgent task and its turn. Where the engine can do nothing more all stay where they are.
func (p *Pool) nextBatch() []publication {
	p.mu.Lock()
	defer p.mu.Unlock()
	var batch []publication
	if p.idle {
		return nil
	}
	for c := range p.queues {
		for len(p.queues[c]) > 0 && len(batch) < maxBatch {
			if e := p.entries[p.queues[c][0]]; e != nil && !e.answered {
				m := &nats.Msg{Subject: e.subject, Data: e.text}
				if e.copied {
					m.Header = nats.Header{copyHeader: {"1"}}
				}
				e.copied = true
				batch = append(batch, publication{entry: e, message: m})
			}
			p.queues[c] = p.queues[c][1:]
		}
	}
	return batch
}

// errNoAnswer is why a message counts as not published.
var errNoAnswer = errors.New("JetStream does not answer")

// awaitPublication waits until the stream has a message, or refuses it because it has it already, and returns its sequence: 0 if it is refused.
// A task that was done meanwhile is taken out again.
//
// A refusal as a repetition is a success: the stream has the task. While the message was on its way
// the attempt may have ended; its removal may then have come before the message, which nobody else
// would take out. A message that was left for the next engine stays, unless its attempt
// got its result after that.
func (p *Pool) awaitPublication(ctx context.Context, s publication) (sequence uint64, err error) {
	select {
	case ack := <-s.future.Ok():
		sequence = ack.Sequence
	case err := <-s.future.Err():
		if isRepeated(err) {
			return 0, nil
		}
		return 0, err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[s.entry.task.Key]
	if over := e == nil && (!s.entry.left || s.entry.answered) || e != nil && e.answered; over && !p.closed {
		p.remove(s.entry)
	}
	return sequence, nil
}

// isRepeated says that a message was refused because the stream has one of its subject. The code,
// 10077, is that of every message that cannot be stored; the text tells them apart.
//
// A full server has the same code, and there the task must be published again.
func isRepeated(err error) bool {
	var refused *jetstream.APIError
	return errors.As(err, &refused) && refused.ErrorCode == 10077 && strings.Contains(refused.Description, "maximum messages per subject exceeded")
}

// removeLoop removes the messages of attempts that are over, and tells their holders.
//
// One at a time is enough: most messages leave the stream by the acknowledgement of their worker, and
// only cancelled or timed out attempts come here. An error may come at once, as where nobody answers for
// JetStream, so nothing is tried again before a pause.
func (p *Pool) removeLoop() {
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.sweep:
		}
		if p.removeAll() {
			continue
		}
		select {
		case <-p.ctx.Done():
			return
		case <-time.After(publishPause):
		}
		signal(p.sweep)
	}
}

// removeAll tries each of the removals once, and reports whether none is left to be tried again.
func (p *Pool) removeAll() bool {
	var failed []*entry
	for e := p.nextRemoval(); e != nil && p.ctx.Err() == nil; e = p.nextRemoval() {
		if !p.removeMessage(e) {
			failed = append(failed, e)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.idle {
		p.removals = append(p.removals, failed...)
	}
	return len(failed) == 0
}

// nextRemoval takes the first of the removals; nil without one.
func (p *Pool) nextRemoval() *entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.removals) == 0 || p.idle {
		return nil
	}
	e := p.removals[0]
	p.removals = p.removals[1:]
	return e
}

// removeMessage removes one message, and reports whether that is done: while JetStream does not answer it is to
// be tried again. A stream that is not there has it no more.
//
// The holder is told in any case, by a notice to all workers, and only the one that holds the key
// acts. An attempt keeps its subject when it is dispatched again, so the removal may hit the new
// message: then it is published once more.
func (p *Pool) removeMessage(e *entry) bool {
	ctx, cancel := context.WithTimeout(p.ctx, jet.Timeout)
	defer cancel()
	stream, err := p.js.Stream(ctx, p.names.stream())
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(e.subject))
	}
	if text, bad := json.Marshal(dropMessage{e.task.Key}); bad == nil { // last, for the worker that has just got it
		_ = p.conn.Publish(p.names.drop(), text) // the next heartbeat says so as well
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if again := p.entries[e.task.Key]; again != nil && !again.answered {
		p.enqueue(e.task.Key) // it was dispatched anew, and may just have been removed
		return true
	}
	return err == nil || errors.Is(err, jetstream.ErrStreamNotFound)
}

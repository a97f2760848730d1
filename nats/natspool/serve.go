package natspool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// turnWait is how long a worker that asks for a turn of Once waits for an answer.
const turnWait = 5 * time.Second

// subscribeAll serves the requests of workers, unless it does already. The lock is held.
func (p *Pool) subscribeAll() error {
	if len(p.subs) > 0 {
		return nil
	}
	for what, serve := range map[string]func([]byte) reply{"done": p.serveDone, "beat": p.serveBeat, "once": p.serveOnce} {
		if err := p.subscribe(what, serve); err != nil {
			p.unsubscribe()
			return err
		}
	}
	return nil
}

// subscribe serves the requests of one kind, each in a goroutine of its own.
//
// At most maxCalls requests are served at once; more wait in the client of NATS. One is counted by the
// group under the lock, with closed looked at, so that Close waits for it or it does not begin. A
// request without an answer is asked again by its worker. The lock is held.
func (p *Pool) subscribe(what string, serve func([]byte) reply) error {
	sub, err := p.conn.Subscribe(p.names.call(what), func(m *nats.Msg) {
		select {
		case p.slots <- struct{}{}:
		case <-p.ctx.Done():
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.closed {
			<-p.slots
			return
		}
		p.group.Go(func() {
			defer func() { <-p.slots }()
			if text, err := json.Marshal(serve(m.Data)); err == nil {
				_ = m.Respond(text) // who is not reached asks again
			}
		})
	})
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", p.names.call(what), err)
	}
	p.subs = append(p.subs, sub)
	return nil
}

// unsubscribe ends all subscriptions: requests that come after it find another pool, or no responder, and
// are asked again. The lock is held.
func (p *Pool) unsubscribe() {
	for _, s := range p.subs {
		_ = s.Unsubscribe() // the connection is gone, and the subscription with it
	}
	p.subs = nil
}

// attached returns the engine; nil if it can do nothing more, which a request that came just before finds.
func (p *Pool) attached() engineCalls {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.engine
}

var busyReply = reply{Status: statusBusy, Message: "the engine has just gone: ask again"}

// invalidReply answers a request that can never succeed; the text is for whoever wrote the worker.
func invalidReply(err error) reply { return reply{Status: statusInvalid, Message: err.Error()} }

// serveDone commits a result.
//
// It does not ask whether the sender holds the task: the first result of an attempt counts, whoever
// brings it, and the engine says which was the first. So it also works for attempts that this pool
// does not know, after a restart. The commit has a context of its own, which outlives Close's stop.
func (p *Pool) serveDone(data []byte) reply {
	var m doneMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return invalidReply(err)
	}
	output, cause, err := m.ReadResult()
	engine := p.attached()
	switch {
	case err != nil:
		return invalidReply(err)
	case engine == nil:
		return busyReply
	}
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	e := p.beginCommit(m.Key)
	verdict, err := remote.SendResult(ctx, engine, m.Key, output, cause)
	p.endCommit(e, m.Worker, verdict)
	p.noteEnd(engine, err)
	switch verdict {
	case remote.Taken:
		return reply{Status: statusTaken}
	case remote.Late, remote.Refused:
		return reply{Status: statusOver, Message: err.Error()}
	case remote.Foreign:
		return invalidReply(err)
	case remote.Unsure:
	}
	return reply{Status: statusBusy, Message: err.Error()}
}

// noteEnd lets go of an engine that has told that it can do nothing more.
func (p *Pool) noteEnd(e engineCalls, err error) {
	if errors.Is(err, pawl.ErrClosed) || errors.Is(err, pawl.ErrFailed) {
		p.detach(e)
	}
}

// beginCommit notes that a result of a task is with the engine; nil if the pool does not know the
// task. The returned entry goes to endCommit.
func (p *Pool) beginCommit(k pawl.Key) *entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[k]
	if e != nil {
		e.committing++
	}
	return e
}

// endCommit notes that an attempt has a result before its worker hears of it and
// acknowledges: from then on it is not published again. Another holder than the worker is told; and a copy that came into the stream
// while the engine closed is taken out.
//
// An unsure verdict changes nothing: the worker sends the result again. A holder who is not the sender
// has worked in vain; the removal of the message tells it.
func (p *Pool) endCommit(e *entry, worker string, verdict remote.Verdict) {
	if e == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e.committing--
	if verdict != remote.Taken && verdict != remote.Late && verdict != remote.Refused {
		return
	}
	e.answered = true
	p.turns.EndTurns(e.task.Key)
	if (e.left || e.holder != "" && e.holder != worker) && !p.closed {
		p.remove(e)
	}
}

// serveBeat renews what the pool and the engine know of a task's holder.
//
// One message serves four questions: a claim, a sign of life, details, and a blob to be kept. A claim
// of a task that is out is answered without the engine; one that the pool does not know is passed on
// to it, because the attempt may be over, or not dispatched yet in this life. The engine's answer
// decides whether the worker goes on.
func (p *Pool) serveBeat(data []byte) reply {
	var m beatMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return invalidReply(err)
	}
	known, mine := p.noteHolder(m, time.Now())
	switch {
	case !mine:
		return p.refuseOther(m.Key)
	case m.Blob != "":
		return p.keepBlob(m)
	case known && m.Claim:
		return reply{Status: statusTaken}
	}
	engine := p.attached()
	if engine == nil {
		return busyReply
	}
	var details any
	if m.Details != nil {
		var err error
		if details, err = value.Decode(m.Details, value.Limits{Bytes: limits.MaxDetails}); err != nil {
			return invalidReply(err)
		}
	}
	ctx, cancel := context.WithTimeout(p.ctx, commitTimeout)
	defer cancel()
	err := engine.Heartbeat(ctx, m.Key, details)
	p.noteEnd(engine, err)
	switch {
	case err == nil:
		return reply{Status: statusTaken}
	case errors.Is(err, pawl.ErrStale), errors.Is(err, pawl.ErrEnded):
		return reply{Status: statusOver, Message: err.Error()}
	case remote.IsInvalid(err):
		return invalidReply(err)
	}
	return reply{Status: statusBusy, Message: err.Error()}
}

// refuseOther answers a worker whose task another one holds, as far as this pool knows.
//
// An engine that has lost its log, and does not know it yet, knows nothing of who has got the task from the engine that has the log now:
// then the worker asks again.
func (p *Pool) refuseOther(k pawl.Key) reply {
	p.mu.Lock()
	e := p.entries[k]
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(p.ctx, commitTimeout)
	defer cancel()
	if e == nil || e.host.ConfirmLog(ctx) != nil {
		return busyReply
	}
	return reply{Status: statusOther}
}

// keepBlob has a blob kept that a task has put.
//
// The worker has put it into the store already; the engine keeps it until the attempt is over. A task
// that is not out is over, or comes with the next dispatch: then the worker asks again.
func (p *Pool) keepBlob(m beatMessage) reply {
	if _, err := blob.ParseRef(blob.Ref{Hash: m.Blob}); err != nil {
		return invalidReply(err)
	}
	p.mu.Lock()
	e := p.entries[m.Key]
	out := e != nil && !e.answered
	p.mu.Unlock()
	if !out {
		return p.serveBeatUnknown(m.Worker, m.Key)
	}
	e.host.KeepBlob(string(m.Key), m.Blob)
	return reply{Status: statusTaken}
}

// noteHolder notes who holds a task. known says that it is out, mine that nobody else holds it: a
// delivery takes it from who had it before.
//
// A claim wins because JetStream delivers a message to somebody else only when the lease has run out;
// turns of the holder before end with it. A sign of life from another than the holder is answered
// "other", and its function is interrupted. A task that the pool does not know, or that has its
// result, is nobody's: the engine is asked about it.
func (p *Pool) noteHolder(m beatMessage, now time.Time) (known, mine bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[m.Key]
	if e == nil || e.answered {
		return false, true
	}
	if e.holder != m.Worker {
		if e.holder != "" && !m.Claim {
			return true, false
		}
		if e.holder != "" {
			p.turns.EndTurns(m.Key)
		}
		e.holder = m.Worker
		e.host.ReportWorker(string(m.Key), m.Worker)
	}
	e.heard = now
	return true, true
}

// serveOnce is Task.Once for a worker.
//
// A goodbye needs no hold on the task: its turn is named by a random text that only its worker knows.
// For the rest the worker must hold the task; to ask is a sign of life as well.
func (p *Pool) serveOnce(data []byte) reply {
	var m onceMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return invalidReply(err)
	}
	if m.Failed {
		r := p.turns.GiveUp(m.OnceMessage)
		return reply{Status: statusTaken, Once: &r}
	}
	known, mine := p.noteHolder(beatMessage{Worker: m.Worker, Key: m.Key}, time.Now())
	p.mu.Lock()
	e := p.entries[m.Key]
	p.mu.Unlock()
	switch {
	case !mine:
		return p.refuseOther(m.Key)
	case !known || e == nil:
		return p.serveBeatUnknown(m.Worker, m.Key)
	}
	ctx, cancel := context.WithTimeout(p.ctx, commitTimeout)
	defer cancel()
	if m.Outcome != nil {
		return onceReply(p.turns.KeepOutcome(ctx, e.task, m.OnceMessage))
	}
	return onceReply(p.turns.AskTurn(ctx, e.task, m.OnceMessage, turnWait, func() error { return p.checkHeld(m) }))
}

// serveBeatUnknown answers for a task that the pool does not know: it is over, or the engine has
// not dispatched it yet.
//
// It has a heartbeat served in its stead: if the engine says that the attempt is over, that is the
// answer; if it takes the heartbeat, the dispatch is still to come, and the worker asks again.
func (p *Pool) serveBeatUnknown(worker string, k pawl.Key) reply {
	text, err := json.Marshal(beatMessage{Worker: worker, Key: k})
	if err != nil {
		return invalidReply(err)
	}
	if r := p.serveBeat(text); r.Status != statusTaken {
		return r
	}
	return busyReply
}

// checkHeld says whether a worker holds a task.
//
// AskTurn calls it once the turn is where EndTurns finds it.
func (p *Pool) checkHeld(m onceMessage) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.entries[m.Key]; e == nil || e.answered || e.holder != m.Worker {
		return pawl.ErrStale
	}
	return nil
}

// onceReply returns an answer of Once, or its error as the worker is told of it. An error that may pass is busy:
// the worker asks again. An error that no repetition mends is final: an outcome that is too large to be kept, that
// refers to a blob that is not there, or that is damaged.
func onceReply(r remote.OnceReply, err error) reply {
	var limit *workflow.LimitError
	switch {
	case err == nil:
		return reply{Status: statusTaken, Once: &r}
	case errors.Is(err, pawl.ErrStale):
		return reply{Status: statusOver, Message: err.Error()}
	case remote.IsInvalid(err), errors.Is(err, pawl.ErrCorrupt), errors.As(err, &limit):
		return invalidReply(err)
	}
	return reply{Status: statusBusy, Message: err.Error()}
}

// The requests of a worker, and the answer.
type (
	// Worker is the id of the sender. The pool believes
	// it: the permissions of NATS decide who may publish here.
	doneMessage struct {
		Worker string `json:"worker"`
		remote.Completion
	}
	beatMessage struct {
		Worker  string          `json:"worker"`
		Key     pawl.Key        `json:"key"`
		Claim   bool            `json:"claim,omitempty"` // the task was just delivered
		Details json.RawMessage `json:"details,omitempty"`
		Blob    string          `json:"blob,omitempty"` // hash of one that the task has put
	}
	onceMessage struct {
		Worker string `json:"worker"`
		remote.OnceMessage
	}
	dropMessage struct {
		Key pawl.Key `json:"key"`
	}
	reply struct {
		Status  string            `json:"status"`
		Message string            `json:"message,omitempty"`
		Once    *remote.OnceReply `json:"once,omitempty"`
	}
)

// The values of Status in a reply.
const (
	statusTaken   = "taken"   // it is committed, or the task is wanted
	statusOver    = "over"    // the attempt is over: drop it
	statusOther   = "other"   // another worker holds it
	statusInvalid = "invalid" // not what the request takes
	statusBusy    = "busy"    // ask again
)

package pawlnats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// turnWait is how long a worker that asks for a turn of Once waits for an answer.
const turnWait = 5 * time.Second

// subscribe serves the requests of one kind, each in a goroutine of its own.
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

func (p *Pool) unsubscribe() {
	for _, s := range p.subs {
		_ = s.Unsubscribe() // the connection is gone, and the subscription with it
	}
}

// attached returns the engine; nil before Attach.
func (p *Pool) attached() engineCalls {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.engine
}

var busyReply = reply{Status: statusBusy, Message: "the engine is not there yet: ask again"}

func invalidReply(err error) reply { return reply{Status: statusInvalid, Message: err.Error()} }

// serveDone commits a result.
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
// acknowledges: from then on it is not published again. Another holder than the worker is told.
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
	if e.holder != "" && e.holder != worker && !p.closed {
		p.remove(e)
	}
}

// serveBeat renews what the pool and the engine know of a task's holder.
func (p *Pool) serveBeat(data []byte) reply {
	var m beatMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return invalidReply(err)
	}
	known, mine := p.noteHolder(m, time.Now())
	switch {
	case !mine:
		return reply{Status: statusOther}
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
		if details, err = value.Decode(m.Details, value.Limits{Bytes: pawl.MaxDetails}); err != nil {
			return invalidReply(err)
		}
	}
	ctx, cancel := context.WithTimeout(p.ctx, commitTimeout)
	defer cancel()
	err := engine.Heartbeat(ctx, m.Key, details)
	switch {
	case err == nil:
		return reply{Status: statusTaken}
	case errors.Is(err, pawl.ErrStale), errors.Is(err, pawl.ErrEnded):
		return reply{Status: statusOver, Message: err.Error()}
	case errors.Is(err, pawl.ErrInvalid):
		return invalidReply(err)
	}
	return reply{Status: statusBusy, Message: err.Error()}
}

// keepBlob has a blob kept that a task has put.
func (p *Pool) keepBlob(m beatMessage) reply {
	if _, err := blob.ParseRef(blob.Ref{Hash: m.Blob}); err != nil {
		return invalidReply(err)
	}
	p.mu.Lock()
	e := p.entries[m.Key]
	p.mu.Unlock()
	if e == nil || e.answered {
		return p.serveBeatUnknown(m.Worker, m.Key)
	}
	e.task.KeepBlob(m.Blob)
	return reply{Status: statusTaken}
}

// noteHolder notes who holds a task. known says that it is out, mine that nobody else holds it: a
// delivery takes it from who had it before.
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
		e.task.ReportWorker(m.Worker)
	}
	e.heard = now
	return true, true
}

// serveOnce is Task.Once for a worker.
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
		return reply{Status: statusOther}
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
func (p *Pool) checkHeld(m onceMessage) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.entries[m.Key]; e == nil || e.answered || e.holder != m.Worker {
		return pawl.ErrStale
	}
	return nil
}

// onceReply answers a message of Once. What no repetition mends is final: an outcome that is too large to be kept, or one
// that is damaged.
func onceReply(r remote.OnceReply, err error) reply {
	var limit *workflow.LimitError
	switch {
	case err == nil:
		return reply{Status: statusTaken, Once: &r}
	case errors.Is(err, pawl.ErrStale):
		return reply{Status: statusOver, Message: err.Error()}
	case errors.Is(err, pawl.ErrInvalid), errors.Is(err, pawl.ErrCorrupt), errors.As(err, &limit):
		return invalidReply(err)
	}
	return reply{Status: statusBusy, Message: err.Error()}
}

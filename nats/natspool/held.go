package natspool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/workflow"
)

// A heldTask is a task that a worker performs.
// It is the services of its task as well (pawl.TaskServices). message is acknowledged when the task is
// over or its result committed, given back by Nak when it is to come again at once, and left alone
// where its lease should run out. cancel ends the function with a cause: errOver, errDropped or
// errNotMine.
type heldTask struct {
	loop    *workerLoop
	task    pawl.Task
	message jetstream.Msg
	lease   time.Duration
	cancel  context.CancelCauseFunc
}

// perform calls the function and delivers what it returns; ctx is that of Run, mine that of the task.
// A message that comes again may be of an attempt that is over, and so the pool is asked first.
//
// Heartbeats go on, under a context that outlives ctx, until the result is delivered: the deferred
// calls stop them last. The fate of the message depends on why the function ended; the causes are
// looked at before its error, because a function that was interrupted returns some error of its
// own.
func (h *heldTask) perform(ctx, mine context.Context) {
	var beats sync.WaitGroup
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer beats.Wait()
	defer stop()
	if !h.claim(mine) {
		return
	}
	beats.Go(func() { h.renew(beating) })
	remote.Performer{Handlers: h.loop.handlers, Logger: h.loop.log}.PerformTask(mine, h.task.WithServices(h), func(output any, err error) {
		switch {
		case errors.Is(context.Cause(mine), errOver), errors.Is(context.Cause(mine), errDropped):
			_ = h.message.Ack() // it frees the place among those that are held
		case errors.Is(context.Cause(mine), errNotMine):
		case err != nil && mine.Err() != nil: // who was interrupted has not failed
			_ = h.message.Nak() // or the lease runs out
		default:
			h.deliver(ctx, output, err)
		}
	})
}

// claim tells the pool who holds the task, and says whether to begin it: also where the pool is
// not there.
//
// A message that is delivered for the first time, and is no copy, is of an attempt that was just dispatched: the claim
// is only told, which saves the way there and back. Any other may be done; if the
// pool does not answer in time the task is begun all the same, since to do it twice is allowed and not
// to do it is not. A message that comes as the worker ends goes back at once.
func (h *heldTask) claim(ctx context.Context) bool {
	q := beatMessage{Worker: h.loop.id, Key: h.task.Key, Claim: true}
	about, err := h.message.Metadata()
	switch {
	case ctx.Err() != nil: // it came as Run ended
	case err == nil && about.NumDelivered == 1 && h.message.Headers().Get(copyHeader) == "":
		if text, err := json.Marshal(q); err == nil {
			_ = h.loop.conn.Publish(h.loop.names.call("beat"), text) // the next one says it as well
		}
		return true
	default:
		asking, cancel := context.WithTimeout(ctx, claimWait)
		defer cancel()
		if _, err := h.call(asking, "beat", q); errors.Is(err, errOver) {
			_ = h.message.Ack()
			return false
		}
	}
	if ctx.Err() == nil {
		return true
	}
	_ = h.message.Nak() // or the lease runs out
	return false
}

// renew renews the lease, thrice in its time, until the result is delivered.
//
// Both must hear of it: JetStream, which would deliver the message again, and the pool, which keeps
// who holds the task, and through it the engine. Only the pool knows that an attempt is over.
func (h *heldTask) renew(ctx context.Context) {
	tick := time.NewTicker(h.lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		_ = h.message.InProgress() // the connection says what is wrong
		asking, cancel := context.WithTimeout(ctx, h.lease/3)
		_, err := h.call(asking, "beat", beatMessage{Worker: h.loop.id, Key: h.task.Key})
		cancel()
		if errors.Is(err, errOver) || errors.Is(err, errNotMine) {
			h.cancel(err)
		}
	}
}

// tellLoss tells the log of a result that was lost.
func (h *heldTask) tellLoss(level slog.Level, text string, err error) {
	at := remote.PlaceOf(h.task)
	h.loop.log.Log(context.Background(), level, text, append(at.Args(), "worker", h.loop.id, "key", string(h.task.Key), "error", err)...)
}

// deliver sends a result until the pool has answered; when ctx is done, once.
//
// errInvalid says that the same message would never be taken: the failure that says why is sent
// instead, and if even that is not taken, the log is told and the message left to its lease. When ctx
// is done, the result is sent
// once, and if that fails the message goes back.
func (h *heldTask) deliver(ctx context.Context, output any, cause error) {
	if errors.Is(cause, pawl.ErrPending) {
		cause = pawl.Permanent(errors.New("a worker may not return ErrPending: the pool completes its tasks"))
	}
	m := doneMessage{Worker: h.loop.id, Completion: remote.NewCompletion(h.task, output, cause)}
	h.limit(&m)
	var pause time.Duration
	for {
		sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		_, err := h.call(sending, "done", m)
		cancel()
		switch {
		case err == nil, errors.Is(err, errOver):
			_ = h.message.Ack() // if it is lost, who gets the task again is told that it is over
			return
		case errors.Is(err, errInvalid):
			if m.Status == remote.StatusFailed {
				h.tellLoss(slog.LevelError, "natspool: a result was not taken", err)
				return
			}
			m.SetFailure(pawl.TaskError{Code: workflow.CodeInvalidResult, Message: err.Error()})
			continue
		case h.loop.conn.IsClosed():
			return
		}
		pause = workerBackoff.Next(pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			h.tellLoss(slog.LevelWarn, "natspool: a result was not delivered, and its task comes again", err)
			_ = h.message.Nak()
			return
		}
	}
}

// limit makes a result that no message can carry a failure.
//
// It is checked before sending, since the client would only say that it is too large, each time anew.
func (h *heldTask) limit(m *doneMessage) {
	text, err := json.Marshal(m)
	most := h.loop.conn.MaxPayload()
	if err != nil || most <= 0 || int64(len(text)) <= most {
		return
	}
	m.SetFailure(pawl.TaskError{Code: workflow.CodeResultTooLarge, Message: fmt.Sprintf(
		"the result has %d bytes, and a message of NATS at most %d: keep it elsewhere and return a reference, or raise max_payload", len(text), most)})
}

// call sends a request to the pool, once.
//
// The error is nil for taken, and otherwise one of errOver, errNotMine, errInvalid and errBusy. A missing or unreadable answer is
// errBusy: to ask again is right for all of these. A request that no message can carry is errInvalid.
func (h *heldTask) call(ctx context.Context, what string, q any) (reply, error) {
	text, err := json.Marshal(q)
	if err != nil {
		return reply{}, fmt.Errorf("%w: %w", errInvalid, err)
	}
	answer, err := h.loop.conn.RequestWithContext(ctx, h.loop.names.call(what), text)
	if errors.Is(err, nats.ErrMaxPayload) {
		return reply{}, fmt.Errorf("%w: it has %d bytes, more than a message of NATS may have: keep a reference to a blob", errInvalid, len(text))
	}
	if err != nil {
		return reply{}, fmt.Errorf("%w: %w", errBusy, err)
	}
	var r reply
	if err := json.Unmarshal(answer.Data, &r); err != nil {
		return r, fmt.Errorf("%w: %w", errBusy, err)
	}
	switch r.Status {
	case statusTaken:
		return r, nil
	case statusOver:
		return r, fmt.Errorf("%w: %s", errOver, r.Message)
	case statusOther:
		return r, errNotMine
	case statusInvalid:
		return r, fmt.Errorf("%w: %s", errInvalid, r.Message)
	}
	return r, fmt.Errorf("%w: %s", errBusy, r.Message)
}

// callAgain sends a request until it is answered for good, or ctx is done.
//
// It is for the calls of a handler, so it translates: what the handler can do nothing about is
// pawl.ErrStale, what it has done wrong pawl.ErrInvalid.
func (h *heldTask) callAgain(ctx context.Context, what string, q any) (reply, error) {
	var pause time.Duration
	for {
		sending, cancel := context.WithTimeout(uncancelled(ctx, q), callTimeout)
		r, err := h.call(sending, what, q)
		cancel()
		switch {
		case err == nil:
			return r, nil
		case errors.Is(err, errOver), errors.Is(err, errNotMine):
			return r, fmt.Errorf("%w: %w", pawl.ErrStale, err)
		case errors.Is(err, errInvalid):
			return r, fmt.Errorf("%w: %w", pawl.ErrInvalid, err)
		case h.loop.conn.IsClosed():
			return r, nats.ErrConnectionClosed
		}
		pause = workerBackoff.Next(pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return r, context.Cause(ctx)
		}
	}
}

// uncancelled returns the context of one request: the outcome of an effect that was made is sent also
// when ctx is done.
func uncancelled(ctx context.Context, q any) context.Context {
	if m, ok := q.(onceMessage); ok && m.Outcome != nil {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// errNoBlobs says what a worker lacks.
var errNoBlobs = fmt.Errorf("%w: natspool.Worker.Blobs is nil: it is the store that the engine has in Options.Blobs", pawl.ErrInvalid)

// Heartbeat implements pawl.TaskServices.
//
// The message is renewed first, for that needs no engine; then the details are sent until the pool has
// them.
func (h *heldTask) Heartbeat(ctx context.Context, t pawl.Task, details any) error {
	text, err := remote.EncodeDetails(details)
	if err != nil {
		return err
	}
	_ = h.message.InProgress() // the connection says what is wrong
	_, err = h.callAgain(ctx, "beat", beatMessage{Worker: h.loop.id, Key: t.Key, Details: text})
	return err
}

// Put implements pawl.TaskServices. The pool is told of the blob, and has it kept.
//
// The content goes to the store directly, and only its hash to the pool: the engine must hear of the
// blob before it collects those that nothing refers to. The media type is checked before the content
// is sent.
func (h *heldTask) Put(ctx context.Context, t pawl.Task, r io.Reader, mediaType string) (blob.Ref, error) {
	if h.loop.blobs == nil {
		return blob.Ref{}, errNoBlobs
	}
	if _, err := blob.ParseRef(blob.Ref{Hash: emptyBlob, Type: mediaType}); err != nil {
		return blob.Ref{}, fmt.Errorf("%w: put a blob: %w", pawl.ErrInvalid, err)
	}
	hash, size, err := h.loop.blobs.Put(ctx, r)
	if err == nil {
		_, err = h.callAgain(ctx, "beat", beatMessage{Worker: h.loop.id, Key: t.Key, Blob: hash})
	}
	if err != nil {
		return blob.Ref{}, fmt.Errorf("put a blob: %w", err)
	}
	return blob.Ref{Hash: hash, Size: size, Type: mediaType}, nil
}

// emptyBlob is the hash of no bytes.
const emptyBlob = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// Open implements pawl.TaskServices.
// The store checks the content by its hash; the pool is not asked.
func (h *heldTask) Open(ctx context.Context, _ pawl.Task, ref blob.Ref) (io.ReadCloser, error) {
	if h.loop.blobs == nil {
		return nil, errNoBlobs
	}
	return h.loop.blobs.Open(ctx, ref.Hash)
}

// Once implements pawl.TaskServices. An outcome is sent at least once, also where the
// task was cancelled meanwhile.
func (h *heldTask) Once(ctx context.Context, t pawl.Task, key string, f func(context.Context) (any, error)) (any, error) {
	call := remote.OnceCaller(func(ctx context.Context, q remote.OnceMessage) (remote.OnceReply, error) {
		r, err := h.callAgain(ctx, "once", onceMessage{Worker: h.loop.id, OnceMessage: q})
		if err == nil && r.Once == nil {
			err = fmt.Errorf("%w: no answer of Once", errInvalid)
		}
		if err != nil {
			return remote.OnceReply{}, err
		}
		return *r.Once, nil
	})
	return call.Once(ctx, t.Key, key, f)
}

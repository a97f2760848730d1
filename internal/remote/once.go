package remote

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A OnceMessage is what a worker asks for Task.Once.
// Key is the task's, Once the key under which the outcome is kept, Turn a random name that the worker
// makes for one call of Task.Once, so that a message that is repeated joins the same call. The message
// asks for the turn, unless Outcome is set, which ends the turn with that outcome, or Failed, which
// ends it without. Wait, a duration as text, is how long the pool may keep an asking worker waiting.
type OnceMessage struct {
	Key     pawl.Key        `json:"key"`
	Turn    string          `json:"turn"`
	Once    string          `json:"once,omitempty"`
	Wait    string          `json:"wait,omitempty"`
	Outcome json.RawMessage `json:"outcome,omitempty"`
	Failed  bool            `json:"failed,omitempty"`
}

// A OnceReply is the answer to a OnceMessage.
// Outcome counts only with the status OnceKept; JSON null is an outcome as well.
type OnceReply struct {
	Status  string          `json:"status"`
	Outcome json.RawMessage `json:"outcome,omitempty"`
}

// The values of Status in a OnceReply.
const (
	OnceKept   = "kept"   // Outcome is what is kept
	OnceYours  = "yours"  // the worker has the turn: it makes the effect
	OnceWait   = "wait"   // somebody else has the turn: ask again
	OnceFailed = "failed" // the turn is given up
)

// A OnceCaller sends a OnceMessage, again and again until it is answered or refused for good,
// or ctx is done.
type OnceCaller func(ctx context.Context, q OnceMessage) (OnceReply, error)

// goodbyeTime bounds how long it may take to give a turn up.
const goodbyeTime = 5 * time.Second

// Once is Task.Once in another process than the engine. Errors: that of f, those of the caller,
// pawl.ErrInvalid.
//
// Client.Once and the Once of a task of natspool are this, each with its own way to send a message.
// Under one key one effect is made at a time: the pool holds a turn open in a goroutine (see Turns) as
// long as the worker holds the task, and this function makes the effect while it has that turn. If the
// effect fails, or f panics, the turn is given up by a last message, so that whoever waits under the
// same key need not wait for the lease.
func (call OnceCaller) Once(ctx context.Context, task pawl.Key, key string, f func(context.Context) (any, error)) (any, error) {
	if !utf8.ValidString(key) { // which JSON could not tell
		return nil, fmt.Errorf("%w: the key %.300q is not UTF-8", pawl.ErrInvalid, key)
	}
	q := OnceMessage{Key: task, Turn: rand.Text(), Once: key}
	kept := false
	defer func() { // also if f panics
		if kept {
			return
		}
		goodbye, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbyeTime)
		defer cancel()
		q.Failed = true
		_, _ = call(goodbye, q) // the turn ends with the task as well
	}()
	outcome, err := call.keptOrMade(ctx, q, f)
	kept = err == nil
	return outcome, err
}

// keptOrMade returns the kept outcome, or makes the effect when the worker has the turn. A worker that
// is told to wait asks again, for ever: the end is an answer, an error of call, or ctx, which call
// heeds. Each question names the same turn, and so joins the call of Task.Once that waits already
// instead of beginning another.
func (call OnceCaller) keptOrMade(ctx context.Context, q OnceMessage, f func(context.Context) (any, error)) (any, error) {
	q.Wait = "30s"
	for {
		a, err := call(ctx, q)
		if err != nil {
			return nil, err
		}
		switch a.Status {
		case OnceKept:
			return value.Decode(a.Outcome, value.Limits{})
		case OnceYours:
			return call.makeEffect(ctx, q, f)
		}
	}
}

// makeEffect calls f, which has the turn, and has its outcome kept.
//
// It returns what the answer says is kept, and not what f has returned: another worker, which had lost
// its lease and went on, may have had its outcome kept first. A failure of f is not kept: the effect
// counts as not made, and the next attempt calls f again.
func (call OnceCaller) makeEffect(ctx context.Context, q OnceMessage, f func(context.Context) (any, error)) (any, error) {
	if f == nil {
		return nil, fmt.Errorf("%w: nothing is kept under the key, and there is nothing to call", pawl.ErrInvalid)
	}
	out, err := f(ctx)
	if err != nil {
		return nil, err
	}
	if out, err = value.ReadAll(out, limits.MaxMergedBytes); err != nil {
		return nil, err
	}
	taken, err := value.Take(out, value.Limits{Bytes: limits.MaxMergedBytes})
	if err != nil {
		return nil, refusal.InvalidPayload(fmt.Sprintf("the outcome under the key %q", q.Once), err)
	}
	q.Outcome = taken.Canonical()
	a, err := call(ctx, q)
	if err != nil {
		return nil, err
	}
	return value.Decode(a.Outcome, value.Limits{})
}

// EncodeDetails returns the details of a heartbeat as they are sent; nil if there are none. It
// fails with pawl.ErrInvalid, also a *workflow.LimitError if they are too large.
//
// The bound is checked at the worker, before anything is sent, so that the handler that made the
// details gets the error. The pool checks it again, since other programs speak the protocol as well.
func EncodeDetails(details any) (json.RawMessage, error) {
	if details == nil {
		return nil, nil
	}
	v, err := value.Normalize(details, value.Limits{Bytes: limits.MaxDetails})
	if err == nil {
		return value.Encode(v), nil
	}
	var ve *value.Error
	if errors.As(err, &ve) && ve.Code == value.CodeLimit {
		err = &workflow.LimitError{Limit: ve.Limit, Max: int64(ve.Max), What: "the details of a heartbeat"}
	}
	return nil, fmt.Errorf("%w: the details of a heartbeat: %w", pawl.ErrInvalid, err)
}

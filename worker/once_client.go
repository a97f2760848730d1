package worker

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// Once is pawl.Task.Once over HTTP: the outcome is kept in the engine's directory, and under
// a key one call of f runs at a time, in whatever process, for as long as the worker
// holds the task. So f may be called again where it is in the engine's process, around a
// crash, and also after a lease was lost: a worker that goes on without the pool until
// its lease has run out is taken for dead, and another has the turn. Where both have
// made the effect, both return the outcome that was kept first.
//
// While the pool cannot be reached it is asked again until ctx is done. Errors: that of f,
// the cause of ctx, or an *Error, which is pawl.ErrStale if the task is no longer wanted
// from this worker, pawl.ErrInvalid, or of the code too_large.
func (c *Client) Once(ctx context.Context, t pawl.Task, key string, f func(context.Context) (any, error)) (any, error) {
	if ctx == nil {
		return nil, errNoContext
	}
	if !utf8.ValidString(key) { // which JSON could not tell the pool
		return nil, fmt.Errorf("%w: the key %.300q is not UTF-8", pawl.ErrInvalid, key)
	}
	q := onceRequest{Version: Version, Worker: c.ID, Key: t.Key, Turn: rand.Text(), Once: key}
	kept := false
	defer func() { // also if f panics
		if kept {
			return
		}
		goodbye, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
		defer cancel()
		q.Failed = true
		_ = c.callPool(goodbye, "once", q, &onceReply{}) // the turn ends with the task as well
	}()
	outcome, err := c.keptOrMade(ctx, q, f)
	kept = err == nil
	return outcome, err
}

// keptOrMade returns what is kept, or makes the effect when the worker has the turn.
func (c *Client) keptOrMade(ctx context.Context, q onceRequest, f func(context.Context) (any, error)) (any, error) {
	q.Wait = "30s"
	for {
		a, err := c.askOnce(ctx, q)
		if err != nil {
			return nil, err
		}
		switch a.Status {
		case onceKept:
			return value.Decode(a.Outcome, value.Limits{})
		case onceYours:
			return c.makeEffect(ctx, q, f)
		}
	}
}

// makeEffect calls f, whose turn it is, and has its outcome kept.
func (c *Client) makeEffect(ctx context.Context, q onceRequest, f func(context.Context) (any, error)) (any, error) {
	if f == nil {
		return nil, fmt.Errorf("%w: nothing is kept under the key, and there is nothing to call", pawl.ErrInvalid)
	}
	out, err := f(ctx)
	if err != nil {
		return nil, err
	}
	v, err := value.Normalize(out, value.Limits{Bytes: workflow.MaxMergedBytes})
	if err != nil {
		return nil, fmt.Errorf("%w: the outcome under the key %q is not JSON: %w", pawl.ErrInvalid, q.Once, err)
	}
	q.Outcome = value.Encode(v)
	a, err := c.askOnce(ctx, q)
	if err != nil {
		return nil, err
	}
	return value.Decode(a.Outcome, value.Limits{})
}

// askOnce sends a message of Once until the pool has answered, or ctx is done. An outcome is
// sent at least once: the effect is made, whether or not the task is still wanted.
func (c *Client) askOnce(ctx context.Context, q onceRequest) (onceReply, error) {
	var pause time.Duration
	for {
		sending := ctx
		if q.Outcome != nil {
			sending = context.WithoutCancel(ctx)
		}
		var a onceReply
		err := c.callPool(sending, "once", q, &a)
		switch {
		case err == nil || isFinalError(err):
			return a, err
		case !pauseAfterFailure(ctx, &pause):
			return a, context.Cause(ctx)
		}
	}
}

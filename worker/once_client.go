package worker

import (
	"context"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/remote"
)

// runOnce is pawl.Task.Once over HTTP: the outcome is kept in the engine's directory, and under
// a key one call of f runs at a time, in whatever process, for as long as the worker
// holds the task. So f may be called again where it is in the engine's process, around a
// crash, and also after a lease was lost: a worker that goes on without the pool until
// its lease has run out is taken for dead, and another has the turn. Where both make
// the effect, the outcome of the first is refused, as pawl.ErrStale, once the other holds the task.
//
// While the pool cannot be reached it is asked again until ctx is done. Errors: that of f,
// the cause of ctx, or an *Error, which is pawl.ErrStale if the task is no longer wanted
// from this worker, pawl.ErrInvalid, or of the code too_large.
func (c *Client) runOnce(ctx context.Context, t pawl.Task, key string, f func(context.Context) (any, error)) (any, error) {
	call := remote.OnceCaller(func(ctx context.Context, q remote.OnceMessage) (remote.OnceReply, error) {
		return c.askOnce(ctx, onceRequest{Version: version, Worker: c.ID, OnceMessage: q})
	})
	return call.Once(ctx, t.Key, key, f)
}

// askOnce sends a message of Once until the pool has answered, or ctx is done. An outcome is
// sent at least once: the effect is made, whether or not the task is still wanted.
//
// It repeats the same message, with the same turn, and so may wait as long as somebody else makes the
// effect. Only final errors end it early; see isFinalError.
func (c *Client) askOnce(ctx context.Context, q onceRequest) (remote.OnceReply, error) {
	var pause time.Duration
	for {
		sending := ctx
		if q.Outcome != nil {
			sending = context.WithoutCancel(ctx)
		}
		var a remote.OnceReply
		err := c.callPool(sending, "once", q, &a)
		switch {
		case err == nil || isFinalError(err):
			return a, err
		case !pauseAfterFailure(ctx, &pause):
			return a, context.Cause(ctx)
		}
	}
}

package worker

import (
	"context"
	"io"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
)

// The calls of the protocol, one by one, for tests that perform them by hand.

// Polled is the answer to a poll.
type Polled = polled

func (c *Client) Poll(ctx context.Context, wait time.Duration, holding ...pawl.Key) (Polled, error) {
	return c.pollPool(ctx, wait, 0, holding...)
}

func (c *Client) Heartbeat(ctx context.Context, keys ...pawl.Key) (drop []pawl.Key, err error) {
	return c.sendHeartbeat(ctx, keys, nil)
}

func (c *Client) Complete(ctx context.Context, t pawl.Task, output any, cause error) error {
	return c.completeTask(ctx, t, output, cause)
}

func (c *Client) Leave(ctx context.Context) error { return c.leavePool(ctx) }

func (c *Client) Put(ctx context.Context, t pawl.Task, r io.Reader, mediaType string) (blob.Ref, error) {
	return c.putBlob(ctx, t, r, mediaType)
}

func (c *Client) Open(ctx context.Context, ref blob.Ref) (io.ReadCloser, error) {
	return c.openBlob(ctx, ref)
}

func (c *Client) Once(ctx context.Context, t pawl.Task, key string, f func(context.Context) (any, error)) (any, error) {
	return c.runOnce(ctx, t, key, f)
}

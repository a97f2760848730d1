package worker

import (
	"context"
	"io"
	"maps"
	"slices"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
)

// handledTypes returns what a worker with these functions takes.
func handledTypes(h pawl.Handlers) []string { return slices.Sorted(maps.Keys(h)) }

// remoteServices are those of a task in another process than the engine: calls to the pool.
// A task that Client.pollPool returns has them, so a handler calls the same methods in every process.
type remoteServices struct{ client *Client }

var _ pawl.TaskServices = remoteServices{}

// Heartbeat implements pawl.TaskServices.
func (s remoteServices) Heartbeat(ctx context.Context, t pawl.Task, details any) error {
	drop, err := s.client.sendHeartbeat(ctx, []pawl.Key{t.Key}, details)
	if err == nil && len(drop) > 0 {
		return errStale
	}
	return err
}

// Put implements pawl.TaskServices.
func (s remoteServices) Put(ctx context.Context, t pawl.Task, r io.Reader, mediaType string) (blob.Ref, error) {
	return s.client.putBlob(ctx, t, r, mediaType)
}

// Open implements pawl.TaskServices.
func (s remoteServices) Open(ctx context.Context, _ pawl.Task, ref blob.Ref) (io.ReadCloser, error) {
	return s.client.openBlob(ctx, ref)
}

// Once implements pawl.TaskServices.
func (s remoteServices) Once(ctx context.Context, t pawl.Task, key string, f func(context.Context) (any, error)) (any, error) {
	return s.client.runOnce(ctx, t, key, f)
}

package worker_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// register registers a worker of the type work.
func register(t *testing.T, h *host, id string) *worker.Client {
	t.Helper()
	c := h.client(id)
	_, err := c.Register(t.Context(), "work")
	require.NoError(t, err)
	return c
}

// take returns the task that a worker gets.
func take(t *testing.T, c *worker.Client) pawl.Task {
	t.Helper()
	polled, err := c.Poll(t.Context(), time.Minute)
	require.NoError(t, err)
	require.Len(t, polled.Tasks, 1)
	return polled.Tasks[0]
}

// A worker with a key of a task cannot settle the task, or another one, unless the pool gave
// it that key: neither with a key of the host's own process, which a callback was given, nor
// with that of another worker, nor with one made from its own; also when the host was
// restarted and the pool knows of no key yet.
func TestKeysInOtherHandsAreRefused(t *testing.T) {
	dir := replays.Dir(t)
	h := start(t, dir, worker.Options{})
	open := func() pawl.Key { // a task of a host's process, which never is in the pool
		callback := make(chan pawl.Key, 1)
		require.NoError(t, h.pool.Start(worker.Registration{ID: "here"}, pawl.Handlers{"callback": func(ctx context.Context, task pawl.Task) (any, error) {
			callback <- task.Key
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}))
		return <-callback
	}
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "paid", Definition: define(t, "name: paid\nstart: w\nnodes: [{id: w, task: callback}]")}, nil))
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut)}, items(2)))
	host := open()
	ann, evil := register(t, h, "ann"), register(t, h, "evil")
	hers, his := take(t, ann), take(t, evil)
	tag := string(his.Key[strings.LastIndexByte(string(his.Key), '.'):])
	raw := func(k pawl.Key) pawl.Key { return k[:strings.LastIndexByte(string(k), '.')] }
	attack := func(evil *worker.Client) {
		for name, k := range map[string]pawl.Key{
			"of the host": host, "of the host, with his tag": host + pawl.Key(tag), "hers": hers.Key, "hers, untagged": raw(hers.Key),
			"hers, with his tag": raw(hers.Key) + pawl.Key(tag), "his, untagged": raw(his.Key), "nonsense": "x", "empty tag": raw(hers.Key) + ".",
		} {
			forged := his
			forged.Key = k
			require.ErrorIs(t, evil.Complete(t.Context(), forged, "evil", nil), worker.ErrNotHolder, name)
			require.ErrorIs(t, evil.Complete(t.Context(), forged, nil, pawl.Permanent(io.EOF)), worker.ErrNotHolder, name)
			drop, err := evil.Heartbeat(t.Context(), k)
			require.NoError(t, err)
			require.Equal(t, []pawl.Key{k}, drop, name)
			_, err = evil.Put(t.Context(), forged, strings.NewReader("x"), "")
			require.ErrorIs(t, err, worker.ErrNotHolder, name)
			_, err = evil.Once(t.Context(), forged, "once", func(context.Context) (any, error) { return "evil", nil })
			require.ErrorIs(t, err, worker.ErrNotHolder, name)
		}
	}
	attack(evil)
	h.stop(t)

	h = start(t, dir, worker.Options{})
	defer h.stop(t)
	attack(h.client("evil"))
	require.Equal(t, host, open(), "keys of an attempt stay equal")
	require.NoError(t, h.client("ann").Complete(t.Context(), hers, "ann", nil), "who has it goes on")
	require.NoError(t, h.client("evil").Complete(t.Context(), his, "his own", nil))
	out, err := h.engine.Wait(t.Context(), "r")
	require.NoError(t, err)
	require.ElementsMatch(t, []any{"ann", "his own"}, out.Output["results"])
	view, err := h.engine.Inspect(t.Context(), "paid")
	require.NoError(t, err)
	require.Equal(t, workflow.RunRunning, view.Status)
}

// The status names no keys.
func TestTheStatusHasNoKeys(t *testing.T) {
	h := start(t, replays.Dir(t), worker.Options{})
	defer h.stop(t)
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut)}, items(1)))
	task := take(t, register(t, h, "ann"))
	response, err := http.Get(h.server.URL + "/v1/status")
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), `"run":"r"`)
	require.NotContains(t, string(text), "key")
	require.False(t, bytes.Contains(text, []byte(h.pool.Status().Active[0].Key)))
	require.Contains(t, task.Key, h.pool.Status().Active[0].Key)
}

// A result that refers to a blob that is not there fails the task, at once and for good.
func TestAResultWithAMissingBlob(t *testing.T) {
	h := start(t, replays.Dir(t), worker.Options{})
	defer h.stop(t)
	lost := blob.Ref{Hash: "sha256:" + strings.Repeat("0", 64), Size: 1}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- h.client("ann").Run(ctx, pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return lost.Value(), nil }})
	}()
	out, err := h.engine.Run(t.Context(), workflow.Run{ID: "r", Definition: define(t, "name: one\nstart: w\nnodes: [{id: w, task: work}]")}, nil)
	require.NoError(t, err)
	require.Equal(t, workflow.CodeBlobMissing, out.Failure.Code)
	stop()
	require.NoError(t, <-ended)
}

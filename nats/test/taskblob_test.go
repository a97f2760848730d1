package natstest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/nats/natspool"
	"github.com/pawl-run/pawl/workflow"
)

const putAndOpen = `
name: blobs
start: put
nodes:
  - {id: put, task: put, output: {state.ref: result}}
  - {id: open, task: open, input: {ref: state.ref}, output: {output.bytes: result}}
transitions: [{from: put, to: open}]
`

// A task puts a value that no message can carry, and another task, of another worker, opens it. A missing
// blob is an error that fails its task for good, and the Put of a cancelled task is one as well.
func TestBlobsOfTasks(t *testing.T) {
	onEach(t, func(t *testing.T, over transport) {
		engine, stop := over.open(t, t.TempDir(), briefLease)
		defer stop()
		content := bytes.Repeat([]byte("0123456789abcdef"), 200_000) // 3.2 MB
		begun, late := make(chan bool, 1), make(chan error, 1)
		defer workOver(t, over, "ann", 1, pawl.Handlers{"put": func(ctx context.Context, task pawl.Task) (any, error) {
			if task.Run == "cancelled" {
				begun <- true
				<-ctx.Done()
				_, err := task.Put(context.Background(), strings.NewReader("late"), "")
				late <- err
				return nil, err
			}
			if _, err := task.Put(ctx, strings.NewReader("x"), "a\nb"); err == nil {
				return nil, pawl.TaskError{Code: "untyped"}
			}
			return task.Put(ctx, bytes.NewReader(content), "text/plain")
		}})()
		defer workOver(t, over, "bob", 1, pawl.Handlers{"open": func(ctx context.Context, task pawl.Task) (any, error) {
			_, err := task.Open(ctx, blob.Ref{Hash: "sha256:" + strings.Repeat("0", 64)})
			if err == nil {
				return nil, pawl.TaskError{Code: "unmissed"}
			}
			if task.Run == "missing" {
				return nil, err
			}
			ref, err := blob.ParseRef(task.Input.(map[string]any)["ref"])
			if err != nil {
				return nil, err
			}
			r, err := task.Open(ctx, ref)
			if err != nil {
				return nil, err
			}
			defer r.Close()
			got, err := io.ReadAll(r)
			if err == nil && !bytes.Equal(content, got) {
				err = pawl.TaskError{Code: "other"}
			}
			return len(got), err
		}})()
		out, err := engine.Run(t.Context(), workflow.Run{ID: "r", Definition: define(t, putAndOpen)}, nil)
		require.NoError(t, err)
		require.NoError(t, out.Err())
		require.EqualValues(t, len(content), out.Output["bytes"])
		out, err = engine.Run(t.Context(), workflow.Run{ID: "missing", Definition: define(t, putAndOpen)}, nil)
		require.NoError(t, err)
		require.Equal(t, workflow.CodeBlobMissing, out.Failure.Code)
		require.True(t, out.Failure.Permanent)

		require.NoError(t, engine.Start(t.Context(), workflow.Run{ID: "cancelled", Definition: define(t, putAndOpen)}, nil))
		<-begun
		require.NoError(t, engine.Cancel(t.Context(), "cancelled", "enough"))
		require.ErrorIs(t, <-late, pawl.ErrStale)
	})
}

// Blobs that a task puts while it ends are kept, or refused since it is over: the pool notes both at the same time.
func TestBlobsOfTasksThatEnd(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	b := openBlobs(t, conn)
	h := openEngineWith(t, conn, t.TempDir(), natspool.Options{}, b)
	defer h.stop()
	var all sync.WaitGroup
	defer all.Wait()
	defer work(t, &natspool.Worker{Conn: conn, Blobs: b, Capacity: 8}, pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
		putting := make(chan bool)
		all.Go(func() {
			for n := 0; ; n++ {
				_, err := task.Put(context.Background(), strings.NewReader("x"), "")
				if n == 0 {
					close(putting)
				}
				if err != nil {
					assert.ErrorIs(t, err, pawl.ErrStale)
					return
				}
			}
		})
		<-putting
		return task.Input.(map[string]any)["n"], nil
	}})()
	require.NoError(t, h.engine.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, fanOut)}, items(50)))
	requireResults(t, h.engine, 50)
}

// A worker without a store of blobs says so.
func TestAWorkerWithoutBlobs(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	h := openEngine(t, conn, t.TempDir(), natspool.Options{})
	defer h.stop()
	defer work(t, &natspool.Worker{Conn: conn}, pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
		_, put := task.Put(ctx, strings.NewReader("x"), "")
		_, opened := task.Open(ctx, blob.Ref{Hash: "sha256:" + strings.Repeat("0", 64)})
		return []string{put.Error(), opened.Error()}, nil
	}})()
	out, err := h.engine.Run(t.Context(), workflow.Run{ID: "r", Definition: define(t, single)}, nil)
	require.NoError(t, err)
	require.NoError(t, out.Err())
	for _, text := range out.Output["a"].([]any) {
		require.Contains(t, text, "natspool.Worker.Blobs is nil")
	}
}

// Details and outcomes that refer to a blob that is not there are refused at once, as they are in the engine's process.
func TestValuesThatReferToNoBlob(t *testing.T) {
	onEach(t, func(t *testing.T, over transport) {
		engine, stop := over.open(t, t.TempDir(), longLease)
		defer stop()
		defer workOver(t, over, "ann", 1, pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
			ref := map[string]any{"$blob": "sha256:" + strings.Repeat("0", 64), "size": 7}
			_, once := task.Once(ctx, "", func(context.Context) (any, error) { return ref, nil })
			beat := task.Heartbeat(ctx, ref)
			return []any{errors.Is(once, pawl.ErrInvalid), errors.Is(beat, pawl.ErrInvalid)}, nil
		}})()
		out, err := engine.Run(t.Context(), workflow.Run{ID: "r", Definition: define(t, single)}, nil)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"a": []any{true, true}}, out.Output)
	})
}

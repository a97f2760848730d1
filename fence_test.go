package pawl_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

// A fenced engine commits nothing more, and its files are what a crash would
// leave: a copy of them goes on.
func TestFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := &testhook.Hook{}
		ctx := testhook.With(t.Context(), hook)
		path, copied := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
		options := pawl.Options{Durability: pawl.ProcessCrash}
		engine, err := pawl.Open(ctx, path, options)
		require.NoError(t, err)
		def := parse("name: d\nstart: a\nnodes: [{id: a, task: t}]\n")
		require.NoError(t, engine.Start(ctx, workflow.Run{ID: "before", Definition: def}, nil))
		synctest.Wait() // until the task waits for a result: Close leaves nothing behind
		hook.Fence()
		require.ErrorIs(t, engine.Start(ctx, workflow.Run{ID: "after", Definition: def}, nil), pawl.ErrClosed)
		require.NoError(t, os.CopyFS(copied, os.DirFS(path)))
		gone, cancel := context.WithCancel(ctx)
		cancel()
		require.NoError(t, engine.Close(gone))

		options.Executor = pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return 1, nil }}
		engine, err = pawl.Open(ctx, copied, options)
		require.NoError(t, err)
		out, err := engine.Wait(ctx, "before")
		require.NoError(t, err)
		require.NoError(t, out.Err())
		_, err = engine.Inspect(ctx, "after")
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
		require.NoError(t, engine.Close(ctx))
	})
}

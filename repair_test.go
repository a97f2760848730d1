package pawl_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/workflow"
)

// digest returns the hash of every file below a directory, by path.
func digest(t *testing.T, dir string) map[string][32]byte {
	out := map[string][32]byte{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			var data []byte
			data, err = os.ReadFile(path)
			out[path] = sha256.Sum256(data)
		}
		return err
	}))
	return out
}

// halfway makes a directory with runs that have ended, and runs that wait for
// their last task; all are flushed.
func halfway(t *testing.T) string {
	dir := t.TempDir()
	var waiting sync.WaitGroup
	waiting.Add(4)
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
		if task.Node == "c" && task.Run[0] == 'w' {
			waiting.Done()
			return nil, pawl.ErrPending
		}
		return double(ctx, task)
	}}})
	require.NoError(t, err)
	for i := range 4 {
		for _, kind := range []string{"ended", "waits"} {
			run := workflow.Run{ID: workflow.RunID(fmt.Sprint(kind, i)), Definition: define(t, threeSteps)}
			require.NoError(t, e.Start(t.Context(), run, map[string]any{"n": i}))
		}
		_, err := e.Wait(t.Context(), workflow.RunID(fmt.Sprint("ended", i)))
		require.NoError(t, err)
	}
	waiting.Wait()
	require.NoError(t, e.Close(t.Context()))
	return dir
}

// A directory that Repair restores opens, and its runs come to their ends: at once
// where nothing is lost, after Resume where something may be. The journals replay.
func TestRepairedRunsFinish(t *testing.T) {
	tests := []struct {
		name      string
		do        func(dir string) error
		suspended bool
	}{
		{"nothing", func(string) error { return nil }, false},
		{"the index is gone", func(dir string) error { return os.Remove(filepath.Join(dir, "pawl.db")) }, true},
		{"the index is cut short", func(dir string) error { return os.Truncate(filepath.Join(dir, "pawl.db"), 5000) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := halfway(t)
			require.NoError(t, tt.do(dir))
			before := digest(t, dir)
			into := filepath.Join(t.TempDir(), "repaired")
			report, err := rescue.Repair(dir, into)
			require.NoError(t, err)
			require.Equal(t, before, digest(t, dir))
			require.Equal(t, 8, report.Runs)
			require.Equal(t, tt.suspended, report.Damage > 0)
			e := open(t, into, pawl.Options{Executor: pawl.Handlers{"work": double}})
			for i := range 4 {
				for _, kind := range []string{"ended", "waits"} {
					id := workflow.RunID(fmt.Sprint(kind, i))
					if tt.suspended && kind == "waits" {
						s, err := e.Inspect(t.Context(), id)
						require.NoError(t, err)
						require.Equal(t, workflow.RunSuspended, s.Status)
						require.Contains(t, s.Failure.Message, "later ones may be lost")
						require.NoError(t, e.Resume(t.Context(), id))
					}
					out, err := e.Wait(t.Context(), id)
					require.NoError(t, err)
					require.Equal(t, map[string]any{"n": int64(8 * i)}, out.Output)
					run := workflow.Run{ID: id, Definition: define(t, threeSteps)}
					require.NoError(t, e.Start(t.Context(), run, map[string]any{"n": i}), "it is the same start")
				}
			}
		})
	}
}

// Without pawl.db the secret of the directory is lost: keys of tasks that are out are
// refused, and the tasks are performed again, under new ones.
func TestKeysOfALostSecretAreRefused(t *testing.T) {
	dir, keys := t.TempDir(), make(chan pawl.Key, 1)
	pending := pawl.Options{Executor: pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
		keys <- task.Key
		return nil, pawl.ErrPending
	}}}
	e := open(t, dir, pending)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, oneTask)}, map[string]int{"n": 1}))
	old := <-keys
	require.NoError(t, e.Close(t.Context()))
	require.NoError(t, os.Remove(filepath.Join(dir, "pawl.db")))
	into := filepath.Join(t.TempDir(), "repaired")
	_, err := rescue.Repair(dir, into)
	require.NoError(t, err)
	e = open(t, into, pending)
	require.ErrorIs(t, e.Complete(t.Context(), old, 7), pawl.ErrStale)
	require.NoError(t, e.Resume(t.Context(), "r"))
	again := <-keys
	require.NotEqual(t, old, again)
	require.ErrorIs(t, e.Complete(t.Context(), old, 7), pawl.ErrStale)
	require.NoError(t, e.Complete(t.Context(), again, 8))
	out, err := e.Wait(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"n": int64(8)}, out.Output)
}

package pawl_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

const patched = `
name: order
start: wait
nodes: [{id: wait, wait: {event: paid}}, {id: ship, task: ship}]
transitions: [{from: wait, to: ship, id: t1}]
`

func op(name, path string, v any) any {
	return map[string]any{"op": name, "path": path, "value": v}
}

// A patch outlives the engine: the run goes on by its last revision, whether it
// was flushed or not, and all revisions are kept. A repeated start is still the
// same one, and other runs of the definition are as they were.
func TestPatchIsKept(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			var done []string
			handlers := pawl.Handlers{"*": func(_ context.Context, task pawl.Task) (any, error) {
				done = append(done, string(task.Run)+" "+string(task.Node))
				return map[string]any{}, nil
			}}
			d := define(t, patched)
			e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: handlers})
			require.NoError(t, err)
			reopen := func() {
				if flushed {
					require.NoError(t, e.Close(context.Background()))
					e, err = pawl.Open(t.Context(), dir, pawl.Options{Executor: handlers})
					require.NoError(t, err)
				}
			}
			for _, id := range []workflow.RunID{"a", "b"} {
				require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: d}, nil))
			}
			revision, err := e.Patch(t.Context(), "a", pawl.Patch{Base: 1, Ops: []any{
				op("add", "/nodes/check", map[string]any{"task": "check"}),
				op("replace", "/transitions/t1/to", "check"),
				op("add", "/transitions/t2", map[string]any{"from": "check", "to": "ship"}),
			}})
			require.NoError(t, err)
			require.Equal(t, 2, revision)
			reopen()
			_, err = e.Patch(t.Context(), "a", pawl.Patch{Base: 1, Ops: []any{op("remove", "/nodes/check", nil)}})
			require.ErrorIs(t, err, pawl.ErrConflict)
			revision, err = e.Patch(t.Context(), "a", pawl.Patch{Base: 2, Ops: []any{op("add", "/nodes/check/priority", 4)}})
			require.NoError(t, err)
			require.Equal(t, 3, revision)
			reopen()

			now, revision, err := e.Definition(t.Context(), "a")
			require.NoError(t, err)
			require.Equal(t, 3, revision)
			require.Equal(t, 4, now.Nodes[2].Priority)
			snap, err := e.Inspect(t.Context(), "a")
			require.NoError(t, err)
			require.Equal(t, 3, snap.Revision)
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: d}, nil), "the same start again")
			for _, id := range []workflow.RunID{"a", "b"} {
				require.NoError(t, e.Signal(t.Context(), id, workflow.Signal{Name: "paid"}))
				out, err := e.Wait(t.Context(), id)
				require.NoError(t, err)
				require.NoError(t, out.Err())
			}
			require.Equal(t, []string{"a check", "a ship", "b ship"}, done)
			_, err = e.Patch(t.Context(), "a", pawl.Patch{Base: 3, Ops: []any{op("add", "/nodes/check/priority", 5)}})
			require.ErrorIs(t, err, pawl.ErrEnded)
			require.NoError(t, e.Close(context.Background()))
			require.Equal(t, []string{"1 1", "3 3"}, revisions(t, dir), "b, and a")
		})
	}
}

// revisions returns, for every run's file, how many definitions it has and the
// number of the last, in order.
func revisions(t *testing.T, dir string) (out []string) {
	paths, err := filepath.Glob(filepath.Join(dir, "runs", "*", "*a.db"))
	require.NoError(t, err)
	for _, path := range paths {
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		var text string
		require.NoError(t, db.QueryRow(`SELECT count(*) || ' ' || max(revision) FROM definition`).Scan(&text))
		require.NoError(t, db.Close())
		out = append(out, text)
	}
	if len(out) == 2 && out[0] > out[1] {
		out[0], out[1] = out[1], out[0]
	}
	return out
}

// If there are several patches for one revision at the same time, one is taken.
func TestPatchesConflict(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{}})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, patched)}, nil))
	var taken, refused atomic.Int32
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			switch _, err := e.Patch(t.Context(), "a", pawl.Patch{Base: 1, Ops: []any{op("add", "/nodes/ship/priority", i+1)}}); {
			case err == nil:
				taken.Add(1)
			case errors.Is(err, pawl.ErrConflict):
				refused.Add(1)
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 1, taken.Load())
	require.EqualValues(t, 15, refused.Load())
}

// Bad patches are refused with an error that says where and why, and change
// nothing.
func TestPatchRefusals(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{}, Bounds: workflow.Bounds{Nodes: 3}})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, patched)}, nil))
	before, err := e.Inspect(t.Context(), "a")
	require.NoError(t, err)
	patch := func(ops ...any) error {
		_, err := e.Patch(t.Context(), "a", pawl.Patch{Base: 1, Ops: ops})
		return err
	}
	var pe *workflow.PatchError
	var de *workflow.DefinitionError
	var le *workflow.LimitError
	require.ErrorIs(t, patch(), pawl.ErrInvalid)
	require.ErrorIs(t, patch(make(chan int)), pawl.ErrInvalid)
	require.ErrorAs(t, patch("x"), &pe)
	require.ErrorAs(t, patch(op("remove", "/nodes/wait", nil), op("replace", "/start", "ship"), op("remove", "/transitions/t1", nil)), &pe)
	require.Equal(t, workflow.PatchError{Op: -1, Path: "/nodes/wait", Message: "t1 stands there"}, *pe)
	require.ErrorAs(t, patch(op("add", "/nodes/ship/task", "")), &de)
	require.ErrorAs(t, patch(op("add", "/nodes/x", map[string]any{}), op("add", "/nodes/y", map[string]any{}),
		op("add", "/transitions/x", map[string]any{"from": "ship", "to": "x"}), op("add", "/transitions/y", map[string]any{"from": "ship", "to": "y"})), &de, "the engine's bound")
	require.ErrorContains(t, de, "4 nodes are more than 3")
	require.ErrorAs(t, patch(make([]any, workflow.MaxPatch+1)...), &le)
	require.ErrorIs(t, patch(op("add", "/nodes/sub", map[string]any{"subworkflow": map[string]any{"name": "none"}}),
		op("add", "/transitions/sub", map[string]any{"from": "ship", "to": "sub"})), pawl.ErrNotPublished)
	_, err = e.Patch(t.Context(), "nobody", pawl.Patch{Base: 1, Ops: []any{op("add", "/timeout", "1h")}})
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
	after, err := e.Inspect(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, before, after)
}

package pawl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

const manyRows = `
name: many
start: s
nodes:
  - {id: s}
  - {id: row, task: row, input: {text: input.text}}
  - {id: sum, task: sum, input: {rows: result}, output: {output.rows: result, output.blob: state.rows}}
transitions:
  - {from: s, to: row, foreach: {collection: "lists.range(input.n)"}, siblingGroup: g%s}
  - {from: row, to: sum, synchronization: {siblingGroup: g, merge: {target: state.rows, strategy: collect%s}}}
`

// rowCounter makes rows, and counts those that a merge has made a blob of.
func rowCounter() pawl.Handlers {
	return pawl.Handlers{
		"row": func(_ context.Context, t pawl.Task) (any, error) {
			var in struct{ Text string }
			err := t.Bind(&in)
			return map[string]any{"at": t.Branch.Index, "text": in.Text}, err
		},
		"sum": func(ctx context.Context, t pawl.Task) (_ any, err error) {
			var in struct{ Rows blob.Ref }
			if err := t.Bind(&in); err != nil {
				return nil, err
			}
			r, err := t.Open(ctx, in.Rows)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, r.Close()) }()
			rows := 0
			for d := json.NewDecoder(r); ; rows++ {
				var row struct{ At int }
				if err := d.Decode(&row); err == io.EOF {
					return rows, nil
				} else if err != nil {
					return nil, err
				}
				if row.At != rows {
					return nil, pawl.Permanent(fmt.Errorf("row %d is that of branch %d", rows, row.At))
				}
			}
		},
	}
}

// More results than any input may hold meet in a blob, in the order of the branches.
// It stays until the run is forgotten.
func TestMergeIntoABlob(t *testing.T) {
	n := harness.Figure(1000, 100_000, 100_000)
	size := harness.Figure(2000, 20, 20) // more than 1 MiB in all
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{Executor: rowCounter()})
		out, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: define(t, fmt.Sprintf(manyRows, "", ", as: blob"))},
			map[string]any{"n": n, "text": strings.Repeat("x", size)})
		require.NoError(t, err)
		require.NoError(t, out.Err())
		require.EqualValues(t, n, out.Output["rows"])
		ref, err := blob.ParseRef(out.Output["blob"])
		require.NoError(t, err)
		require.Equal(t, "application/x-ndjson", ref.Type)
		require.Greater(t, ref.Size, int64(workflow.DefaultLimits().PayloadBytes))

		<-time.After(time.Hour)
		gone, err := e.CollectBlobs(t.Context(), time.Minute)
		require.NoError(t, err)
		require.Zero(t, gone)
		require.NoError(t, e.Purge(t.Context(), "r"))
		gone, err = e.CollectBlobs(t.Context(), time.Minute)
		require.NoError(t, err)
		require.Equal(t, pawl.Collected{Blobs: 1, Bytes: ref.Size}, gone)
	})
}

// Without as: blob the group fails with the arrival that is too much, and names the
// cure; the other branches never begin.
func TestMergeThatIsTooLargeFailsEarly(t *testing.T) {
	var made atomic.Int64
	h := rowCounter()
	row := h["row"]
	h["row"] = func(ctx context.Context, t pawl.Task) (any, error) {
		made.Add(1)
		return row(ctx, t)
	}
	e := open(t, t.TempDir(), pawl.Options{Executor: h})
	d := define(t, fmt.Sprintf(manyRows, ", maxConcurrency: 1", "")+"limits: {payloadBytes: 10000}\n")
	out, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: d}, map[string]any{"n": 500, "text": strings.Repeat("x", 980)})
	require.NoError(t, err)
	require.Equal(t, workflow.CodeLimit, out.Failure.Code)
	require.Equal(t, `limit payloadBytes: 11 of 500 branches of "g" bring 10979 bytes to their join at node "sum", `+
		`whose input "rows" takes at most 10000: say as: blob in the merge`, out.Failure.Message)
	require.LessOrEqual(t, made.Load(), int64(12))
}

// A crash between the blob and the commit leaves a blob that is found again, or
// collected.
func TestCrashBeforeAMergedBlobIsReferredTo(t *testing.T) {
	dir, crashed := t.TempDir(), filepath.Join(t.TempDir(), "crashed")
	var once sync.Once
	hook := &testhook.Hook{}
	hook.OnHit(func(name string) {
		if found, _ := filepath.Glob(filepath.Join(dir, "blobs", "??", "*")); name == "commit.begin" && len(found) > 0 {
			once.Do(func() {
				if err := harness.CopyLive(crashed, dir); err != nil {
					t.Error(err)
				}
			})
		}
	})
	run := workflow.Run{ID: "r", Definition: define(t, fmt.Sprintf(manyRows, "", ", as: blob"))}
	input := map[string]any{"n": 3, "text": "x"}
	first := openWith(t, hook, dir, pawl.Options{Executor: rowCounter()})
	want, err := first.Run(t.Context(), run, input)
	require.NoError(t, err)
	require.NoError(t, want.Err())
	require.DirExists(t, crashed)

	lost := filepath.Join(t.TempDir(), "lost")
	require.NoError(t, os.CopyFS(lost, os.DirFS(crashed)))
	again := open(t, crashed, pawl.Options{Executor: rowCounter()})
	got, err := again.Wait(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, want.Output, got.Output)

	idle := open(t, lost, pawl.Options{Executor: pawl.Handlers{"row": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }, "sum": rowCounter()["sum"]}})
	old := time.Now().Add(-time.Hour)
	kept, err := filepath.Glob(filepath.Join(lost, "blobs", "??", "*"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
	require.NoError(t, os.Chtimes(kept[0], old, old))
	gone, err := idle.CollectBlobs(t.Context(), time.Minute)
	require.NoError(t, err)
	require.Equal(t, 1, gone.Blobs)
	require.NoError(t, idle.Cancel(t.Context(), "r", "enough"))
}

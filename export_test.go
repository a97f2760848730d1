package pawl_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/portable"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// An export of live and ended runs has all of them, with those below and what they recorded.
func TestExport(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
		return map[string]any{"text": strings.Repeat("<&\u2028>", 1000), "n": 9007199254740991}, nil
	}, "hold": hold}})
	publish(t, e, define(t, "name: leaf\nstart: a\nnodes: [{id: a, task: work}]\n"))
	family := define(t, "name: top\nstart: a\nnodes: [{id: a}, {id: b, subworkflow: {name: leaf}}]\ntransitions: [{from: a, to: b, spawnCount: 2}]\n")
	out, err := e.Run(t.Context(), workflow.Run{ID: "family", Definition: family, Tenant: "me", Labels: map[string]string{"k": "v"}}, map[string]any{"n": 1})
	require.NoError(t, err)
	require.NoError(t, out.Err())
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "going", Definition: define(t, "name: w\nstart: a\nnodes: [{id: a, task: hold}]\n")}, nil))

	var text bytes.Buffer
	require.ErrorIs(t, e.Export(t.Context(), "nobody", &text, pawl.ExportOptions{}), pawl.ErrRunNotFound)
	require.Zero(t, text.Len())
	require.NoError(t, e.Export(t.Context(), "family", &text, pawl.ExportOptions{}))
	require.NoError(t, e.Export(t.Context(), "going", &text, pawl.ExportOptions{}))
	path := filepath.Join(t.TempDir(), "runs.pawl")
	require.NoError(t, os.WriteFile(path, text.Bytes(), 0o600))

	for run, err := range portable.Read(bytes.NewReader(text.Bytes())) {
		require.NoError(t, err)
		var journal []pawl.Record
		for r, err := range e.Journal(t.Context(), run.ID) {
			require.NoError(t, err)
			journal = append(journal, r)
		}
		require.Equal(t, journal, run.Records)
		h := summaryOf(t, e, run.ID)
		require.Equal(t, []any{h.Parent, h.Tenant, h.Labels}, []any{run.Parent, run.Tenant, run.Labels})
	}
	var ids []workflow.RunID
	for _, name := range []string{path, filepath.Dir(path)} {
		ids = nil
		for rec, err := range replay.All(name) {
			require.NoError(t, err)
			ids = append(ids, rec.Run)
			r, err := replay.Check(rec)
			require.NoError(t, err)
			require.Nil(t, r.Difference)
			summary := summaryOf(t, e, rec.Run)
			require.Equal(t, summary.Seq, r.Records)
			require.Equal(t, summary.Status, r.Status)
		}
	}
	require.ElementsMatch(t, []workflow.RunID{"family", "family/2.1", "family/3.1", "going"}, ids) // which child is made first is open
	require.Equal(t, workflow.RunID("family"), ids[0])
	rec, err := replay.Find(path + ":going")
	require.NoError(t, err)
	require.Equal(t, workflow.RunID("going"), rec.Run)
	_, err = replay.Find(path + ":nobody")
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
	rec, err = replay.Open(path)
	require.NoError(t, err)
	require.Equal(t, workflow.RunID("family"), rec.Run)
}

// An export is about as large as the file of the run: a text that lies in the state, is the input of each turn and stands in
// each result is in it once; and so is one that changes with each turn.
func TestAnExportHasValuesOnce(t *testing.T) {
	const chat = `
name: chat
start: say
state: {initial: {n: 0}}
nodes: [{id: say, task: say, input: {text: "has(state.last) ? state.last : input.text"}, output: {state.last: result.text, state.n: state.n + 1}}]
transitions: [{from: say, to: say, condition: "state.n < input.turns", loop: {maxIterations: 10000}}]
`
	for name, c := range map[string]struct{ turns, bytes, longer int }{
		"one text":     {400, 5 << 10, 0},
		"another each": {20, 70 << 10, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			e := open(t, dir, pawl.Options{Executor: pawl.Handlers{"say": func(_ context.Context, task pawl.Task) (any, error) {
				text := task.Input.(map[string]any)["text"].(string)
				return map[string]any{"text": strings.Repeat("t", len(text)+c.longer)}, nil
			}}})
			run := workflow.Run{ID: "chat", Definition: define(t, chat)}
			out, err := e.Run(t.Context(), run, map[string]any{"turns": c.turns, "text": strings.Repeat("t", c.bytes)})
			require.NoError(t, err)
			require.NoError(t, out.Err())
			var text bytes.Buffer
			require.NoError(t, e.Export(t.Context(), "chat", &text, pawl.ExportOptions{}))
			require.NoError(t, e.Close(t.Context()))
			files, err := filepath.Glob(filepath.Join(dir, "runs", "*", "*.db"))
			require.NoError(t, err)
			require.Len(t, files, 1)
			info, err := os.Stat(files[0])
			require.NoError(t, err)
			t.Logf("%d turns: file %d, export %d bytes", c.turns, info.Size(), text.Len())
			require.Less(t, int64(text.Len()), info.Size()*3/2)
		})
	}
}

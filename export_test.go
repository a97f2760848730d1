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

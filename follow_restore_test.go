package pawl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/store/logtest"
	"github.com/pawl-run/pawl/workflow"
)

// journalOf returns the journal of a run as text, a line for each record.
func journalOf(t *testing.T, e *pawl.Engine, id workflow.RunID) (out []string) {
	for r, err := range e.Journal(t.Context(), id) {
		require.NoError(t, err)
		data, err := json.Marshal(r)
		require.NoError(t, err)
		out = append(out, string(data))
	}
	return out
}

func idsOf(t *testing.T, e *pawl.Engine) (out []workflow.RunID) {
	for r, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
		require.NoError(t, err)
		out = append(out, r.Run)
	}
	return out
}

// One can go back to any moment of the time that is kept, and to none before; entries
// and bases that only served to go back further are gone.
func TestRestoreAsOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := &logtest.Memory{}
		bases, err := blob.OpenFiles(filepath.Join(t.TempDir(), "bases"))
		require.NoError(t, err)
		defer func() { require.NoError(t, bases.Close()) }()
		e, err := pawl.Open(t.Context(), filepath.Join(replays.Dir(t), "data"), pawl.Options{Executor: pawl.Handlers{
			"work": func(context.Context, pawl.Task) (any, error) { return int64(1), nil },
		}})
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() {
			ended <- e.Follow(t.Context(), pawl.FollowOptions{Log: memory.Writer(nil), Bases: bases, Rebase: time.Hour, Keep: 12 * time.Hour})
		}()
		<-time.After(time.Minute)
		def := define(t, "name: w\nstart: a\nnodes: [{id: a, task: work}, {id: b, wait: {for: 90m}}]\ntransitions: [{from: a, to: b}]\n")
		moments := map[int]time.Time{}
		for i := range 60 { // hours
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprintf("run-%02d", i)), Definition: def}, nil))
			<-time.After(10 * time.Minute)
			moments[i] = time.Now()
			<-time.After(50 * time.Minute)
		}
		restore := func(at time.Time) (*pawl.Engine, error) {
			into := filepath.Join(t.TempDir(), "restored")
			info, err := pawl.Restore(t.Context(), into, pawl.RestoreOptions{Log: memory.Writer(nil), Bases: bases, At: at})
			if err != nil {
				return nil, err
			}
			require.Empty(t, info.Damaged)
			report, err := rescue.Verify(into)
			require.NoError(t, err)
			require.Empty(t, report.Findings)
			return pawl.Open(t.Context(), into, pawl.Options{Maintenance: true})
		}
		for i := 50; i < 60; i += harness.Figure(3, 1, 1) {
			was, err := restore(moments[i])
			require.NoError(t, err)
			ids := idsOf(t, was)
			require.Len(t, ids, i+1)
			for _, id := range ids {
				then, now := journalOf(t, was, id), journalOf(t, e, id)
				require.LessOrEqual(t, len(then), len(now))
				require.Equal(t, now[:len(then)], then)
			}
			out, err := was.Inspect(t.Context(), workflow.RunID(fmt.Sprintf("run-%02d", i-1)))
			require.NoError(t, err)
			require.Equal(t, workflow.RunRunning, out.Status) // for twenty minutes more
			require.NoError(t, was.Close(t.Context()))
		}
		_, err = restore(moments[30])
		require.ErrorIs(t, err, pawl.ErrNoBase)
		require.Less(t, memory.Len(), 150)
		count := 0
		for _, err := range bases.All(t.Context()) {
			require.NoError(t, err)
			count++
		}
		require.Less(t, count, 800, "files of runs, and bases of the last day and a half")
		require.NoError(t, e.Close(t.Context()))
		require.NoError(t, <-ended)
	})
}

// A copy of a sealed directory is sealed, and its blobs are there.
func TestFollowSealed(t *testing.T) {
	const secret = "the-secret-of-the-run"
	codec := testCodec(t, "k1")
	place := newCopyPlace(t)
	require.NoError(t, place.bases.Close())
	sealedAt := t.TempDir()
	var err error
	place.bases, err = blob.OpenSealed(sealedAt, codec)
	require.NoError(t, err)
	defer func() { require.NoError(t, place.bases.Close()) }()
	options := pawl.Options{Codec: codec, Executor: pawl.Handlers{"put": func(ctx context.Context, task pawl.Task) (any, error) {
		ref, err := task.Put(ctx, bytes.NewReader([]byte(secret)), "text/plain")
		return map[string]any{"file": ref, "text": secret}, err
	}}}
	e := open(t, filepath.Join(t.TempDir(), "data"), options)
	ended := place.follow(t, e)
	def := define(t, "name: w\nstart: a\nnodes: [{id: a, task: put, output: {output.got: result}}]\n")
	was, err := e.Run(t.Context(), workflow.Run{ID: "w", Definition: def}, map[string]any{"text": secret})
	require.NoError(t, err)
	require.NoError(t, e.Close(t.Context()))
	require.NoError(t, <-ended)

	into := filepath.Join(t.TempDir(), "restored")
	info, err := pawl.Restore(t.Context(), into, pawl.RestoreOptions{Log: place.log, Bases: place.bases, Codec: codec})
	require.NoError(t, err)
	require.Empty(t, info.Damaged)
	require.Equal(t, 1, info.Blobs)
	for _, folder := range []string{into, sealedAt, place.path} {
		require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			require.NotContains(t, string(data), secret, path)
			return err
		}))
	}
	e = open(t, into, options)
	out, err := e.Wait(t.Context(), "w")
	require.NoError(t, err)
	require.Equal(t, was.Output, out.Output)
	got, _ := out.Output["got"].(map[string]any)
	ref, err := blob.ParseRef(got["file"])
	require.NoError(t, err)
	r, err := e.OpenBlob(t.Context(), ref)
	require.NoError(t, err)
	require.NoError(t, r.Close())
}

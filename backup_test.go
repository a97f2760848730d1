package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

const threeSteps = `
name: three
start: a
nodes:
  - {id: a, task: work, input: {n: input.n}, output: {state.a: result}}
  - {id: b, task: work, input: {n: state.a}, output: {state.b: result}}
  - {id: c, task: work, input: {n: state.b}, output: {output.n: result}}
transitions: [{from: a, to: b}, {from: b, to: c}]
`

// A backup that is made in the middle of many runs is a directory of its own, in
// which each of them is as it was at some commit, and comes to its end.
func TestABackupGoesOnByItself(t *testing.T) {
	const runs = 60
	var tasks atomic.Int32
	half, backedUp := make(chan struct{}), make(chan struct{})
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(ctx context.Context, task pawl.Task) (any, error) {
		if n := tasks.Add(1); n == 3*runs/2 {
			close(half)
		} else if n == 2*runs {
			<-backedUp // some are not at their end when the backup is made
		}
		return double(ctx, task)
	}}})
	ref, err := e.PutBlob(t.Context(), strings.NewReader("large"), "")
	require.NoError(t, err)
	for i := range runs {
		run := workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: define(t, threeSteps)}
		require.NoError(t, e.Start(t.Context(), run, map[string]any{"n": i, "file": ref}))
	}
	<-half
	into := filepath.Join(t.TempDir(), "backup")
	info, err := e.Backup(t.Context(), into)
	require.NoError(t, err)
	close(backedUp)
	require.Empty(t, info.Damaged)
	require.Equal(t, []int{runs, 1}, []int{info.Runs, info.Blobs})
	for i := range runs {
		_, err := e.Wait(t.Context(), workflow.RunID(fmt.Sprint("r", i)))
		require.NoError(t, err)
	}

	idle := open(t, copyOf(t, into), pawl.Options{})
	ended := 0
	for r, err := range idle.Runs(t.Context(), pawl.RunFilter{Status: []workflow.RunStatus{workflow.RunCompleted}}) {
		require.NoError(t, err)
		require.Positive(t, r.Seq)
		ended++
	}
	require.Less(t, ended, runs)

	again := open(t, into, pawl.Options{Executor: pawl.Handlers{"work": double}})
	for i := range runs {
		id := workflow.RunID(fmt.Sprint("r", i))
		out, err := again.Wait(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"n": int64(8 * i)}, out.Output)
	}
	r, err := again.OpenBlob(t.Context(), ref)
	require.NoError(t, err)
	require.NoError(t, r.Close())
}

// copyOf copies a directory that no engine has open.
func copyOf(t *testing.T, dir string) string {
	to := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// A backup that cannot be made says why and leaves nothing behind, and the next
// one can be made.
func TestBackupErrors(t *testing.T) {
	dir, beside := t.TempDir(), t.TempDir()
	e := open(t, dir, pawl.Options{Executor: pawl.Handlers{"work": double}})
	at := func(name string) string { return filepath.Join(beside, name) }
	require.NoError(t, os.WriteFile(at("file"), []byte("mine"), 0o600))
	require.NoError(t, os.MkdirAll(at("full/mine"), 0o700))
	require.NoError(t, os.Mkdir(at("empty"), 0o700))
	require.NoError(t, os.Symlink(at("empty"), at("link")))
	require.NoError(t, os.Symlink(dir, at("to-the-engine")))
	require.NoError(t, os.Symlink(filepath.Join(dir, "runs"), at("to-runs")))
	was := names(t, beside)
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	tests := []struct {
		ctx  context.Context
		into string
		want error
	}{
		{t.Context(), "", pawl.ErrInvalid},
		{t.Context(), dir, pawl.ErrInvalid},
		{t.Context(), filepath.Join(dir, "below"), pawl.ErrInvalid},
		{t.Context(), filepath.Join(dir, "no", "..", "runs", "below"), pawl.ErrInvalid},
		{t.Context(), filepath.Join(dir, "LOCK"), pawl.ErrInvalid},
		{t.Context(), at("to-the-engine/below"), pawl.ErrInvalid},
		{t.Context(), at("to-runs/below"), pawl.ErrInvalid},
		{t.Context(), at("file"), pawl.ErrInvalid},
		{t.Context(), at("full"), pawl.ErrInvalid},
		{t.Context(), at("link"), pawl.ErrInvalid},
		{t.Context(), at("no/parent"), fs.ErrNotExist},
		{t.Context(), at("file/below"), syscall.ENOTDIR},
		{t.Context(), at("a\x00b"), syscall.EINVAL},
		{t.Context(), at(strings.Repeat("long", 100)), syscall.ENAMETOOLONG},
		{cancelled, at("b"), context.Cause(cancelled)},
	}
	for _, tt := range tests {
		info, err := e.Backup(tt.ctx, tt.into)
		require.ErrorIs(t, err, tt.want, tt.into)
		require.Zero(t, info)
		require.Equal(t, was, names(t, beside), tt.into)
	}
	_, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: define(t, oneTask)}, map[string]any{"n": 1})
	require.NoError(t, err, "the engine goes on")
	info, err := e.Backup(t.Context(), at("empty"))
	require.NoError(t, err)
	require.Equal(t, 1, info.Runs)
	_, err = open(t, at("empty"), pawl.Options{}).Wait(t.Context(), "r")
	require.NoError(t, err)

	require.NoError(t, e.Close(t.Context()))
	_, err = e.Backup(t.Context(), at("b"))
	require.ErrorIs(t, err, pawl.ErrClosed)
	require.Equal(t, was, names(t, beside))
}

// names lists a directory.
func names(t *testing.T, dir string) (out []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// A backup that is restored says how many runs it has; a folder that is not empty is the caller's fault.
func TestABackupIsRestored(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
	for _, id := range []workflow.RunID{"a", "b"} {
		_, err := e.Run(t.Context(), workflow.Run{ID: id, Definition: define(t, oneTask)}, map[string]any{"n": 1})
		require.NoError(t, err)
	}
	folder := filepath.Join(t.TempDir(), "backup")
	_, err := e.Backup(t.Context(), folder)
	require.NoError(t, err)
	into := t.TempDir()
	info, err := pawl.Restore(t.Context(), into, pawl.RestoreOptions{Folder: folder})
	require.NoError(t, err)
	require.Equal(t, 2, info.Runs)
	_, err = pawl.Restore(t.Context(), into, pawl.RestoreOptions{Folder: folder})
	require.ErrorIs(t, err, pawl.ErrInvalid)
	require.Equal(t, 400, pawl.HTTPStatus(err))
}

// A directory is not restored into its source, as that is written or behind a link: a backup would be copied into itself without end.
func TestNothingIsRestoredIntoItsSource(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // it would never end
	defer cancel()
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
	_, err := e.Run(ctx, workflow.Run{ID: "r", Definition: define(t, oneTask)}, map[string]any{"n": 1})
	require.NoError(t, err)
	beside := t.TempDir()
	at := func(name string) string { return filepath.Join(beside, name) }
	_, err = e.Backup(ctx, at("backup"))
	require.NoError(t, err)
	follow(t, e, at("copy"))()
	for link, to := range map[string]string{"to-backup": "backup", "to-runs": "backup/runs", "to-copy": "copy", "to-log": "copy/log"} {
		require.NoError(t, os.Symlink(at(to), at(link)))
	}
	for from, into := range map[string][]string{
		"backup": {"backup/x", "backup/runs/x", "to-backup/x", "to-backup/runs/x", "to-runs/x"},
		"copy":   {"copy/x", "copy/log/x", "copy/bases/x", "to-copy/x", "to-log/x"},
	} {
		was, inside := names(t, beside), allNames(t, at(from))
		for _, name := range into {
			_, err := pawl.Restore(ctx, at(name), pawl.RestoreOptions{Folder: at(from)})
			require.ErrorIs(t, err, pawl.ErrInvalid, name)
			require.ErrorContains(t, err, "is in the directory itself")
			require.Equal(t, was, names(t, beside))
			require.Equal(t, inside, allNames(t, at(from)))
		}
		_, err := pawl.Restore(ctx, at("restored-"+from), pawl.RestoreOptions{Folder: at(from)})
		require.NoError(t, err)
	}
	require.NoError(t, os.Rename(at("copy/log"), at("log-elsewhere")))
	require.NoError(t, os.Symlink(at("log-elsewhere"), at("copy/log")))
	_, err = pawl.Restore(ctx, at("log-elsewhere/x"), pawl.RestoreOptions{Folder: at("copy")})
	require.ErrorIs(t, err, pawl.ErrInvalid)
}

// allNames lists a folder and everything below it.
func allNames(t *testing.T, dir string) (out []string) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error { out = append(out, path); return err }))
	return out
}

// A path that can be no folder is the caller's fault, and the error says what to give.
func TestPathsThatCannotBe(t *testing.T) {
	e, dir := open(t, t.TempDir(), pawl.Options{}), t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for path, says := range map[string]string{
		file: "it is a file; give a folder", filepath.Join(file, "below"): "give a folder", dir + "/a\x00b": "NUL", "": "empty",
	} {
		_, err := pawl.Open(t.Context(), path, pawl.Options{})
		require.ErrorIs(t, err, pawl.ErrInvalid, path)
		require.ErrorContains(t, err, says)
		_, err = e.Backup(t.Context(), path)
		require.ErrorIs(t, err, pawl.ErrInvalid, path)
		require.Equal(t, 400, pawl.HTTPStatus(err))
	}
	_, err := e.Backup(t.Context(), filepath.Join(dir, "none", "backup"))
	require.ErrorIs(t, err, pawl.ErrInvalid)
	require.ErrorContains(t, err, "make the parent folder first")
}

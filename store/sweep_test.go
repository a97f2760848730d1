package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// secret is what purged runs had.
const secret = "6f0c31e8-the-secret"

// filesWith returns the files below a directory that have a text.
func filesWith(t testing.TB, dir, text string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			names = append(names, path)
		}
		return err
	})
	require.NoError(t, err)
	return names
}

// purgedRuns is how many runs purgeInChild purges.
const purgedRuns = 20

// purgeInChild purges runs that a backup still holds, says so, and goes on with the backup for ever.
func purgeInChild(path string) {
	held, never := make(chan struct{}), make(chan struct{})
	hook := &testhook.Hook{}
	hook.OnHit(func(point string) {
		if point == "backup.index" {
			close(held)
			<-never
		}
	})
	d, err := Open(path, Options{Hook: hook})
	check(err)
	g, err := fanGraph()
	check(err)
	for i := range purgedRuns + 1 {
		id := workflow.RunID(fmt.Sprint("r", i))
		o := &owner{run: d.New(Head{Run: id}, g), state: state.NewState(id, g)}
		check(o.try(state.Start{}, startRun(map[string]any{"text": secret + fmt.Sprint(i)}), createToken(1, "start"), endRun()))
		check(o.file())
	}
	go func() { check(fmt.Errorf("the backup has ended: %w", backupOnce(d, path+"-backup"))) }()
	<-held
	for i := range purgedRuns {
		check(d.Purge(workflow.RunID(fmt.Sprint("r", i)), ""))
	}
	fmt.Println("purged")
	<-never
}

func backupOnce(d *Dir, into string) error {
	_, err := d.Backup(context.Background(), into, nil)
	return errors.Join(err, errors.New("it was to go on"))
}

// Files that were purged while a backup was under way are gone once the directory was open again, although the process
// has died in between, and all else is there.
func TestPurgedFilesAfterAKill(t *testing.T) {
	harness.InTurn(t, 4)
	t.Parallel()
	path := filepath.Join(harness.Workspace(t), "engine")
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), "PAWL_STORE_PURGE="+path), os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said := make([]byte, len("purged\n"))
	_, err = out.Read(said)
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait(), "it was killed")
	require.Len(t, filesWith(t, filepath.Join(path, runsDir), secret), purgedRuns+1, "the case is not there")
	d := open(t, path)
	require.NoError(t, d.Close())
	left := filesWith(t, path, secret)
	for _, name := range left {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		for i := range purgedRuns {
			require.False(t, bytes.Contains(data, fmt.Appendf(nil, "%s%d\"", secret, i)), name)
		}
	}
	require.NotEmpty(t, left, "r20 is still there")
	d = open(t, path)
	require.Len(t, all(t, d.History("r20")), 1)
}

// The first engine after a crash removes what flushes and purges have left behind, and nothing else.
func TestSweep(t *testing.T) {
	d := open(t, harness.Workspace(t))
	runs := map[string]*owner{}
	files := map[string]string{}
	for _, id := range []string{"once", "twice", "cut", "cut twice", "gone", "busy"} {
		o := start(t, d, workflow.RunID(id))
		o.do(state.Start{}, startRun(nil), createToken(1, "start"))
		require.NoError(t, o.file())
		runs[id] = o
	}
	for _, id := range []string{"twice", "cut twice"} {
		runs[id].do(state.Heartbeat{Token: 1})
		require.NoError(t, runs[id].file())
	}
	for id, o := range runs {
		files[id] = o.headFile()
	}
	stop := errors.New("stop")
	reset := onStage(d, func(now flushStage) error {
		if now == synced {
			return stop
		}
		return nil
	})
	for _, id := range []string{"cut", "cut twice"} {
		runs[id].do(state.Heartbeat{Token: 1})
		require.ErrorIs(t, runs[id].file(), stop)
	}
	reset()
	d.flusher.holdFiles()
	runs["gone"].do(state.TaskCompleted{Token: 1, Attempt: 1}, endRun())
	require.NoError(t, runs["gone"].file())
	require.NoError(t, d.Purge("gone", ""))
	require.FileExists(t, d.pathOf(files["gone"]))
	foreign := foreignFiles(t, d.path, files["once"])

	dead := crashed(t, d.path)
	d.flusher.releaseFiles(d.removeReleased)
	for name, target := range foreign {
		if target != "" { // a copy has what links lead to
			require.NoError(t, os.RemoveAll(filepath.Join(dead, name)))
			require.NoError(t, os.Symlink(target, filepath.Join(dead, name)))
		}
	}
	checkSwept(t, dead, files, foreign)
}

// endRun ends a run.
func endRun() decision.Decision {
	return decision.CompleteRun{Output: map[string]any{"ok": true}, At: at(9)}
}

// foreignFiles lays files that are no leftovers of an engine beside the file of a run, and returns their names, and where links lead.
func foreignFiles(t *testing.T, dir, file string) map[string]string {
	folder, name := filepath.Dir(file), filepath.Base(file)
	out := map[string]string{
		filepath.Join(folder, "notes.txt"):                                 "",
		filepath.Join(folder, strings.Replace(name, "a.db", "c.db", 1)):    "",
		filepath.Join(folder, strings.Replace(name, "a.db", "a.db.1", 1)):  "",
		filepath.Join(folder, name[:33]+"000000000000000Aa.db"):            "",
		filepath.Join(folder, name[:33]+"000000000000000+a.db"):            "",
		filepath.Join(runsDir, name[:33]+"0000000000000001a.db"):           "",
		filepath.Join("runs", "zz", name[:33]+"0000000000000001a.db"):      "",
		filepath.Join("runs", "readme"):                                    "",
		filepath.Join(folder, name[:33]+"0000000000000003a.db", "content"): "",
	}
	for at := range out {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, at)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, at), []byte("mine"), 0o600))
	}
	link := filepath.Join(folder, name[:33]+"0000000000000002a.db")
	out[link] = filepath.Join(dir, runsDir, "readme")
	require.NoError(t, os.Symlink(out[link], filepath.Join(dir, link)))
	return out
}

// checkSwept opens a directory after a crash, and checks what is left of the files below runs.
func checkSwept(t *testing.T, dead string, files, foreign map[string]string) {
	d := open(t, dead)
	d.sweeping.Wait()
	want := map[string]bool{}
	for id, name := range files {
		if id != "gone" {
			want[name] = true
			want[index.FileName(workflow.RunID(id), nonceOf(t, d, workflow.RunID(id)), 1)] = true
		}
	}
	for name := range foreign {
		want[name] = true
	}
	found := map[string]bool{}
	require.NoError(t, fs.WalkDir(os.DirFS(dead), runsDir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			found[name] = true
		}
		return err
	}))
	require.Equal(t, want, found)
	for _, id := range []workflow.RunID{"twice", "cut twice"} {
		h, err := d.Head(id)
		require.NoError(t, err)
		same, err := d.isOneFile(index.FileName(id, nonceOf(t, d, id), 1), h.File)
		require.NoError(t, err)
		require.True(t, same, string(id))
	}
	for id := range files {
		if id != "gone" {
			require.NotEmpty(t, all(t, d.History(workflow.RunID(id))))
		}
	}
}

// nonceOf returns the nonce of a run.
func nonceOf(t *testing.T, d *Dir, id workflow.RunID) uint64 {
	r, err := d.readRow(id)
	require.NoError(t, err)
	return r.Nonce
}

// A run that a worker has, or is to have, is left to it, and what comes for one that is being looked at waits.
func TestSweepLeavesWorkersAlone(t *testing.T) {
	d := open(t, harness.Workspace(t))
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil), createToken(1, "start"))
	require.NoError(t, o.file())
	row, err := d.readRow("r1")
	require.NoError(t, err)
	lent := d.flusher.borrowRun(&row)
	require.NotNil(t, lent)
	require.Nil(t, d.flusher.borrowRun(&row), "it is lent")
	o.do(state.Heartbeat{Token: 1})
	done := make(chan error, 1)
	o.run.Flush(o.state.TakeChanges(), nil, func(err error) { done <- err })
	d.flusher.mu.Lock()
	require.Len(t, lent.requests, 1)
	require.Empty(t, d.flusher.queue)
	d.flusher.mu.Unlock()
	require.Nil(t, d.flusher.borrowRun(&row), "a flush waits")
	d.flusher.returnRun("r1", lent)
	require.NoError(t, <-done)
	require.Equal(t, index.FileName("r1", row.Nonce, 2), o.headFile())
}

// The path of a run's file stays, and is always that of the whole file, as often as it is written; it goes with the run.
func TestPathOfARunStays(t *testing.T) {
	d := open(t, harness.Workspace(t))
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil), createToken(1, "start"))
	require.NoError(t, o.file())
	path := d.pathOf(o.headFile())
	for i := range 6 {
		o.do(state.Heartbeat{Token: 1})
		reset := onStage(d, func(flushStage) error {
			info, err := os.Lstat(path)
			if err == nil && !info.Mode().IsRegular() {
				err = errors.New("it is no file")
			}
			return err
		})
		require.NoError(t, o.file())
		reset()
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		named, err := os.ReadFile(d.pathOf(o.headFile()))
		require.NoError(t, err)
		require.Equal(t, named, data, "flush %d", i)
		files, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.Len(t, files, 2-i%2)
	}
	o.do(state.TaskCompleted{Token: 1, Attempt: 1}, endRun())
	require.NoError(t, o.file())
	require.NoError(t, d.Purge("r1", ""))
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Empty(t, files)
}

// A run that is purged while a backup ends, which gives its file the other name, leaves neither.
func TestPurgeWhileFilesAreReleased(t *testing.T) {
	d := open(t, harness.Workspace(t))
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil), createToken(1, "start"))
	require.NoError(t, o.file())
	first := d.pathOf(o.headFile())
	d.flusher.holdFiles()
	o.do(state.TaskCompleted{Token: 1, Attempt: 1}, endRun())
	require.NoError(t, o.file())
	purged := false
	d.flusher.releaseFiles(func(name, by string) {
		if !purged {
			purged = true
			require.NoError(t, d.Purge("r1", ""))
		}
		require.NoError(t, d.dropRunFile(name, by))
	})
	files, err := os.ReadDir(filepath.Dir(first))
	require.NoError(t, err)
	require.Empty(t, files)
}

// Names are taken for those of an engine exactly if it gives them.
func TestParseSwept(t *testing.T) {
	for i := range 100 {
		name := index.FileName(workflow.RunID(fmt.Sprint("r", i)), uint64(i)<<55|uint64(i), index.Slot(1+i%2))
		f, ok := parseSwept(filepath.Base(filepath.Dir(name)), filepath.Base(name))
		require.True(t, ok, name)
		require.Equal(t, name, f.name())
		for at := range filepath.Base(name) {
			wrong := []byte(filepath.Base(name))
			wrong[at] = "GX"[i%2]
			_, ok := parseSwept(filepath.Base(filepath.Dir(name)), string(wrong))
			require.False(t, ok, string(wrong))
		}
	}
	_, ok := parseSwept("ab", "")
	require.False(t, ok)
}

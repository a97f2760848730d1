package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
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

// Without a lock record nothing tells whether pawl.db is the last one, so that the files of runs which it does not name stay, and so does
// the later one of a run that it names; an engine that dies while it opens leaves the lock file without a record.
func TestSweepWithoutALockRecord(t *testing.T) {
	d := open(t, harness.Workspace(t))
	early := start(t, d, "early")
	early.do(state.Start{}, startRun(nil), createToken(1, "start"))
	require.NoError(t, early.file())
	require.NoError(t, d.Close())
	older, err := os.ReadFile(d.pathOf(indexFile))
	require.NoError(t, err)
	d = open(t, d.path)
	early = load(t, d, "early")
	early.do(state.Heartbeat{Token: 1})
	require.NoError(t, early.file())
	late := start(t, d, "late")
	late.do(state.Start{}, startRun(nil), createToken(1, "start"))
	require.NoError(t, late.file())
	files := map[string]string{}
	for _, o := range []*owner{early, late} {
		data, err := os.ReadFile(d.pathOf(o.headFile()))
		require.NoError(t, err)
		files[o.headFile()] = string(data)
	}
	for name, text := range map[string]string{"missing": "", "torn": "synced 00"} {
		dead := crashed(t, d.path)
		require.NoError(t, os.WriteFile(filepath.Join(dead, indexFile), older, 0o600))
		for _, gone := range []string{indexWAL, redoFile, lockName} {
			require.NoError(t, os.Remove(filepath.Join(dead, gone)))
		}
		if text != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dead, lockName), []byte(text), 0o600))
		}
		hook := &testhook.Hook{}
		hook.OnHit(func(point string) {
			if point == "open.epoch" {
				text, err := os.ReadFile(filepath.Join(dead, lockName))
				require.NoError(t, err)
				require.False(t, isLockRecord(string(text)), "the next engine would take it that this one knew more: %q", text)
			}
		})
		var said bytes.Buffer
		again := openWith(t, dead, Options{Hook: hook, Logger: slog.New(slog.NewTextHandler(&said, nil))})
		require.NoError(t, again.Close())
		require.Contains(t, said.String(), "are kept", name)
		for file, want := range files {
			data, err := os.ReadFile(filepath.Join(dead, file))
			require.NoError(t, err, name)
			require.Equal(t, want, string(data), name)
		}
	}
}

// The files that an engine keeps, since it has found no lock record, are kept by every later one, however the one before has ended, until nothing
// is there any more that pawl.db does not name. Another name of a file, or a copy of that, is nothing that pawl.db lacks.
func TestSweepRemembersThatThereWasNoLockRecord(t *testing.T) {
	d := open(t, harness.Workspace(t))
	early := start(t, d, "early")
	early.do(state.Start{}, startRun(nil), createToken(1, "start"))
	require.NoError(t, early.file())
	other := early.headFile()
	early.do(state.Heartbeat{Token: 1})
	require.NoError(t, early.file())
	named := early.headFile()
	require.NoError(t, d.Close())
	older, err := os.ReadFile(d.pathOf(indexFile))
	require.NoError(t, err)
	d = open(t, d.path)
	late := start(t, d, "late")
	late.do(state.Start{}, startRun(nil), createToken(1, "start"))
	require.NoError(t, late.file())
	kept := late.headFile()
	require.NoError(t, d.Close())
	require.NoError(t, os.WriteFile(d.pathOf(indexFile), older, 0o600))
	require.NoError(t, os.Remove(d.pathOf(lockName)))
	copied, err := os.ReadFile(d.pathOf(named))
	require.NoError(t, err)
	require.NoError(t, os.Remove(d.pathOf(other)))
	require.NoError(t, os.WriteFile(d.pathOf(other), copied, 0o600))

	trusted := func() bool {
		in, err := Inspect(d.path, nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, in.Close()) }()
		require.Empty(t, in.Faults)
		return in.Trusted
	}
	path := d.path
	for _, dies := range []bool{true, true, false, false, true} {
		hook, atEpoch := &testhook.Hook{}, ""
		hook.OnHit(func(point string) {
			if point == "open.epoch" && dies {
				atEpoch = crashed(t, path)
			}
		})
		var said bytes.Buffer
		d = openWith(t, path, Options{Hook: hook, Logger: slog.New(slog.NewTextHandler(&said, nil))})
		require.Contains(t, said.String(), "are kept")
		require.Contains(t, said.String(), "files=1\n")
		d.sweeping.Wait()
		if dies {
			d = open(t, atEpoch)
			path = crashed(t, d.path)
			continue
		}
		require.NoError(t, d.Close())
		require.False(t, trusted())
	}
	d = open(t, path)
	require.FileExists(t, d.pathOf(kept))
	require.NoError(t, d.Close())
	require.False(t, trusted())

	content, err := os.ReadFile(d.pathOf(kept))
	require.NoError(t, err)
	require.NoError(t, os.Remove(d.pathOf(kept)))
	d = open(t, path)
	path = crashed(t, d.path)
	require.NoError(t, d.Close())
	require.True(t, trusted())
	require.NoError(t, os.WriteFile(filepath.Join(path, kept), content, 0o600)) // the next crash has left it
	require.NoError(t, open(t, path).Close())
	require.NoFileExists(t, filepath.Join(path, kept))
}

// An engine that dies while it opens leaves the sweep to the next one.
func TestSweepAfterACrashInAnOpen(t *testing.T) {
	d := open(t, harness.Workspace(t))
	o := start(t, d, "gone")
	o.do(state.Start{}, startRun(nil), endRun())
	require.NoError(t, o.file())
	file := o.headFile()
	d.flusher.holdFiles()
	require.NoError(t, d.Purge("gone", ""))
	dead := crashed(t, d.path)
	d.flusher.releaseFiles(d.removeReleased)
	again := ""
	hook := &testhook.Hook{}
	hook.OnHit(func(point string) {
		if point == "open.epoch" {
			again = crashed(t, dead)
		}
	})
	openWith(t, dead, Options{Hook: hook})
	require.FileExists(t, filepath.Join(again, file))
	require.NoError(t, open(t, again).Close())
	require.NoFileExists(t, filepath.Join(again, file))
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

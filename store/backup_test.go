package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// furnished makes a directory with something of everything: runs that were never
// flushed, are flushed in part, are flushed, have ended; a child, an approval, a dead
// letter; a published definition, a kept outcome, and blobs.
func furnished(t *testing.T, path string) (*Dir, *blob.Files) {
	d := open(t, path)
	files, err := blob.OpenFiles(filepath.Join(path, blobsDir), blob.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = files.Close() })
	put := func(text string) map[string]any {
		hash, size, err := files.Put(t.Context(), bytes.NewBufferString(text))
		require.NoError(t, err)
		return blob.Ref{Hash: hash, Size: size}.Value()
	}
	fresh := start(t, d, "fresh")
	fresh.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	parts := start(t, d, "parts")
	parts.do(state.Start{Input: map[string]any{"x": put("in")}}, startRun(map[string]any{"x": put("in")}), createToken(1, "start"), dispatch(1))
	require.NoError(t, parts.file())
	parts.do(state.Heartbeat{Token: 1}, decision.SetData{Path: []string{"state", "n"}, Value: largeText})
	require.NoError(t, parts.file())
	parts.do(state.Heartbeat{Token: 1}, decision.SetData{Path: []string{"state", "n"}, Value: int64(3)})
	ended := start(t, d, "ended")
	ended.five(map[string]any{"big": largeText})
	require.NoError(t, ended.file())
	leftover := start(t, d, "leftover")
	leftover.five(nil)
	require.NoError(t, d.Publish(graph(t)))
	require.NoError(t, d.KeepOutcome("paid", put("receipt"), zero))
	return d, files
}

// same checks that two directories hold the same.
func same(t *testing.T, want, got *Dir) {
	heads := all(t, want.AllHeads(RunFilter{}))
	require.Equal(t, heads, all(t, got.AllHeads(RunFilter{})))
	for _, h := range heads {
		require.Equal(t, all(t, want.History(h.Run)), all(t, got.History(h.Run)))
		require.Equal(t, all(t, want.Events(h.Run, 0)), all(t, got.Events(h.Run, 0)))
		ws, err := want.State(h.Run)
		require.NoError(t, err)
		gs, err := got.State(h.Run)
		require.NoError(t, err)
		require.Equal(t, ws.AllRows(), gs.AllRows())
	}
	hash, err := want.Published(t.Context(), "fan", 0)
	require.NoError(t, err)
	again, err := got.Published(t.Context(), "fan", 0)
	require.NoError(t, err)
	require.Equal(t, hash, again)
	paid, err := got.Outcome(t.Context(), "paid")
	require.NoError(t, err)
	require.Contains(t, paid, "$blob")
}

func TestBackup(t *testing.T) {
	d, files := furnished(t, t.TempDir())
	into := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, os.Mkdir(into, 0o700), "an empty directory may be there")
	info, err := d.Backup(t.Context(), into, files)
	require.NoError(t, err)
	require.Empty(t, info.Damaged)
	require.Equal(t, []int{4, 2, 2}, []int{info.Runs, info.Files, info.Blobs})
	require.Positive(t, info.Bytes)
	names, err := filepath.Glob(filepath.Join(filepath.Dir(into), "*"))
	require.NoError(t, err)
	require.Equal(t, []string{into}, names, "nothing is left beside it")

	copied := open(t, into)
	same(t, d, copied)
	load(t, copied, "parts").do(state.Heartbeat{Token: 1})
	load(t, d, "parts").do(state.Heartbeat{Token: 1})
	require.NoError(t, copied.Close())
	blobs, err := blob.OpenFiles(filepath.Join(into, blobsDir), blob.Options{})
	require.NoError(t, err)
	n := 0
	for _, err := range blobs.All(t.Context()) {
		require.NoError(t, err)
		n++
	}
	require.Equal(t, 2, n)
	require.NoError(t, blobs.Close())
}

// Backups that are made while runs commit, are flushed, and are purged, each hold a
// prefix of every run.
func TestBackupsOfABusyDirectory(t *testing.T) {
	d := open(t, t.TempDir())
	var busy, begun sync.WaitGroup
	stop := make(chan struct{})
	for i := range 4 {
		begun.Add(1)
		id := workflow.RunID(fmt.Sprint("long", i))
		o := start(t, d, id)
		o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
		busy.Go(func() {
			for n := int64(0); ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				o.do(state.Heartbeat{Token: 1}, decision.SetData{Path: []string{"state", "n"}, Value: n})
				if n%10 == 0 {
					require.NoError(t, o.file())
				}
				if n%30 == 0 {
					short := workflow.RunID(fmt.Sprint("short", i))
					s := start(t, d, short)
					s.five(nil)
					require.NoError(t, s.file())
					require.NoError(t, d.Purge(short, ""))
				}
				if n == 0 {
					begun.Done()
				}
			}
		})
	}
	begun.Wait() // each has a file
	var backups []string
	for i := range 8 {
		into := filepath.Join(t.TempDir(), fmt.Sprint(i))
		info, err := d.Backup(t.Context(), into, nil)
		require.NoError(t, err)
		require.Empty(t, info.Damaged)
		backups = append(backups, into)
	}
	close(stop)
	busy.Wait()
	for _, into := range backups {
		copied := open(t, into)
		for h, err := range copied.AllHeads(RunFilter{}) {
			require.NoError(t, err)
			got := all(t, copied.History(h.Run))
			require.Len(t, got, int(h.Seq))
			if strings.HasPrefix(string(h.Run), "long") { // the others are purged
				require.Equal(t, all(t, d.History(h.Run))[:len(got)], got)
			}
			_, err := copied.State(h.Run)
			require.NoError(t, err)
		}
		require.NoError(t, copied.Close())
	}
	files, err := filepath.Glob(filepath.Join(d.path, runsDir, "*", "*a.db"))
	require.NoError(t, err)
	require.Len(t, files, 4, "what was kept for the backups is gone: %v", files)
}

// While files are held, a run is flushed once more, and the next time when they
// are let go, for which nobody waits. Commits go on.
func TestFilingWhileFilesAreKept(t *testing.T) {
	d := open(t, t.TempDir())
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil), createToken(1, "start"))
	require.NoError(t, o.file())
	first := o.headFile()
	d.flusher.holdFiles()
	o.do(state.Heartbeat{Token: 1})
	require.NoError(t, o.file())
	second := o.headFile()
	require.NotEqual(t, first, second)
	require.FileExists(t, d.pathOf(first))
	o.do(state.Heartbeat{Token: 1})
	require.NoError(t, o.file())
	o.do(state.Heartbeat{Token: 1}) // commits go on
	require.NoError(t, o.file(), "and so do flushes")
	o.do(state.Heartbeat{Token: 1})
	_, files, _ := d.Backlogs()
	require.Zero(t, files.Waiting)
	require.Equal(t, second, o.headFile())
	require.Equal(t, 3, logged(t, d))
	d.flusher.releaseFiles(func(name, by string) {
		require.Equal(t, []string{first, second}, []string{name, by})
		require.NoError(t, d.dropRunFile(name, by))
	})
	d.flusher.waitForRun("r1", false)
	require.Equal(t, first, o.headFile())
	require.NoFileExists(t, d.pathOf(second))
	require.Equal(t, 1, logged(t, d))
	require.Equal(t, o.state.AllRows(), load(t, d, "r1").state.AllRows())
}

// A run whose flush is postponed is loaded, and purged, without waiting for the end of the backup; what was postponed is forgotten.
func TestAPostponedFlushHoldsNobodyUp(t *testing.T) {
	d := open(t, t.TempDir())
	begin := func(id workflow.RunID) *owner {
		o := start(t, d, id)
		o.do(state.Start{}, startRun(nil), createToken(1, "start"))
		require.NoError(t, o.file())
		return o
	}
	loaded, purged := begin("loaded"), begin("purged")
	d.flusher.holdFiles()
	for _, o := range []*owner{loaded, purged} {
		o.do(state.Heartbeat{Token: 1})
		require.NoError(t, o.file())
	}
	loaded.do(state.Heartbeat{Token: 1})
	purged.do(state.TaskCompleted{Token: 1, Attempt: 1}, endRun())
	file := purged.headFile()
	for _, o := range []*owner{loaded, purged} {
		require.NoError(t, o.file())
		require.NoError(t, o.run.Close())
	}
	has, err := d.HasRun("loaded")
	require.NoError(t, err)
	require.True(t, has)
	again := load(t, d, "loaded")
	require.Len(t, again.run.unflushed, 1)
	require.NoError(t, d.Purge("purged", ""))
	d.flusher.releaseFiles(d.removeReleased)
	require.Empty(t, d.flusher.runs, "what the log has is not filed twice")
	require.NoFileExists(t, d.pathOf(file))
	again.do(state.Heartbeat{Token: 1})
	require.NoError(t, again.file())
	again.same(d)
	require.Zero(t, logged(t, d))
}

func (o *owner) headFile() string {
	h, err := o.run.dir.Head(o.run.Head().Run)
	require.NoError(o.t, err)
	return h.File
}

func TestBackupFails(t *testing.T) {
	path := t.TempDir()
	d, files := furnished(t, path)
	beside := t.TempDir()
	into := filepath.Join(beside, "backup")
	full := filepath.Join(t.TempDir(), "full")
	require.NoError(t, os.MkdirAll(filepath.Join(full, "x"), 0o700))
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(beside, link))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		ctx  context.Context
		into string
		want error
	}{
		{t.Context(), full, ErrNotEmpty},
		{t.Context(), filepath.Join(full, "..", "full"), ErrNotEmpty},
		{t.Context(), link, ErrNotEmpty},
		{t.Context(), filepath.Join(path, indexFile), ErrNotEmpty},
		{t.Context(), filepath.Join(path, "backup"), ErrNotEmpty},
		{t.Context(), filepath.Join(path, "runs", "a", "b"), ErrNotEmpty},
		{t.Context(), filepath.Join(beside, "no", "parent"), os.ErrNotExist},
		{ctx, into, context.Canceled},
	}
	for _, tt := range tests {
		info, err := d.Backup(tt.ctx, tt.into, files)
		require.ErrorIs(t, err, tt.want, tt.into)
		require.Zero(t, info)
	}
	entries, err := os.ReadDir(beside)
	require.NoError(t, err)
	require.Empty(t, entries)
	require.NoError(t, d.Close())
	_, err = d.Backup(t.Context(), into, files)
	require.ErrorIs(t, err, ErrClosed)
}

// A backup with a link in it is not restored without what is behind the link.
func TestRestoreOfABackupWithALink(t *testing.T) {
	d, files := furnished(t, t.TempDir())
	from := filepath.Join(t.TempDir(), "backup")
	_, err := d.Backup(t.Context(), from, files)
	require.NoError(t, err)
	elsewhere := filepath.Join(t.TempDir(), "blobs")
	require.NoError(t, os.Rename(filepath.Join(from, blobsDir), elsewhere))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(from, blobsDir)))
	into := filepath.Join(t.TempDir(), "into")
	_, err = RestoreBackup(t.Context(), from, into, nil)
	require.ErrorContains(t, err, "blobs is a symbolic link")
	require.NoDirExists(t, into)
	require.NoError(t, os.Remove(filepath.Join(from, blobsDir)))
	require.NoError(t, os.Rename(elsewhere, filepath.Join(from, blobsDir)))
	info, err := RestoreBackup(t.Context(), from, into, nil)
	require.NoError(t, err)
	require.Positive(t, info.Blobs)
}

// A backup touches no other name than its own, and that of the folder in which it is made.
func TestBackupLeavesItsNeighbours(t *testing.T) {
	d, files := furnished(t, t.TempDir())
	beside := t.TempDir()
	for name, text := range map[string]string{"empty": "", "full": "mine"} {
		into := filepath.Join(beside, name)
		require.NoError(t, os.Mkdir(into, 0o700))
		require.NoError(t, os.Mkdir(into+".tmp", 0o700))
		if text != "" {
			require.NoError(t, os.WriteFile(filepath.Join(into+".tmp", "file"), []byte(text), 0o600))
		}
		_, err := d.Backup(t.Context(), into, files)
		require.NoError(t, err)
		require.DirExists(t, into+".tmp")
		again, err := Open(into, Options{})
		require.NoError(t, err)
		require.NoError(t, again.Close())
	}
}

// A folder in which a backup was never finished is refused, stays as it is, and
// Verify says what it is.
func TestUnfinishedBackup(t *testing.T) {
	d, files := furnished(t, t.TempDir())
	g := gate{files, make(chan struct{}), make(chan struct{})}
	beside := t.TempDir()
	done := make(chan error)
	go func() {
		_, err := d.Backup(t.Context(), filepath.Join(beside, "copy"), g)
		done <- err
	}()
	<-g.reached
	found, err := filepath.Glob(filepath.Join(beside, "copy.partial-*"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	left := filepath.Join(t.TempDir(), "left") // as a crash leaves it at this moment
	require.NoError(t, os.MkdirAll(filepath.Join(left, runsDir), 0o700))
	for _, name := range []string{unfinishedFile, indexFile} {
		data, err := os.ReadFile(filepath.Join(found[0], name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(left, name), data, 0o600))
	}
	close(g.open)
	<-g.reached // the other blob
	require.NoError(t, <-done)
	require.NoFileExists(t, filepath.Join(beside, "copy", unfinishedFile))

	_, err = Open(left, Options{})
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "never finished")
	entries, err := os.ReadDir(left)
	require.NoError(t, err)
	require.Len(t, entries, 3, "nothing was made")
	r, err := Verify(left)
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(r.Findings), "never finished")
	require.Positive(t, r.Damage)
}

// A gate is a store of blobs that lets a backup go on when it is told to.
type gate struct {
	*blob.Files
	reached, open chan struct{}
}

func (g gate) Open(ctx context.Context, hash string) (r io.ReadCloser, err error) {
	g.reached <- struct{}{}
	select {
	case <-g.open:
		return g.Files.Open(ctx, hash)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Close ends a backup that is under way, and one that waits for it; and so does
// the end of a context.
func TestCloseEndsABackup(t *testing.T) {
	d, files := furnished(t, t.TempDir())
	g := gate{files, make(chan struct{}), make(chan struct{})}
	beside := t.TempDir()
	errs := make(chan error, 2)
	go func() {
		_, err := d.Backup(context.Background(), filepath.Join(beside, "one"), g)
		errs <- err
	}()
	<-g.reached
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err := d.Backup(ctx, filepath.Join(beside, "two"), g)
	require.ErrorContains(t, err, "enough")
	go func() {
		_, err := d.Backup(context.Background(), filepath.Join(beside, "three"), g)
		errs <- err
	}()
	require.NoError(t, d.Close())
	require.ErrorIs(t, <-errs, ErrClosed)
	require.ErrorIs(t, <-errs, ErrClosed)
	entries, err := os.ReadDir(beside)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// Damaged files are named and left out; the rest is backed up.
func TestBackupOfWhatIsDamaged(t *testing.T) {
	d, files := furnished(t, t.TempDir())
	h, err := d.Head("ended")
	require.NoError(t, err)
	require.NoError(t, os.Remove(d.pathOf(h.File)))
	paid, err := d.Outcome(t.Context(), "paid")
	require.NoError(t, err)
	ref, err := blob.ParseRef(paid)
	require.NoError(t, err)
	_, err = files.Delete(t.Context(), ref.Hash, time.Now().Add(time.Hour))
	require.NoError(t, err)
	into := filepath.Join(t.TempDir(), "backup")
	info, err := d.Backup(t.Context(), into, files)
	require.NoError(t, err)
	require.Len(t, info.Damaged, 2)
	require.ErrorIs(t, info.Damaged[0], ErrCorrupt)
	require.ErrorContains(t, info.Damaged[0], "ended")
	require.ErrorIs(t, info.Damaged[1], blob.ErrMissing)
	copied := open(t, into)
	_, err = copied.State("ended")
	require.ErrorIs(t, err, ErrCorrupt)
	_, err = copied.State("parts")
	require.NoError(t, err)
}

// The secret in a base tells whose it is. It is found wherever the pages that it takes are; where they are missing nothing is known.
func TestTheSecretOfABase(t *testing.T) {
	d, files := furnished(t, t.TempDir())
	bases, err := blob.OpenFiles(t.TempDir(), blob.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, bases.Close()) }()
	b := baseBuilder{dir: d, from: files, to: bases}
	base, err := b.makeBase(t.Context())
	require.NoError(t, err)
	secret, err := readSecretOf(t.Context(), bases, base)
	require.NoError(t, err)
	require.Equal(t, d.Secret(), secret)

	var pages []string
	for _, hash := range b.manifest.Index {
		data, err := readBlob(t.Context(), bases, hash)
		require.NoError(t, err)
		for page := range slices.Chunk(data, index.PageSize) {
			hash, err := b.putBytes(t.Context(), page)
			require.NoError(t, err)
			pages = append(pages, hash)
		}
	}
	of := func(pages []string) ([]byte, error) {
		data, err := json.Marshal(manifest{Format: manifestFormat, Index: pages})
		require.NoError(t, err)
		hash, err := b.putBytes(t.Context(), data)
		require.NoError(t, err)
		return readSecretOf(t.Context(), bases, hash)
	}
	secret, err = of(pages)
	require.NoError(t, err)
	require.Equal(t, d.Secret(), secret)
	for _, some := range [][]string{nil, pages[:1]} {
		_, err = of(some)
		require.ErrorIs(t, err, ErrCorrupt)
		require.True(t, isUnreadable(err))
	}
}

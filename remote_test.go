package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/store/logtest"
	"github.com/pawl-run/pawl/workflow"
)

// A sharedPlace is what the machines of a test share.
type sharedPlace struct {
	log   *logtest.Memory
	bases *blob.Files
	blobs *blob.Files
}

func newSharedPlace(t *testing.T) *sharedPlace {
	p := &sharedPlace{log: &logtest.Memory{}}
	for name, s := range map[string]**blob.Files{"bases": &p.bases, "blobs": &p.blobs} {
		files, err := blob.OpenFiles(filepath.Join(t.TempDir(), name), blob.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { _ = files.Close() })
		*s = files
	}
	return p
}

// options returns those of an engine on a machine of its own. fault may be nil.
func (p *sharedPlace) options(h pawl.Handlers, fault func(string) logtest.Fault) pawl.Options {
	return pawl.Options{
		Executor: h, Durability: pawl.ProcessCrash, Blobs: p.blobs,
		Remote: pawl.RemoteOptions{Log: p.log.Writer(fault), Bases: p.bases, Rebase: time.Minute},
	}
}

// A machine that takes over has everything that the first one has acknowledged, although that is not gone: the first
// commits nothing more. Its own directory gets what it lacks when it is opened again.
func TestRemote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSharedPlace(t)
		first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
		h := pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return int64(1), nil }}
		a, err := pawl.Open(t.Context(), first, p.options(h, nil))
		require.NoError(t, err)
		def := define(t, "name: w\nstart: a\nnodes: [{id: a, task: work}, {id: go, wait: {event: go}}, {id: z, task: work}]\ntransitions: [{from: a, to: go}, {from: go, to: z}]\n")
		for i := range 3 {
			require.NoError(t, a.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("run-", i)), Definition: def}, nil))
		}
		synctest.Wait()
		require.NoError(t, a.Signal(t.Context(), "run-0", workflow.Signal{Name: "go"}))
		_, err = a.Wait(t.Context(), "run-0")
		require.NoError(t, err)

		b, err := pawl.Open(t.Context(), second, p.options(h, nil))
		require.NoError(t, err)
		require.ErrorIs(t, a.Signal(t.Context(), "run-1", workflow.Signal{Name: "go"}), pawl.ErrFenced)
		_, err = a.Inspect(t.Context(), "run-2")
		require.ErrorIs(t, err, pawl.ErrFailed)
		require.NoError(t, a.Close(t.Context()))
		require.Len(t, idsOf(t, b), 3)
		for _, id := range []workflow.RunID{"run-1", "run-2"} {
			require.NoError(t, b.Signal(t.Context(), id, workflow.Signal{Name: "go"}))
			out, err := b.Wait(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, workflow.RunCompleted, out.Status)
		}
		require.NoError(t, b.Purge(t.Context(), "run-0"))
		backup := filepath.Join(t.TempDir(), "backup")
		_, err = b.Backup(t.Context(), backup)
		require.NoError(t, err)
		require.NoError(t, b.Close(t.Context()))

		a, err = pawl.Open(t.Context(), first, p.options(h, nil))
		require.NoError(t, err)
		require.Len(t, idsOf(t, a), 2)
		require.NoError(t, a.Close(t.Context()))
		for _, dir := range []string{first, second, backup} {
			report, err := rescue.Verify(t.Context(), dir, rescue.Options{})
			require.NoError(t, err)
			require.Empty(t, report.Findings)
		}
		require.Equal(t, rowsOf(t, second), rowsOf(t, first))
		_, err = pawl.Open(t.Context(), first, pawl.Options{})
		require.ErrorIs(t, err, pawl.ErrRemote)
		alone, err := pawl.Open(t.Context(), backup, pawl.Options{})
		require.NoError(t, err)
		require.Len(t, idsOf(t, alone), 2)
		require.NoError(t, alone.Close(t.Context()))
		_, err = pawl.Open(t.Context(), backup, p.options(h, nil))
		require.ErrorIs(t, err, pawl.ErrOtherLog)

		into := filepath.Join(t.TempDir(), "restored")
		_, err = pawl.Restore(t.Context(), into, pawl.RestoreOptions{Log: p.log.Writer(nil), Bases: p.bases})
		require.NoError(t, err)
		require.Equal(t, rowsOf(t, second), rowsOf(t, into))
		alone, err = pawl.Open(t.Context(), into, pawl.Options{})
		require.NoError(t, err)
		require.NoError(t, alone.Close(t.Context()))
	})
}

// Options and directories that do not belong together, or lack something, are refused, and nothing is changed.
func TestRemoteRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, dir := newSharedPlace(t), filepath.Join(t.TempDir(), "data")
		h := pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return int64(1), nil }}
		def := define(t, "name: w\nstart: a\nnodes: [{id: a, task: work}]\n")
		run := func(e *pawl.Engine, id workflow.RunID) {
			_, err := e.Run(t.Context(), workflow.Run{ID: id, Definition: def}, nil)
			require.NoError(t, err)
		}
		refused := func(want error, dir string, o pawl.Options) {
			_, err := pawl.Open(t.Context(), dir, o)
			require.ErrorIs(t, err, want)
		}
		for _, change := range []func(*pawl.Options){
			func(o *pawl.Options) { o.Remote.Bases = nil }, func(o *pawl.Options) { o.Remote.Log = nil }, func(o *pawl.Options) { o.Blobs = nil },
			func(o *pawl.Options) { o.Remote.Keep = -1 }, func(o *pawl.Options) { o.Remote.Detach = true },
		} {
			o := p.options(h, nil)
			change(&o)
			refused(pawl.ErrInvalid, dir, o)
		}
		// A directory that had no log gets one, with everything in it.
		e := open(t, dir, pawl.Options{Executor: h})
		run(e, "before")
		require.NoError(t, e.Close(t.Context()))
		e, err := pawl.Open(t.Context(), dir, p.options(h, nil))
		require.NoError(t, err)
		other, follows := newSharedPlace(t), make(chan error, 1)
		go func() {
			follows <- e.Follow(t.Context(), pawl.FollowOptions{Log: other.log.Writer(nil), Bases: other.bases})
		}()
		<-time.After(time.Minute)
		run(e, "first")
		require.NoError(t, e.Close(t.Context()))
		require.NoError(t, <-follows)
		followed := filepath.Join(t.TempDir(), "followed")
		_, err = pawl.Restore(t.Context(), followed, pawl.RestoreOptions{Log: other.log.Writer(nil), Bases: other.bases})
		require.NoError(t, err)
		require.Equal(t, rowsOf(t, dir), rowsOf(t, followed))
		require.NoError(t, os.Remove(filepath.Join(dir, "pawl.db-shm"))) // of the reader
		require.NoError(t, open(t, followed, pawl.Options{}).Close(t.Context()))

		strange := filepath.Join(t.TempDir(), "strange")
		e = open(t, strange, pawl.Options{Executor: h})
		run(e, "other")
		require.NoError(t, e.Close(t.Context()))
		refused(pawl.ErrOtherLog, strange, p.options(h, nil))
		empty := filepath.Join(t.TempDir(), "empty") // somebody made it, and never had a base
		require.NoError(t, open(t, empty, pawl.Options{}).Close(t.Context()))
		e, err = pawl.Open(t.Context(), empty, p.options(h, nil))
		require.NoError(t, err)
		require.Len(t, idsOf(t, e), 2)
		require.NoError(t, e.Close(t.Context()))
		refused(pawl.ErrRemote, dir, pawl.Options{})
		e, err = pawl.Open(t.Context(), dir, pawl.Options{Maintenance: true})
		require.NoError(t, err)
		require.Len(t, idsOf(t, e), 2)
		for name, act := range map[string]func() error{
			"start": func() error { return e.Start(t.Context(), workflow.Run{ID: "new", Definition: def}, nil) },
			"purge": func() error { return e.Purge(t.Context(), "first") },
		} {
			err := act()
			require.ErrorIs(t, err, pawl.ErrRemote, name)
			require.NotErrorIs(t, err, pawl.ErrUnknown, name)
			require.Equal(t, 409, pawl.HTTPStatus(err), name)
		}
		require.NoError(t, e.Close(t.Context()))

		// The log lacks its end, or an entry is damaged: in a directory that has it already that does no harm.
		whole := p.log.Len()
		e, err = pawl.Open(t.Context(), filepath.Join(replays.Dir(t), "elsewhere"), p.options(h, nil))
		require.NoError(t, err)
		run(e, "second")
		require.NoError(t, e.Close(t.Context()))
		p.log.Change(uint64(whole)+2, func(b []byte) []byte { b[len(b)/2] ^= 1; return b }) //nolint:gosec // not negative
		refused(pawl.ErrCorrupt, dir, p.options(h, nil))
		refused(pawl.ErrCorrupt, filepath.Join(t.TempDir(), "new"), p.options(h, nil))
		lost := newSharedPlace(t)
		lost.bases, lost.blobs = p.bases, p.blobs
		refused(pawl.ErrCorrupt, dir, lost.options(h, nil))
		lost.log = &logtest.Memory{}
		refused(pawl.ErrCorrupt, filepath.Join(t.TempDir(), "new"), lost.options(h, nil)) // which would begin with nothing

		// It goes on with what it has, and then with another log.
		e, err = pawl.Open(t.Context(), dir, pawl.Options{Remote: pawl.RemoteOptions{Detach: true}, Blobs: p.blobs})
		require.NoError(t, err)
		require.Len(t, idsOf(t, e), 2)
		require.NoError(t, e.Close(t.Context()))
		fresh := newSharedPlace(t)
		e, err = pawl.Open(t.Context(), dir, fresh.options(h, nil))
		require.NoError(t, err)
		run(e, "third")
		require.NoError(t, e.Close(t.Context()))
		e, err = pawl.Open(t.Context(), filepath.Join(replays.Dir(t), "copy"), fresh.options(h, nil))
		require.NoError(t, err)
		require.Len(t, idsOf(t, e), 3)
		require.NoError(t, e.Close(t.Context()))
	})
}

// The log of another directory is refused although it has dropped its first entries, or was begun anew, so that it fits no directory of before: the
// one that is opened stays, and the engine that has the log goes on.
func TestRemoteRefusesTheLogOfAnother(t *testing.T) {
	for _, anew := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			x, y := newMendPlace(t), newMendPlace(t)
			x.live("x", 2, "x-1", "x-2")
			was := rowsOf(t, x.pathOf("x"))
			y.live("y", 1, "y-1")
			if anew {
				y.log.Miss(1)
				_, err := y.recover("y", nil, 0)
				require.NoError(t, err)
			}
			e, err := y.open("y", nil)
			require.NoError(t, err)
			for i := range 10 {
				y.run(e, workflow.RunID(fmt.Sprint("more-", i)))
				<-time.After(time.Minute)
			}
			first, _ := y.log.Bounds()
			_, last := x.log.Bounds()
			require.Greater(t, first, last+1)
			o := x.options(x.h, nil)
			o.Remote.Log, o.Remote.Bases = y.log.Writer(nil), y.bases // a mistake
			_, err = pawl.Open(t.Context(), x.pathOf("x"), o)
			require.ErrorIs(t, err, pawl.ErrOtherLog)
			y.run(e, "last")
			require.NoError(t, e.Close(t.Context()))
			names, err := os.ReadDir(x.dir)
			require.NoError(t, err)
			require.Len(t, names, 1, "nothing is set aside")
			x.live("x", 3, "x-3")
			for table, rows := range was {
				require.GreaterOrEqual(t, len(rowsOf(t, x.pathOf("x"))[table]), len(rows), table)
			}
		})
	}
}

// An engine that has lost its log, and has not noticed, collects no blobs: the present owner's runs may need them. The owner does, and a directory that
// is opened without its log does not.
func TestRemoteCollectsBlobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMendPlace(t)
		put := func(e *pawl.Engine, text string) blob.Ref {
			ref, err := e.PutBlob(t.Context(), strings.NewReader(text), "")
			require.NoError(t, err)
			return ref
		}
		has := func(e *pawl.Engine, ref blob.Ref) bool {
			r, err := e.OpenBlob(t.Context(), ref)
			if err == nil {
				require.NoError(t, r.Close())
			}
			return err == nil
		}
		a, err := p.open("a", nil)
		require.NoError(t, err)
		put(a, "of no run")
		<-time.After(26 * time.Hour)
		was := p.log.Len()
		got, err := a.CollectBlobs(t.Context(), 24*time.Hour)
		require.NoError(t, err)
		require.Equal(t, 1, got.Blobs)
		require.Equal(t, was+1, p.log.Len(), "the log was asked")
		_, err = a.CollectBlobs(t.Context(), 24*time.Hour)
		require.NoError(t, err)
		require.Equal(t, was+1, p.log.Len(), "nothing is to be deleted")

		b, err := p.open("b", nil)
		require.NoError(t, err)
		kept := put(b, "of a run")
		_, err = b.Run(t.Context(), workflow.Run{ID: "one", Definition: p.def}, map[string]any{"doc": kept.Value()})
		require.NoError(t, err)
		<-time.After(26 * time.Hour)
		got, err = a.CollectBlobs(t.Context(), 24*time.Hour)
		require.ErrorIs(t, err, pawl.ErrFenced)
		require.Zero(t, got)
		require.True(t, has(b, kept))
		require.NoError(t, a.Close(t.Context()))
		require.NoError(t, b.Close(t.Context()))

		o := p.options(p.h, nil)
		o.Remote, o.Maintenance = pawl.RemoteOptions{}, true
		a, err = pawl.Open(t.Context(), p.pathOf("a"), o)
		require.NoError(t, err)
		got, err = a.CollectBlobs(t.Context(), 24*time.Hour)
		require.ErrorIs(t, err, pawl.ErrRemote)
		require.Zero(t, got)
		require.True(t, has(a, kept))
		require.NoError(t, a.Close(t.Context()))
		p.live("b", 1)
		p.live("c", 1)
		require.Equal(t, rowsOf(t, p.pathOf("b")), rowsOf(t, p.pathOf("c")))
	})
}

// A countedLog counts the entries that are read.
type countedLog struct {
	*logtest.Writer
	entries *atomic.Int64
}

func (l countedLog) Read(ctx context.Context, after store.Position) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for entry, err := range l.Writer.Read(ctx, after) {
			l.entries.Add(1)
			if !yield(entry, err) {
				return
			}
		}
	}
}

// A directory that stands by is as the log has it, also with what it had to flush, and takes over when it is told to.
func TestRemoteStandsBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSharedPlace(t)
		first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
		h := pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) { return strings.Repeat("x", 500), nil }}
		def := define(t, "name: w\nstart: a\nnodes: [{id: a, task: work}, {id: go, wait: {event: go}}]\ntransitions: [{from: a, to: go}]\n")
		type opened struct {
			e   *pawl.Engine
			err error
		}
		hook, broken, read := &testhook.Hook{}, atomic.Bool{}, atomic.Int64{}
		hook.SetPartBytes(300) // a result is written in parts
		hook.SetStandByBytes(20_000)
		o, take, wait := p.options(h, nil), make(chan struct{}), make(chan opened, 1)
		o.Remote.StandBy = take
		o.Remote.Log = countedLog{p.log.Writer(func(string) logtest.Fault {
			if broken.Load() {
				return logtest.Refused
			}
			return logtest.None
		}), &read}
		go func() {
			e, err := pawl.Open(testhook.With(t.Context(), hook), second, o)
			wait <- opened{e, err}
		}()
		<-time.After(time.Minute)
		require.NoDirExists(t, second, "there is nothing yet")

		a, err := pawl.Open(testhook.With(t.Context(), hook), first, p.options(h, nil))
		require.NoError(t, err)
		publish(t, a, def)
		for i := range 50 {
			broken.Store(i > 20 && i < 30)
			require.NoError(t, a.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("run-", i)), Workflow: "w"}, nil))
			synctest.Wait()
			if i%2 == 0 {
				require.NoError(t, a.Signal(t.Context(), workflow.RunID(fmt.Sprint("run-", i)), workflow.Signal{Name: "go"}))
			}
			<-time.After(2 * time.Second)
		}
		select {
		case b := <-wait:
			require.NoError(t, b.err)
		default:
		}
		files, err := os.ReadDir(filepath.Join(second, "runs"))
		require.NoError(t, err)
		require.NotEmpty(t, files, "it has flushed")
		require.NoError(t, a.Purge(t.Context(), "run-0"))
		<-time.After(2 * time.Second)
		before := read.Load()
		require.Positive(t, before)
		close(take)
		b := <-wait
		require.NoError(t, b.err)
		require.LessOrEqual(t, read.Load()-before, int64(2), "all but its own opening was there")
		require.ErrorIs(t, a.Signal(t.Context(), "run-1", workflow.Signal{Name: "go"}), pawl.ErrFenced)
		require.NoError(t, a.Close(t.Context()))
		require.Len(t, idsOf(t, b.e), 49)
		for i := 1; i < 50; i += 2 {
			require.NoError(t, b.e.Signal(t.Context(), workflow.RunID(fmt.Sprint("run-", i)), workflow.Signal{Name: "go"}))
		}
		for _, id := range idsOf(t, b.e) {
			out, err := b.e.Wait(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, workflow.RunCompleted, out.Status)
		}
		require.NoError(t, b.e.Close(t.Context()))
		report, err := rescue.Verify(t.Context(), second, rescue.Options{})
		require.NoError(t, err)
		require.Empty(t, report.Findings)

		a, err = pawl.Open(testhook.With(t.Context(), hook), first, p.options(h, nil))
		require.NoError(t, err)
		require.NoError(t, a.Close(t.Context()))
		require.Equal(t, rowsOf(t, second), rowsOf(t, first))
	})
}

// A directory that stands by waits for the first base, also while that is in the store and not yet in the log.
func TestRemoteStandsByBeforeTheFirstBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSharedPlace(t)
		o, take, opened := p.options(nil, nil), make(chan struct{}), make(chan error, 1)
		o.Remote.StandBy = take
		var b *pawl.Engine
		go func() {
			var err error
			b, err = pawl.Open(t.Context(), filepath.Join(replays.Dir(t), "second"), o)
			opened <- err
		}()
		hook := &testhook.Hook{}
		hook.OnHit(func(point string) {
			if point == "remote.base" { // it looks at the log every second
				<-time.After(time.Minute)
			}
		})
		a, err := pawl.Open(testhook.With(t.Context(), hook), filepath.Join(replays.Dir(t), "first"), p.options(nil, nil))
		require.NoError(t, err)
		<-time.After(time.Minute)
		require.Empty(t, opened)
		close(take)
		require.NoError(t, <-opened)
		require.NoError(t, a.Close(t.Context()))
		require.NoError(t, b.Close(t.Context()))
	})
}

// A smallLog is full when it has some entries.
type smallLog struct {
	*logtest.Writer
	memory *logtest.Memory
	full   *atomic.Int64 // how many it has refused
}

func (l smallLog) Append(ctx context.Context, entry []byte) (store.Position, error) {
	if l.memory.Len() >= 60 {
		l.full.Add(1)
		return store.Position{}, fmt.Errorf("%w: the log", pawl.ErrNoSpace)
	}
	return l.Writer.Append(ctx, entry)
}

// An awayStore takes nothing while it is away.
type awayStore struct {
	*blob.Files
	away func() bool
}

func (s awayStore) Put(ctx context.Context, r io.Reader) (string, int64, error) {
	if s.away() {
		return "", 0, errors.New("it is away")
	}
	return s.Files.Put(ctx, r)
}

// A log that is full gets room by a new base, and nothing is lost.
func TestRemoteThatIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, dir := newSharedPlace(t), filepath.Join(t.TempDir(), "data")
		o := p.options(pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return int64(1), nil }}, nil)
		var full, begun atomic.Int64
		o.Remote.Log, o.Remote.Rebase = smallLog{p.log.Writer(nil), p.log, &full}, 5*time.Second
		o.Remote.Bases = awayStore{p.bases, func() bool { return begun.Load() > 30 && full.Load() < 10 }}
		e, err := pawl.Open(t.Context(), dir, o)
		require.NoError(t, err)
		def := define(t, "name: w\nstart: a\nnodes: [{id: a, task: work}]\n")
		for i := range 100 {
			run := workflow.Run{ID: workflow.RunID(fmt.Sprint("run-", i)), Definition: def}
			<-time.After(time.Second)
			begun.Add(1)
			for err := e.Start(t.Context(), run, nil); err != nil; err = e.Start(t.Context(), run, nil) {
				require.ErrorIs(t, err, pawl.ErrNoSpace)
				<-time.After(time.Second)
			}
			out, err := e.Wait(t.Context(), run.ID)
			require.NoError(t, err)
			require.Equal(t, workflow.RunCompleted, out.Status)
		}
		require.GreaterOrEqual(t, full.Load(), int64(10))
		require.Less(t, p.log.Len(), 61)
		require.NoError(t, e.Close(t.Context()))
		e, err = pawl.Open(t.Context(), filepath.Join(replays.Dir(t), "there"), p.options(nil, nil))
		require.NoError(t, err)
		require.Len(t, idsOf(t, e), 100)
		require.NoError(t, e.Close(t.Context()))
		o.Blobs = p.bases
		_, err = pawl.Open(t.Context(), dir, o)
		require.ErrorIs(t, err, pawl.ErrInvalid)
	})
}

// Files for large records have numbers that no life uses again: another machine may still have those of before.
func TestRemoteNumbersOfSpills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, dir := newSharedPlace(t), t.TempDir()
		def := define(t, "name: w\nstart: a\nnodes: [{id: a, task: work}, {id: b, wait: {event: go}}]\ntransitions: [{from: a, to: b}]\n")
		open := func(machine string) *pawl.Engine {
			o := p.options(pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return harness.RandomLetters(700 << 10), nil }}, nil)
			o.IdleAfter = time.Hour // a base finds the records in the log of pawl.db
			e, err := pawl.Open(t.Context(), filepath.Join(dir, machine), o)
			require.NoError(t, err)
			return e
		}
		for _, id := range []workflow.RunID{"one", "two"} {
			e := open("a")
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: def}, nil))
			if id == "one" {
				<-time.After(2 * time.Minute) // there is a base
			}
			synctest.Wait()
			require.NoError(t, e.Close(t.Context()))
		}
		e := open("b")
		require.Len(t, idsOf(t, e), 2)
		for _, id := range []workflow.RunID{"one", "two"} {
			require.Len(t, journalOf(t, e, id), 2)
		}
		require.NoError(t, e.Close(t.Context()))
	})
}

// A log that does not answer any more keeps nobody for ever: the call is in doubt, Close ends, and whether the
// commit is there the log says.
func TestRemoteThatDoesNotAnswer(t *testing.T) {
	for fault, want := range map[logtest.Fault]int{logtest.Refused: 0, logtest.AnswerLost: 1} {
		synctest.Test(t, func(t *testing.T) {
			p, dir := newSharedPlace(t), filepath.Join(t.TempDir(), "data")
			silent, told := false, atomic.Int64{}
			o := p.options(nil, func(string) logtest.Fault {
				if silent {
					return fault
				}
				return logtest.None
			})
			o.Remote.Report = func(r pawl.RemoteReport) {
				if r.Err != nil {
					told.Add(1)
				}
			}
			e, err := pawl.Open(t.Context(), dir, o)
			require.NoError(t, err)
			silent = true
			def := define(t, "name: w\nstart: a\nnodes: [{id: a, task: work}]\n")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.ErrorIs(t, e.Start(ctx, workflow.Run{ID: "run", Definition: def}, nil), context.DeadlineExceeded)
			require.Greater(t, told.Load(), int64(30))
			began := time.Now()
			_ = e.Close(t.Context()) // it may say that the log did not answer
			require.Less(t, time.Since(began), time.Minute)
			e, err = pawl.Open(t.Context(), dir, p.options(nil, nil))
			require.NoError(t, err)
			require.Len(t, idsOf(t, e), want)
			require.NoError(t, e.Close(t.Context()))
		})
	}
}

// Close waits for a silent log as long for the result of a task as for any other commit; and where the log answers, it keeps a result that
// comes late.
func TestRemoteIsClosedWithResultsThatWait(t *testing.T) {
	for _, answers := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p, silent := newMendPlace(t), atomic.Bool{}
			p.h["work"] = func(ctx context.Context, _ pawl.Task) (any, error) {
				<-ctx.Done()
				if answers {
					<-time.After(5 * time.Minute)
				}
				return int64(1), nil
			}
			e, err := p.open("a", func(string) logtest.Fault {
				if silent.Load() {
					return logtest.Refused
				}
				return logtest.None
			})
			require.NoError(t, err)
			for i := range 3 {
				require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("run-", i)), Definition: p.def}, nil))
			}
			synctest.Wait()
			silent.Store(!answers)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			began := time.Now()
			err = e.Close(ctx)
			if !answers {
				require.Less(t, time.Since(began), time.Minute)
				return
			}
			require.NoError(t, err)
			p.h["work"] = func(context.Context, pawl.Task) (any, error) { return nil, errors.New("it was done") }
			e, err = p.open("b", nil)
			require.NoError(t, err)
			for i := range 3 {
				out, err := e.Wait(t.Context(), workflow.RunID(fmt.Sprint("run-", i)))
				require.NoError(t, err)
				require.Equal(t, workflow.RunCompleted, out.Status)
			}
			require.NoError(t, e.Close(t.Context()))
		})
	}
}

// A log drops only what a base has: not what was committed while that was made.
func TestRemoteKeepsWhatIsCommittedWhileABaseIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newMendPlace(t)
		var opened atomic.Pointer[pawl.Engine]
		bases, hook := 0, &testhook.Hook{}
		hook.OnHit(func(at string) {
			if e := opened.Load(); at == "remote.base" && e != nil { // the base is made, and the log does not know it yet
				bases++
				p.run(e, workflow.RunID(fmt.Sprint("meanwhile-", bases)))
			}
		})
		e, err := pawl.Open(testhook.With(t.Context(), hook), p.pathOf("a"), p.options(p.h, nil))
		require.NoError(t, err)
		opened.Store(e)
		for i := range 3 {
			p.run(e, workflow.RunID(fmt.Sprint("before-", i)))
			<-time.After(2 * time.Minute)
			synctest.Wait()
			into := p.pathOf(fmt.Sprint("restored-", i))
			_, err := pawl.Restore(t.Context(), into, pawl.RestoreOptions{Log: p.log.Writer(nil), Bases: p.bases})
			require.NoError(t, err)
			alone := open(t, into, pawl.Options{})
			require.Equal(t, idsOf(t, e), idsOf(t, alone))
			require.NoError(t, alone.Close(t.Context()))
		}
		require.GreaterOrEqual(t, bases, 3)
		first, _ := p.log.Bounds()
		require.Greater(t, first, uint64(1), "it has dropped something")
		want := 3 + bases
		require.Len(t, idsOf(t, e), want)
		hook.OnHit(func(string) {})
		require.NoError(t, e.Close(t.Context()))
		require.NoError(t, os.RemoveAll(p.pathOf("a"))) // its machine is lost
		p.compare(want, "b", "a")
	})
}

// A fenced engine commits nothing more, and its files are what a crash would
// leave: a copy of them goes on.
func TestFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := &testhook.Hook{}
		ctx := testhook.With(t.Context(), hook)
		path, copied := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
		options := pawl.Options{Durability: pawl.ProcessCrash}
		engine, err := pawl.Open(ctx, path, options)
		require.NoError(t, err)
		def := parse("name: d\nstart: a\nnodes: [{id: a, task: t}]\n")
		require.NoError(t, engine.Start(ctx, workflow.Run{ID: "before", Definition: def}, nil))
		synctest.Wait() // until the task waits for a result: Close leaves nothing behind
		hook.Fence()
		require.ErrorIs(t, engine.Start(ctx, workflow.Run{ID: "after", Definition: def}, nil), pawl.ErrClosed)
		require.NoError(t, os.CopyFS(copied, os.DirFS(path)))
		gone, cancel := context.WithCancel(ctx)
		cancel()
		require.NoError(t, engine.Close(gone))

		options.Executor = pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return 1, nil }}
		engine, err = pawl.Open(ctx, copied, options)
		require.NoError(t, err)
		out, err := engine.Wait(ctx, "before")
		require.NoError(t, err)
		require.NoError(t, out.Err())
		_, err = engine.Inspect(ctx, "after")
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
		require.NoError(t, engine.Close(ctx))
	})
}

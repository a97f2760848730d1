package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/redo"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

func openInChild(path string) {
	d, err := Open(path, Options{})
	switch {
	case errors.Is(err, ErrLocked):
		fmt.Print("locked")
	case err != nil:
		fmt.Print(err)
	default:
		fmt.Print("opened")
		_ = d.Close()
	}
}

func TestManyWriters(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	g := graph(t)
	const writers, steps = 64, 20
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			id := workflow.RunID(fmt.Sprintf("r%d", i))
			o := &owner{t: t, run: d.New(Head{Run: id}, g), state: state.NewState(id, g)}
			o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
			for n := range steps {
				o.do(state.Heartbeat{Token: 1}, decision.SetData{Path: []string{"state", "n"}, Value: int64(n)})
				if n%7 == i%7 {
					o.run.Flush(o.state.TakeChanges(), o.events, nil)
					o.events = nil
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, d.Close())
	d = open(t, path)
	for i := range writers {
		id := workflow.RunID(fmt.Sprintf("r%d", i))
		require.Equal(t, map[string]any{"n": int64(steps - 1)}, load(t, d, id).state.Section("state"))
		require.Len(t, all(t, d.History(id)), steps+1)
	}
}

func TestRunExists(t *testing.T) {
	d := open(t, t.TempDir())
	start(t, d, "r1").five(nil)
	o := start(t, d, "r1")
	require.ErrorIs(t, o.try(state.Start{}, startRun(nil)), state.ErrRunExists)
	require.ErrorIs(t, o.try(state.Start{}), state.ErrRunExists)
	require.Len(t, all(t, d.History("r1")), 6)
}

// A run has as many descendants as its definition allows, whoever looked before and
// found room.
func TestTheLastDescendant(t *testing.T) {
	def, err := workflow.ParseJSON([]byte(`{"name": "w", "start": "a", "nodes": [{"id": "a"}], "limits": {"descendants": 2}}`))
	require.NoError(t, err)
	g, err := compiled.Compile(workflow.Bounds{}, def)
	require.NoError(t, err)
	d := open(t, t.TempDir())
	begin := func(h Head) error {
		o := &owner{t: t, run: d.New(h, g), state: state.NewState(h.Run, g)}
		return o.try(state.Start{}, startRun(nil))
	}
	require.NoError(t, begin(Head{Run: "r"}))
	require.NoError(t, begin(Head{Run: "r/1.1", Parent: "r", Root: "r"}))
	require.NoError(t, begin(Head{Run: "r/1.1/1.1", Parent: "r/1.1", Root: "r"}))
	require.ErrorIs(t, begin(Head{Run: "r/2.1", Parent: "r", Root: "r"}), ErrNoRoom)
	_, err = d.Head("r/2.1")
	require.ErrorIs(t, err, ErrRunNotFound)
	require.NoError(t, d.readIndex(func(db *sqlite.Conn) error { return db.Script(`UPDATE runs SET room = 9 WHERE id = 'r'`) }))
	require.ErrorIs(t, begin(Head{Run: "r/2.1", Parent: "r", Root: "r"}), ErrCorrupt)
}

func TestOneHandleWins(t *testing.T) {
	d := open(t, t.TempDir())
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil))
	other := load(t, d, "r1")
	other.do(state.Heartbeat{}, decision.SetData{Path: []string{"state", "n"}})
	require.ErrorIs(t, o.try(state.Heartbeat{}), ErrFenced)
	other.do(state.Heartbeat{})
	require.Len(t, all(t, d.History("r1")), 3)
}

func TestRecordsHaveNoGap(t *testing.T) {
	d := open(t, t.TempDir())
	o := start(t, d, "r1")
	r := o.record(state.Start{}, startRun(nil))
	r.Seq = 2
	require.ErrorContains(t, o.run.Commit(o.state, []decision.Record{r}), "record 2 after record 0")
	require.NoError(t, d.decodeRow(&o.run.row))
	_, err := d.Head("r1")
	require.ErrorIs(t, err, ErrRunNotFound)
}

func TestARefusalLeavesTheGroup(t *testing.T) {
	d := open(t, t.TempDir())
	ok := func(key string) *commitRequest {
		return &commitRequest{answer: make(chan error, 1), apply: func(db *sqlite.Conn) error {
			_, err := db.Exec(`INSERT INTO meta (key, value) VALUES (?, 1)`, key)
			return err
		}}
	}
	no := &commitRequest{answer: make(chan error, 1), apply: func(*sqlite.Conn) error { return refuseRequest("%w", ErrNotEnded) }}
	bad := ok("a") // the key is taken by then
	group := []*commitRequest{ok("a"), no, bad, ok("b")}
	d.commitAndAnswer(group)
	require.NoError(t, <-group[0].answer)
	require.ErrorIs(t, <-group[1].answer, ErrNotEnded)
	require.ErrorContains(t, <-group[2].answer, "UNIQUE")
	require.NoError(t, <-group[3].answer)
}

func TestNoSpace(t *testing.T) {
	path := t.TempDir()
	d := withoutRedo(t, open(t, path))
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil))
	limit := func(pages int) {
		require.NoError(t, d.readIndex(func(db *sqlite.Conn) error { return db.Script(fmt.Sprintf(`PRAGMA max_page_count=%d`, pages)) }))
	}
	limit(30)
	large := make([]any, 5000)
	for i := range large {
		large[i] = "0123456789012345678901234567890123456789"
	}
	big := decision.SetData{Path: []string{"state", "x"}, Value: large}
	require.ErrorIs(t, o.try(state.Heartbeat{}, big), ErrNoSpace)
	require.ErrorIs(t, o.try(state.Heartbeat{}), ErrNoSpace, "the handle is dead")
	other := start(t, d, "r2")
	other.do(state.Start{}, startRun(nil))
	limit(1 << 30)
	o = load(t, d, "r1")
	require.EqualValues(t, 1, o.run.Head().Seq)
	o.do(state.Heartbeat{}, big)
	require.NoError(t, o.file())
}

func TestFencedByAnEpoch(t *testing.T) {
	d := withoutRedo(t, open(t, t.TempDir()))
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil))
	require.NoError(t, d.readIndex(func(db *sqlite.Conn) error { _, err := db.Exec(putEpoch, int64(1)); return err }))
	require.ErrorIs(t, o.try(state.Heartbeat{}), ErrFenced)
	_, err := d.Head("r1")
	require.ErrorIs(t, err, ErrFenced)
	require.ErrorIs(t, start(t, d, "r2").try(state.Start{}, startRun(nil)), ErrFenced)
	require.NoError(t, d.Close())
}

// An engine whose redo log another one has taken over appends nothing more, before the frame or behind it.
func TestFencedByTheOwnerOfTheRedoLog(t *testing.T) {
	for _, at := range []string{"commit.begin", "redo.appended"} {
		d := open(t, t.TempDir())
		o := start(t, d, "r1")
		o.do(state.Start{}, startRun(nil))
		o.do(state.Heartbeat{})
		reset := d.hook.OnHit(func(point string) {
			if point == at {
				f, err := os.OpenFile(d.pathOf(redoFile), os.O_RDWR, 0)
				require.NoError(t, err)
				require.NoError(t, redo.TakeOver(f, 1))
				require.NoError(t, f.Close())
			}
		})
		err := o.try(state.Heartbeat{})
		reset()
		require.ErrorIs(t, err, ErrFenced)
		require.Equal(t, at == "redo.appended", errors.Is(err, ErrUnknown))
		_, err = d.Head("r1")
		require.ErrorIs(t, err, ErrFenced)
		require.NoError(t, d.Close())
	}
}

func TestFencedByAnotherLock(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil))
	require.NoError(t, os.Remove(filepath.Join(path, lockName)))
	require.ErrorIs(t, o.try(state.Heartbeat{}), ErrFenced)
}

// A lock file that goes while a commit is under way leaves open who has it, and
// whoever waits for the directory is told.
func TestFencedWithinACommit(t *testing.T) {
	d := open(t, t.TempDir())
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil))
	reset := d.hook.OnHit(func(name string) {
		if name == "commit.done" {
			_ = os.Remove(d.pathOf(lockName))
		}
	})
	err := o.try(state.Heartbeat{})
	reset()
	require.ErrorIs(t, err, ErrUnknown)
	require.ErrorIs(t, err, ErrFenced)
	select {
	case <-d.Failed():
	default:
		require.Fail(t, "nobody is told")
	}
	_, err = d.Head("r1")
	require.ErrorIs(t, err, ErrFailed)
}

func TestCloseAnswersCommits(t *testing.T) {
	d := open(t, t.TempDir())
	g := graph(t)
	var wg sync.WaitGroup
	begun := make(chan struct{}, 16)
	for i := range 16 {
		wg.Go(func() {
			id := workflow.RunID(fmt.Sprint(i))
			o := &owner{t: t, run: d.New(Head{Run: id}, g), state: state.NewState(id, g)}
			err := o.try(state.Start{}, startRun(nil))
			begun <- struct{}{}
			for err == nil {
				err = o.try(state.Heartbeat{})
			}
			if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		})
	}
	for range 16 {
		<-begun
	}
	require.NoError(t, d.Close())
	wg.Wait()
}

// The values that the first commit of a run keeps count among its bytes, by which a transaction is bounded.
func TestKeptValuesCountAmongTheBytesOfACommit(t *testing.T) {
	bytes := func(d *Dir, id workflow.RunID, kept ...Kept) int {
		o := start(t, d, id)
		require.NoError(t, o.run.KeepAtStart(kept...))
		o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
		return o.run.request.bytes
	}
	d := open(t, t.TempDir())
	require.Equal(t, len(`"`)+1000+len(`"`), bytes(d, "keeps", Kept{"key", strings.Repeat("x", 1000), at(0)})-bytes(d, "plain"))
}

package store

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

func TestCommitAndLoad(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	o := start(t, d, "r1")
	_, err := d.Head("r1")
	require.ErrorIs(t, err, ErrRunNotFound)
	o.five(map[string]any{"x": int64(1)})
	require.Equal(t, o.state.AllRows(), load(t, d, "r1").state.AllRows())
	require.NoError(t, o.run.Close())
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	_, err = d.Head("r1")
	require.ErrorIs(t, err, ErrClosed)

	d = open(t, path)
	h, err := d.Head("r1")
	require.NoError(t, err)
	require.Equal(t, Head{
		Run: "r1", Workflow: "fan", Version: 3, Definition: o.state.Graph.Hash, InputHash: "in", StartedAt: at(0), Room: workflow.DefaultLimits().Descendants,
		Status: workflow.RunCompleted, Seq: 6, At: at(6), EndedAt: at(9), Output: map[string]any{"ok": true},
	}, h)
	leftover, err := d.Leftover()
	require.NoError(t, err)
	require.Equal(t, []workflow.RunID{"r1"}, leftover)
	again := load(t, d, "r1")
	require.Equal(t, o.state.AllRows(), again.state.AllRows())
	require.Equal(t, o.events, again.events)
	n, bytes, _ := again.run.Unflushed()
	require.Equal(t, 6, n)
	require.Positive(t, bytes)
}

func TestMaterialize(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	o := start(t, d, "r1")
	large := strings.Repeat("x", 5000)
	o.five(map[string]any{"x": large})
	events := o.events
	history := all(t, d.History("r1"))
	require.NoError(t, o.file())
	require.Zero(t, logged(t, d))
	n, _, _ := o.run.Unflushed()
	require.Zero(t, n)
	require.Equal(t, history, all(t, d.History("r1")))
	require.Equal(t, events, all(t, d.Events("r1", 0)))
	require.Equal(t, events[5:], all(t, d.Events("r1", 5)))
	leftover, err := d.Leftover()
	require.NoError(t, err)
	require.Empty(t, leftover)

	again := load(t, d, "r1")
	require.Equal(t, o.state.AllRows(), again.state.AllRows())
	require.Empty(t, again.events)
	s, err := d.State("r1")
	require.NoError(t, err)
	require.Equal(t, o.state.AllRows(), s.AllRows())
	require.Empty(t, temporary(t, d))
}

func TestFileIsUpdated(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	require.NoError(t, o.file())
	first, err := d.Head("r1")
	require.NoError(t, err)
	for i := range 3 {
		o = load(t, d, "r1")
		o.do(state.Heartbeat{Token: 1}, decision.AppendData{Path: []string{"state", "log"}, Value: int64(i)})
		require.Len(t, all(t, d.History("r1")), 2+i)
		require.NoError(t, o.file())
	}
	h, err := d.Head("r1")
	require.NoError(t, err)
	require.NotEqual(t, first.File, h.File)
	one, err := d.isOneFile(first.File, h.File)
	require.NoError(t, err)
	require.True(t, one, "the first name is that of the file")
	s, err := d.State("r1")
	require.NoError(t, err)
	require.Equal(t, o.state.AllRows(), s.AllRows())
	require.Equal(t, []any{int64(0), int64(1), int64(2)}, s.Section("state")["log"])
}

func TestMaterializeOfADeadHandleIsAnswered(t *testing.T) {
	d := open(t, t.TempDir())
	o := start(t, d, "r1")
	require.ErrorIs(t, o.file(), ErrRunNotFound)
	require.NoError(t, o.run.Close())
	require.ErrorIs(t, o.file(), ErrClosed)
	require.ErrorIs(t, o.try(state.Start{}, startRun(nil)), ErrClosed)
}

func TestHostileRunIDs(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	ids := []workflow.RunID{
		".", "..", "../x", "/abs", "a/b", `a\b`, "nul\x00nul", "nul\x00", "line\nline", "Run", "run", "CON", "COM1 ",
		"dot.", "x.db-wal", "%2e%2e", "🦀", "e\u0301", "\u00e9", "'; DROP TABLE runs; --", workflow.RunID(strings.Repeat("x", 64<<10)), "",
	}
	for _, id := range ids {
		o := start(t, d, id)
		o.five(map[string]any{"id": string(id)})
		require.NoError(t, o.file())
	}
	files := 0
	require.NoError(t, filepath.Walk(filepath.Join(path, runsDir), func(p string, i os.FileInfo, err error) error {
		if err == nil && i.Mode().IsRegular() {
			require.Regexp(t, `/[0-9a-f]{2}/[0-9a-f]{32}-[0-9a-f]{16}[ab]\.db$`, p)
			files++
		}
		return err
	}))
	require.Equal(t, len(ids), files)
	for _, id := range ids {
		s, err := d.State(id)
		require.NoError(t, err)
		require.Equal(t, id, s.Run)
		require.Equal(t, map[string]any{"id": string(id)}, s.Input)
	}
}

func TestListings(t *testing.T) {
	d := open(t, t.TempDir())
	for _, id := range []workflow.RunID{"c", "a", "b"} {
		start(t, d, id).five(nil)
	}
	o := start(t, d, "d")
	o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	p := start(t, d, "e")
	p.run.row.Parent = "d"
	p.do(state.Start{}, decision.StartRun{At: at(1)})

	unfinished, err := d.Unfinished()
	require.NoError(t, err)
	require.Equal(t, []workflow.RunID{"d", "e"}, unfinished)
	due, err := d.DueAlarms(at(59))
	require.NoError(t, err)
	require.Empty(t, due)
	due, err = d.DueAlarms(at(60))
	require.NoError(t, err)
	require.Equal(t, []DueAlarm{{"d", at(60)}}, due)
	next, err := d.NextAlarm(time.Time{})
	require.NoError(t, err)
	require.Equal(t, at(60), next)
	next, err = d.NextAlarm(next)
	require.NoError(t, err)
	require.Zero(t, next)
}

// The index has the alarm of a run as of its last commit, though nothing else in its
// row may have changed.
func TestAlarmsFollowCommits(t *testing.T) {
	d := open(t, t.TempDir())
	o := start(t, d, "r1")
	alarm := func() time.Time {
		next, err := d.NextAlarm(zero)
		require.NoError(t, err)
		return next
	}
	o.do(state.Start{}, startRun(nil), createToken(1, "start"))
	require.Equal(t, at(3600), alarm())
	o.do(state.Heartbeat{}, dispatch(1))
	require.Equal(t, at(60), alarm())
	due, err := d.DueAlarms(at(60))
	require.NoError(t, err)
	require.Equal(t, []DueAlarm{{"r1", at(60)}}, due)
	o.do(state.TaskCompleted{Token: 1, Attempt: 1}, decision.CompleteToken{Token: 1})
	require.Equal(t, at(3600), alarm())
	o.do(state.Heartbeat{}, decision.CompleteRun{At: at(9)})
	require.Zero(t, alarm())
}

func TestListingsHavePages(t *testing.T) {
	d := openWith(t, t.TempDir(), Options{Durability: ProcessCrash})
	g := graph(t)
	for i := range idPage + 3 {
		id := workflow.RunID(strings.Repeat("x", i+1))
		o := &owner{t: t, run: d.New(Head{Run: id}, g), state: state.NewState(id, g)}
		o.do(state.Start{}, startRun(nil), createToken(1, "start"), dispatch(1))
	}
	due, err := d.DueAlarms(at(60))
	require.NoError(t, err)
	require.Len(t, due, idPage+3)
	unfinished, err := d.Unfinished()
	require.NoError(t, err)
	for i := range due {
		require.Equal(t, DueAlarm{unfinished[i], at(60)}, due[i])
	}
	require.Len(t, unfinished, len(due))
	require.Len(t, all(t, d.AllHeads(RunFilter{})), idPage+3)
}

func TestPublish(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	_, err := d.Published(t.Context(), "fan", 0)
	require.ErrorIs(t, err, ErrNotPublished)
	g := graph(t)
	require.NoError(t, d.Publish(g))
	require.NoError(t, d.Publish(g))
	other := compileText(t, strings.Replace(fan, `"task": "t"`, `"task": "u"`, 1))
	require.ErrorIs(t, d.Publish(other), ErrPublished)
	newer := compileText(t, strings.Replace(fan, `"version": 3`, `"version": 12`, 1))
	require.NoError(t, d.Publish(newer))
	require.NoError(t, d.Close())

	d = open(t, path)
	hash, err := d.Published(t.Context(), "fan", 0)
	require.NoError(t, err)
	require.Equal(t, newer.Hash, hash)
	hash, err = d.Published(t.Context(), "fan", 3)
	require.NoError(t, err)
	got, err := d.Graph(hash)
	require.NoError(t, err)
	require.Equal(t, g.Hash, got.Hash)
	same, err := d.Graph(hash)
	require.NoError(t, err)
	require.Same(t, got, same)
	_, err = d.Graph("none")
	require.ErrorIs(t, err, ErrCorrupt)
}

func compileText(t *testing.T, doc string) *compiled.Graph {
	def, err := workflow.ParseJSON([]byte(doc))
	require.NoError(t, err)
	g, err := compiled.Compile(workflow.Bounds{}, def)
	require.NoError(t, err)
	return g
}

func TestPurge(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	require.ErrorIs(t, d.Purge("r1", ""), ErrRunNotFound)
	o := start(t, d, "r1")
	o.do(state.Start{}, startRun(nil))
	require.ErrorIs(t, d.Purge("r1", ""), ErrNotEnded)
	o.do(state.Cancel{}, decision.CancelRun{At: at(1)})
	require.NoError(t, o.file())
	h, err := d.Head("r1")
	require.NoError(t, err)
	require.NoError(t, d.Purge("r1", ""))
	require.NoFileExists(t, filepath.Join(path, h.File))
	_, err = d.Head("r1")
	require.ErrorIs(t, err, ErrRunNotFound)

	o = start(t, d, "r1")
	o.five(nil)
	require.NoError(t, o.file())
	again, err := d.Head("r1")
	require.NoError(t, err)
	require.NotEqual(t, h.File, again.File)
}

func TestLocked(t *testing.T) {
	path := t.TempDir()
	d := open(t, path)
	start(t, d, "r1").five(nil)
	_, err := Open(path, Options{LockWait: -1})
	require.ErrorIs(t, err, ErrLocked)
	who := ""
	if runtime.GOOS == "linux" {
		who = "(, of this process)?" // not on every file system
	}
	require.Regexp(t, `^open engine directory "`+path+`": the directory is in use by another engine`+who+`: close that one$`, err)
	require.Equal(t, "locked", inChild(t, path))
	require.NoError(t, d.Close())
	require.Equal(t, "opened", inChild(t, path))
	d = open(t, path)
	require.Equal(t, "locked", inChild(t, path))
	start(t, d, "r2").five(nil)
}

// inChild opens a directory in another process and returns how that went.
func inChild(t *testing.T, path string) string {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PAWL_STORE_OPEN="+path)
	out, err := cmd.Output()
	require.NoError(t, err)
	return string(out)
}

// Engines that open a directory which nobody has made yet do not get in each
// other's way: each has it, or is told that another one does.
func TestOpenTogether(t *testing.T) {
	for range harness.Figure(3, 10, 10) {
		path := filepath.Join(t.TempDir(), "a", "b", "c")
		begin, results := make(chan struct{}), make(chan error, 8)
		for range cap(results) {
			go func() {
				<-begin
				d, err := Open(path, Options{})
				if err == nil {
					err = d.Close()
				} else if errors.Is(err, ErrLocked) {
					err = nil
				}
				results <- err
			}()
		}
		close(begin)
		for range cap(results) {
			require.NoError(t, <-results)
		}
	}
}

package rescue

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/index"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/store"
	"github.com/pawl-run/pawl/workflow"
)

func TestMain(m *testing.M) { harness.VerifyTestMain(m) }

// fan is a definition with a fan-out, a fan-in and a loop.
const fan = `{
  "name": "fan", "version": 3, "start": "start",
  "nodes": [
    {"id": "start", "task": "t"}, {"id": "wo/rk~1", "task": "t"}, {"id": "join", "task": "t"}
  ],
  "transitions": [
    {"id": "spread", "from": "start", "to": "wo/rk~1", "spawnCount": 3, "siblingGroup": "g"},
    {"id": "meet", "from": "wo/rk~1", "to": "join", "synchronization": {"siblingGroup": "g"}},
    {"id": "again", "from": "join", "to": "start", "condition": "false", "loop": {"maxIterations": 9}}
  ]
}`

func graph(t testing.TB) *compiled.Graph {
	g, err := fanGraph()
	require.NoError(t, err)
	return g
}

var fanGraph = sync.OnceValues(func() (*compiled.Graph, error) {
	def, err := workflow.ParseJSON([]byte(fan))
	if err != nil {
		return nil, err
	}
	return compiled.Compile(workflow.Bounds{}, def)
})

// zero is when every test begins.
var zero = time.UnixMilli(1_700_000_000_000).UTC()

func at(n int) time.Time { return zero.Add(time.Duration(n) * time.Second) }

// largeText is kept apart from the record that it is in.
var largeText = fmt.Sprintf("%02000d", 7)

// open opens a directory that is closed at the end of the test.
func open(t testing.TB, path string) *store.Dir { return openWith(t, path, store.Options{}) }

func openWith(t testing.TB, path string, o store.Options) *store.Dir {
	d, err := store.Open(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// An owner does what a run's actor does: it evolves its state, and commits.
type owner struct {
	dir    *store.Dir
	t      testing.TB
	run    *store.Run
	state  *state.State
	events []decision.Event
}

func start(t testing.TB, d *store.Dir, id workflow.RunID) *owner {
	g := graph(t)
	return &owner{t: t, dir: d, run: d.New(store.Head{Run: id, InputHash: "in"}, g), state: state.NewState(id, g)}
}

func load(t testing.TB, d *store.Dir, id workflow.RunID) *owner {
	r, s, events, err := d.Load(id)
	require.NoError(t, err)
	return &owner{t: t, dir: d, run: r, state: s, events: events}
}

// record makes the next record of a run.
func (o *owner) record(m state.Message, ds ...decision.Decision) decision.Record {
	seq := o.run.Head().Seq + 1
	return decision.Record{Seq: seq, At: at(int(seq)), Epoch: o.dir.Epoch(), Planner: 1, Message: m, Decisions: ds}
}

// try evolves and commits one record.
func (o *owner) try(m state.Message, ds ...decision.Decision) error {
	r := o.record(m, ds...)
	require.NoError(o.t, runfile.ApplyRecord(o.state, &r, func(es []decision.Event) { o.events = append(o.events, es...) }))
	return o.run.Commit(o.state, []decision.Record{r})
}

func (o *owner) do(m state.Message, ds ...decision.Decision) {
	require.NoError(o.t, o.try(m, ds...))
}

// file flushes and waits for it.
func (o *owner) file() error {
	done := make(chan error, 1)
	events := o.events
	o.events = nil
	o.run.Flush(o.state.TakeChanges(), events, func(err error) { done <- err })
	return <-done
}

func startRun(input map[string]any) decision.Decision {
	return decision.StartRun{Input: input, At: at(0), Due: at(3600)}
}

func createToken(id int, node string) decision.Decision {
	return decision.CreateToken{Token: state.Token{ID: workflow.TokenID(id), Node: workflow.NodeID(node)}}
}

// five runs a run of five steps to its end.
func (o *owner) five(input map[string]any) {
	o.do(state.Start{Input: input}, startRun(input), createToken(1, "start"), dispatch(1))
	for i := 1; i < 5; i++ {
		output := map[string]any{"n": int64(i)}
		o.do(state.TaskCompleted{Token: workflow.TokenID(i), Attempt: 1, Output: output},
			decision.SetData{Path: []string{"state", fmt.Sprintf("step%d", i)}, Value: output},
			decision.CompleteToken{Token: workflow.TokenID(i), Output: output}, createToken(i+1, "start"), dispatch(i+1))
	}
	o.do(state.TaskCompleted{Token: 5, Attempt: 1}, decision.CompleteToken{Token: 5},
		decision.CompleteRun{Output: map[string]any{"ok": true}, At: at(9)})
}

func dispatch(id int) decision.Decision {
	return decision.DispatchTask{Token: workflow.TokenID(id), Task: "t", Attempt: 1, Epoch: 7, Input: map[string]any{"k": "v"}, Due: at(60)}
}

// furnished makes a directory with something of everything: runs that were never
// flushed, are flushed in part, are flushed, have ended; a child, an approval, a dead
// letter; a published definition, a kept outcome, and blobs.
func furnished(t *testing.T, path string) (*store.Dir, *blob.Files) {
	d := open(t, path)
	files, err := blob.OpenFiles(filepath.Join(path, index.BlobsDir), blob.Options{})
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

// crashed returns a copy of a directory as a crash of its process would leave
// it now. Nothing may be committing.
func crashed(t testing.TB, from string) string {
	to := harness.Workspace(t)
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
	return to
}

// all collects a sequence that must not fail.
func all[T any](t testing.TB, seq func(func(T, error) bool)) []T {
	var out []T
	for x, err := range seq {
		require.NoError(t, err)
		out = append(out, x)
	}
	return out
}

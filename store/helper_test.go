package store

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/runfile"
	"github.com/pawl-run/pawl/internal/sqlite"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

func TestMain(m *testing.M) {
	if isChild() {
		return
	}
	harness.VerifyTestMain(m)
}

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

// open opens a directory that is closed at the end of the test.
func open(t testing.TB, path string) *Dir {
	return openWith(t, path, Options{})
}

func openWith(t testing.TB, path string, o Options) *Dir {
	if o.Hook == nil {
		o.Hook = &testhook.Hook{}
		if harness.CurrentLevel() == harness.Quick { // a file would wait a tenth of a second for others, in most tests
			o.Hook.SetGatherRuns(1)
		}
	}
	d, err := Open(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// onStage has f called at every stage of a flush.
func onStage(d *Dir, f func(now flushStage) error) (reset func()) {
	return d.hook.OnStage(func(now string) error { return f(flushStage(now)) })
}

// An owner does what a run's actor does: it evolves its state, and commits.
type owner struct {
	t      testing.TB
	run    *Run
	state  *state.State
	events []decision.Event
}

func start(t testing.TB, d *Dir, id workflow.RunID) *owner {
	g := graph(t)
	return &owner{t: t, run: d.New(Head{Run: id, InputHash: "in"}, g), state: state.NewState(id, g)}
}

func load(t testing.TB, d *Dir, id workflow.RunID) *owner {
	r, s, events, err := d.Load(id)
	require.NoError(t, err)
	return &owner{t: t, run: r, state: s, events: events}
}

// record makes the next record of a run.
func (o *owner) record(m state.Message, ds ...decision.Decision) decision.Record {
	seq := o.run.Head().Seq + 1
	return decision.Record{Seq: seq, At: at(int(seq)), Epoch: o.run.dir.Epoch(), Planner: 1, Message: m, Decisions: ds}
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

// halfOfDay returns every second of some cases, and the others on the next day; all at a release, and with the race detector, for
// which there are few.
func halfOfDay[T any](t testing.TB, cases []T) []T {
	if harness.Raced {
		return cases
	}
	return harness.SampleOfDay(t, harness.Figure(2, 2, 1), cases)
}

// withoutRedo has a directory commit everything in pawl.db, as while it is copied.
func withoutRedo(t testing.TB, d *Dir) *Dir {
	_, err := d.pauseRedo(context.Background())
	require.NoError(t, err)
	return d
}

// crashed returns a copy of a directory as a crash of its process would leave
// it now. Nothing may be committing.
func crashed(t testing.TB, from string) string {
	to := harness.Workspace(t)
	copyDir(t, from, to)
	return to
}

func copyDir(t testing.TB, from, to string) {
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
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

// logged returns how many records the log and the redo log hold that no file holds.
func logged(t testing.TB, d *Dir) (n int) {
	err := d.readIndex(func(db *sqlite.Conn) error {
		err := db.Each(`SELECT count(*) FROM log`, func(r *sqlite.Row) error { n = r.Int(0); return nil })
		for _, r := range d.redo.runs {
			n += len(r.entries)
		}
		return err
	})
	require.NoError(t, err)
	return n
}

package pawl_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/aesgcm"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/portable"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/workflow"
)

// An export of live and ended runs has all of them, with those below and what they recorded.
func TestExport(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
		return map[string]any{"text": strings.Repeat("<&\u2028>", 1000), "n": 9007199254740991}, nil
	}, "hold": hold}})
	publish(t, e, define(t, "name: leaf\nstart: a\nnodes: [{id: a, task: work}]\n"))
	family := define(t, "name: top\nstart: a\nnodes: [{id: a}, {id: b, subworkflow: {name: leaf}}]\ntransitions: [{from: a, to: b, spawnCount: 2}]\n")
	out, err := e.Run(t.Context(), workflow.Run{ID: "family", Definition: family, Tenant: "me", Labels: map[string]string{"k": "v"}}, map[string]any{"n": 1})
	require.NoError(t, err)
	require.NoError(t, out.Err())
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "going", Definition: define(t, "name: w\nstart: a\nnodes: [{id: a, task: hold}]\n")}, nil))

	var text bytes.Buffer
	require.ErrorIs(t, e.Export(t.Context(), "nobody", &text, pawl.ExportOptions{}), pawl.ErrRunNotFound)
	require.Zero(t, text.Len())
	require.NoError(t, e.Export(t.Context(), "family", &text, pawl.ExportOptions{}))
	require.NoError(t, e.Export(t.Context(), "going", &text, pawl.ExportOptions{}))
	path := filepath.Join(t.TempDir(), "runs.pawl")
	require.NoError(t, os.WriteFile(path, text.Bytes(), 0o600))

	for run, err := range portable.Read(bytes.NewReader(text.Bytes())) {
		require.NoError(t, err)
		var journal []decision.Record
		for r, err := range acts.Records(e.Journal(t.Context(), run.ID, pawl.EventsOptions{})) {
			require.NoError(t, err)
			journal = append(journal, r)
		}
		require.Equal(t, journal, run.Records)
		h := summaryOf(t, e, run.ID)
		require.Equal(t, []any{h.Parent, h.Tenant, h.Labels}, []any{run.Parent, run.Tenant, run.Labels})
	}
	var ids []workflow.RunID
	for _, name := range []string{path, filepath.Dir(path)} {
		ids = nil
		for rec, err := range replay.All(replay.Options{}, name) {
			require.NoError(t, err)
			ids = append(ids, rec.Run)
			r, err := replay.Check(rec)
			require.NoError(t, err)
			require.Nil(t, r.Difference)
			summary := summaryOf(t, e, rec.Run)
			require.Equal(t, summary.Seq, r.Records)
			require.Equal(t, summary.Status, r.Status)
		}
	}
	require.ElementsMatch(t, []workflow.RunID{"family", "family/2.1", "family/3.1", "going"}, ids) // which child is made first is open
	require.Equal(t, workflow.RunID("family"), ids[0])
	rec, err := replay.Find(path+":going", replay.Options{})
	require.NoError(t, err)
	require.Equal(t, workflow.RunID("going"), rec.Run)
	_, err = replay.Find(path+":nobody", replay.Options{})
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
	rec, err = replay.Open(path, replay.Options{})
	require.NoError(t, err)
	require.Equal(t, workflow.RunID("family"), rec.Run)

	child, err := e.OpenRecording(path + ":family/2.1")
	require.NoError(t, err)
	require.NoError(t, e.Import(t.Context(), child, "alone", pawl.ForkOptions{}))
	alone := summaryOf(t, e, "alone")
	require.Equal(t, workflow.RunID("family/2.1"), alone.ForkedFrom.Run)
	require.Empty(t, alone.Parent)
	require.ErrorIs(t, e.Import(t.Context(), child, "family/2.1", pawl.ForkOptions{}), pawl.ErrInvalid)
}

// An export is about as large as the file of the run: a text that lies in the state, is the input of each turn and stands in
// each result is in it once; and so is one that changes with each turn.
func TestAnExportHasValuesOnce(t *testing.T) {
	const chat = `
name: chat
start: say
state: {initial: {n: 0}}
nodes: [{id: say, task: say, input: {text: "has(state.last) ? state.last : input.text"}, output: {state.last: result.text, state.n: state.n + 1}}]
transitions: [{from: say, to: say, condition: "state.n < input.turns", loop: {maxIterations: 10000}}]
`
	for name, c := range map[string]struct{ turns, bytes, longer int }{
		"one text":     {400, 5 << 10, 0},
		"another each": {20, 70 << 10, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			e := open(t, dir, pawl.Options{Executor: pawl.Handlers{"say": func(_ context.Context, task pawl.Task) (any, error) {
				text := task.Input.(map[string]any)["text"].(string)
				return map[string]any{"text": strings.Repeat("t", len(text)+c.longer)}, nil
			}}})
			run := workflow.Run{ID: "chat", Definition: define(t, chat)}
			out, err := e.Run(t.Context(), run, map[string]any{"turns": c.turns, "text": strings.Repeat("t", c.bytes)})
			require.NoError(t, err)
			require.NoError(t, out.Err())
			var text bytes.Buffer
			require.NoError(t, e.Export(t.Context(), "chat", &text, pawl.ExportOptions{}))
			require.NoError(t, e.Close(t.Context()))
			files, err := filepath.Glob(filepath.Join(dir, "runs", "*", "*.db"))
			require.NoError(t, err)
			require.Len(t, files, 1)
			info, err := os.Stat(files[0])
			require.NoError(t, err)
			t.Logf("%d turns: file %d, export %d bytes", c.turns, info.Size(), text.Len())
			require.Less(t, int64(text.Len()), info.Size()*3/2)
		})
	}
}

// A redacted export says nothing that came from outside but keys, names and codes. It can be shown after each record, as
// the run stood then, and nothing plans it again.
func TestRedact(t *testing.T) {
	const secret = "Sesame"
	many := strings.Repeat(secret, 300) // stands apart from its record
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{
		"good": func(context.Context, pawl.Task) (any, error) {
			return pawl.Result{Output: map[string]any{"text": many, "list": []any{secret, secret, 471147.5, true, nil}}, Metadata: map[string]any{"m": secret}}, nil
		},
		"bad": func(context.Context, pawl.Task) (any, error) { return nil, errors.New(secret) },
	}})
	d := define(t, `
name: w
start: a
nodes:
  - {id: a, task: good, output: {state.kept: result}}
  - {id: b, task: good, input: {item: item, text: state.kept.text}}
  - {id: ask, approval: {messageExpr: '"ask " + input.who'}, input: {who: input.who}}
  - {id: s, wait: {event: go}, output: {state.got: result}}
  - {id: c, task: bad}
transitions:
  - {from: a, to: b, foreach: {collection: result.list}, siblingGroup: g}
  - {from: b, to: ask, synchronization: {siblingGroup: g, merge: {source: result.text, target: state.texts, strategy: collect}}}
  - {from: ask, to: s}
  - {from: s, to: c}
`)
	ctx := pawl.As(t.Context(), secret)
	run := workflow.Run{ID: "r", Definition: d, Tenant: secret, Labels: map[string]string{"customer": secret}}
	require.NoError(t, e.Start(ctx, run, map[string]any{"who": secret}))
	require.NoError(t, e.Signal(ctx, "r", workflow.Signal{Name: "go", ID: secret, Payload: secret}))
	awaitEvent(t, e, "r", workflow.EventApprovalRequested)
	require.NoError(t, e.Vote(ctx, pawl.Target{Run: "r", Node: "ask"}, workflow.Ballot{Approved: true, Comment: secret, Data: secret}))
	out, err := e.Wait(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, workflow.RunFailed, out.Status)

	var text, without bytes.Buffer
	require.NoError(t, e.Export(t.Context(), "r", &text, pawl.ExportOptions{}))
	require.NoError(t, replay.Redact(&without, bytes.NewReader(text.Bytes())))
	require.NotContains(t, without.String(), secret)
	require.NotContains(t, without.String(), "471147")
	require.Contains(t, without.String(), `"state","kept"`, "names stay")

	path := filepath.Join(t.TempDir(), "r.pawl")
	require.NoError(t, os.WriteFile(path, text.Bytes(), 0o600))
	whole := framesOf(t, path)
	require.NoError(t, os.WriteFile(path, without.Bytes(), 0o600))
	shown := framesOf(t, path)
	require.Len(t, shown, len(whole))
	for i, f := range shown {
		require.Equal(t, whole[i].Tokens, f.Tokens)
		require.Equal(t, whole[i].Groups, f.Groups)
		require.Equal(t, whole[i].Status, f.Status)
		require.True(t, f.Redacted)
	}
	kept, _ := shown[len(shown)-1].State["kept"].(map[string]any)
	require.Equal(t, []any{"xxxxxx", "xxxxxx", int64(0), false, nil}, kept["list"])
	require.Len(t, kept["text"], len(many))

	rec, err := replay.Open(path, replay.Options{})
	require.NoError(t, err)
	require.True(t, rec.Redacted())
	_, err = replay.Check(rec)
	require.ErrorIs(t, err, replay.ErrRedacted)
	require.ErrorIs(t, new(replay.Coverage).Add(rec), replay.ErrRedacted)
	_, err = replay.Diff(rec, rec)
	require.ErrorIs(t, err, replay.ErrRedacted)
	_, err = replay.Substitute(rec, d)
	require.ErrorIs(t, err, replay.ErrRedacted)

	var again bytes.Buffer
	require.NoError(t, replay.Redact(&again, bytes.NewReader(without.Bytes())))
	require.Equal(t, without.String(), again.String())
	require.Error(t, replay.Redact(&again, bytes.NewReader(text.Bytes()[:text.Len()-9])))
}

// framesOf returns a recorded run after each record.
func framesOf(t *testing.T, path string) (out []*replay.Frame) {
	t.Helper()
	rec, err := replay.Open(path, replay.Options{})
	require.NoError(t, err)
	s, err := replay.NewStepper(rec)
	require.NoError(t, err)
	for seq := range s.Len() {
		f, err := s.At(seq + 1)
		require.NoError(t, err)
		out = append(out, f)
	}
	return out
}

// exportedBy returns a run as an export of it has it.
func exportedBy(t *testing.T, e *pawl.Engine, id workflow.RunID) *replay.Recording {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, e.Export(t.Context(), id, &text, pawl.ExportOptions{}))
	path := filepath.Join(t.TempDir(), "x.pawl")
	require.NoError(t, os.WriteFile(path, text.Bytes(), 0o600))
	rec, err := replay.Open(path, replay.Options{})
	require.NoError(t, err)
	return rec
}

var echo = pawl.Options{Executor: pawl.Handlers{"*": func(_ context.Context, task pawl.Task) (any, error) { return task.Type, nil }}}

// startQuotes starts a run with three tasks, one of them done, and returns what was exported of it.
func startQuotes(t *testing.T) *replay.Recording {
	t.Helper()
	e := open(t, t.TempDir(), pawl.Options{})
	run := workflow.Run{ID: "a", Definition: define(t, quotes), Tenant: "us", Labels: map[string]string{"customer": "7"}}
	require.NoError(t, e.Start(t.Context(), run, map[string]any{"of": []any{"acme", "bolt", "cord"}}))
	require.NoError(t, e.Complete(t.Context(), tasksOut(t, e, "a")["quote1"], strings.Repeat("large ", 300)))
	return exportedBy(t, e, "a")
}

// A run goes on in another directory, from where it was.
func TestImport(t *testing.T) {
	from, dir := startQuotes(t), t.TempDir()
	e := open(t, dir, echo)
	tried, err := e.Simulate(pawl.As(t.Context(), "ann"), pawl.OfFork{Import: from, To: "b"})
	require.NoError(t, err)
	_, err = e.Summary(t.Context(), "b")
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
	require.NoError(t, tried.Play(t.Context(), echo.Executor))
	require.Equal(t, map[string]any{"best": "best", "run": "b"}, tried.Snapshot().Output)
	require.NoError(t, e.Import(pawl.As(t.Context(), "ann"), from, "b", pawl.ForkOptions{}))
	asTried, asDone := decided(t, tried.Steps()[:1]), decided(t, journalFrom(t, e, "b", 3)[:1])
	require.Equal(t, asTried[1:], asDone[1:])
	for _, forked := range []string{asTried[0], asDone[0]} { // at another instant, perhaps
		require.Regexp(t, "^fork-run run=b from=a record=2( shift=|$)", forked)
	}
	again, err := e.Simulate(t.Context(), pawl.OfFork{Import: from, To: "b"})
	require.NoError(t, err)
	require.Empty(t, again.Steps(), "it is there")
	require.Equal(t, map[string]any{"best": "best", "run": "b"}, outcomeOf(t, e, "b").Output)
	s := mustInspect(t, e, "b")
	require.Equal(t, []any{"quote", strings.Repeat("large ", 300), "quote"}, s.State["quotes"])
	require.Equal(t, workflow.ForkPoint{Run: "a", Record: 2}, s.ForkedFrom)
	require.Equal(t, []any{"us", map[string]string{"customer": "7"}}, []any{s.Tenant, s.Labels})
	require.NoError(t, e.Import(t.Context(), from, "b", pawl.ForkOptions{}), "the same again")
	require.ErrorIs(t, e.Import(t.Context(), from, "b", pawl.ForkOptions{At: 1}), pawl.ErrRunExists)
	require.ErrorIs(t, e.Import(t.Context(), nil, "c", pawl.ForkOptions{}), pawl.ErrInvalid)
	require.ErrorIs(t, e.Import(t.Context(), from, "", pawl.ForkOptions{}), pawl.ErrInvalid)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "own", Definition: define(t, oneTask)}, nil))
	require.ErrorIs(t, e.Import(t.Context(), from, "own", pawl.ForkOptions{}), pawl.ErrRunExists)

	ended := exportedBy(t, e, "b") // which is an import itself
	require.NoError(t, e.Import(t.Context(), ended, "c", pawl.ForkOptions{}))
	require.Equal(t, map[string]any{"best": "best", "run": "c"}, outcomeOf(t, e, "c").Output)
	require.NoError(t, e.Import(t.Context(), from, "parked", pawl.ForkOptions{InFlight: workflow.InFlightPark}))
	require.Equal(t, 2, countStatus(mustInspect(t, e, "parked"), workflow.WaitingForOperator))
	require.NoError(t, e.Close(t.Context()))
	r, err := rescue.Verify(t.Context(), dir, rescue.Options{})
	require.NoError(t, err)
	require.Empty(t, r.Findings)
}

func countStatus(s pawl.Snapshot, want workflow.TokenStatus) (n int) {
	for _, x := range s.Tokens {
		if x.Status == want {
			n++
		}
	}
	return n
}

// A run keeps its id where that is free, also on its way back, and from there to the next directory; what is called so and is
// another run stays as it is.
func TestImportUnderItsOwnID(t *testing.T) {
	from := startQuotes(t)
	dir := t.TempDir()
	e := open(t, dir, pawl.Options{})
	require.NoError(t, e.Import(pawl.As(t.Context(), "ann"), from, "a", pawl.ForkOptions{}))
	require.Equal(t, workflow.ForkPoint{Run: "a", Record: 2}, mustInspect(t, e, "a").ForkedFrom)
	require.NoError(t, e.Import(t.Context(), from, "a", pawl.ForkOptions{}), "the same again")
	require.ErrorIs(t, e.Import(t.Context(), from, "a", pawl.ForkOptions{At: 1}), pawl.ErrRunExists)
	require.Len(t, tasksOut(t, e, "a"), 2, "what was out is out again")
	require.NoError(t, e.Complete(t.Context(), tasksOut(t, e, "a")["quote0"], "x"))
	moved := exportedBy(t, e, "a")

	next := open(t, t.TempDir(), echo)
	require.NoError(t, next.Import(t.Context(), moved, "a", pawl.ForkOptions{}))
	require.Equal(t, map[string]any{"best": "best", "run": "a"}, outcomeOf(t, next, "a").Output)
	require.Equal(t, workflow.ForkPoint{Run: "a", Record: 4}, mustInspect(t, next, "a").ForkedFrom)
	require.NoError(t, next.Import(t.Context(), moved, "a", pawl.ForkOptions{}), "the same again")
	require.ErrorIs(t, next.Import(t.Context(), from, "a", pawl.ForkOptions{At: 2}), pawl.ErrRunExists)
	ended := exportedBy(t, next, "a")

	require.NoError(t, e.Cancel(t.Context(), "a", "it has moved"))
	require.ErrorIs(t, e.Import(t.Context(), ended, "a", pawl.ForkOptions{At: 4}), pawl.ErrRunExists)
	require.NoError(t, e.Purge(t.Context(), "a"))
	require.NoError(t, e.Import(t.Context(), ended, "a", pawl.ForkOptions{}), "it is free again")
	why, err := e.Why(t.Context(), "a")
	require.NoError(t, err)
	require.NotEmpty(t, why.Waits)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "own", Definition: define(t, oneTask)}, nil))
	require.ErrorIs(t, e.Fork(t.Context(), "own", "own", pawl.ForkOptions{}), pawl.ErrRunExists)
	require.ErrorIs(t, e.Fork(t.Context(), "a", "a", pawl.ForkOptions{}), pawl.ErrRunExists, "also of a run that came from elsewhere")
	require.NoError(t, e.Close(t.Context()))
	r, err := rescue.Verify(t.Context(), dir, rescue.Options{})
	require.NoError(t, err)
	require.Empty(t, r.Findings)
}

// A recording that somebody has changed, or that lacks something, is refused, and leaves nothing.
func TestImportRefuses(t *testing.T) {
	from := startQuotes(t)
	dir := t.TempDir()
	e := open(t, dir, pawl.Options{})
	refuse := func(rec *replay.Recording, want error) error {
		t.Helper()
		err := e.Import(t.Context(), rec, "b", pawl.ForkOptions{})
		require.ErrorIs(t, err, want)
		_, tried := e.Simulate(t.Context(), pawl.OfFork{Import: rec, To: "b"})
		require.EqualError(t, tried, err.Error(), "a trial is refused alike")
		_, again := e.Inspect(t.Context(), "b")
		require.ErrorIs(t, again, pawl.ErrRunNotFound)
		return err
	}
	var records []decision.Record
	for r, err := range from.Records() {
		require.NoError(t, err)
		records = append(records, r)
	}
	changed := func(change func(rs []decision.Record) []decision.Record) *replay.Recording {
		rs := change(append([]decision.Record(nil), records...))
		g, err := compiled.Compile(workflow.Bounds{}, from.Definition())
		require.NoError(t, err)
		return replay.New("a", g, func(yield func(decision.Record, error) bool) {
			for _, r := range rs {
				if !yield(r, nil) {
					return
				}
			}
		})
	}
	err := refuse(changed(func(rs []decision.Record) []decision.Record {
		rs[1].Decisions = append([]decision.Decision{decision.CompleteRun{Output: map[string]any{"given": "away"}}}, rs[1].Decisions...)
		return rs
	}), pawl.ErrInvalid)
	var differs *pawl.ImportError
	require.ErrorAs(t, err, &differs)
	require.Equal(t, int64(2), differs.Record)
	require.ErrorContains(t, err, "record 2 was not decided by this planner")
	refuse(changed(func(rs []decision.Record) []decision.Record { return rs[1:] }), pawl.ErrInvalid)
	require.Error(t, e.Import(t.Context(), changed(func([]decision.Record) []decision.Record { return nil }), "b", pawl.ForkOptions{}))

	other := open(t, t.TempDir(), pawl.Options{})
	ref, err := other.PutBlob(t.Context(), strings.NewReader("large"), "")
	require.NoError(t, err)
	require.NoError(t, other.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, "name: w\nstart: a\nnodes: [{id: a, task: work}]\n")}, map[string]any{"file": ref}))
	refuse(exportedBy(t, other, "a"), blob.ErrMissing)
	_, err = e.PutBlob(t.Context(), strings.NewReader("large"), "")
	require.NoError(t, err)
	require.NoError(t, e.Import(t.Context(), exportedBy(t, other, "a"), "with-blob", pawl.ForkOptions{}))

	publish(t, other, define(t, oneTask))
	parent := define(t, "name: parent\nstart: sub\nnodes: [{id: sub, subworkflow: {name: one}, input: {n: '1'}}]\n")
	require.NoError(t, other.Start(t.Context(), workflow.Run{ID: "p", Definition: parent}, nil))
	small := open(t, t.TempDir(), pawl.Options{})
	require.ErrorContains(t, small.Import(t.Context(), exportedBy(t, other, "p"), "b", pawl.ForkOptions{}), "publish it here")
	_, err = small.Simulate(t.Context(), pawl.OfFork{Import: exportedBy(t, other, "p"), To: "b"})
	require.ErrorContains(t, err, "publish it here")
	publish(t, small, define(t, oneTask))
	require.NoError(t, small.Import(t.Context(), exportedBy(t, other, "p"), "b", pawl.ForkOptions{}))

	tight := open(t, t.TempDir(), pawl.Options{Bounds: workflow.Bounds{Nodes: 1}})
	require.Error(t, tight.Import(t.Context(), from, "b", pawl.ForkOptions{}))
	_, err = tight.Simulate(t.Context(), pawl.OfFork{Import: from, To: "b"})
	require.Error(t, err)
}

// A crash while a run is imported leaves all of it, or nothing; imported again it is the same.
func TestCrashesWhileARunIsImported(t *testing.T) {
	from := startQuotes(t)
	hook, dir := &testhook.Hook{}, harness.Workspace(t)
	e := openWith(t, hook, dir, pawl.Options{IdleAfter: time.Hour})
	hook.SetPartBytes(1000)
	points, copies := copiesDuring(t, hook, dir, func() { require.NoError(t, e.Import(t.Context(), from, "b", pawl.ForkOptions{})) })
	require.Contains(t, points, "commit.inside")
	whole := 0
	for i, dir := range copies {
		e := open(t, dir, echo)
		if _, err := e.Inspect(t.Context(), "b"); err == nil {
			whole++
		} else {
			require.ErrorIs(t, err, pawl.ErrRunNotFound, points[i])
			require.Zero(t, whole, points[i])
		}
		require.NoError(t, e.Import(t.Context(), from, "b", pawl.ForkOptions{}), points[i])
		require.Equal(t, map[string]any{"best": "best", "run": "b"}, outcomeOf(t, e, "b").Output)
		require.NoError(t, e.Close(t.Context()))
	}
	require.Positive(t, whole)
	require.Less(t, whole, len(copies))
}

// An export with blobs brings what the run refers to, of any size; one whose blob is another than it says brings nothing.
func TestImportWithBlobs(t *testing.T) {
	from := open(t, t.TempDir(), pawl.Options{})
	large := strings.Repeat("0123456789", 120_000)
	ref, err := from.PutBlob(t.Context(), strings.NewReader(large), "text/plain")
	require.NoError(t, err)
	given, err := from.PutBlob(t.Context(), strings.NewReader("given"), "")
	require.NoError(t, err)
	_, err = from.PutBlob(t.Context(), strings.NewReader("of nobody"), "")
	require.NoError(t, err)
	def := define(t, "name: w\nstart: a\nnodes: [{id: a, task: work}, {id: b, task: work}]\ntransitions: [{from: a, to: b}]\n")
	require.NoError(t, from.Start(t.Context(), workflow.Run{ID: "a", Definition: def}, map[string]any{"file": ref}))
	require.NoError(t, from.Complete(t.Context(), tasksOut(t, from, "a")["a0"], given))
	var with, without bytes.Buffer
	require.NoError(t, from.Export(t.Context(), "a", &with, pawl.ExportOptions{Blobs: true}))
	require.NoError(t, from.Export(t.Context(), "a", &without, pawl.ExportOptions{}))
	require.Greater(t, with.Len(), len(large))
	require.Equal(t, 4, strings.Count(with.String(), "\n{\"blob\":"), "two blobs, one of three pieces, and not that of nobody")
	recordingIn := func(text []byte) *replay.Recording {
		path := filepath.Join(t.TempDir(), "x.pawl")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		rec, err := replay.Open(path, replay.Options{})
		require.NoError(t, err)
		return rec
	}

	to := open(t, t.TempDir(), pawl.Options{})
	require.ErrorIs(t, to.Import(t.Context(), recordingIn(without.Bytes()), "b", pawl.ForkOptions{}), blob.ErrMissing)
	_, err = to.Simulate(t.Context(), pawl.OfFork{Import: recordingIn(without.Bytes()), To: "b"})
	require.ErrorIs(t, err, blob.ErrMissing)
	_, err = to.Simulate(t.Context(), pawl.OfFork{Import: recordingIn(with.Bytes()), To: "b"})
	require.NoError(t, err)
	_, err = to.OpenBlob(t.Context(), ref)
	require.ErrorIs(t, err, blob.ErrMissing, "a trial stores nothing")
	require.NoError(t, to.Import(t.Context(), recordingIn(with.Bytes()), "b", pawl.ForkOptions{}))
	for _, want := range []struct {
		ref  blob.Ref
		text string
	}{{ref, large}, {given, "given"}} {
		r, err := to.OpenBlob(t.Context(), want.ref)
		require.NoError(t, err)
		have, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, want.text, string(have))
		require.NoError(t, r.Close())
	}
	rec := recordingIn(with.Bytes())
	changed := bytes.Replace(with.Bytes(), []byte(base64.StdEncoding.EncodeToString([]byte("given"))), []byte(base64.StdEncoding.EncodeToString([]byte("taken"))), 1)
	require.NoError(t, os.WriteFile(rec.Source, changed, 0o600), "after it was read")
	third := open(t, t.TempDir(), pawl.Options{})
	_, err = third.Simulate(t.Context(), pawl.OfFork{Import: rec, To: "b"})
	require.ErrorIs(t, err, blob.ErrDamaged)
	require.ErrorIs(t, third.Import(t.Context(), rec, "b", pawl.ForkOptions{}), blob.ErrDamaged)
	_, err = third.Summary(t.Context(), "b")
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
}

// An engine opens the recording of a run that is sealed with its keys; an engine without them does not.
func TestOpenRecordingOfWhatIsSealed(t *testing.T) {
	keys, err := aesgcm.New(aesgcm.Key{ID: "k", Secret: bytes.Repeat([]byte{7}, aesgcm.KeySize)})
	require.NoError(t, err)
	dir := t.TempDir()
	from := open(t, dir, pawl.Options{Codec: keys})
	require.NoError(t, from.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, quotes)}, map[string]any{"of": []any{"acme"}}))
	require.NoError(t, from.Close(t.Context()))
	to := open(t, t.TempDir(), pawl.Options{Codec: keys})
	rec, err := to.OpenRecording(dir + ":a")
	require.NoError(t, err)
	defer rec.Close()
	require.NoError(t, to.Import(t.Context(), rec, "a", pawl.ForkOptions{}))
	stranger := open(t, t.TempDir(), pawl.Options{})
	unread, err := stranger.OpenRecording(dir + ":a")
	if err == nil {
		err = stranger.Import(t.Context(), unread, "a", pawl.ForkOptions{})
		unread.Close()
	}
	require.ErrorIs(t, err, pawl.ErrSealed)
}

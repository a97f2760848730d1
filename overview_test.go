package pawl_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

const wide = `
name: wide
start: split
nodes:
  - {id: split}
  - {id: load, task: load}
  - {id: sum}
transitions:
  - {from: split, to: load, foreach: {collection: input.files}, siblingGroup: files}
  - {from: load, to: sum, synchronization: {siblingGroup: files}}
`

// loading starts a run with so many branches, whose tasks stay out.
func loading(t testing.TB, dir string, branches int) *pawl.Engine {
	t.Helper()
	e := open(t, dir, pawl.Options{Executor: pawl.Handlers{"*": func(_ context.Context, _ pawl.Task) (any, error) { return nil, pawl.ErrPending }}})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, wide)}, map[string]any{"files": make([]any, branches)}))
	return e
}

// tokensOf lists tokens, which must be in the order of their ids.
func tokensOf(t *testing.T, e *pawl.Engine, f pawl.TokenFilter) (out []pawl.Token) {
	t.Helper()
	last := f.After
	for token, err := range e.Tokens(t.Context(), "r", f) {
		require.NoError(t, err)
		require.Greater(t, token.ID, last)
		last = token.ID
		out = append(out, token)
	}
	return out
}

// A run tells its numbers from memory while it is awake, and from the disk while it is not, as
// Inspect tells them one by one.
func TestOverview(t *testing.T) {
	dir := t.TempDir()
	const branches = 2500 // more than a page
	e := loading(t, dir, branches)
	keys := []pawl.Key{}
	for _, token := range tokensOf(t, e, pawl.TokenFilter{Node: "load"}) {
		keys = append(keys, token.Key)
	}
	require.Len(t, keys, branches)
	require.NoError(t, e.Complete(t.Context(), keys[0], nil))
	require.NoError(t, e.Complete(t.Context(), keys[2000], nil))
	look := func() {
		o, err := e.Overview(t.Context(), "r")
		require.NoError(t, err)
		snap, err := e.Inspect(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, []pawl.NodeOverview{
			{Node: "split", Tokens: map[workflow.TokenStatus]int{workflow.Completed: 1}},
			{Node: "load", Tokens: map[workflow.TokenStatus]int{workflow.Dispatched: branches - 2, workflow.WaitingForSiblings: 2}},
		}, o.Nodes)
		require.Equal(t, snap.Groups, o.Groups)
		require.Equal(t, 1, o.Gather)
		require.Equal(t, snap.Outcome, o.Outcome)
		require.Equal(t, []any{snap.Seq, snap.Live, snap.Revision}, []any{o.Seq, o.Live, o.Revision})
		require.Equal(t, unobserved(snap.Tokens), unobserved(tokensOf(t, e, pawl.TokenFilter{})))
		arrived := tokensOf(t, e, pawl.TokenFilter{Group: 1, Status: []workflow.TokenStatus{workflow.WaitingForSiblings}})
		require.Len(t, arrived, 2)
		require.Equal(t, []workflow.NodeID{"load", "sum"}, []workflow.NodeID{arrived[0].Node, arrived[0].JoinAt})
		require.Len(t, tokensOf(t, e, pawl.TokenFilter{After: branches}), 1)
		require.Empty(t, tokensOf(t, e, pawl.TokenFilter{After: math.MaxInt64}))
	}
	look()
	require.NoError(t, e.Close(context.Background()))
	e = open(t, dir, pawl.Options{IdleAfter: time.Nanosecond}) // it falls asleep
	look()
	_, err := e.Overview(t.Context(), "nobody")
	require.ErrorIs(t, err, pawl.ErrRunNotFound)
	for _, err := range e.Tokens(t.Context(), "nobody", pawl.TokenFilter{}) {
		require.ErrorIs(t, err, pawl.ErrRunNotFound)
	}
}

// BenchmarkOverview is that of a live run of 10,000 branches.
func BenchmarkOverview(b *testing.B) {
	e := loading(b, b.TempDir(), 10_000)
	for b.Loop() {
		if _, err := e.Overview(b.Context(), "r"); err != nil {
			b.Fatal(err)
		}
	}
}

// unobserved returns tokens without what is true at a moment only: which tasks are performed.
func unobserved(tokens []pawl.Token) []pawl.Token {
	out := slices.Clone(tokens)
	for i := range out {
		out[i].Executing, out[i].Since, out[i].Worker, out[i].Queued = false, time.Time{}, "", nil
	}
	return out
}

// A run that failed because its child did leads to that, and can be done again from before it.
func TestWhyOfAFailedChild(t *testing.T) {
	ctx := t.Context()
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
		return nil, pawl.TaskError{Code: "broken"}
	}}})
	_, err := e.Publish(t.Context(), define(t, "name: kid\nstart: a\nnodes: [{id: a, task: work}]\n"))
	require.NoError(t, err)
	_, err = e.Run(ctx, workflow.Run{ID: "top", Definition: define(t, "name: top\nstart: call\nnodes: [{id: call, subworkflow: {name: kid}}]\n")}, nil)
	require.NoError(t, err)
	x, err := e.Why(ctx, "top")
	require.NoError(t, err)
	require.Len(t, x.Failed, 1)
	child := x.Failed[0].Child
	require.Equal(t, []string{"pawl why " + string(child), "pawl fork top NEWID --node call -m REASON"}, x.Failed[0].Try)
	x, err = e.Why(ctx, child)
	require.NoError(t, err)
	require.Equal(t, "a", x.Failed[0].Place)
	require.Equal(t, "broken", x.Failed[0].Failure.Code)
}

// The chain leads down through the child runs to what failed first; a child that is purged ends it.
func TestWhyLeadsToTheFirstFailure(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	e := open(t, dir, pawl.Options{Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
		return nil, pawl.TaskError{Code: "broken", Message: "the card was declined"}
	}}})
	publish(t, e, define(t, "name: grandkid\nstart: pay\nnodes: [{id: pay, task: work}]\n"))
	publish(t, e, define(t, "name: kid\nstart: order\nnodes: [{id: order, subworkflow: {name: grandkid}}]\n"))
	_, err := e.Run(ctx, workflow.Run{ID: "top", Definition: define(t, "name: top\nstart: call\nnodes: [{id: call, subworkflow: {name: kid}}]\n")}, nil)
	require.NoError(t, err)
	x, err := e.Why(ctx, "top")
	require.NoError(t, err)
	require.Len(t, x.Failed, 1)
	below := x.Failed[0].Below
	require.Len(t, below, 2)
	require.Equal(t, []string{"order", "pay"}, []string{below[0].Place, below[1].Place})
	require.Equal(t, x.Failed[0].Child, below[0].Run)
	require.Equal(t, "broken", below[1].Failure.Code)
	require.Contains(t, x.String(), "in "+string(below[1].Run)+", pay (t1) failed: broken at node \"pay\" (t1): the card was declined")
	require.NoError(t, e.Close(ctx))

	rec, err := replay.Find(dir+":top", replay.Options{})
	require.NoError(t, err)
	defer rec.Close()
	again, err := replay.Why(rec)
	require.NoError(t, err)
	require.NoError(t, replay.ExplainBelow(&again, func(id workflow.RunID) (*replay.Recording, error) {
		if id == below[1].Run {
			return nil, pawl.ErrRunNotFound
		}
		return replay.Find(dir+":"+string(id), replay.Options{})
	}))
	require.Equal(t, below[:1], again.Failed[0].Below)
	other := errors.New("the disk is gone")
	require.ErrorIs(t, replay.ExplainBelow(&again, func(workflow.RunID) (*replay.Recording, error) { return nil, other }), other)
}

// Instants outside of the years 1 to 9999 are refused in an export, with their place: nothing could show them. The lists keep the run
// that was there before, and no other.
func TestAnExportOfImpossibleInstants(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	def := define(t, "name: a\nstart: a\nnodes: [{id: a, wait: {event: go}}]")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "old", Definition: def}, nil))
	require.NoError(t, e.Signal(t.Context(), "old", workflow.Signal{Name: "go"}))
	var text bytes.Buffer
	require.NoError(t, e.Export(t.Context(), "old", &text, pawl.ExportOptions{}))
	for _, at := range []int64{316516809600000, math.MaxInt64, math.MinInt64, -62167219200001} { // of the year 12000, and others
		path := filepath.Join(t.TempDir(), "edited.pawl")
		require.NoError(t, os.WriteFile(path, []byte(withInstants(t, text.String(), at)), 0o600))
		rec, err := replay.Find(path+":old", replay.Options{})
		if err == nil {
			err = e.Import(t.Context(), rec, "new", pawl.ForkOptions{})
		}
		require.ErrorContains(t, err, "there are instants of the years 1 to 9999 only")
		require.ErrorContains(t, err, "line 3")
	}
	// The clock of the machine may have been set back while a run went on.
	path := filepath.Join(t.TempDir(), "back.pawl")
	require.NoError(t, os.WriteFile(path, []byte(withInstants(t, text.String(), 0)), 0o600))
	_, err := replay.Find(path+":old", replay.Options{})
	require.NoError(t, err)
	var ids []workflow.RunID
	for r, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
		require.NoError(t, err)
		ids = append(ids, r.Run)
	}
	require.Equal(t, []workflow.RunID{"old"}, ids)
}

// withInstants edits an export: its first record has another instant.
func withInstants(t *testing.T, text string, at int64) string {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	before, rest, ok := strings.Cut(lines[2], `"at":`)
	require.True(t, ok, lines[2])
	lines[2] = before + fmt.Sprintf(`"at":%d`, at) + strings.TrimLeft(rest, "0123456789")
	body := strings.Join(lines[:len(lines)-1], "\n") + "\n"
	end := lines[len(lines)-1]
	i := strings.Index(end, `"sha256":"`) + len(`"sha256":"`)
	return body + end[:i] + fmt.Sprintf("%x", sha256.Sum256([]byte(body))) + end[i+64:] + "\n"
}

// Two names of tenants that look the same would have the limits of two: only one of them is one.
func TestTenantsThatLookTheSame(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	def := define(t, "name: a\nstart: a\nnodes: [{id: a}]")
	for _, tenant := range []string{"mallory ", " mallory", "mallory\u00a0", "ｍallory", "mallory\u2002", "ﬁn", "e\u0301"} {
		err := e.Start(t.Context(), workflow.Run{ID: "a", Definition: def, Tenant: tenant}, nil)
		require.ErrorIs(t, err, pawl.ErrInvalid, "%+q", tenant)
		_, err = pawl.Open(t.Context(), t.TempDir(), pawl.Options{Tenants: map[string]pawl.TenantLimit{tenant: {Active: 1}}})
		require.ErrorIs(t, err, pawl.ErrInvalid, "%+q", tenant)
	}
	for i, tenant := range []string{"mallory", "ümlaut", "客户 7", "*"} {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("ok", i)), Definition: def, Tenant: tenant}, nil))
	}
}

// askedInSQL asks the recording of a run in SQL.
func askedInSQL(t *testing.T, e *pawl.Engine, id workflow.RunID, text string) (rows [][]any) {
	rec, err := e.Recording(t.Context(), id)
	require.NoError(t, err)
	defer rec.Close()
	q, err := replay.NewQuery(text)
	require.NoError(t, err)
	require.NoError(t, q.Add(rec.(*replay.Recording)))
	require.NoError(t, q.Answer(t.Context(), func([]string) error { return nil }, func(values []any) error {
		rows = append(rows, append([]any{}, values...))
		return nil
	}))
	require.NoError(t, q.Close())
	return rows
}

// The result of a task brings along when somebody began to perform it: of each attempt it can be told how long it was queued and
// how long it was worked at, also in a fork, which dispatches anew what was out in the other run.
func TestAttemptsKnowWhenTheyBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		var waited []time.Duration
		e := open(t, t.TempDir(), pawl.Options{Concurrency: 1, Executor: pawl.Handlers{
			"work": func(ctx context.Context, task pawl.Task) (any, error) {
				waited = append(waited, task.BeganAt.Sub(task.DispatchedAt))
				<-time.After(3 * time.Second)
				return nil, nil
			},
			"hold": func(ctx context.Context, task pawl.Task) (any, error) {
				if task.Run == "r" {
					<-hold
				}
				<-time.After(time.Second)
				return nil, nil
			},
		}})
		def := define(t, `
name: w
start: s
nodes: [{id: s}, {id: a, task: work}, {id: b, task: work}, {id: c, task: hold}]
transitions: [{from: s, to: a}, {from: s, to: b}, {from: b, to: c}]
`)
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
		<-time.After(time.Minute)
		const text = `SELECT node, queue_ms, work_ms, elapsed FROM attempts WHERE outcome = 'completed' ORDER BY token`
		require.Equal(t, [][]any{{"a", int64(0), int64(3000), int64(3000)}, {"b", int64(3000), int64(3000), int64(6000)}}, askedInSQL(t, e, "r", text))
		require.Equal(t, []time.Duration{0, 3 * time.Second}, waited)
		require.NoError(t, e.Fork(t.Context(), "r", "fork", pawl.ForkOptions{}))
		<-time.After(time.Minute)
		close(hold)
		require.NoError(t, wait(t, e, "r").Err())
		require.NoError(t, wait(t, e, "fork").Err())
		require.Equal(t, [][]any{{"c", int64(0), int64(115000), int64(115000)}}, askedInSQL(t, e, "r", text)[2:])
		require.Equal(t, [][]any{{"c", int64(61000), int64(1000), int64(62000)}}, askedInSQL(t, e, "fork", text)[2:])
	})
}

// The event of the end of an attempt tells when somebody began to perform it, however it ends.
func TestEventsTellWhenAttemptsBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{Concurrency: 1, Executor: pawl.Handlers{
			"work": func(_ context.Context, task pawl.Task) (any, error) {
				<-time.After(3 * time.Second)
				switch {
				case task.Node != "b":
					return pawl.Result{Metadata: map[string]any{"mine": true}}, nil
				case task.Attempt == 1:
					return nil, pawl.Snooze(time.Minute)
				case task.Attempt == 2:
					return nil, errors.New("once more")
				default:
					return nil, pawl.Permanent(errors.New("no"))
				}
			},
		}})
		def := define(t, `
name: w
start: s
nodes: [{id: s}, {id: a, task: work}, {id: b, task: work, retry: {maxAttempts: 3, initialInterval: 1m}}, {id: g, task: work}, {id: j}]
transitions: [{from: s, to: a}, {from: s, to: b}, {from: s, to: g, spawnCount: 2, siblingGroup: g}, {from: g, to: j, synchronization: {siblingGroup: g}}]
`)
		begin := time.Now()
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, nil))
		require.Error(t, wait(t, e, "r").Err())
		told := map[string][]float64{}
		for v, err := range e.Events(t.Context(), "r", pawl.EventsOptions{}) {
			require.NoError(t, err)
			text, ok := v.Data["beganAt"].(string)
			if !ok {
				continue
			}
			at, err := time.Parse(time.RFC3339Nano, text)
			require.NoError(t, err)
			require.Equal(t, 3*time.Second, v.At.Sub(at), "%v", v)
			what := string(v.Node) + " " + string(v.Type)
			told[what] = append(told[what], at.Sub(begin).Seconds())
		}
		require.Equal(t, map[string][]float64{
			"a token.completed": {0}, "b task.snoozed": {3}, "g token.waiting": {6, 9}, "b task.retrying": {66}, "b task.failed": {129},
		}, told)
	})
}

const manyRows = `
name: many
start: s
nodes:
  - {id: s}
  - {id: row, task: row, input: {text: input.text}}
  - {id: sum, task: sum, input: {rows: result}, output: {output.rows: result, output.blob: state.rows}}
transitions:
  - {from: s, to: row, foreach: {collection: "lists.range(input.n)"}, siblingGroup: g%s}
  - {from: row, to: sum, synchronization: {siblingGroup: g, merge: {target: state.rows, strategy: collect%s}}}
`

// rowCounter makes rows, and counts those that a merge has made a blob of.
func rowCounter() pawl.Handlers {
	return pawl.Handlers{
		"row": func(_ context.Context, t pawl.Task) (any, error) {
			var in struct{ Text string }
			err := t.Bind(&in)
			return map[string]any{"at": t.Branch.Index, "text": in.Text}, err
		},
		"sum": func(ctx context.Context, t pawl.Task) (_ any, err error) {
			var in struct{ Rows blob.Ref }
			if err := t.Bind(&in); err != nil {
				return nil, err
			}
			r, err := t.Open(ctx, in.Rows)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, r.Close()) }()
			rows := 0
			for d := json.NewDecoder(r); ; rows++ {
				var row struct{ At int }
				if err := d.Decode(&row); err == io.EOF {
					return rows, nil
				} else if err != nil {
					return nil, err
				}
				if row.At != rows {
					return nil, pawl.Permanent(fmt.Errorf("row %d is that of branch %d", rows, row.At))
				}
			}
		},
	}
}

// More results than any input may hold meet in a blob, in the order of the branches.
// It stays until the run is forgotten.
func TestMergeIntoABlob(t *testing.T) {
	n := harness.Figure(1000, 20_000, 100_000)
	size := harness.Figure(2000, 100, 20) // more than 1 MiB in all
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{Executor: rowCounter()})
		out, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: define(t, fmt.Sprintf(manyRows, "", ", as: blob"))},
			map[string]any{"n": n, "text": strings.Repeat("x", size)})
		require.NoError(t, err)
		require.NoError(t, out.Err())
		require.EqualValues(t, n, out.Output["rows"])
		ref, err := blob.ParseRef(out.Output["blob"])
		require.NoError(t, err)
		require.Equal(t, "application/x-ndjson", ref.Type)
		require.Greater(t, ref.Size, int64(workflow.DefaultLimits().PayloadBytes))

		<-time.After(time.Hour)
		gone, err := e.CollectBlobs(t.Context(), time.Minute)
		require.NoError(t, err)
		require.Zero(t, gone)
		require.NoError(t, e.Purge(t.Context(), "r"))
		gone, err = e.CollectBlobs(t.Context(), time.Minute)
		require.NoError(t, err)
		require.Equal(t, pawl.Collected{Blobs: 1, Bytes: ref.Size}, gone)
	})
}

// Without as: blob the group fails with the arrival that is too much, and names the
// cure; the other branches never begin.
func TestMergeThatIsTooLargeFailsEarly(t *testing.T) {
	var made atomic.Int64
	h := rowCounter()
	row := h["row"]
	h["row"] = func(ctx context.Context, t pawl.Task) (any, error) {
		made.Add(1)
		return row(ctx, t)
	}
	e := open(t, t.TempDir(), pawl.Options{Executor: h})
	d := define(t, fmt.Sprintf(manyRows, ", maxConcurrency: 1", "")+"limits: {payloadBytes: 10000}\n")
	out, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: d}, map[string]any{"n": 500, "text": strings.Repeat("x", 980)})
	require.NoError(t, err)
	require.Equal(t, workflow.CodeLimit, out.Failure.Code)
	require.Equal(t, `limit payloadBytes: 11 of 500 branches of "g" bring 10979 bytes to their join at node "sum", `+
		`whose input "rows" takes at most 10000: say as: blob in the merge`, out.Failure.Message)
	require.LessOrEqual(t, made.Load(), int64(12))
}

// A crash between the blob and the commit leaves a blob that is found again, or
// collected.
func TestCrashBeforeAMergedBlobIsReferredTo(t *testing.T) {
	dir, crashed := t.TempDir(), filepath.Join(t.TempDir(), "crashed")
	var once sync.Once
	hook := &testhook.Hook{}
	hook.OnHit(func(name string) {
		if found, _ := filepath.Glob(filepath.Join(dir, "blobs", "??", "*")); name == "commit.begin" && len(found) > 0 {
			once.Do(func() {
				if err := harness.CopyLive(crashed, dir); err != nil {
					t.Error(err)
				}
			})
		}
	})
	run := workflow.Run{ID: "r", Definition: define(t, fmt.Sprintf(manyRows, "", ", as: blob"))}
	input := map[string]any{"n": 3, "text": "x"}
	first := openWith(t, hook, dir, pawl.Options{Executor: rowCounter()})
	want, err := first.Run(t.Context(), run, input)
	require.NoError(t, err)
	require.NoError(t, want.Err())
	require.DirExists(t, crashed)

	lost := filepath.Join(t.TempDir(), "lost")
	require.NoError(t, os.CopyFS(lost, os.DirFS(crashed)))
	again := open(t, crashed, pawl.Options{Executor: rowCounter()})
	got, err := again.Wait(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, want.Output, got.Output)

	idle := open(t, lost, pawl.Options{Executor: pawl.Handlers{"row": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending }, "sum": rowCounter()["sum"]}})
	old := time.Now().Add(-time.Hour)
	kept, err := filepath.Glob(filepath.Join(lost, "blobs", "??", "*"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
	require.NoError(t, os.Chtimes(kept[0], old, old))
	gone, err := idle.CollectBlobs(t.Context(), time.Minute)
	require.NoError(t, err)
	require.Equal(t, 1, gone.Blobs)
	require.NoError(t, idle.Cancel(t.Context(), "r", "enough"))
}

// An executor whose results come later learns from the context when an attempt is over, no matter
// how it ended.
func TestTheContextOfAPendingAttemptLivesUntilItIsOver(t *testing.T) {
	type attempt struct {
		ctx context.Context
		key pawl.Key
	}
	attempts := make(chan attempt)
	e := open(t, t.TempDir(), pawl.Options{Concurrency: 1, Executor: pawl.Handlers{"*": func(ctx context.Context, task pawl.Task) (any, error) {
		attempts <- attempt{ctx, task.Key}
		return nil, pawl.ErrPending
	}}})
	begin := func(id workflow.RunID) attempt {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: define(t, oneTask)}, map[string]any{"n": 1}))
		return <-attempts
	}
	completed, cancelled, closed := begin("a"), begin("b"), begin("c") // the second begins when the first has returned
	require.NoError(t, completed.ctx.Err())
	require.NoError(t, cancelled.ctx.Err())

	require.NoError(t, e.Complete(t.Context(), completed.key, 1))
	<-completed.ctx.Done()
	require.NoError(t, e.Cancel(t.Context(), "b", "enough"))
	<-cancelled.ctx.Done()
	require.NoError(t, closed.ctx.Err(), "the others are not concerned")
	require.NoError(t, e.Close(t.Context()))
	<-closed.ctx.Done()
}

// Order and Priority say what an executor with a queue of its own must know.
func TestTasksSayTheirPriorityAndOrder(t *testing.T) {
	tasks := make(chan pawl.Task, 2)
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"*": func(_ context.Context, task pawl.Task) (any, error) {
		tasks <- task
		return 1, nil
	}}})
	def := define(t, `
name: two
start: a
nodes:
  - {id: a, task: work, priority: 3}
  - {id: b, task: work}
transitions: [{from: a, to: b}]
`)
	_, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: def}, nil)
	require.NoError(t, err)
	a, b := <-tasks, <-tasks
	require.Equal(t, 3, a.Priority)
	require.Zero(t, b.Priority)
	require.Less(t, a.Order, b.Order)
}

// With TenantLimit.Pending a task whose result comes later counts for its tenant until it is over,
// no matter how, also after a restart, and no other tenant waits for it.
func TestPendingTasksCountForTheirTenant(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	attempts := make(chan pawl.Task, 99)
	options := pawl.Options{
		Tenants: map[string]pawl.TenantLimit{"*": {Concurrency: 2, Pending: true}, "vip": {Concurrency: 2}},
		Executor: pawl.Handlers{"*": func(_ context.Context, task pawl.Task) (any, error) {
			attempts <- task
			return nil, pawl.ErrPending
		}},
	}
	e := open(t, dir, options)
	def := define(t, "name: one\nstart: a\nnodes: [{id: a, task: work}]")
	start := func(id workflow.RunID, tenant string) {
		require.NoError(t, e.Start(ctx, workflow.Run{ID: id, Definition: def, Tenant: tenant}, nil))
	}
	next := func(want ...workflow.RunID) (tasks []pawl.Task) {
		var got []workflow.RunID
		for range want {
			tasks = append(tasks, <-attempts)
			got = append(got, tasks[len(tasks)-1].Run)
		}
		require.ElementsMatch(t, want, got)
		require.Empty(t, attempts)
		return tasks
	}
	start("a1", "a")
	first := next("a1")
	start("a2", "a")
	next("a2")
	for _, id := range []workflow.RunID{"a3", "a4", "a5", "a6"} {
		start(id, "a")
	}
	s, err := e.Inspect(ctx, "a3")
	require.NoError(t, err)
	require.True(t, s.Tokens[0].Limited, "it waits for the two of its tenant that are elsewhere")
	start("b1", "b")
	for _, id := range []workflow.RunID{"v1", "v2", "v3"} {
		start(id, "vip")
	}
	next("b1", "v1", "v2", "v3")

	require.NoError(t, e.Complete(ctx, first[0].Key, 1))
	third := next("a3")
	require.NoError(t, e.Cancel(ctx, "a2", "enough"))
	next("a4")
	require.NoError(t, e.Fail(ctx, third[0].Key, errors.New("it broke")))
	next("a5")
	require.NoError(t, e.Close(ctx))

	e = open(t, dir, options) // all are dispatched again, whichever comes first
	of := map[string]int{}
	var last pawl.Task
	for range 6 {
		task := <-attempts
		if of[task.Tenant]++; task.Tenant == "a" {
			last = task
		}
	}
	require.Equal(t, map[string]int{"a": 2, "b": 1, "vip": 3}, of)
	require.NoError(t, e.Complete(ctx, last.Key, 1))
	require.Equal(t, "a", (<-attempts).Tenant)
}

// Numbers that results report are summed by name, the same after a restart, and lists are sorted by them.
func TestSumsOfWhatIsReported(t *testing.T) {
	dir := t.TempDir()
	def := define(t, `{name: wide, start: split, nodes: [{id: split}, {id: load, task: load, retry: {maxAttempts: 2, initialInterval: 1ms}}, {id: sum}],
		transitions: [{from: split, to: load, foreach: {collection: input.files}, siblingGroup: files}, {from: load, to: sum, synchronization: {siblingGroup: files}}]}`)
	o := pawl.Options{Executor: pawl.Handlers{"load": func(_ context.Context, task pawl.Task) (any, error) {
		cost := pawl.Result{Metadata: map[string]any{"cost": 0.1, "model": "m"}}
		if task.Attempt == 1 && task.Branch.Index%2 == 0 {
			return cost, pawl.TaskError{Code: "busy", Retryable: true}
		}
		return cost, nil
	}}}
	e := open(t, dir, o)
	for i, n := range []int{10, 4, 20} {
		_, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprintf("r%d", i)), Definition: def}, map[string]any{"files": make([]any, n)})
		require.NoError(t, err)
	}
	_, err := e.Run(t.Context(), workflow.Run{ID: "none", Definition: define(t, `{name: none, start: a, nodes: [{id: a}]}`)}, nil)
	require.NoError(t, err)
	sums := func(e *pawl.Engine) {
		one, err := e.Overview(t.Context(), "r0")
		require.NoError(t, err)
		require.Equal(t, map[string]float64{"cost": 1.5}, one.Meta)
		require.Nil(t, one.MetaBelow)
		require.Equal(t, map[string]float64{"cost": 1.5}, one.Nodes[1].Meta)
		require.Nil(t, one.Nodes[0].Meta)
		var ids []workflow.RunID
		var costs []any
		for s, err := range e.Runs(t.Context(), pawl.RunFilter{Sort: "cost"}) {
			require.NoError(t, err)
			ids, costs = append(ids, s.Run), append(costs, s.Meta["cost"])
		}
		require.Equal(t, []workflow.RunID{"r2", "r0", "r1", "none"}, ids)
		require.Equal(t, []any{3.0, 1.5, 0.6, 0.0}, costs)
		for s, err := range e.Runs(t.Context(), pawl.RunFilter{Sort: "cost", After: "r2", Limit: 1}) {
			require.NoError(t, err)
			require.Equal(t, workflow.RunID("r0"), s.Run)
		}
		for _, err := range e.Runs(t.Context(), pawl.RunFilter{Sort: "cost", After: "nobody"}) {
			require.ErrorIs(t, err, pawl.ErrRunNotFound)
		}
	}
	sums(e)
	sums(e) // from memory
	require.NoError(t, e.Close(context.Background()))
	sums(open(t, dir, o))
}

// A sorted list has each run once, page by page, damaged ones first.
func TestSortedPagesWithDamagedRuns(t *testing.T) {
	dir := t.TempDir()
	o := pawl.Options{Executor: pawl.Handlers{"work": func(_ context.Context, task pawl.Task) (any, error) {
		return pawl.Result{Metadata: map[string]any{"cost": task.Input.(map[string]any)["n"]}}, nil
	}}}
	run := func(e *pawl.Engine, id workflow.RunID, cost int) {
		_, err := e.Run(t.Context(), workflow.Run{ID: id, Definition: define(t, oneTask)}, map[string]any{"n": cost})
		require.NoError(t, err)
	}
	e := open(t, dir, o)
	run(e, "lost-1", 2)
	run(e, "lost-2", 5)
	require.NoError(t, e.Close(t.Context()))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "runs")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "runs"), 0o700))
	e = open(t, dir, o)
	for i, cost := range []int{1, 4, 3, 4} {
		run(e, workflow.RunID(fmt.Sprint("r", i)), cost)
	}
	for limit := range 8 {
		var ids []workflow.RunID
		for after, more := workflow.RunID(""), true; more && len(ids) < 20; {
			more = false
			for s, err := range e.Runs(t.Context(), pawl.RunFilter{Sort: "cost", After: after, Limit: limit}) {
				require.NoError(t, err)
				require.Equal(t, strings.HasPrefix(string(s.Run), "lost"), s.Trouble != "")
				ids, after, more = append(ids, s.Run), s.Run, limit > 0
			}
		}
		require.Equal(t, []workflow.RunID{"lost-1", "lost-2", "r1", "r3", "r2", "r0"}, ids, limit)
	}
}

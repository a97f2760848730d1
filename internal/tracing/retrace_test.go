package tracing_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/retrace"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/spantest"
	"github.com/pawl-run/pawl/internal/timing"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

// traceOf makes the trace of a run in a directory that is closed.
func traceOf(t testing.TB, dir, id string) *retrace.Trace {
	t.Helper()
	rec, err := replay.Find(dir+":"+id, replay.Options{})
	require.NoError(t, err)
	defer rec.Close()
	out, err := retrace.Of(rec, 0, func(child workflow.RunID) (*replay.Recording, error) {
		return replay.Find(dir+":"+string(child), replay.Options{})
	})
	require.NoError(t, err)
	return out
}

const parent = `
name: parent
start: split
nodes:
  - {id: split}
  - {id: work, task: work, retry: {maxAttempts: 2, initialInterval: 1m}}
  - {id: pause, wait: {for: 10m}}
  - {id: below, subworkflow: {name: child}}
transitions:
  - {from: split, to: work, siblingGroup: g, spawnCount: 2}
  - {from: work, to: pause, synchronization: {siblingGroup: g}}
  - {from: pause, to: below}
`

// The trace is nested, has the run's trace id and its start span at the top, and is the same each time and without a provider but for the id.
func TestTheTraceOfAJournal(t *testing.T) {
	for _, on := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var p spantest.Provider
			var tries atomic.Int32
			o := pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) {
				<-time.After(2 * time.Second)
				if tries.Add(1) == 1 {
					return nil, errors.New("once more")
				}
				return "secret", nil
			}}}
			if on {
				o.TracerProvider = &p
			}
			dir := t.TempDir()
			e, err := pawl.Open(t.Context(), dir, o)
			require.NoError(t, err)
			_, err = e.Publish(t.Context(), define(t, "name: child\nstart: a\nnodes: [{id: a, task: deep}]"))
			require.NoError(t, err)
			_, err = e.Run(t.Context(), workflow.Run{ID: "r", Definition: define(t, parent)}, map[string]any{"secret": "secret"})
			require.NoError(t, err)
			require.NoError(t, e.Close(t.Context()))

			got := traceOf(t, dir, "r")
			var otlp, again, perfetto bytes.Buffer
			require.NoError(t, got.WriteOTLP(&otlp))
			require.NoError(t, traceOf(t, dir, "r").WriteOTLP(&again))
			require.Equal(t, otlp.String(), again.String())
			require.NoError(t, got.WritePerfetto(&perfetto))
			require.NotContains(t, otlp.String()+perfetto.String(), "secret")

			paths, byID := map[string]int{}, map[retrace.SpanID]*retrace.Span{}
			for i := range got.Spans {
				s := &got.Spans[i]
				path := s.Name
				for up := byID[s.Parent]; up != nil; up = byID[up.Parent] {
					path = up.Name + " > " + path
				}
				require.Nil(t, byID[s.ID], s.Name)
				byID[s.ID] = s
				paths[path]++
				if up := byID[s.Parent]; up != nil {
					require.False(t, s.From.Before(up.From), path)
					require.False(t, s.To.After(up.To), path)
				}
			}
			require.Equal(t, map[string]int{
				"run parent":                                                            1,
				"run parent > node split":                                               1,
				"run parent > join":                                                     1,
				"run parent > join > node work":                                         2,
				"run parent > join > node work > task work":                             3,
				"run parent > join > node work > wait retry":                            1,
				"run parent > join > node work > wait siblings":                         1,
				"run parent > node pause":                                               1,
				"run parent > node pause > wait timer":                                  1,
				"run parent > node below":                                               1,
				"run parent > node below > wait child":                                  1,
				"run parent > node below > wait child > run child":                      1,
				"run parent > node below > wait child > run child > node a":             1,
				"run parent > node below > wait child > run child > node a > task deep": 1,
			}, paths)
			top := &got.Spans[0]
			require.Equal(t, 11*time.Minute+6*time.Second, top.To.Sub(top.From))
			if on {
				start := p.Find(t, "start parent")
				require.Equal(t, start.Trace, traceID(got))
				require.Equal(t, start.ID, top.Parent.String())
			} else {
				require.Equal(t, retrace.SpanID{}, top.Parent)
			}
			readOTLP(t, otlp.Bytes(), len(got.Spans))
		})
	}
}

func traceID(t *retrace.Trace) string {
	var b bytes.Buffer
	_ = t.WriteOTLP(&b)
	_, rest, _ := strings.Cut(b.String(), `"traceId":"`)
	return rest[:32]
}

// readOTLP reads the body of a request as a collector does, with one value in each attribute.
func readOTLP(t *testing.T, text []byte, spans int) {
	t.Helper()
	var body struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct {
					TraceID, SpanID                    string
					StartTimeUnixNano, EndTimeUnixNano json.Number
					Name                               string
					Attributes                         []struct {
						Key   string
						Value map[string]any
					}
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &body))
	got := body.ResourceSpans[0].ScopeSpans[0].Spans
	require.Len(t, got, spans)
	for _, s := range got {
		require.Len(t, s.TraceID, 32)
		require.Len(t, s.SpanID, 16)
		from, err := s.StartTimeUnixNano.Int64()
		require.NoError(t, err)
		to, err := s.EndTimeUnixNano.Int64()
		require.NoError(t, err)
		require.LessOrEqual(t, from, to)
		for _, a := range s.Attributes {
			require.Len(t, a.Value, 1, "%s %s", s.Name, a.Key)
		}
	}
}

// endings are tasks by how their attempts end, each with its definition and what spans tell of that, in the order of attempts.
var endings = map[string]struct{ node, from, to, want string }{
	"works":     {want: "completed"},
	"schema":    {node: ", outputSchema: {type: string}", want: "failed schema_error"},
	"large":     {want: "failed result_too_large"},
	"deaf":      {node: ", timeout: 1s", want: "failed timeout"},
	"late":      {node: ", timeout: 1s", want: "failed timeout"},
	"retries":   {node: ", retry: {maxAttempts: 2}", want: "failed bad; completed"},
	"parks":     {node: ", retry: {maxAttempts: 1, exhausted: park}", want: "failed bad"},
	"snoozes":   {want: "snoozed; completed"},
	"answered":  {want: "completed"}, // by somebody else, before its handler fails
	"leaves":    {to: ", condition: input.missing > 1", want: "failed expression_error"},
	"cancelled": {want: "cancelled"},
	"straggles": {from: ", siblingGroup: g, spawnCount: 3", to: ", synchronization: {siblingGroup: g, strategy: any}", want: "cancelled; cancelled; completed"},
}

// performEnding is the handler of endings.
func performEnding(ctx context.Context, task pawl.Task, e *pawl.Engine) (any, error) {
	first := task.Attempt == 1
	switch {
	case task.Type == "large":
		return strings.Repeat("x", 2<<20), nil
	case task.Type == "parks", task.Type == "retries" && first:
		return nil, pawl.TaskError{Code: "bad", Message: "no", Retryable: true}
	case task.Type == "snoozes" && first:
		return nil, pawl.Snooze(time.Second)
	case task.Type == "answered":
		return nil, errors.Join(e.Complete(ctx, task.Key, 1), errors.New("too late"))
	case task.Type == "deaf", task.Type == "straggles" && task.Branch.Index == 0:
		<-ctx.Done()
	case task.Type == "late", task.Type == "cancelled", task.Type == "straggles" && task.Branch.Index == 1:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return 7, nil
}

// The spans of attempts tell how the run says that each has ended, whatever its handler has returned, and so does the trace of the journal.
func TestOutcomesAreThoseOfTheJournal(t *testing.T) {
	for kind, of := range endings {
		synctest.Test(t, func(t *testing.T) {
			var p spantest.Provider
			var e *pawl.Engine
			dir := t.TempDir()
			e = open(t, dir, &p, pawl.Options{Executor: pawl.Handlers{"*": func(ctx context.Context, task pawl.Task) (any, error) { return performEnding(ctx, task, e) }}})
			text := "name: w\nstart: a\nnodes: [{id: a}, {id: b, task: " + kind + of.node + "}, {id: c}]\n" +
				"transitions: [{from: a, to: b" + of.from + "}, {from: b, to: c" + of.to + "}]\n"
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, text)}, nil))
			settle()
			if kind == "cancelled" {
				require.NoError(t, e.Cancel(t.Context(), "r", "not wanted"))
			}
			settle()
			require.NoError(t, e.Close(t.Context()))
			tell := func(a map[string]any, code string) string {
				return fmt.Sprintf("%d %d %v %s", a["pawl.token.id"], a["pawl.attempt"], a["pawl.task.outcome"], code)
			}
			var live, kept []string
			for _, s := range p.Named("task " + kind) {
				require.Equal(t, s.Error, cmp.Or(s.Attributes["error.type"], any("")))
				live = append(live, tell(s.Attributes, s.Error))
			}
			for _, s := range traceOf(t, dir, "r").Spans {
				attributes := map[string]any{}
				for _, a := range s.Attributes {
					attributes[a.Name] = a.Value
				}
				if s.Name == "task "+kind {
					kept = append(kept, tell(attributes, s.Error))
				}
			}
			slices.Sort(live)
			slices.Sort(kept)
			require.Equal(t, kept, live, kind)
			for i := range live {
				live[i] = strings.TrimSpace(live[i][len("1 1 "):])
			}
			require.Equal(t, of.want, strings.Join(live, "; "), kind)
		})
	}
}

// A fan-out of thousands of branches has one process in Perfetto, and no more threads than tokens at once; those of a thread follow
// each other, and what a token did lies in it.
func TestPerfettoOpensThousandsOfBranches(t *testing.T) {
	harness.InTurn(t, 4)
	if harness.Raced {
		t.Skip("one goroutine makes the trace")
	}
	branches := harness.Figure(2000, 2000, 10_000)
	dir := t.TempDir()
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Durability: pawl.ProcessCrash, Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, nil }}})
	require.NoError(t, err)
	_, err = e.Run(t.Context(), workflow.Run{ID: "wide", Definition: define(t, fmt.Sprintf(`
name: wide
start: split
nodes: [{id: split}, {id: work, task: work}, {id: sum}]
transitions:
  - {from: split, to: work, siblingGroup: g, spawnCount: %d, maxConcurrency: 64}
  - {from: work, to: sum, synchronization: {siblingGroup: g}}
`, branches))}, nil)
	require.NoError(t, err)
	require.NoError(t, e.Close(t.Context()))
	var text bytes.Buffer
	require.NoError(t, traceOf(t, dir, "wide").WritePerfetto(&text))
	require.Less(t, text.Len(), branches*(16<<20)/10_000)
	var body struct {
		TraceEvents []struct {
			Name, Ph, Cat string
			Pid, Tid      int
			Ts, Dur       int64
		}
	}
	require.NoError(t, json.Unmarshal(text.Bytes(), &body))
	tasks, ends, inside := 0, map[int]int64{}, map[int][2]int64{}
	for _, e := range body.TraceEvents {
		require.Contains(t, []string{"M", "X", "b", "e"}, e.Ph)
		require.Equal(t, 1, e.Pid)
		require.GreaterOrEqual(t, e.Ts, int64(0))
		switch e.Cat {
		case "task":
			tasks++
			in := inside[e.Tid]
			require.GreaterOrEqual(t, e.Ts, in[0])
			require.LessOrEqual(t, e.Ts+e.Dur, in[1])
		case "node":
			inside[e.Tid] = [2]int64{e.Ts, e.Ts + e.Dur}
			ends[e.Tid] = e.Ts + e.Dur
		}
	}
	require.Equal(t, branches, tasks)
	t.Logf("%d bytes, %d events, %d threads", text.Len(), len(body.TraceEvents), len(ends))
}

// A trace of more spans than may be is refused while they are made, those of runs below it counted with its own.
func TestATraceIsBounded(t *testing.T) {
	dir := t.TempDir()
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return nil, nil }}})
	require.NoError(t, err)
	_, err = e.Publish(t.Context(), define(t, "name: below\nversion: 1\nstart: a\nnodes: [{id: a, task: work}]\n"))
	require.NoError(t, err)
	_, err = e.Run(t.Context(), workflow.Run{ID: "r", Definition: define(t, "name: above\nstart: a\nnodes: [{id: a, subworkflow: {name: below, version: 1}}]\n")}, nil)
	require.NoError(t, err)
	require.NoError(t, e.Close(context.Background()))
	spans := len(traceOf(t, dir, "r").Spans)
	for most, refused := range map[int]bool{1: true, spans - 1: true, spans: false} {
		rec, err := replay.Find(dir+":r", replay.Options{})
		require.NoError(t, err)
		_, err = retrace.Of(rec, most, func(child workflow.RunID) (*replay.Recording, error) {
			return replay.Find(dir+":"+string(child), replay.Options{})
		})
		rec.Close()
		var limit *workflow.LimitError
		require.Equal(t, refused, errors.As(err, &limit), most)
	}
}

// timed has a task that works for as long as its input says, fails without one, and is timed out after five seconds.
const timed = `
name: timed
start: pay
nodes:
  - {id: pay, task: charge, timeout: 5s, retry: {maxAttempts: 2, initialInterval: 1ms}, input: {work: input.work}}
`

// TestEndsAreWhatTheEngineCounts: journals tell as many attempts and runs, as many failures and the same times as the engine has counted
// while it worked, but for attempts that were timed out, whose begin no journal has.
func TestEndsAreWhatTheEngineCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		e, err := pawl.Open(t.Context(), dir, pawl.Options{Concurrency: 1, Executor: pawl.Handlers{"charge": func(ctx context.Context, task pawl.Task) (any, error) {
			work, err := time.ParseDuration(task.Input.(map[string]any)["work"].(string))
			if err != nil {
				return nil, err
			}
			select {
			case <-time.After(work):
			case <-ctx.Done():
			}
			return pawl.Result{Metadata: map[string]any{"cost": 0.1}}, nil
		}}})
		require.NoError(t, err)
		ids := []workflow.RunID{"a", "b", "none", "slow"}
		start := func(id workflow.RunID, work string) {
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: define(t, timed)}, map[string]any{"work": work}))
			synctest.Wait()
		}
		for id, work := range map[workflow.RunID]string{"a": "2s", "b": "1s", "none": "none"} {
			start(id, work)
		}
		for _, id := range ids[:3] {
			_, err := e.Wait(t.Context(), id)
			require.NoError(t, err)
		}
		start("slow", "1h")
		_, err = e.Wait(t.Context(), "slow")
		require.NoError(t, err)
		start("cancelled", "1h")
		require.NoError(t, e.Cancel(t.Context(), "cancelled", "not wanted"))
		live, err := e.Timings(t.Context(), history.TimingFilter{})
		require.NoError(t, err)
		require.NoError(t, e.Close(t.Context()))

		var ledger timing.Ledger
		for rec, err := range replay.All(replay.Options{}, dir) {
			require.NoError(t, err)
			ends, err := retrace.Ends(rec)
			require.NoError(t, err)
			for _, a := range ends {
				ledger.Count(a)
			}
			rec.Close()
		}
		kept := ledger.MakeTimings("node")
		require.Len(t, kept.Rows, 1)
		require.Equal(t, int64(6), kept.Rows[0].Attempts)
		live.Rows[0].Rate, live.Runs[0].Rate, kept.Rows[0].Rate, kept.Runs[0].Rate = 0, 0, 0, 0
		require.Equal(t, live.Rows[0].TimingSum, kept.Rows[0].TimingSum)
		require.Equal(t, map[string]float64{"cost": 0.2}, kept.Rows[0].Meta)
		require.Equal(t, live.Runs[0].TimingSum, kept.Runs[0].TimingSum)
		require.Equal(t, int64(4), kept.Runs[0].Attempts)
		require.Equal(t, int64(2), kept.Runs[0].Failed)
	})
}

// TestAForkHasItsOwnEnds: attempts that the other run has made do not count again in its fork, and the fork has taken as long as it says.
func TestAForkHasItsOwnEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) {
			<-time.After(time.Second)
			return nil, nil
		}}})
		require.NoError(t, err)
		d := define(t, "name: w\nstart: a\nnodes: [{id: a, task: first}, {id: b, task: second}]\ntransitions: [{from: a, to: b}]\n")
		_, err = e.Run(t.Context(), workflow.Run{ID: "r", Definition: d}, nil)
		require.NoError(t, err)
		<-time.After(time.Hour)
		require.NoError(t, e.Rerun(t.Context(), pawl.Target{Run: "r", Node: "b"}, "again", pawl.ForkOptions{}))
		_, err = e.Wait(t.Context(), "again")
		require.NoError(t, err)
		require.NoError(t, e.Close(t.Context()))
		ends := traceOf(t, dir, "again").Ends
		require.Len(t, ends, 2)
		require.Equal(t, timing.Name{Workflow: "w", Node: "b", Type: "second"}, ends[0].Of)
		require.Equal(t, time.Second, ends[0].Worked)
		require.Equal(t, 2*time.Second, ends[1].Worked)
	})
}

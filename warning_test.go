package pawl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/problem"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

const careless = `
name: careless
start: a
nodes: [{id: a}, {id: b}, {id: c}]
transitions: [{from: a, to: b, condition: input.ok}, {from: c, to: c}]
`

// The warnings of a definition are returned by Publish, and reach the log at
// Publish or at Start, once.
func TestWarnings(t *testing.T) {
	codes := []string{problem.MayMatchNothing, problem.Unreachable, problem.EndlessCycle}
	run := workflow.Run{Definition: define(t, careless)}
	for _, first := range []string{"publish", "start"} {
		t.Run(first+" first", func(t *testing.T) {
			var log bytes.Buffer
			e := open(t, t.TempDir(), pawl.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			begin := func(id workflow.RunID) {
				run.ID = id
				require.NoError(t, e.Start(t.Context(), run, map[string]any{"ok": true}))
				_, err := e.Wait(t.Context(), id)
				require.NoError(t, err)
			}
			if first == "start" {
				begin("before")
			}
			for range 2 {
				warnings, err := e.Publish(t.Context(), run.Definition)
				require.NoError(t, err)
				require.Len(t, warnings, len(codes))
				for i, p := range warnings {
					require.Equal(t, codes[i], p.Code)
				}
			}
			begin("after")
			require.Equal(t, len(codes), strings.Count(log.String(), "level=WARN"), log.String())
			for _, code := range codes {
				require.Contains(t, log.String(), "workflow=careless version=1 problem=")
				require.Contains(t, log.String(), "("+code+")")
			}
		})
	}
}

// A definition that is published is warned of in each process that starts it by its name. The answer of its author,
// unmatched: end, is kept with it.
func TestWarningsOfAStartByName(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir, pawl.Options{})
	publish(t, e, define(t, careless))
	answered := define(t, strings.Replace(careless, "{id: a}", "{id: a, unmatched: end}", 1)+"version: 2\n")
	publish(t, e, answered)
	require.NoError(t, e.Close(t.Context()))
	for version, codes := range [][]string{
		1: {problem.MayMatchNothing, problem.Unreachable, problem.EndlessCycle},
		2: {problem.Unreachable, problem.EndlessCycle},
	} {
		if version == 0 {
			continue
		}
		var log bytes.Buffer
		e := open(t, dir, pawl.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for _, id := range []workflow.RunID{"a", "b"} {
			run := workflow.Run{ID: workflow.RunID(strconv.Itoa(version)) + id, Workflow: "careless", Version: version}
			require.NoError(t, e.Start(t.Context(), run, map[string]any{"ok": true}))
		}
		require.NoError(t, e.Close(t.Context()))
		require.Equal(t, len(codes), strings.Count(withoutWaits(log.String()), "level=WARN"), log.String())
		for _, code := range codes {
			require.Contains(t, log.String(), "("+code+")")
		}
		require.NotContains(t, log.String(), "problem=\"line", "its text is the engine's own")
	}
}

// withoutWaits returns a log without the lines by which Close says that it waits, as it does on a slow machine.
func withoutWaits(log string) string {
	var out strings.Builder
	for line := range strings.Lines(log) {
		if !strings.Contains(line, "pawl: Close waits") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// Errors of a call say what was found and what would be right.
func TestMessagesOfStart(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
	d := define(t, oneTask)
	publish(t, e, d)
	_, err := e.Publish(t.Context(), define(t, oneTask+"timeout: 1h\n"))
	require.EqualError(t, err, "publish one version 1: published with another content: raise its version")
	for kind, input := range map[string]any{"a list": []int{1}, "a number": 1, "a string": "x", "a boolean": true} {
		err := e.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, input)
		require.EqualError(t, err, "input: the input of a run is an object, not "+kind)
	}
	err = e.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, map[string]any{"n": strings.Repeat("x", 2<<20)})
	require.EqualError(t, err, `the input of run "r": limit payloadBytes exceeded: 2097160, at most 1048576 bytes: use a blob for what is large (Engine.PutBlob)`)
	var limit *workflow.LimitError
	err = e.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, map[string]any{"n": strings.Repeat("x", 65<<20)})
	require.ErrorAs(t, err, &limit)
	require.Zero(t, limit.Got, "it is not counted to its end")
}

// An engine without a logger tells slog.Default what no caller can be told; that the disk
// is full once, however many runs notice it.
func TestTheDefaultLoggerTellsOfAFullDisk(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	hook := &testhook.Hook{}
	defer hook.OnStage(func(stage string) error {
		if stage == "moving" { // what pawl.db lacks: it would make Close fail
			return nil
		}
		return pawl.ErrNoSpace
	})()
	e := openWith(t, hook, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
	for _, id := range []workflow.RunID{"a", "b"} {
		_, err := e.Run(t.Context(), workflow.Run{ID: id, Definition: define(t, oneTask)}, map[string]int{"n": 1})
		require.NoError(t, err)
	}
	require.NoError(t, e.Close(t.Context()))
	require.Equal(t, 1, strings.Count(log.String(), "the disk is full: make room"), log.String())
	require.NotContains(t, log.String(), "pawl: fault")
}

// When an engine fails, as after a take-over, the log is told of it once, and of how many runs were active.
func TestTheLogIsToldOnceOfAFailedEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSharedPlace(t)
		var log bytes.Buffer
		o := p.options(nil, nil)
		o.Logger, o.IdleAfter = slog.New(slog.NewTextHandler(&log, nil)), time.Hour
		a, err := pawl.Open(t.Context(), filepath.Join(t.TempDir(), "first"), o)
		require.NoError(t, err)
		def := define(t, "name: w\nstart: go\nnodes: [{id: go, wait: {event: go}}]\n")
		const runs = 20
		for i := range runs {
			require.NoError(t, a.Start(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("run-", i)), Definition: def}, nil))
		}
		synctest.Wait()
		b, err := pawl.Open(t.Context(), filepath.Join(t.TempDir(), "second"), p.options(nil, nil))
		require.NoError(t, err)
		for i := range runs {
			require.Error(t, a.Signal(t.Context(), workflow.RunID(fmt.Sprint("run-", i)), workflow.Signal{Name: "go"}))
		}
		<-time.After(time.Hour) // in which alarms and retries would say it again
		require.NoError(t, a.Close(t.Context()))
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], "the engine has failed")
		require.Contains(t, lines[0], fmt.Sprint("active=", runs))
		require.NoError(t, b.Close(t.Context()))
	})
}

// A fault that many runs meet is a line a second, and not one for each run.
func TestTheLogIsToldOfManyRunsInOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		hook := &testhook.Hook{}
		defer hook.OnStage(func(stage string) error {
			if stage == "moving" {
				return nil
			}
			return errors.New("the disk says no")
		})()
		e := openWith(t, hook, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for i := range 30 {
			_, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("run-", i)), Definition: define(t, oneTask)}, map[string]int{"n": 1})
			require.NoError(t, err)
		}
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "the disk says no"), log.String())
		<-time.After(2 * time.Second)
		require.NoError(t, e.Close(t.Context()))
	})
}

// A definition is checked once when it is compiled, and Publish and Start look at it no further: what they allocate is
// about what hashing and compiling do. A definition that is known is not checked at all. Allocations of the engine's
// background count as well, so each figure is the least of three.
func TestDefinitionsAreCheckedOnce(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	version := 0
	fresh := func() *workflow.Definition { // one that nobody has seen, with no warning
		d := &workflow.Definition{Name: "chain", Start: "n0"}
		version++
		d.Version = version
		for i := range 300 {
			d.Nodes = append(d.Nodes, workflow.Node{ID: workflow.NodeID("n" + strconv.Itoa(i)), Task: "t", Input: map[string]string{"x": "input.x"}})
			if i > 0 {
				d.Transitions = append(d.Transitions, workflow.Transition{From: d.Nodes[i-1].ID, To: d.Nodes[i].ID})
			}
		}
		return d
	}
	compiled := leastAllocs(func() {
		d := fresh()
		_, err := d.Hash() // the engine asks first whether it knows it
		require.NoError(t, err)
		_, err = workflow.Compile(d)
		require.NoError(t, err)
	})
	published := leastAllocs(func() {
		warnings, err := e.Publish(t.Context(), fresh())
		require.NoError(t, err)
		require.Empty(t, warnings)
	})
	require.Less(t, published, 1.3*compiled)
	previewed := leastAllocs(func() {
		_, _, err := e.DryRunPublish(t.Context(), fresh())
		require.NoError(t, err)
	})
	require.Less(t, previewed, 1.3*compiled)
	begun := leastAllocs(func() { // the run itself is refused, behind its definition
		require.Error(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: fresh()}, 1))
	})
	require.Less(t, begun, 1.3*compiled)
	known := fresh()
	hashed := leastAllocs(func() {
		_, err := known.Hash()
		require.NoError(t, err)
	})
	again := leastAllocs(func() {
		_, err := e.Publish(t.Context(), known)
		require.NoError(t, err)
	})
	require.Less(t, again, 1.1*hashed)
}

// leastAllocs returns how many allocations f makes, in the least of three measurements.
func leastAllocs(f func()) float64 {
	return min(testing.AllocsPerRun(3, f), testing.AllocsPerRun(3, f), testing.AllocsPerRun(3, f))
}

// The places of warnings are those of the text that was published, also if another text of the same definition came before.
func TestPlacesOfWarnings(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{})
	lines := func(d *workflow.Definition) (out []int) {
		warnings, err := e.Publish(t.Context(), d)
		require.NoError(t, err)
		known, previewed, err := e.DryRunPublish(t.Context(), d)
		require.NoError(t, err)
		require.True(t, known)
		require.Equal(t, warnings, previewed)
		for _, p := range warnings {
			out = append(out, p.Line)
		}
		return out
	}
	first := lines(define(t, careless))
	require.NotEmpty(t, first)
	moved := define(t, "\n\n"+careless)
	for range 2 {
		second := lines(moved)
		for i := range first {
			require.Equal(t, first[i]+2, second[i])
		}
	}
}

// Bounds that are lowered hold for definitions that the engine has to compile; a trial of Publish says what Publish would.
func TestLoweredBounds(t *testing.T) {
	dir, text := t.TempDir(), fmt.Sprintf(waiter, 1)
	e := open(t, dir, pawl.Options{})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, text)}, nil))
	require.NoError(t, e.Close(t.Context()))
	e = open(t, dir, pawl.Options{Bounds: workflow.Bounds{Bytes: 10}})
	other := fmt.Sprintf(waiter, 2)
	_, _, tried := e.DryRunPublish(t.Context(), define(t, other))
	_, published := e.Publish(t.Context(), define(t, other))
	for _, err := range []error{tried, published} {
		require.ErrorAs(t, err, new(*workflow.DefinitionError))
	}
	require.NoError(t, e.Pause(t.Context(), "r")) // the engine loads the run, and has its definition then
	_, _, err := e.DryRunPublish(t.Context(), define(t, text))
	require.NoError(t, err)
	_, err = e.Publish(t.Context(), define(t, text))
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, text)}, nil), "the same again")
}

// A definition that the caller has compiled is started as it is, as another run with the same definition inline, and by its name.
func TestStartOfACompiledDefinition(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
	d := define(t, oneTask)
	g, err := workflow.Compile(d)
	require.NoError(t, err)
	out, err := e.Run(t.Context(), workflow.Run{ID: "compiled", Graph: g}, map[string]int{"n": 1})
	require.NoError(t, err)
	require.Equal(t, workflow.RunCompleted, out.Status)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "compiled", Definition: define(t, oneTask)}, map[string]int{"n": 1}), "the same again")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "inline", Definition: d}, map[string]int{"n": 1}))
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "inline", Graph: g}, map[string]int{"n": 1}), "the same again")
	for _, run := range []workflow.Run{{ID: "r", Graph: g, Definition: d}, {ID: "r", Graph: g, Workflow: "one"}, {ID: "r", Definition: d, Workflow: "one"}} {
		err := e.Start(t.Context(), run, nil)
		require.ErrorIs(t, err, pawl.ErrInvalid)
		require.ErrorContains(t, err, `run "r" has more than one of Definition, Graph and Workflow`)
	}
	err = e.Start(t.Context(), workflow.Run{ID: "r", Graph: &workflow.Graph{}}, nil)
	require.ErrorIs(t, err, pawl.ErrInvalid)
	require.ErrorContains(t, err, "take what workflow.Compile returns")
}

// A definition that a caller changes between two starts is another one.
func TestStartSeesWhatIsChangedInADefinition(t *testing.T) {
	e := open(t, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
	d := define(t, oneTask)
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "before", Definition: d}, map[string]int{"n": 1}))
	d.Nodes[0].Input = map[string]string{"n": "input.n + 1"}
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "after", Definition: d}, map[string]int{"n": 1}))
	before, err := e.Wait(t.Context(), "before")
	require.NoError(t, err)
	after, err := e.Wait(t.Context(), "after")
	require.NoError(t, err)
	require.NotEqual(t, before.Output, after.Output)
}

// A run whose task never answers is failed once it has made no progress for as
// long as the option says, with a reason that names the task, also after a
// restart. A run that waits for something that may still come is left alone.
func TestStalledRunsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pending := pawl.Handlers{
			"lost":  func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending },
			"fails": func(context.Context, pawl.Task) (any, error) { return nil, pawl.TaskError{Code: "no"} },
		}
		dir := t.TempDir()
		options := pawl.Options{Executor: pending, StallAfter: time.Hour}
		e, err := pawl.Open(t.Context(), dir, options)
		require.NoError(t, err)
		nodes := map[workflow.RunID]string{
			"stalled": `{task: lost}`, "times-out": `{task: lost, timeout: 100h}`, "timer": `{wait: {for: 100h}}`,
			"event": `{wait: {event: e}}`, "approval": `{approval: {}}`, "parked": `{task: fails, retry: {exhausted: park}}`,
			"paused": `{task: lost}`,
		}
		for id, node := range nodes {
			d := define(t, "name: w\nstart: s\nnodes: [{id: s}, "+`{id: n, `+node[1:]+"]\ntransitions: [{from: s, to: n}]\n")
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: d}, nil))
		}
		require.NoError(t, e.Pause(t.Context(), "paused"))
		d := define(t, "name: child\nstart: n\nnodes: [{id: n, wait: {event: e}}]\n")
		publish(t, e, d)
		d = define(t, "name: parent\nstart: n\nnodes: [{id: n, subworkflow: {name: child}}]\n")
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "parent", Definition: d}, nil))

		<-time.After(40 * time.Minute)
		require.NoError(t, e.Close(context.Background()))
		e, err = pawl.Open(t.Context(), dir, options)
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close(context.Background())) }()
		status := func() map[workflow.RunStatus][]string {
			out := map[workflow.RunStatus][]string{}
			for r, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
				require.NoError(t, err)
				if r.Parent == "" {
					out[r.Status] = append(out[r.Status], string(r.Run))
				}
			}
			for _, ids := range out { // they were started in the order of a map
				slices.Sort(ids)
			}
			return out
		}
		require.Empty(t, status()[workflow.RunFailed])
		<-time.After(59 * time.Minute)
		require.Empty(t, status()[workflow.RunFailed], "what is out was sent again a while ago only")
		<-time.After(2 * time.Minute)
		require.Equal(t, []string{"stalled"}, status()[workflow.RunFailed])
		<-time.After(3 * time.Hour)
		require.Equal(t, map[workflow.RunStatus][]string{
			workflow.RunFailed: {"stalled"}, workflow.RunPaused: {"paused"},
			workflow.RunRunning: {"approval", "event", "parent", "parked", "timer", "times-out"},
		}, status())
		out, err := e.Wait(t.Context(), "stalled")
		require.NoError(t, err)
		require.Equal(t, "stalled", out.Failure.Code)
		require.Regexp(t, `^no progress for 1h4\d+m\d+(\.\d+)?s; no result came for t2 of node "n" \(task type "lost", attempt 1\)$`, out.Failure.Message)
	})
}

// A heartbeat is progress, also at a node without heartbeat.
func TestHeartbeatsAreProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, t.TempDir(), pawl.Options{StallAfter: time.Hour, Executor: pawl.Handlers{"*": func(ctx context.Context, task pawl.Task) (any, error) {
			for range 10 {
				<-time.After(40 * time.Minute)
				if err := task.Heartbeat(ctx, nil); err != nil {
					return nil, err
				}
			}
			return nil, nil
		}}})
		d := define(t, "name: w\nstart: a\nnodes: [{id: a, task: t}]\n")
		out, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: d}, nil)
		require.NoError(t, err)
		require.NoError(t, out.Err())
	})
}

// A task that is sent again while the engine opens may tell a heartbeat before Open
// returns. With the race detector this fails if there is no detector by then.
func TestAHeartbeatWhileTheEngineOpens(t *testing.T) {
	dir, out := t.TempDir(), make(chan struct{}, 1)
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) {
		out <- struct{}{}
		return nil, pawl.ErrPending
	}}})
	require.NoError(t, err)
	d := define(t, "name: w\nstart: a\nnodes: [{id: a, task: t}]\n")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil))
	<-out
	require.NoError(t, e.Close(t.Context()))

	e = open(t, dir, pawl.Options{StallAfter: time.Hour, Executor: pawl.Handlers{"*": func(ctx context.Context, task pawl.Task) (any, error) {
		err := task.Heartbeat(ctx, nil)
		out <- struct{}{}
		return nil, err
	}}})
	<-out // nothing else may order the two
	o, err := e.Wait(t.Context(), "r")
	require.NoError(t, err)
	require.NoError(t, o.Err())
}

// A run that moves now and then is not stalled, and without the option none is.
func TestSlowRunsAreNotStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := pawl.Handlers{"*": func(ctx context.Context, _ pawl.Task) (any, error) {
			select {
			case <-time.After(50 * time.Minute):
				return nil, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
		d := define(t, "name: w\nstart: a\nnodes: [{id: a, task: t}, {id: b, task: t}, {id: c, task: t}]\ntransitions: [{from: a, to: b}, {from: b, to: c}]\n")
		e := open(t, t.TempDir(), pawl.Options{Executor: slow, StallAfter: time.Hour})
		out, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: d}, nil)
		require.NoError(t, err)
		require.NoError(t, out.Err())

		never := open(t, t.TempDir(), pawl.Options{})
		require.NoError(t, never.Start(t.Context(), workflow.Run{ID: "r", Definition: d}, nil))
		<-time.After(harness.Figure[time.Duration](100, 1000, 1000) * time.Hour)
		snap, err := never.Inspect(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, workflow.RunRunning, snap.Status)
	})
}

// The wall clock says nothing about how long a run was quiet when it has jumped:
// runs that move are left alone, those that do not are failed after their time,
// also in the next life.
func TestStallsWhenTheClockJumps(t *testing.T) {
	for name, jump := range map[string]time.Duration{
		"an hour ahead": time.Hour, "an hour back": -time.Hour, "ten years ahead": 87_600 * time.Hour, "ten years back": -87_600 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ahead atomic.Int64
				hook := &testhook.Hook{}
				hook.OnNow(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
				options := pawl.Options{StallAfter: time.Hour, Executor: pawl.Handlers{
					"lost": func(context.Context, pawl.Task) (any, error) { return nil, pawl.ErrPending },
					"slow": func(context.Context, pawl.Task) (any, error) { <-time.After(50 * time.Minute); return nil, nil },
				}}
				dir := t.TempDir()
				e, err := pawl.Open(testhook.With(t.Context(), hook), dir, options)
				require.NoError(t, err)
				slow := define(t, "name: w\nstart: a\nnodes: [{id: a, task: slow}, {id: b, task: slow}]\ntransitions: [{from: a, to: b}, {from: b, to: a, loop: {maxIterations: 2}}]\n")
				lost := define(t, "name: l\nstart: a\nnodes: [{id: a, task: lost}]\n")
				require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "moves", Definition: slow}, nil))
				require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "lost", Definition: lost}, nil))
				stands := func(id workflow.RunID) workflow.RunStatus {
					synctest.Wait()
					snap, err := e.Inspect(t.Context(), id)
					require.NoError(t, err)
					return snap.Status
				}
				<-time.After(59 * time.Minute)
				ahead.Store(int64(jump))
				<-time.After(50 * time.Minute)
				require.Equal(t, workflow.RunRunning, stands("lost"), "it was asked again when the clock had jumped")
				<-time.After(30 * time.Minute)
				require.Equal(t, workflow.RunFailed, stands("lost"))
				require.Equal(t, workflow.RunRunning, stands("moves"))
				out, err := e.Wait(t.Context(), "lost")
				require.NoError(t, err)
				require.Regexp(t, `^no progress for 1h\d+m`, out.Failure.Message)

				require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "again", Definition: lost}, nil))
				require.NoError(t, e.Close(context.Background()))
				ahead.Store(0)
				e, err = pawl.Open(testhook.With(t.Context(), hook), dir, options)
				require.NoError(t, err)
				defer func() { require.NoError(t, e.Close(context.Background())) }()
				<-time.After(140 * time.Minute) // a record may lie up to StallAfter ahead of the clock before it tells
				require.Equal(t, workflow.RunFailed, stands("again"))
				out, err = e.Wait(t.Context(), "moves")
				require.NoError(t, err)
				require.NoError(t, out.Err())
			})
		})
	}
}

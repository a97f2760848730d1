package bombtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

// chain is what the other runs do while a bomb goes off.
const chain = `
name: chain
start: a
nodes: [{id: a, task: echo, input: {n: input.n}}, {id: b, task: echo}, {id: c, task: echo, output: {output.n: input.n}}]
transitions: [{from: a, to: b}, {from: b, to: c}]`

// A family is a kind of bomb: each call lets one go off and waits for its end.
type family func(w *world, id workflow.RunID) error

// running gives the family of the runs of a definition.
func running(t *testing.T, yaml string, input any) family {
	d := define(t, "%s", yaml)
	return func(w *world, id workflow.RunID) error {
		ctx := context.WithoutCancel(w.t.Context())
		if err := w.Start(ctx, workflow.Run{ID: id, Definition: d}, input); err != nil {
			return err
		}
		_, err := w.Wait(ctx, id)
		return err
	}
}

// families gives bombs of every kind: in a release at the default limits.
func families(t *testing.T) map[string]family {
	limits := "limits: {tokens: 5000, celCost: 50000, descendants: 100}"
	wide := 2000
	if harness.CurrentLevel() == harness.Release {
		limits, wide = "limits: {descendants: 2000}", 100_000
	}
	l := make([]any, 100)
	for i := range l {
		l[i] = i
	}
	small := define(t, chain)
	conditions := func(w *world, id workflow.RunID) error {
		return w.Start(w.t.Context(), workflow.Run{ID: id, Definition: withExpression("condition", strings.Repeat("[(", 8000))}, nil)
	}
	deepest := json.RawMessage(`{"v":` + strings.Repeat("[", 1_000_000) + `}`)
	many := make([]any, 100_000)
	for i := range many {
		many[i] = map[string]any{"op": "add", "path": "/nodes/t/priority", "value": 1}
	}
	return map[string]family{
		"conditions": running(t, `
name: x
start: a
`+limits+`
state: {initial: {l: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]}}
nodes: [{id: a}, {id: z}]
transitions:
  - {from: a, to: a, loop: {maxIterations: 1000000}, condition: "state.l.all(a, state.l.all(b, state.l.all(c, true)))"}
  - {from: a, to: z, priority: 1}`, nil),
		"loops":     running(t, "name: x\nstart: a\n"+limits+endless["gateways"].yaml, nil),
		"fan-outs":  running(t, "name: x\nstart: a\nnodes: [{id: a}, {id: b}]\ntransitions: [{from: a, to: b, foreach: {collection: input.l}}]", items(wide)),
		"tasks":     running(t, "name: x\nstart: a\nnodes: [{id: a}, {id: b, task: echo}]\ntransitions: [{from: a, to: b, foreach: {collection: input.l}}]", items(max(wide/5, 1000))),
		"values":    running(t, merged16, nil),
		"recursion": running(t, "name: wide\nstart: a\n"+limits+"\nnodes: [{id: a}, {id: b, subworkflow: {name: wide}}]\ntransitions: [{from: a, to: b, spawnCount: 3}]", nil),
		"texts": func(w *world, id workflow.RunID) error {
			return w.Start(w.t.Context(), workflow.Run{ID: id, Definition: small}, deepest)
		},
		"definitions": conditions,
		"patches": func(w *world, _ workflow.RunID) error {
			_, err := w.Patch(w.t.Context(), "patched", pawl.Patch{Base: 1, Ops: many})
			return err
		},
		"signals": func(w *world, _ workflow.RunID) error {
			var le *workflow.LimitError
			for range 1000 {
				if err := w.Signal(w.t.Context(), "patched", workflow.Signal{Name: "flood", Early: true, Payload: l}); err != nil && !errors.As(err, &le) {
					return err
				}
			}
			return nil
		},
	}
}

// merged16 makes a value of 15 MB in one message after another.
const merged16 = `
name: x
start: a
nodes: [{id: a, output: {state.s: "lists.range(20000).map(x, 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx')"}}, {id: b}, {id: z}]
transitions:
  - {from: a, to: b, spawnCount: 20, siblingGroup: g}
  - {from: b, to: z, synchronization: {siblingGroup: g, merge: {source: state.s, strategy: collect, target: state.all}}}`

// A load starts small runs and notes how long each takes, from when it was due.
type load struct {
	w    *world
	d    *workflow.Definition
	mu   sync.Mutex
	took []time.Duration
}

// perSecond is how many small runs are started: what keeps a core busy to a third.
const perSecond = 200

// round starts runs at a steady rate for a while, whether or not those before
// have ended, and returns the 99th percentile of what they take.
func (l *load) round(name string, d time.Duration) time.Duration {
	l.took = nil
	var runs sync.WaitGroup
	begin := time.Now()
	for n := 0; n < 20 || time.Since(begin) < d; n++ {
		due := begin.Add(time.Duration(n) * time.Second / perSecond)
		<-time.After(time.Until(due))
		runs.Go(func() {
			id := workflow.RunID(fmt.Sprintf("%s.%d", name, n))
			ctx := context.WithoutCancel(l.w.t.Context())
			err := l.w.Start(ctx, workflow.Run{ID: id, Definition: l.d}, map[string]any{"n": n})
			if err == nil {
				_, err = l.w.Wait(ctx, id)
			}
			took := time.Since(due)
			if err != nil {
				panic(err)
			}
			l.mu.Lock()
			l.took = append(l.took, took)
			l.mu.Unlock()
		})
	}
	runs.Wait()
	slices.Sort(l.took)
	return l.took[len(l.took)*99/100]
}

// bombed lets bombs go off, one after another, while f runs, and returns how many.
func (w *world) bombed(bomb family, f func()) (n int) {
	begun, stop, done := make(chan struct{}), make(chan struct{}), make(chan int)
	go func() {
		close(begun)
		for n := 1; ; n++ {
			w.mu.Lock()
			id := w.fresh()
			w.mu.Unlock()
			_ = bomb(w, "bomb-"+id) // how it ends is tested elsewhere
			select {
			case <-stop:
				done <- n
				return
			default:
			}
		}
	}()
	<-begun
	f()
	close(stop)
	return <-done
}

// TestInterference: while bombs go off in one run after another, other runs take
// twice as long as otherwise, or a tenth of a second, at most. The short rounds of
// the gate, on a machine that may do other things, are judged by more. Each kind has an
// engine of its own; medians of rounds without bombs and beside them, which take
// turns, are compared. A machine that does other things may spoil a comparison: it is
// then made again.
func TestInterference(t *testing.T) {
	harness.MeasuresTime(t)
	rounds, length := 3, 50*time.Millisecond
	factor, bound, slow := 10.0, 500*time.Millisecond, time.Duration(50)
	if harness.CurrentLevel() == harness.Release {
		rounds, length = 5, 2*time.Second
		factor, bound, slow = 2, 100*time.Millisecond, 0
	}
	for name, bomb := range families(t) {
		t.Run(name, func(t *testing.T) {
			good := false
			for try := 0; try < 4 && !good; try++ {
				idle, busy, bombs := compare(t, bomb, rounds, length)
				ratio := float64(busy) / float64(idle)
				t.Logf("%4d bombs, p99 %8v idle, %8v beside them: %.1f", bombs, idle.Round(10*time.Microsecond), busy.Round(10*time.Microsecond), ratio)
				require.Positive(t, bombs)
				good = ratio <= factor || busy < max(bound, slow*idle)
			}
			require.True(t, good, "%s hold other runs up", name)
		})
	}
}

// compare returns the medians of the percentiles without and beside bombs, and
// how many bombs there were.
func compare(t *testing.T, bomb family, rounds int, length time.Duration) (idle, busy time.Duration, bombs int) {
	w := open(t)
	_, err := w.Publish(t.Context(), define(t, "{name: wide, start: a, nodes: [{id: a}, {id: b, subworkflow: {name: wide}}], transitions: [{from: a, to: b, spawnCount: 3}]}"))
	require.NoError(t, err)
	require.NoError(t, w.Start(t.Context(), workflow.Run{ID: "patched", Definition: define(t, waiting, "")}, nil))
	l := &load{w: w, d: define(t, chain)}
	l.round("warm", length)
	var without, beside []time.Duration
	for i := range rounds {
		without = append(without, l.round(fmt.Sprint("idle", i), length))
		bombs += w.bombed(bomb, func() { beside = append(beside, l.round(fmt.Sprint("busy", i), length)) })
	}
	slices.Sort(without)
	slices.Sort(beside)
	return without[rounds/2], beside[rounds/2], bombs
}

// TestABombInProgressHoldsNothing: while the actor of one run is stopped in its
// turn, for as long as it takes, other runs start, go on and end, and everything
// can be listed, looked at and copied.
func TestABombInProgressHoldsNothing(t *testing.T) {
	w := open(t)
	stopped, goOn := make(chan struct{}, 1), make(chan struct{})
	reset := w.hook.OnTurn(func(run string) {
		if run == "bomb" {
			select {
			case stopped <- struct{}{}:
			default:
			}
			<-goOn
		}
	})
	defer reset()
	failed := make(chan error, 1)
	d := define(t, chain)
	go func() {
		failed <- w.Start(context.WithoutCancel(t.Context()), workflow.Run{ID: "bomb", Definition: d}, map[string]any{"n": 1})
	}()
	<-stopped
	for i := range 20 {
		out := w.end(d, map[string]any{"n": i}, nil)
		require.NoError(t, out.Err())
		_, err := w.Inspect(t.Context(), out.Run)
		require.NoError(t, err)
	}
	listed := 0
	for _, err := range w.Runs(t.Context(), pawl.RunFilter{}) {
		require.NoError(t, err)
		listed++
	}
	require.Equal(t, 20, listed)
	_, err := w.Backup(t.Context(), filepath.Join(t.TempDir(), "copy"))
	require.NoError(t, err)
	close(goOn)
	require.NoError(t, <-failed)
	require.NoError(t, w.outcome("bomb").Err())
}

package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

// goroutineName returns what tells the goroutine of its caller from others.
func goroutineName() string {
	text := make([]byte, 64)
	name, _, _ := strings.Cut(string(text[:runtime.Stack(text, false)]), " [")
	return name
}

// The tasks of a chain are performed by one goroutine, whatever they return, and by another one
// after a handler has ended it.
func TestAChainHasOneGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		at := map[string][]string{}
		handlers := pawl.Handlers{"*": func(_ context.Context, task pawl.Task) (any, error) {
			mu.Lock()
			at[goroutineName()] = append(at[goroutineName()], string(task.Node))
			mu.Unlock()
			<-time.After(time.Second) // the run has nothing else to do
			switch task.Type {
			case "fail":
				return nil, errors.New("no")
			case "panic":
				panic("no")
			case "goexit":
				runtime.Goexit()
			}
			return nil, nil
		}}
		e := open(t, t.TempDir(), pawl.Options{Executor: handlers})
		out, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: define(t, `
name: chain
start: a
nodes: [{id: a, task: work}, {id: b, task: fail}, {id: c, task: panic}, {id: d, task: goexit}, {id: e, task: work}, {id: f, task: work}]
transitions:
  - {from: a, to: b}
  - {from: b, to: c, outcome: error}
  - {from: c, to: d, outcome: error}
  - {from: d, to: e, outcome: error}
  - {from: e, to: f}
`)}, nil)
		require.NoError(t, err)
		require.Equal(t, workflow.RunCompleted, out.Status)
		require.Len(t, at, 2)
		for _, nodes := range at {
			require.Contains(t, [][]string{{"a", "b", "c", "d"}, {"e", "f"}}, nodes)
		}
	})
}

// Chains whose tasks have nothing to wait for take turns on one processor: none keeps it for many steps.
func TestChainsTakeTurns(t *testing.T) {
	const length = 200
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var order []workflow.RunID // on one processor, and under mu all the same
	var mu sync.Mutex
	started := make(chan struct{}) // all of them: none has begun to run away
	e := open(t, t.TempDir(), pawl.Options{Durability: pawl.ProcessCrash, Executor: pawl.Handlers{"*": func(_ context.Context, task pawl.Task) (any, error) {
		<-started
		mu.Lock()
		defer mu.Unlock()
		order = append(order, task.Run)
		return nil, nil
	}}})
	d := &workflow.Definition{Name: "chain", Start: "n0"}
	for i := range length {
		id := workflow.NodeID(fmt.Sprint("n", i))
		d.Nodes = append(d.Nodes, workflow.Node{ID: id, Task: "t"})
		if i > 0 {
			d.Transitions = append(d.Transitions, workflow.Transition{From: d.Nodes[i-1].ID, To: id})
		}
	}
	runs := []workflow.RunID{"a", "b", "c"}
	for _, id := range runs {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: d}, nil))
	}
	close(started)
	for _, id := range runs {
		out, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, workflow.RunCompleted, out.Status)
	}
	switches := 0
	for i := range order[1:] {
		if order[i] != order[i+1] {
			switches++
		}
	}
	t.Log(switches, "switches")
	require.Greater(t, switches, length)
}

// Results that wait for a run which does something else have no goroutines, and none of them is lost or counts twice,
// also if the actor breaks that has them in its mailbox.
func TestResultsWaitWithoutGoroutines(t *testing.T) {
	for _, breaks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const branches = 100
			hook := &testhook.Hook{}
			var performed atomic.Int64
			e := openWith(t, hook, t.TempDir(), pawl.Options{Logger: slog.New(slog.DiscardHandler), Executor: pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) {
				performed.Add(1)
				<-time.After(time.Second) // until all have begun
				return 1, nil
			}}})
			def := define(t, `
name: fan
start: split
nodes: [{id: split}, {id: work, task: t}, {id: join}]
transitions:
  - {from: split, to: work, siblingGroup: g, foreach: {collection: input.items}}
  - {from: work, to: join, synchronization: {siblingGroup: g, merge: {target: state.results, strategy: collect}}}
output: {mapping: {results: state.results}}
`)
			require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: def}, map[string]any{"items": make([]int, branches)}))
			gate := make(chan struct{})
			var turns atomic.Int64
			hook.OnTurn(func(string) {
				<-gate // in the turn of the first result
				if turns.Add(1) == 3 && breaks {
					panic("broken")
				}
			})
			<-time.After(2 * time.Second)
			synctest.Wait()
			require.EqualValues(t, branches, performed.Load())
			require.Less(t, runtime.NumGoroutine(), branches/2)
			close(gate)
			out, err := e.Wait(t.Context(), "r")
			require.NoError(t, err)
			require.Equal(t, workflow.RunCompleted, out.Status)
			require.Len(t, out.Output["results"], branches)
			require.EqualValues(t, branches, performed.Load(), "each result counts once")
		})
	}
}

// slots is the concurrency of the engines of these tests.
const slots = 4

// A heldEngine is an engine with a run "held" of a hundred tasks, whose actor can be
// stopped in its turn.
type heldEngine struct {
	*pawl.Engine
	t    *testing.T
	dir  string
	hook testhook.Hook
	gate chan struct{} // the tasks of the held run wait here

	mu            sync.Mutex
	stopped       chan struct{} // the actor of the held run waits here
	begun         map[workflow.RunID]int
	running, most int // tasks, and how many there were at most
}

func newHeldEngine(t *testing.T) *heldEngine {
	c := &heldEngine{t: t, dir: t.TempDir(), gate: make(chan struct{}), begun: map[workflow.RunID]int{}}
	c.hook.OnTurn(func(run string) {
		c.mu.Lock()
		stopped := c.stopped
		c.mu.Unlock()
		if run == "held" && stopped != nil {
			<-stopped
		}
	})
	c.open()
	wide := define(t, "name: wide\nstart: a\nnodes: [{id: a}, {id: b, task: work}]\ntransitions: [{from: a, to: b, spawnCount: 100}]")
	require.NoError(t, c.Start(t.Context(), workflow.Run{ID: "held", Definition: wide}, nil))
	synctest.Wait()
	require.Equal(t, slots, c.count("held"))
	return c
}

func (c *heldEngine) open() {
	var err error
	c.Engine, err = pawl.Open(testhook.With(c.t.Context(), &c.hook), c.dir, pawl.Options{Concurrency: slots, Executor: pawl.Handlers{"work": c.work}})
	require.NoError(c.t, err)
}

func (c *heldEngine) work(_ context.Context, task pawl.Task) (any, error) {
	c.mu.Lock()
	c.begun[task.Run]++
	c.running++
	c.most = max(c.most, c.running)
	c.mu.Unlock()
	if task.Run == "held" {
		<-c.gate
	}
	c.mu.Lock()
	c.running--
	c.mu.Unlock()
	return 1, nil
}

func (c *heldEngine) count(id workflow.RunID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.begun[id]
}

// stop stops the actor of the held run, and lets its tasks return; the returned
// function lets it go on.
func (c *heldEngine) stop() (goOn func()) {
	stopped := make(chan struct{})
	c.mu.Lock()
	c.stopped = stopped
	c.mu.Unlock()
	close(c.gate)
	synctest.Wait()
	return func() {
		c.mu.Lock()
		c.stopped = nil
		c.mu.Unlock()
		close(stopped)
	}
}

// TestResultsThatWaitHoldNoSlot: while a run does not take the results of its
// tasks, the tasks of other runs begin and their runs end; its own wait.
func TestResultsThatWaitHoldNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newHeldEngine(t)
		goOn := c.stop()
		waiting := c.count("held")
		require.GreaterOrEqual(t, waiting, slots)
		require.LessOrEqual(t, waiting, 2*slots, "of its results wait")

		two := define(t, "name: two\nstart: a\nnodes: [{id: a, task: work}, {id: b, task: work}]\ntransitions: [{from: a, to: b, spawnCount: 10}]")
		ids := []workflow.RunID{"x", "y", "z"}
		for _, id := range ids {
			require.NoError(t, c.Start(t.Context(), workflow.Run{ID: id, Definition: two}, nil))
		}
		synctest.Wait()
		for _, id := range ids {
			require.Equal(t, 11, c.count(id), "%s waits for a run that is stopped", id)
			out, err := c.Wait(t.Context(), id)
			require.NoError(t, err)
			require.NoError(t, out.Err())
		}
		require.Equal(t, waiting, c.count("held"), "no further task begins")

		goOn()
		out, err := c.Wait(t.Context(), "held")
		require.NoError(t, err)
		require.NoError(t, out.Err())
		require.Equal(t, 100, c.count("held"))
		require.Equal(t, slots, c.most, "tasks at once")
		require.NoError(t, c.Close(t.Context()))
	})
}

// TestABackpressuredRunsTasksAreWithdrawn: a run that is cancelled while its results
// wait has its tasks taken out of the queue.
func TestABackpressuredRunsTasksAreWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newHeldEngine(t)
		goOn := c.stop()
		waiting := c.count("held")
		cancelled := make(chan error, 1)
		go func() { cancelled <- c.Cancel(t.Context(), "held", "enough") }()
		synctest.Wait()
		goOn()
		require.NoError(t, <-cancelled)
		synctest.Wait()
		begun := c.count("held")
		require.LessOrEqual(t, begun, 100)
		one := define(t, "name: one\nstart: a\nnodes: [{id: a, task: work}]")
		for i := range 3 * slots {
			id := workflow.RunID(fmt.Sprint("after", i))
			out, err := c.Run(t.Context(), workflow.Run{ID: id, Definition: one}, nil)
			require.NoError(t, err)
			require.NoError(t, out.Err())
		}
		require.Equal(t, begun, c.count("held"), "begun after the cancel")
		require.GreaterOrEqual(t, begun, waiting)
		require.NoError(t, c.Close(t.Context()))
	})
}

// TestCloseDeliversWhatWaits: Close waits until the results that wait are
// committed; only the other tasks are executed in the next life.
func TestCloseDeliversWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newHeldEngine(t)
		goOn := c.stop()
		waiting := c.count("held")
		closed := make(chan error, 1)
		go func() { closed <- c.Close(context.Background()) }()
		synctest.Wait()
		require.Empty(t, closed, "results wait")
		goOn()
		require.NoError(t, <-closed)
		require.Equal(t, waiting, c.count("held"), "no task begins while the engine closes")

		c.open()
		out, err := c.Wait(t.Context(), "held")
		require.NoError(t, err)
		require.NoError(t, out.Err())
		require.Equal(t, 100, c.count("held"), "each task was executed once")
		require.NoError(t, c.Close(t.Context()))
	})
}

// A beginning is when a task began.
type beginning struct {
	run  workflow.RunID
	kind string
	at   time.Duration // since the engine was opened
}

// A scribe notes when tasks begin, and how many of a type run at once.
type scribe struct {
	opened  time.Time
	mu      sync.Mutex
	begun   []beginning
	running map[string]int
	most    map[string]int
}

// begins notes a task, and returns a function that ends it.
func (s *scribe) begins(t pawl.Task) (ends func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = append(s.begun, beginning{t.Run, t.Type, time.Since(s.opened)})
	s.running[t.Type]++
	s.most[t.Type] = max(s.most[t.Type], s.running[t.Type])
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running[t.Type]--
	}
}

// times returns when the tasks of a type began.
func (s *scribe) times(kind string) (times []time.Duration) {
	for _, b := range s.begun {
		if b.kind == kind {
			times = append(times, b.at)
		}
	}
	return times
}

// inLimits runs a test in virtual time: its tasks take a second each.
func inLimits(t *testing.T, o pawl.Options, test func(t *testing.T, e *pawl.Engine, s *scribe)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scribe{opened: time.Now(), running: map[string]int{}, most: map[string]int{}}
		o.Durability = pawl.ProcessCrash
		o.Executor = pawl.Handlers{"*": func(ctx context.Context, task pawl.Task) (any, error) {
			defer s.begins(task)()
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			if task.Type == "panic" {
				panic("boom")
			}
			return nil, ctx.Err()
		}}
		e, err := pawl.Open(t.Context(), replays.Dir(t), o)
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close(context.Background())) }()
		test(t, e, s)
	})
}

// scans is a definition with ten tasks of type ocr and ten of type mail at once.
const scans = `
name: scans
start: a
nodes: [{id: a}, {id: ocr, task: ocr}, {id: mail, task: mail}]
transitions: [{from: a, to: ocr, spawnCount: 10}, {from: a, to: mail, spawnCount: 10}]
`

func TestTypesHaveARate(t *testing.T) {
	types := map[string]pawl.TypeLimit{"ocr": {Rate: 0.1, Burst: 3}}
	inLimits(t, pawl.Options{Types: types, Concurrency: 3}, func(t *testing.T, e *pawl.Engine, s *scribe) {
		_, err := e.Run(t.Context(), workflow.Run{ID: "r", Definition: define(t, scans)}, nil)
		require.NoError(t, err)
		ocr := s.times("ocr")
		require.Len(t, ocr, 10)
		for i, at := range ocr[3:] {
			require.InDelta(t, (ocr[0] + time.Duration(i+1)*10*time.Second).Seconds(), at.Seconds(), 0.01)
		}
		require.Less(t, ocr[2], 8*time.Second, "a burst of three")
		mail := s.times("mail")
		require.Less(t, mail[len(mail)-1], 8*time.Second, "13 tasks in 3 slots: who waits for its type holds none")
	})
}

func TestTypesHaveAConcurrency(t *testing.T) {
	types := map[string]pawl.TypeLimit{"*": {Concurrency: 2}, "mail": {}}
	inLimits(t, pawl.Options{Types: types}, func(t *testing.T, e *pawl.Engine, s *scribe) {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, scans)}, nil))
		<-time.After(500 * time.Millisecond)
		synctest.Wait()
		snap, err := e.Inspect(t.Context(), "r")
		require.NoError(t, err)
		limited := 0
		for _, token := range snap.Tokens {
			if token.Limited {
				require.EqualValues(t, "ocr", token.Node)
				limited++
			}
		}
		require.Equal(t, 8, limited)
		out, err := e.Wait(t.Context(), "r")
		require.NoError(t, err)
		require.NoError(t, out.Err())
		require.Equal(t, map[string]int{"ocr": 2, "mail": 10}, s.most)
		require.GreaterOrEqual(t, time.Since(s.opened), 5*time.Second)
		require.Less(t, time.Since(s.opened), 6*time.Second)
	})
}

// A type that is scarce is shared by the runs in turn, however many tasks each has.
func TestRunsTakeTurnsInAType(t *testing.T) {
	inLimits(t, pawl.Options{Types: map[string]pawl.TypeLimit{"ocr": {Concurrency: 1}}}, func(t *testing.T, e *pawl.Engine, s *scribe) {
		wide := define(t, "name: wide\nstart: a\nnodes: [{id: a}, {id: b, task: ocr, priority: 5}, {id: c, task: mail}]\n"+
			"transitions: [{from: a, to: b, spawnCount: 100}, {from: a, to: c, spawnCount: 100}]")
		two := define(t, "name: two\nstart: a\nnodes: [{id: a, task: ocr, priority: 5}, {id: b, task: ocr, priority: 5}]\ntransitions: [{from: a, to: b}]")
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "wide", Definition: wide}, nil))
		<-time.After(time.Millisecond)
		_, err := e.Run(t.Context(), workflow.Run{ID: "two", Definition: two}, nil)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(s.opened), 6*time.Second)
		urgent := define(t, "name: urgent\nstart: a\nnodes: [{id: a, task: ocr}]")
		_, err = e.Run(t.Context(), workflow.Run{ID: "urgent", Definition: urgent}, nil)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(s.opened), 8*time.Second)
		require.NoError(t, e.Cancel(t.Context(), "wide", "enough"))
		_, err = e.Run(t.Context(), workflow.Run{ID: "later", Definition: two}, nil)
		require.NoError(t, err, "what was withdrawn does not count any more")
		require.Equal(t, 1, s.most["ocr"])
	})
}

// A task that panics leaves its place in the type.
func TestAPanicFreesItsType(t *testing.T) {
	inLimits(t, pawl.Options{Types: map[string]pawl.TypeLimit{"panic": {Concurrency: 1}}}, func(t *testing.T, e *pawl.Engine, s *scribe) {
		for _, id := range []workflow.RunID{"a", "b", "c"} {
			out, err := e.Run(t.Context(), workflow.Run{ID: id, Definition: define(t, "name: one\nstart: a\nnodes: [{id: a, task: panic}]")}, nil)
			require.NoError(t, err)
			require.Equal(t, workflow.RunFailed, out.Status)
		}
		require.Len(t, s.begun, 3)
	})
}

func TestInvalidTypesAreRefused(t *testing.T) {
	for want, l := range map[string]pawl.TypeLimit{
		"Concurrency is -1":       {Concurrency: -1},
		"Rate is -0.5":            {Rate: -0.5},
		"Rate is NaN":             {Rate: math.NaN()},
		"Rate is +Inf":            {Rate: math.Inf(1)},
		"Burst is -2":             {Rate: 1, Burst: -2},
		"a Burst without a Rate":  {Concurrency: 1, Burst: 2},
		`Options.Types["ocr"]: t`: {Burst: 1},
	} {
		_, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{Types: map[string]pawl.TypeLimit{"fine": {Rate: 1}, "ocr": l}})
		require.ErrorIs(t, err, pawl.ErrInvalid)
		require.ErrorContains(t, err, want)
	}
	_, err := pawl.Open(t.Context(), t.TempDir(), pawl.Options{Types: map[string]pawl.TypeLimit{"": {Rate: 1}}})
	require.ErrorIs(t, err, pawl.ErrInvalid)
}

// A firstHeld performs tasks. The first one waits until gate is closed, so that all others are queued behind it.
type firstHeld struct {
	begun, gate chan struct{}

	mu   sync.Mutex
	runs []workflow.RunID
}

// Execute implements pawl.Executor.
func (f *firstHeld) Execute(_ context.Context, task pawl.Task) (any, error) {
	f.mu.Lock()
	f.runs = append(f.runs, task.Run)
	f.mu.Unlock()
	select {
	case f.begun <- struct{}{}:
		<-f.gate
	default:
	}
	return nil, nil
}

// order returns the runs of the tasks that have begun.
func (f *firstHeld) order() []workflow.RunID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.runs)
}

// Runs take turns: one with very many tasks does not keep the others waiting.
func TestRunsTakeTurns(t *testing.T) {
	const many = 500
	tasks := &firstHeld{begun: make(chan struct{}, 1), gate: make(chan struct{})}
	e := open(t, t.TempDir(), pawl.Options{Concurrency: 1, Durability: pawl.ProcessCrash, Executor: tasks})
	wide := define(t, "name: wide\nstart: a\nnodes: [{id: a}, {id: b, task: work}]\ntransitions: [{from: a, to: b, spawnCount: 500}]")
	one := define(t, "name: one\nstart: a\nnodes: [{id: a, task: work}, {id: b, task: work}]\ntransitions: [{from: a, to: b}]")
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "wide", Definition: wide}, nil))
	<-tasks.begun
	for _, id := range []workflow.RunID{"x", "y", "z"} {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: one}, nil))
	}
	close(tasks.gate)
	for _, id := range []workflow.RunID{"x", "y", "z", "wide"} {
		out, err := e.Wait(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, out.Err())
	}
	order := tasks.order()
	require.Len(t, order, many+6)
	last := map[workflow.RunID]int{}
	for i, id := range order {
		last[id] = i
	}
	require.Less(t, last["z"], many/2, "the runs of two tasks are done long before the wide one")
	require.Equal(t, []workflow.RunID{"wide", "wide", "x", "y", "z"}, order[:5])
}

// asksTwice asks people in two rounds of a loop.
const asksTwice = `
name: rounds
start: ask
nodes:
  - {id: ask, approval: {message: ok}, output: {state.n: "(has(state.n) ? state.n : 0) + 1"}}
  - {id: done}
transitions:
  - {from: ask, to: ask, condition: state.n < 2, loop: {maxIterations: 5}}
  - {from: ask, to: done}
`

// A vote that comes again, because its caller does not know whether it took effect, is no error and answers nothing else: not the
// next round of a loop, and not when the run has ended since. The run is loaded again in between.
func TestVotesMayBeRepeated(t *testing.T) {
	dir := replays.Dir(t)
	e, err := pawl.Open(t.Context(), dir, pawl.Options{})
	require.NoError(t, err)
	reopen := func() {
		require.NoError(t, e.Close(t.Context()))
		e, err = pawl.Open(t.Context(), dir, pawl.Options{})
		require.NoError(t, err)
	}
	def := define(t, asksTwice)
	for _, id := range []workflow.RunID{"by-id", "by-token"} {
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: id, Definition: def}, nil))
	}
	yes := workflow.Ballot{ID: "mail-1", By: "ann", Approved: true, Comment: "fine", Data: map[string]any{"n": 1.5}}
	ofNode, ofToken := pawl.Target{Run: "by-id", Node: "ask"}, pawl.Target{Run: "by-token", Token: 1}
	because := "checked"
	vote := func(to pawl.Target, id string, change func(*workflow.Ballot)) error {
		b := yes
		if b.ID = id; change != nil {
			change(&b)
		}
		return e.Vote(pawl.Because(t.Context(), because), to, b)
	}
	require.NoError(t, vote(ofNode, "mail-1", nil))
	require.NoError(t, vote(ofToken, "", nil))
	because = "nobody has answered"
	for range 2 {
		require.NoError(t, vote(ofNode, "mail-1", nil))
		require.NoError(t, vote(ofToken, "", nil))
		require.ErrorIs(t, vote(ofToken, "", func(b *workflow.Ballot) { b.Approved = false }), pawl.ErrNotLive)
		require.ErrorIs(t, vote(ofToken, "", func(b *workflow.Ballot) { b.By = "bob" }), pawl.ErrNotLive)
		require.ErrorIs(t, vote(ofToken, "", func(b *workflow.Ballot) { b.Comment = "not so fine" }), pawl.ErrNotLive)
		for _, id := range []workflow.RunID{"by-id", "by-token"} {
			s := mustInspect(t, e, id)
			require.Equal(t, workflow.RunRunning, s.Status)
			require.Equal(t, map[string]any{"n": int64(1)}, s.State, "the second round is not answered")
		}
		reopen()
	}
	require.NoError(t, vote(ofNode, "mail-2", nil))
	require.NoError(t, vote(pawl.Target{Run: "by-token", Node: "ask"}, "", nil))
	for _, id := range []workflow.RunID{"by-id", "by-token"} {
		require.NoError(t, wait(t, e, id).Err())
	}
	for range 2 { // both have ended
		require.NoError(t, vote(ofNode, "mail-1", nil))
		require.NoError(t, vote(ofNode, "mail-2", nil))
		require.NoError(t, vote(ofToken, "", nil))
		require.ErrorIs(t, vote(ofNode, "mail-3", nil), pawl.ErrEnded)
		require.ErrorIs(t, vote(ofNode, "", nil), pawl.ErrEnded)
		reopen()
	}
	require.NoError(t, e.Close(t.Context()))
}

// A vote on an approval that is open still, a signal and a branch may be repeated likewise.
func TestCallsMayBeRepeated(t *testing.T) {
	e := open(t, replays.Dir(t), pawl.Options{Executor: pawl.Handlers{"work": double}})
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "r", Definition: define(t, `
name: all
start: s
nodes: [{id: s}, {id: ask, approval: {message: ok, quorum: 2}}, {id: each}, {id: w, task: work}, {id: hold, wait: {event: go}}, {id: all}]
transitions:
  - {from: s, to: ask}
  - {from: s, to: each}
  - {from: each, to: hold, foreach: {collection: "[1]"}, siblingGroup: g}
  - {from: hold, to: all, synchronization: {siblingGroup: g}}
`)}, nil))
	ask := pawl.Target{Run: "r"}
	for token, err := range e.Tokens(t.Context(), "r", pawl.TokenFilter{Node: "ask"}) {
		require.NoError(t, err)
		ask.Token = token.ID
	}
	ballot := workflow.Ballot{By: "ann", Approved: true}
	group := pawl.GroupTarget{Run: "r", Group: "g", ID: "row-7"}
	for range 2 {
		require.NoError(t, e.Vote(t.Context(), ask, ballot))
		require.NoError(t, e.AddBranch(t.Context(), group, 2))
		require.Equal(t, 2, mustInspect(t, e, "r").Groups[0].Total)
	}
	require.ErrorIs(t, e.Vote(t.Context(), ask, workflow.Ballot{By: "ann"}), pawl.ErrAlreadyVoted)
	require.ErrorIs(t, e.Vote(t.Context(), pawl.Target{Run: "r", Node: "ask"}, ballot), pawl.ErrAlreadyVoted, "by node it may mean another round")
	require.NoError(t, e.Vote(t.Context(), ask, workflow.Ballot{By: "bob", Approved: true}))
	sent := workflow.Signal{Name: "go", ID: "g-1"}
	for range 2 {
		require.NoError(t, e.Signal(t.Context(), "r", sent))
	}
	require.NoError(t, e.CloseGroup(t.Context(), group))
	require.NoError(t, e.AddBranch(t.Context(), group, 2), "the group is closed since")
	require.NoError(t, wait(t, e, "r").Err())
	require.NoError(t, e.Signal(t.Context(), "r", sent), "the run has ended since")
	require.NoError(t, e.AddBranch(t.Context(), group, 2))
	require.ErrorIs(t, e.Signal(t.Context(), "r", workflow.Signal{Name: "go", ID: "g-2"}), pawl.ErrEnded)
	for _, bad := range []string{"pawl:vote:1", strings.Repeat("x", 256), "\xff"} {
		require.ErrorIs(t, e.Signal(t.Context(), "r", workflow.Signal{Name: "go", ID: bad}), pawl.ErrInvalid)
		require.ErrorIs(t, e.Vote(t.Context(), ask, workflow.Ballot{ID: bad, By: "ann"}), pawl.ErrInvalid)
		require.ErrorIs(t, e.AddBranch(t.Context(), pawl.GroupTarget{Run: "r", Group: "g", ID: bad}, 2), pawl.ErrInvalid)
	}
}

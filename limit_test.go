package pawl_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

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

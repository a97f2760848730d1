package pawl_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/workflow"
)

// Five runs of each of two workflows end an hour apart; the fourth and the fifth of the second workflow fail.
func endedByTheHour(t *testing.T) *pawl.Engine {
	e, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Durability: pawl.ProcessCrash})
	require.NoError(t, err)
	a := define(t, "name: a\nstart: x\nnodes: [{id: x}]\n")
	b := define(t, "name: b\nstart: x\nnodes: [{id: x}]\noutput: {mapping: {n: 1 / input.n}}\n")
	for i := range 5 {
		<-time.After(time.Hour)
		_, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("a", i)), Definition: a}, nil)
		require.NoError(t, err)
		_, err = e.Run(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("b", i)), Definition: b}, map[string]any{"n": 3 / (i + 1)})
		require.NoError(t, err)
	}
	return e
}

func TestPurgeEnded(t *testing.T) {
	failed := []workflow.RunStatus{workflow.RunFailed}
	const old = 2*time.Hour + time.Minute // three runs of each are older at the end
	for name, tt := range map[string]struct {
		rules []pawl.Retention
		left  string
	}{
		"none":                       {nil, "a0 a1 a2 a3 a4 b0 b1 b2 b3 b4"},
		"no bounds":                  {[]pawl.Retention{{}}, "a0 a1 a2 a3 a4 b0 b1 b2 b3 b4"},
		"by age":                     {[]pawl.Retention{{Age: old}}, "a2 a3 a4 b2 b3 b4"},
		"by age, of a workflow":      {[]pawl.Retention{{Workflow: "b", Age: old}}, "a0 a1 a2 a3 a4 b2 b3 b4"},
		"by number":                  {[]pawl.Retention{{Workflow: "a", Keep: 2}}, "a3 a4 b0 b1 b2 b3 b4"},
		"by number, of all":          {[]pawl.Retention{{Keep: 3}}, "a4 b3 b4"},
		"by number, of each":         {[]pawl.Retention{{Workflow: "a", Keep: 1}, {Workflow: "b", Keep: 2}}, "a4 b3 b4"},
		"by either":                  {[]pawl.Retention{{Workflow: "a", Age: old, Keep: 1}, {Age: old, Keep: 9}}, "a4 b2 b3 b4"},
		"failed ones for ever":       {[]pawl.Retention{{Status: failed}, {Age: time.Minute}}, "a4 b3 b4"},
		"the first rule that covers": {[]pawl.Retention{{Workflow: "a", Age: time.Hour + time.Minute}, {Workflow: "a"}, {Age: old}}, "a3 a4 b2 b3 b4"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := endedByTheHour(t)
				n, err := e.PurgeEnded(t.Context(), tt.rules...)
				require.NoError(t, err)
				var left []string
				for r, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
					require.NoError(t, err)
					left = append(left, string(r.Run))
				}
				slices.Sort(left)
				require.Equal(t, tt.left, strings.Join(left, " "))
				require.Equal(t, 10-len(left), n)
				n, err = e.PurgeEnded(t.Context(), tt.rules...)
				require.NoError(t, err)
				require.Zero(t, n)
				_, err = e.PurgeEnded(t.Context(), pawl.Retention{Keep: -1})
				require.ErrorIs(t, err, pawl.ErrInvalid)
				require.NoError(t, e.Close(t.Context()))
			})
		})
	}
}

// Runs are purged together, those of two families and those of one that has more runs than one transaction deletes: purging takes
// a few transactions, not some for each run.
func TestPurgeEndedTakesFewTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := &testhook.Hook{}
		e := openWith(t, hook, t.TempDir(), pawl.Options{})
		publish(t, e, define(t, "name: leaf\nstart: a\nnodes: [{id: a}]\n"))
		d := define(t, "name: top\nstart: a\nnodes: [{id: a}, {id: b, subworkflow: {name: leaf}}]\ntransitions: [{from: a, to: b, spawnCount: 2}]\n")
		wide := define(t, "name: wide\nstart: a\nnodes: [{id: a}, {id: b, subworkflow: {name: leaf}}]\ntransitions: [{from: a, to: b, spawnCount: 150}]\n")
		const families = 100
		for i := range families {
			_, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: d}, nil)
			require.NoError(t, err)
		}
		_, err := e.Run(t.Context(), workflow.Run{ID: "wide", Definition: wide}, nil)
		require.NoError(t, err)
		<-time.After(time.Hour)
		transactions := 0
		reset := hook.OnHit(func(point string) {
			if point == "commit.done" {
				transactions++
			}
		})
		n, err := e.PurgeEnded(t.Context(), pawl.Retention{Age: time.Minute})
		reset()
		require.NoError(t, err)
		require.Equal(t, families+1, n)
		const runs = 3*families + 151
		require.Less(t, transactions, runs/16, "of %d runs", runs)
		for r, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
			require.NoError(t, err)
			require.Fail(t, "a run is left", r.Run)
		}
	})
}

// A family in which, or below which, something goes on keeps no other from being purged: PurgeEnded waits for it last.
func TestPurgeEndedPassesOverWhatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hook := &testhook.Hook{}
		reached, goOn := make(chan struct{}), make(chan struct{})
		var first sync.Once
		hook.OnHit(func(point string) {
			if point == "child.ended" {
				first.Do(func() { close(reached); <-goOn })
			}
		})
		e := openWith(t, hook, t.TempDir(), pawl.Options{Executor: pawl.Handlers{"work": double}})
		publish(t, e, define(t, callee))
		require.NoError(t, e.Start(t.Context(), workflow.Run{ID: "a", Definition: define(t, caller)}, map[string]any{"n": 1}))
		<-reached // its child has ended, and is about to tell it
		require.NoError(t, e.Cancel(t.Context(), "a", ""))
		for i := range 3 {
			_, err := e.Run(t.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("b", i)), Definition: define(t, oneTask)}, map[string]any{"n": 1})
			require.NoError(t, err)
		}
		<-time.After(time.Minute)
		purged := make(chan int, 1)
		go func() {
			n, err := e.PurgeEnded(t.Context(), pawl.Retention{Age: time.Second})
			if err != nil {
				t.Error(err)
			}
			purged <- n
		}()
		synctest.Wait()
		require.Empty(t, purged)
		var left []workflow.RunID
		for r, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
			require.NoError(t, err)
			left = append(left, r.Run)
		}
		require.Equal(t, []workflow.RunID{"a", "a/1.1"}, left)
		close(goOn)
		require.Equal(t, 4, <-purged)
	})
}

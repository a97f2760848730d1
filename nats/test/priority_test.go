package natstest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/nats/natspool"
	"github.com/pawl-run/pawl/workflow"
)

// startAt starts a run with one task, of that type and priority.
func startAt(t *testing.T, e *pawl.Engine, id, taskType string, priority int) {
	t.Helper()
	def := define(t, fmt.Sprintf("name: %s%d\nstart: a\nnodes: [{id: a, task: %s, priority: %d}]", taskType, priority, taskType, priority))
	require.NoError(t, e.Start(t.Context(), workflow.Run{ID: workflow.RunID(id), Definition: def}, nil))
}

// The tasks that wait are performed by their priority, whenever they were dispatched, and of whatever type
// they are.
func TestPriorities(t *testing.T) {
	onEach(t, func(t *testing.T, over transport) {
		engine, stop := over.open(t, t.TempDir(), longLease)
		defer stop()
		var mu sync.Mutex
		var order []int
		held, free := make(chan bool), make(chan bool)
		perform := func(_ context.Context, task pawl.Task) (any, error) {
			if strings.HasPrefix(string(task.Run), "held") {
				held <- true
				<-free
				return nil, nil
			}
			mu.Lock()
			defer mu.Unlock()
			order = append(order, task.Priority)
			return nil, nil
		}
		defer workOver(t, over, "ann", 1, pawl.Handlers{"work": perform, "other": perform})()
		for i, priority := range []int{5, 1, 0} { // the worker knows the classes then
			id := fmt.Sprint("before", i)
			startAt(t, engine, id, "work", priority)
			startAt(t, engine, id+"o", "other", priority)
			for _, id := range []string{id, id + "o"} {
				_, err := engine.Wait(t.Context(), workflow.RunID(id))
				require.NoError(t, err)
			}
		}
		var want []int
		// A server that answers too late has a later class come first.
		for try := 0; try < 10 && (try == 0 || !slices.Equal(want, order)); try++ {
			require.Eventually(t, func() bool { return over.queued(t) == 0 }, time.Minute, 5*time.Millisecond)
			order, want = nil, nil
			startAt(t, engine, fmt.Sprint("held", try), "work", 0)
			<-held
			for i, priority := range []int{2, 1, 0, 1, 0, 2} {
				for j := range 4 {
					startAt(t, engine, fmt.Sprintf("r%d-%d-%d", try, i, j), []string{"work", "other"}[j%2], priority)
					want = append(want, priority)
				}
			}
			slices.Sort(want)
			require.Eventually(t, func() bool { return over.queued(t) == len(want)+1 }, time.Minute, 5*time.Millisecond)
			free <- true
			for i := range 6 {
				for j := range 4 {
					_, err := engine.Wait(t.Context(), workflow.RunID(fmt.Sprintf("r%d-%d-%d", try, i, j)))
					require.NoError(t, err)
				}
			}
		}
		require.Equal(t, want, order)
	})
}

// A type that gets a bound, or loses it, goes on with one consumer, or several; with a bound it holds over all
// priorities.
func TestABoundThatComesAndGoes(t *testing.T) {
	conn := connect(t, startServer(t).ClientURL())
	js, err := newJetStream(conn)
	require.NoError(t, err)
	dir := t.TempDir()
	consumers := func() (names []string) {
		s, err := js.Stream(t.Context(), "PAWL_tasks")
		require.NoError(t, err)
		list := s.ConsumerNames(t.Context())
		for name := range list.Name() {
			names = append(names, name)
		}
		require.NoError(t, list.Err())
		slices.Sort(names)
		return names
	}
	var ids []string
	for life, o := range []natspool.Options{{}, {Types: map[string]int{"work": 1}}, {}} {
		h := openEngine(t, conn, dir, o)
		for _, priority := range []int{5, 0, 1} {
			ids = append(ids, fmt.Sprintf("r%d%d", life, priority))
			startAt(t, h.engine, ids[len(ids)-1], "work", priority)
		}
		want := []string{"work", "work-1", "work-2"}
		if o.Types != nil {
			want = []string{"work"}
		}
		require.Eventually(t, func() bool { return slices.Equal(want, consumers()) }, time.Minute, 10*time.Millisecond)
		if o.Types != nil || life == 2 {
			var mu sync.Mutex
			now, most := 0, 0
			stop := work(t, &natspool.Worker{Conn: conn, Capacity: 3}, pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) {
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				<-time.After(20 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				now--
				return nil, nil
			}})
			for _, id := range ids {
				_, err := h.engine.Wait(t.Context(), workflow.RunID(id))
				require.NoError(t, err)
			}
			stop()
			if o.Types != nil {
				require.Equal(t, 1, most)
			}
		}
		h.stop()
	}
}

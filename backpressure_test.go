package pawl_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

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

package ownertest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/witness"
	"github.com/pawl-run/pawl/workflow"
)

// wakeAtOnce is how many sleeping runs an engine wakes side by side.
const wakeAtOnce = 64

// A herd watches many runs that are due at one instant.
type herd struct {
	waking, most atomic.Int64 // that are being woken, now and at most
	fired        atomic.Int64
	heap         atomic.Uint64 // in use, at most
	crowd        int64         // tasks that wait until open is closed
	full, open   chan struct{} // full is closed when they are there

	mu    sync.Mutex
	tasks map[workflow.RunID]int
}

func (h *herd) hit(name string) {
	switch name {
	case "actor.load":
		n := h.waking.Add(1)
		for most := h.most.Load(); n > most && !h.most.CompareAndSwap(most, n); most = h.most.Load() {
		}
	case "actor.active":
		h.waking.Add(-1)
	}
}

func (h *herd) execute(_ context.Context, t pawl.Task) (any, error) {
	h.mu.Lock()
	h.tasks[t.Run]++
	h.mu.Unlock()
	n := h.fired.Add(1)
	if n == h.crowd {
		close(h.full)
	}
	if n <= h.crowd {
		<-h.open
	}
	if n%500 == 0 {
		used := heapInUse()
		for most := h.heap.Load(); used > most && !h.heap.CompareAndSwap(most, used); most = h.heap.Load() {
		}
	}
	return nil, nil
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// TestThunderingHerd lets many sleeping runs be due at one instant, after a
// downtime and while the engine runs. They are woken a bounded number at a time,
// each fires once, and Start answers ErrBusy as long as more are active than may
// be.
func TestThunderingHerd(t *testing.T) {
	n := harness.Figure(120, 10_000, 100_000)
	for _, down := range []bool{true, false} {
		name, many := "after a downtime", n
		if !down {
			name, many = "while it runs", max(n/10, 100)
		}
		t.Run(name, func(t *testing.T) { stampede(t, many, down) })
	}
}

func stampede(t *testing.T, n int, down bool) {
	var ahead atomic.Int64
	hook := &testhook.Hook{}
	hook.OnNow(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	hook.SetMaxNap(time.Second) // after which it looks at that clock again
	ctx, dir := testhook.With(t.Context(), hook), filepath.Join(harness.Workspace(t), "engine")
	const most = 50
	h := &herd{tasks: map[workflow.RunID]int{}, crowd: min(2*most, int64(n)), full: make(chan struct{}), open: make(chan struct{})}
	options := pawl.Options{
		Executor: pawl.Handlers{"*": h.execute}, Durability: pawl.ProcessCrash, Concurrency: 2 * most, // as many as may be loaded again
		IdleAfter: 50 * time.Millisecond, MaxActive: n + 1,
	}
	d := witness.MustParse("name: sleeper\nstart: a\nnodes: [{id: a, wait: {for: 1000h}}, {id: b, task: t}]\ntransitions: [{from: a, to: b}]\n")
	e, err := pawl.Open(ctx, dir, options)
	require.NoError(t, err)
	id := func(i int) workflow.RunID { return workflow.RunID(fmt.Sprint("s", i)) }
	var next atomic.Int64
	race(32, func(int) {
		for i := next.Add(1); i <= int64(n); i = next.Add(1) {
			if err := e.Start(context.Background(), workflow.Run{ID: id(int(i)), Definition: d}, nil); err != nil {
				t.Error(err)
			}
		}
	})
	if down { // by a crash: what has not been filed is in the log
		hook.Fence()
		require.NoError(t, e.Close(t.Context()))
	}
	runtime.GC()
	before := heapInUse()
	reset := hook.OnHit(h.hit)
	begin := time.Now()
	ahead.Store(int64(1001 * time.Hour))
	if down {
		options.IdleAfter, options.MaxActive = time.Minute, most // what is woken stays
		e, err = pawl.Open(ctx, dir, options)
		require.NoError(t, err)
	}
	<-h.full
	late := workflow.Run{ID: "late", Definition: witness.MustParse("name: late\nstart: a\nnodes: [{id: a}]\n")}
	if err := e.Start(t.Context(), late, nil); down {
		require.ErrorIs(t, err, pawl.ErrBusy)
	} else {
		require.NoError(t, err)
	}
	close(h.open)
	for i := 1; i <= n; i++ {
		out, err := e.Wait(t.Context(), id(i))
		require.NoError(t, err)
		require.NoError(t, out.Err())
	}
	took := time.Since(begin)
	reset()
	// The herd has passed when what has ended is filed.
	require.Eventually(t, func() bool {
		err := e.Start(t.Context(), late, nil)
		require.True(t, err == nil || errors.Is(err, pawl.ErrBusy), err)
		return err == nil
	}, 5*patience, 20*time.Millisecond)
	require.NoError(t, e.Close(t.Context()))
	require.Len(t, h.tasks, n)
	for run, times := range h.tasks {
		require.Equal(t, 1, times, "%s fired again", run)
	}
	atOnce := int64(2 * wakeAtOnce) // by recovery and by the alarm
	if !down {
		atOnce = wakeAtOnce + 2*most + 1 // by the alarm, by as many results as come at once, whose runs may have left, and late
	}
	require.LessOrEqual(t, h.most.Load(), atOnce, "woken at a time")
	t.Logf("%d runs due at once fired once each in %v; at most %d were woken at a time; memory %d MiB before, at most %d MiB; violations: 0",
		n, took.Round(time.Millisecond), h.most.Load(), before>>20, h.heap.Load()>>20)
}

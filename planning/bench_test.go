package planning_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/planning"
	"github.com/pawl-run/pawl/workflow"
)

// wide returns the graph of a fan-out of n branches.
func wide(t failer, n int) *compiled.Graph {
	return compile(t, fmt.Sprintf(`
name: wide
start: s
nodes:
  - {id: s}
  - {id: a, task: work, output: {state.x: result}, timeout: 1h}
  - {id: next, task: work}
transitions:
  - {from: s, to: a, siblingGroup: g, spawnCount: %d}
  - {from: a, to: next, synchronization: {siblingGroup: g, merge: {target: state.all, strategy: collect}}}
`, n))
}

// BenchmarkStep plans one completion among n siblings: it costs the same.
func BenchmarkStep(b *testing.B) {
	for _, n := range []int{10, 1_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := newPlayer(b, wide(b, n))
			p.quick = true
			mustSend(b, p, state.Start{})
			m := state.TaskCompleted{Token: 5, Attempt: 1, Epoch: epoch0, Output: int64(1)}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := planning.Step(p.state, m, p.now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFanOut plays a whole fan-out: the start, a completion per branch, and
// the join. The time per branch does not grow with their number.
func BenchmarkFanOut(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g := wide(b, n)
			perUnit(b, n, "branch", func() *state.State {
				p := newPlayer(b, g)
				p.quick = true
				mustSend(b, p, state.Start{})
				for i := range n {
					mustSend(b, p, state.TaskCompleted{Token: workflow.TokenID(2 + i), Attempt: 1, Epoch: epoch0, Output: int64(i)})
				}
				mustSend(b, p, state.TaskCompleted{Token: workflow.TokenID(2 + n), Attempt: 1, Epoch: epoch0})
				return p.state
			})
		})
	}
}

// BenchmarkChain plays a loop of n tasks, one after the other.
func BenchmarkChain(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g := compile(b, fmt.Sprintf(`
name: chain
start: a
nodes: [{id: a, task: work, output: {state.x: result}}]
transitions: [{from: a, to: a, loop: {maxIterations: %d}}]
`, n-1))
			perUnit(b, n, "step", func() *state.State {
				p := newPlayer(b, g)
				p.quick = true
				mustSend(b, p, state.Start{})
				for i := range n {
					mustSend(b, p, state.TaskCompleted{Token: workflow.TokenID(1 + i), Attempt: 1, Epoch: epoch0, Output: int64(i)})
				}
				return p.state
			})
		})
	}
}

// mustSend does as an actor does: it sends a message, looks at the alarm, and
// hands its changes to the store from time to time.
func mustSend(b testing.TB, p *player, m state.Message) {
	if _, err := p.send(m); err != nil {
		b.Fatalf("%#v: %v", m, err)
	}
	p.state.Alarm()
	if p.sent++; p.sent%500 == 0 {
		p.state.TakeChanges()
	}
}

// The memory that a step allocates does not depend on how many siblings live.
func TestStepCostsTheSame(t *testing.T) {
	var allocs []float64
	for _, n := range []int{10, 20_000} {
		p := newPlayer(t, wide(t, n))
		p.quick = true
		mustSend(t, p, state.Start{})
		m := state.TaskCompleted{Token: 5, Attempt: 1, Epoch: epoch0, Output: int64(1)}
		allocs = append(allocs, testing.AllocsPerRun(50, func() { _, _ = planning.Step(p.state, m, p.now) }))
	}
	if allocs[1] > allocs[0]+5 {
		t.Fatalf("%v allocations among 10 siblings, %v among 20000", allocs[0], allocs[1])
	}
}

// perUnit reports the time, and the memory that stays, per unit of play.
func perUnit(b *testing.B, n int, unit string, play func() *state.State) {
	var before, after runtime.MemStats
	for b.Loop() {
		if s := play(); s.Status != workflow.RunCompleted {
			b.Fatalf("the run is %v: %v", s.Status, s.Failure)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/"+unit)
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := play()
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "B-kept/"+unit)
	runtime.KeepAlive(s)
}

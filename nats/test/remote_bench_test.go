package natstest

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	pawlcluster "github.com/pawl-run/pawl/cluster"
	"github.com/pawl-run/pawl/nats/natscluster"
	"github.com/pawl-run/pawl/workflow"
)

// BenchmarkRemote tells what a log on servers costs, all of them on this machine and synced, beside a directory that is synced: steps of one
// chain, of 64 side by side, runs of five tasks, 64 at a time, and how long a task takes to begin from the call of Start on.
// Everything shares one processor and one disk, so the figures are rough.
func BenchmarkRemote(b *testing.B) {
	for _, replicas := range []int{0, 1, 3} {
		name := "plain"
		if replicas > 0 {
			name = fmt.Sprintf("R%d", replicas)
		}
		b.Run(name, func(b *testing.B) {
			begun := make(chan time.Time, 1)
			o := pawl.Options{Executor: pawl.Handlers{
				"work": func(context.Context, pawl.Task) (any, error) { return nil, nil },
				"tell": func(context.Context, pawl.Task) (any, error) { begun <- time.Now(); return nil, nil },
			}}
			if replicas > 0 {
				backend, err := natscluster.Open(b.Context(), connect(b, startCluster(b).url()), natscluster.Options{Replicas: replicas})
				require.NoError(b, err)
				log, err := backend.NewLog(b.Context())
				require.NoError(b, err)
				o.Durability, o.Blobs, o.Remote = pawl.ProcessCrash, backend.Blobs, pawl.RemoteOptions{Log: log, Bases: backend.Bases}
			}
			e, err := pawl.Open(b.Context(), b.TempDir(), o)
			require.NoError(b, err)
			measureRuns(b, e, "steps/s", 1, 400, workflowOf(b, loopOf(400)))
			measureRuns(b, e, "steps64/s", 64, 64*50, workflowOf(b, loopOf(50)))
			measureRuns(b, e, "runs5/s", 64, 640, workflowOf(b, loopOf(5)))
			var took []time.Duration
			tell := workflowOf(b, "name: tell\nstart: a\nnodes: [{id: a, task: tell}]\n")
			for i := range 200 {
				began := time.Now()
				require.NoError(b, e.Start(b.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("tell-", i)), Definition: tell}, nil))
				took = append(took, (<-begun).Sub(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[100].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[198].Microseconds())/1000, "p99-ms")
			require.NoError(b, e.Close(b.Context()))
		})
	}
}

// BenchmarkHandOver tells how long it takes from the Close of a node until the other one, which stands by, has the engine open: three synced
// servers and both nodes on this machine.
func BenchmarkHandOver(b *testing.B) {
	backend, err := natscluster.Open(b.Context(), connect(b, startCluster(b).url()), natscluster.Options{Replicas: 3})
	require.NoError(b, err)
	dir, opened := b.TempDir(), make(chan *pawl.Engine, 1)
	open := func(name string, standsBy chan bool) *pawlcluster.Node {
		n, err := pawlcluster.Open(b.Context(), filepath.Join(dir, name), backend, pawlcluster.Options{
			Node: name, Opened: func(e *pawl.Engine) { opened <- e },
			Engine: pawl.Options{Durability: pawl.ProcessCrash, Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, nil }}},
			Report: func(s pawlcluster.Status) {
				if s.Owner.Node != "" && s.Owner.Node != name {
					select {
					case standsBy <- true:
					default:
					}
				}
			},
		})
		require.NoError(b, err)
		return n
	}
	owner := open("0", nil)
	chain := workflowOf(b, loopOf(5))
	engine := <-opened
	var took []time.Duration
	for i := range max(b.N, 5) {
		for k := range 20 {
			_, err := engine.Run(b.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint("run-", i, "-", k)), Definition: chain}, nil)
			require.NoError(b, err)
		}
		standsBy := make(chan bool, 1)
		next := open(fmt.Sprint(i+1), standsBy)
		<-standsBy
		<-time.After(3 * time.Second) // it follows the log
		began := time.Now()
		require.NoError(b, owner.Close(b.Context()))
		engine = <-opened
		took = append(took, time.Since(began))
		owner = next
	}
	require.NoError(b, owner.Close(b.Context()))
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
}

// loopOf returns a definition with n tasks, one after the other.
func loopOf(n int) string {
	text, last := fmt.Sprintf("name: chain%d\nstart: n0\nnodes: [", n), n-1
	for i := range n {
		text += fmt.Sprintf("{id: n%d, task: work},", i)
	}
	text += "]\ntransitions: ["
	for i := range last {
		text += fmt.Sprintf("{from: n%d, to: n%d},", i, i+1)
	}
	return text + "]\n"
}

func workflowOf(b *testing.B, text string) *workflow.Definition {
	d, err := workflow.ParseYAML([]byte(text))
	require.NoError(b, err)
	return d
}

// measureRuns executes runs of a definition, some at a time, and reports how many steps, or runs if those are what is
// counted, there are in a second.
func measureRuns(b *testing.B, e *pawl.Engine, unit string, atOnce, count int, d *workflow.Definition) {
	runs := count
	if unit != "runs5/s" {
		runs = count / len(d.Nodes)
	}
	next := make(chan int, runs)
	for i := range runs {
		next <- i
	}
	close(next)
	var group sync.WaitGroup
	began := time.Now()
	for range atOnce {
		group.Go(func() {
			for i := range next {
				out, err := e.Run(b.Context(), workflow.Run{ID: workflow.RunID(fmt.Sprint(unit[:len(unit)-2], "-", i)), Definition: d}, nil)
				if err != nil || out.Status != workflow.RunCompleted {
					b.Errorf("%v %v", out.Status, err)
				}
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(count)/time.Since(began).Seconds(), unit)
}

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

var (
	costRounds = flag.Int("cost.rounds", 0, "in how many rounds TestCost measures what telemetry costs")
	costLoads  = flag.String("cost.loads", "W1,W3,W10", "which workloads TestCost measures")
	costModes  = flag.String("cost.modes", "metrics,traces,both", "which telemetry TestCost measures")
)

// A load is a workload of docs/performance.md: so many runs, so many of them at once, each a chain of so many tasks.
type load struct{ runs, atOnce, tasks int }

var loads = map[string]load{"W1": {40, 1, 1000}, "W3": {4000, 64, 5}, "W10": {256, 64, 200}}

// asLoad is the environment variable with the name of the load that the test binary is to be, and its telemetry: off, metrics, traces, or both;
// asProfile has the file that gets a profile of it, if any.
const (
	asLoad    = "PAWL_OBSERVE_LOAD"
	asProfile = "PAWL_OBSERVE_PROFILE"
)

// Each load is a process of its own, in turns with telemetry and without, and is to take less than 5 % more of the processor with it. The
// test compares the processor time of whole processes, which other programs disturb less than the time on the clock.
func TestCost(t *testing.T) {
	if *costRounds == 0 {
		t.Skip("measures with -cost.rounds N only")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	modes := strings.Split(*costModes, ",")
	for name := range strings.SplitSeq(*costLoads, ",") {
		ratios := map[string][]float64{}
		var off []time.Duration
		for round := range *costRounds + 1 {
			times := map[string]time.Duration{}
			for _, mode := range append([]string{"off"}, modes...) {
				cmd := exec.CommandContext(t.Context(), self)
				cmd.Env = append(os.Environ(), asLoad+"="+name+" "+mode, "TMPDIR="+t.TempDir())
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				require.NoError(t, cmd.Run(), "%s", &stderr)
				times[mode] = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			}
			if round == 0 { // it warms up
				continue
			}
			off = append(off, times["off"])
			for _, mode := range modes {
				ratios[mode] = append(ratios[mode], float64(times[mode])/float64(times["off"]))
			}
		}
		slices.Sort(off)
		for _, mode := range modes {
			r := slices.Sorted(slices.Values(ratios[mode]))
			t.Logf("%-3s off %v; with %-7s least %.3f, median %.3f, most %.3f", name, off[len(off)/2].Round(time.Millisecond), mode, r[0], r[len(r)/2], r[len(r)-1])
		}
	}
}

// work is a load.
func runWork(name, mode string) (err error) {
	l := loads[name]
	dir, err := os.MkdirTemp("", "observe")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	o := pawl.Options{
		Durability: pawl.ProcessCrash, Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, nil }},
	}
	ctx := context.Background()
	if mode == "metrics" || mode == "both" {
		reader, err := prometheus.New()
		if err != nil {
			return err
		}
		o.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
	}
	if mode == "traces" || mode == "both" {
		spans := trace.NewTracerProvider(trace.WithBatcher(&counter{}))
		defer func() { err = errors.Join(err, spans.Shutdown(ctx)) }()
		o.TracerProvider = spans
	}
	if to := os.Getenv(asProfile); to != "" {
		f, err := os.Create(to)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	e, err := pawl.Open(ctx, dir, o)
	if err != nil {
		return err
	}
	d := chain(l.tasks)
	ids := make(chan workflow.RunID)
	var group sync.WaitGroup
	failed := make(chan error, l.atOnce)
	for range l.atOnce {
		group.Go(func() {
			for id := range ids {
				if _, err := e.Run(ctx, workflow.Run{ID: id, Definition: d}, nil); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	for i := range l.runs {
		select {
		case ids <- workflow.RunID(fmt.Sprint("run-", i)):
		case err := <-failed:
			return err
		}
	}
	close(ids)
	group.Wait()
	return e.Close(ctx)
}

// A counter is an exporter of spans that only counts them.
type counter struct{ spans atomic.Int64 }

// ExportSpans implements trace.SpanExporter.
func (c *counter) ExportSpans(_ context.Context, spans []trace.ReadOnlySpan) error {
	c.spans.Add(int64(len(spans)))
	return nil
}

// Shutdown implements trace.SpanExporter.
func (c *counter) Shutdown(context.Context) error { return nil }

// chain is a definition of so many tasks, one after the other.
func chain(tasks int) *workflow.Definition {
	d := &workflow.Definition{Name: "chain", Start: "n0"}
	for i := range tasks {
		id := workflow.NodeID(fmt.Sprint("n", i))
		d.Nodes = append(d.Nodes, workflow.Node{ID: id, Task: "work"})
		if i > 0 {
			d.Transitions = append(d.Transitions, workflow.Transition{From: d.Nodes[i-1].ID, To: id})
		}
	}
	return d
}

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
	costSynced = flag.Bool("cost.synced", false, "measure with commits that survive a loss of power, as engines make them by default")
)

// A load is a workload of docs/performance.md: so many runs, so many of them at once, each a chain of so many tasks.
type load struct{ runs, atOnce, tasks int }

var loads = map[string]load{"W1": {40, 1, 1000}, "W3": {4000, 64, 5}, "W10": {256, 64, 200}}

// asLoad is the environment variable with the name of the load that the test binary is to be, its telemetry: off, metrics, traces, or both, and
// whether it is synced;
// asProfile has the file that gets a profile of it, if any.
const (
	asLoad    = "PAWL_OBSERVE_LOAD"
	asProfile = "PAWL_OBSERVE_PROFILE"
)

// Each load is a process of its own, in turns with telemetry and without. The test compares the processor time of whole processes, which
// other programs disturb least, and the time that the load took on the clock.
func TestCost(t *testing.T) {
	if *costRounds == 0 {
		t.Skip("measures with -cost.rounds N only")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	modes := strings.Split(*costModes, ",")
	for name := range strings.SplitSeq(*costLoads, ",") {
		processor, clock := map[string][]float64{}, map[string][]float64{}
		for round := range *costRounds + 1 {
			times := map[string][2]float64{}
			for _, mode := range append([]string{"off"}, modes...) {
				cmd := exec.CommandContext(t.Context(), self)
				cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %t", asLoad, name, mode, *costSynced), "TMPDIR="+t.TempDir())
				var stdout, stderr bytes.Buffer
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				require.NoError(t, cmd.Run(), "%s", &stderr)
				took, err := time.ParseDuration(strings.TrimSpace(stdout.String()))
				require.NoError(t, err)
				times[mode] = [2]float64{(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), took.Seconds()}
			}
			if round == 0 { // it warms up
				continue
			}
			for mode, s := range times {
				processor[mode], clock[mode] = append(processor[mode], s[0]/times["off"][0]), append(clock[mode], s[1]/times["off"][1])
			}
		}
		for _, mode := range modes {
			t.Logf("%-3s with %-7s processor %s; clock %s", name, mode, spread(processor[mode]), spread(clock[mode]))
		}
	}
}

// spread is the least, the median and the most.
func spread(ratios []float64) string {
	slices.Sort(ratios)
	return fmt.Sprintf("%.3f %.3f %.3f", ratios[0], ratios[len(ratios)/2], ratios[len(ratios)-1])
}

// runWork is a load, and prints how long its runs took.
func runWork(name, mode string, synced bool) (err error) {
	l := loads[name]
	dir, err := os.MkdirTemp("", "observe")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	o := pawl.Options{
		Durability: pawl.ProcessCrash, Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, nil }},
	}
	if synced {
		o.Durability = pawl.PowerLoss
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
	d, began := chain(l.tasks), time.Now()
	ids := make(chan workflow.RunID)
	var group sync.WaitGroup
	failed := make(chan error, l.atOnce)
	for range l.atOnce {
		group.Go(func() {
			for id := range ids {
				out, err := e.Run(ctx, workflow.Run{ID: id, Definition: d}, nil)
				if err = errors.Join(err, out.Err()); err != nil {
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
	took := time.Since(began)
	select {
	case err := <-failed: // of one of the last runs
		return err
	default:
	}
	fmt.Println(took)
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

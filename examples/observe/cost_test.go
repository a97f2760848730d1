package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

var costRounds = flag.Int("cost.rounds", 0, "in how many rounds TestCost measures what telemetry costs")

// A load is a workload of docs/performance.md: so many runs, so many of them at once, each a chain of so many tasks.
type load struct{ runs, atOnce, tasks int }

var loads = map[string]load{"W1": {40, 1, 1000}, "W3": {4000, 64, 5}, "W10": {256, 64, 200}}

// asLoad is the environment variable with the name of the load that the test binary is to be, and "on" or "off".
const asLoad = "PAWL_OBSERVE_LOAD"

// Each load is a process of its own, in turns with telemetry and without, and takes less than 5 % more of the processor with it. The
// test compares the processor time of whole processes, which other programs disturb less than the time on the clock.
func TestCost(t *testing.T) {
	if *costRounds == 0 {
		t.Skip("measures with -cost.rounds N only")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for _, name := range []string{"W1", "W3", "W10"} {
		var ratios []float64
		var off []time.Duration
		for round := range *costRounds + 1 {
			times := map[string]time.Duration{}
			for _, mode := range []string{"off", "on"} {
				cmd := exec.CommandContext(t.Context(), self)
				cmd.Env = append(os.Environ(), asLoad+"="+name+" "+mode, "TMPDIR="+t.TempDir())
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				require.NoError(t, cmd.Run(), "%s", &stderr)
				times[mode] = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			}
			if round > 0 { // the first one warms up
				ratios = append(ratios, float64(times["on"])/float64(times["off"]))
				off = append(off, times["off"])
			}
		}
		slices.Sort(ratios)
		slices.Sort(off)
		t.Logf("%-3s off %v; on/off: least %.3f, median %.3f, most %.3f", name, off[len(off)/2].Round(time.Millisecond), ratios[0], ratios[len(ratios)/2], ratios[len(ratios)-1])
	}
}

// work is a load.
func work(name, mode string) error {
	l := loads[name]
	dir, err := os.MkdirTemp("", "observe")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	o := pawl.Options{
		Durability: pawl.ProcessCrash, Executor: pawl.Handlers{"work": func(context.Context, pawl.Task) (any, error) { return nil, nil }},
	}
	if mode == "on" {
		reader, err := prometheus.New()
		if err != nil {
			return err
		}
		o.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
	}
	ctx := context.Background()
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

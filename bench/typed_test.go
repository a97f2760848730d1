package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

var typedRounds = flag.Int("typed.rounds", 0, "in how many rounds TestTypedHandlers measures")

// asHandlers is the environment variable with the workload and the form of handlers that the test binary is to be.
const asHandlers = "PAWL_BENCH_HANDLERS"

// chains are W1 and W10: so many runs, so many of them at once, each a chain of so many tasks.
var chains = map[string]struct{ runs, atOnce, tasks int }{"W1": {12, 1, 1000}, "W10": {64, 64, 200}}

// A typed handler is to take at most 3 % more of the processor than one that binds its input itself. The two forms are processes in turns,
// of whose times the test takes the processor's, as other programs disturb that less than the time on the clock.
func TestTypedHandlers(t *testing.T) {
	if *typedRounds == 0 {
		t.Skip("measures with -typed.rounds N only")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for _, name := range []string{"W1", "W10"} {
		var ratios []float64
		var times [2][]time.Duration
		for round := range *typedRounds + 1 {
			var taken [2]time.Duration
			forms := []int{0, 1}
			if round%2 == 1 { // so that neither form always comes first
				slices.Reverse(forms)
			}
			for _, form := range forms {
				cmd := exec.CommandContext(t.Context(), self)
				cmd.Env = append(os.Environ(), asHandlers+"="+name+[]string{" untyped", " typed"}[form], "TMPDIR="+t.TempDir())
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				require.NoError(t, cmd.Run(), "%s", &stderr)
				taken[form] = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			}
			if round == 0 { // it warms up
				continue
			}
			ratios = append(ratios, float64(taken[1])/float64(taken[0]))
			for form := range times {
				times[form] = append(times[form], taken[form])
			}
		}
		for form := range times {
			slices.Sort(times[form])
		}
		slices.Sort(ratios)
		n := len(ratios)
		t.Logf("%-3s untyped median %v least %v; typed median %v least %v; ratios least %.3f, median %.3f, most %.3f",
			name, times[0][n/2], times[0][0], times[1][n/2], times[1][0], ratios[0], ratios[n/2], ratios[n-1])
	}
}

// item is the input of the tasks.
type item struct {
	Number int    `json:"number"`
	Name   string `json:"name"`
	Note   string `json:"note,omitzero"`
}

func bindItem(_ context.Context, t pawl.Task) (any, error) {
	var in item
	err := t.Bind(&in)
	return in.Number, err
}

func takeItem(_ context.Context, in item) (int, error) { return in.Number, nil }

// playHandlers is the process of a workload, such as "W1 typed".
func playHandlers(what string) (err error) {
	var name, form string
	if _, err := fmt.Sscan(what, &name, &form); err != nil {
		return err
	}
	handler := bindItem
	if form == "typed" {
		handler = pawl.Typed(takeItem)
	}
	dir, err := os.MkdirTemp("", "handlers")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx := context.Background()
	e, err := pawl.Open(ctx, dir, pawl.Options{Durability: pawl.ProcessCrash, Executor: pawl.Handlers{"work": handler}})
	if err != nil {
		return err
	}
	size := chains[name]
	d := defineShape(Shape{Kind: Chain, Tasks: size.tasks})
	for i := range d.Nodes {
		d.Nodes[i].Input = map[string]string{"number": "input.number", "name": "'a name of some length'"}
	}
	graph, err := workflow.Compile(d)
	if err != nil {
		return err
	}
	ids := make(chan workflow.RunID, size.runs)
	for i := range size.runs {
		ids <- workflow.RunID(fmt.Sprint("run-", i))
	}
	close(ids)
	failed := make(chan error, size.atOnce)
	var group sync.WaitGroup
	for range size.atOnce {
		group.Go(func() {
			for id := range ids {
				out, err := e.Run(ctx, workflow.Run{ID: id, Graph: graph}, map[string]any{"number": 7})
				if err = errors.Join(err, out.Err()); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failed)
	return errors.Join(<-failed, e.Close(ctx))
}

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// A workload is so many runs, some at a time, each a chain of tasks. One at a time with a single task is W4: from Start to the task.
type workload struct {
	name                string
	runs, atOnce, tasks int
}

func workloads(quick bool) []workload {
	if quick {
		return []workload{{"W1", 2, 1, 200}, {"W3", 200, 64, 5}, {"W4", 100, 1, 1}, {"W10", 64, 64, 20}}
	}
	return []workload{{"W1", 4, 1, 1000}, {"W3", 1000, 64, 5}, {"W4", 1000, 1, 1}, {"W10", 64, 64, 200}}
}

// measure plays a workload in a new directory, and tells its figures.
func (m *meter) measure(ctx context.Context, w workload, dir string, remote bool, tell func(unit string, v float64)) (err error) {
	dir, err = os.MkdirTemp(dir, w.name)
	if err != nil {
		return err
	}
	begun := make(chan time.Time, 1)
	o := pawl.Options{Durability: pawl.PowerLoss, Executor: pawl.Handlers{
		"work": func(context.Context, pawl.Task) (any, error) { return nil, nil },
		"tell": func(context.Context, pawl.Task) (any, error) { begun <- time.Now(); return nil, nil },
	}}
	log := ""
	if remote {
		m.logs++
		log = fmt.Sprint("bench", m.logs)
		b, err := m.db.OpenBackend(ctx, log)
		if err != nil {
			return err
		}
		o.Durability, o.Blobs, o.Remote.Bases = pawl.ProcessCrash, b.Blobs, b.Bases
		if o.Remote.Log, err = b.NewLog(ctx); err != nil {
			return err
		}
	}
	e, err := pawl.Open(ctx, filepath.Join(dir, "data"), o)
	if err != nil {
		return err
	}
	before, err := m.look(ctx, log)
	if err == nil {
		if w.name == "W4" {
			err = measureStarts(ctx, e, w, begun, tell)
		} else {
			err = measureRuns(ctx, e, w, tell)
		}
	}
	if err == nil && remote {
		err = m.tellLoad(ctx, log, before, w, tell)
	}
	if closed := e.Close(ctx); err == nil {
		err = closed
	}
	return err
}

// tellLoad tells what a workload has cost the database.
func (m *meter) tellLoad(ctx context.Context, log string, before load, w workload, tell func(string, float64)) error {
	now, err := m.look(ctx, log)
	steps := float64(w.runs * w.tasks)
	tell("bytes in the table a step", float64(now.bytes-before.bytes)/steps)
	tell("bytes of WAL a step", float64(now.wal-before.wal)/steps)
	tell("steps a group", steps/float64(now.entries-before.entries))
	tell("round trips a group", float64(now.statements-before.statements)/float64(now.entries-before.entries))
	return err
}

// chainOf returns a definition with n tasks of a type, one after the other.
func chainOf(task string, n int) (*workflow.Definition, error) {
	var nodes, transitions []string
	for i := range n {
		nodes = append(nodes, fmt.Sprintf(`{"id": "n%d", "task": %q}`, i, task))
		if i > 0 {
			transitions = append(transitions, fmt.Sprintf(`{"from": "n%d", "to": "n%d"}`, i-1, i))
		}
	}
	return workflow.Parse([]byte(fmt.Sprintf(`{"name": "chain", "start": "n0", "nodes": [%s], "transitions": [%s]}`, strings.Join(nodes, ","), strings.Join(transitions, ","))))
}

// measureRuns tells how many steps and runs there are in a second.
func measureRuns(ctx context.Context, e *pawl.Engine, w workload, tell func(string, float64)) error {
	d, err := chainOf("work", w.tasks)
	if err != nil {
		return err
	}
	next, failed := make(chan int, w.runs), make(chan error, w.atOnce)
	for i := range w.runs {
		next <- i
	}
	close(next)
	var group sync.WaitGroup
	began := time.Now()
	for range w.atOnce {
		group.Go(func() {
			for i := range next {
				out, err := e.Run(ctx, workflow.Run{ID: workflow.RunID(fmt.Sprint("run-", i)), Definition: d}, nil)
				if err == nil {
					err = out.Err()
				}
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	took := time.Since(began).Seconds()
	select {
	case err := <-failed:
		return err
	default:
	}
	tell("steps/s", float64(w.runs*w.tasks)/took)
	tell("runs/s", float64(w.runs)/took)
	return nil
}

// measureStarts tells how long it takes from the call of Start until the task begins.
func measureStarts(ctx context.Context, e *pawl.Engine, w workload, begun <-chan time.Time, tell func(string, float64)) error {
	d, err := chainOf("tell", 1)
	if err != nil {
		return err
	}
	var took []time.Duration
	for i := range w.runs {
		began := time.Now()
		if err := e.Start(ctx, workflow.Run{ID: workflow.RunID(fmt.Sprint("run-", i)), Definition: d}, nil); err != nil {
			return err
		}
		took = append(took, (<-begun).Sub(began))
	}
	slices.Sort(took)
	tell("p50 in ms", milliseconds(took[len(took)/2]))
	tell("p99 in ms", milliseconds(took[len(took)*99/100]))
	return nil
}

package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A workload is so many runs, some at a time, each a chain of steps. With unitStarts it is one run of one step after the other, and what counts is the
// time from the start to the step.
type workload struct {
	name, what          string
	runs, atOnce, steps int
	unit                string
	costs               bool // tell what a step costs
	bytes               int  // that each step returns, others each time, and its run keeps until the next one; 0 if it returns none
}

// Units of a workload are told first.
const (
	unitSteps  = "steps/s"
	unitRuns   = "runs/s"
	unitStarts = "ms"
)

func listWorkloads(quick bool) []workload {
	sizes := func(normal, small int) int {
		if quick {
			return small
		}
		return normal
	}
	return []workload{
		chains("W1", sizes(4, 2), 1, sizes(1000, 200), true),
		{name: "W3", what: "%[1]d runs of %[3]d steps, %[2]d at a time", runs: sizes(1000, 200), atOnce: 64, steps: 5, unit: unitRuns},
		{name: "W4", what: "from the start of a run to its first step, %[1]d times", runs: sizes(1000, 100), atOnce: 1, steps: 1, unit: unitStarts},
		chains("W10", 64, 64, sizes(200, 20), true),
		chains("256 callers", 256, 256, sizes(50, 10), false),
		chains("1,024 callers", 1024, 1024, sizes(20, 5), false),
		{name: "900 KB", what: "%d chain, %d at a time, of %d steps that return 900 KB each", runs: 1, atOnce: 1, steps: sizes(100, 10), unit: unitSteps, bytes: 900_000},
	}
}

// chains are runs of which only the steps count.
func chains(name string, runs, atOnce, steps int, costs bool) workload {
	return workload{name: name, what: "%d chains, %d at a time, of %d steps", runs: runs, atOnce: atOnce, steps: steps, unit: unitSteps, costs: costs}
}

func (w workload) String() string { return fmt.Sprintf(w.what, w.runs, w.atOnce, w.steps) }

// playRuns executes the runs, and returns when the last one has ended, or with the first error.
func playRuns(ctx context.Context, e engine, w workload) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int, w.runs)
	for i := range w.runs {
		next <- i
	}
	close(next)
	var group sync.WaitGroup
	for range w.atOnce {
		group.Go(func() {
			for i := range next {
				if err := e.runChain(ctx, fmt.Sprint(w.name, "-", i), w); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// measureStarts tells how long it takes from a start until the step begins.
func measureStarts(ctx context.Context, e engine, w workload, tell func(string, float64)) error {
	var took []time.Duration
	for i := range w.runs {
		d, err := e.timeStart(ctx, fmt.Sprint(w.name, "-", i))
		if err != nil {
			return err
		}
		took = append(took, d)
	}
	slices.Sort(took)
	tell("ms, median", inMilliseconds(took[len(took)/2]))
	tell("ms, 99th percentile", inMilliseconds(took[len(took)*99/100]))
	return nil
}

// largeText returns a text of so many bytes, at most 1,000,000, another one each time. It hardly shrinks, so that a database which compresses
// large values writes as much as others do.
func largeText(bytes int) string {
	at := texts.Add(1) * 7919 % int64(len(letters)-bytes)
	return letters[at:][:bytes]
}

// texts counts those of largeText, which are parts of letters.
var (
	texts   atomic.Int64
	letters = func() string {
		random := make([]byte, 1_500_000)
		_, _ = rand.NewChaCha8([32]byte{}).Read(random) // it never fails
		return base64.StdEncoding.EncodeToString(random)
	}()
)

// inMilliseconds returns a time in milliseconds.
func inMilliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

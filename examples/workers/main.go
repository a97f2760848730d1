// Workers shows a pool of worker processes that are killed and come back while
// a run with a thousand tasks goes on. The program runs itself again as the
// workers, which join over HTTP; at the end it checks that every result is there
// exactly once.
//
//	go run ./examples/workers
//
// Read this file, which is the coordinator, then crew.go, which has the worker
// and the hand that kills it.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/build"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

// The work to be done, and the workers that do it.
const (
	tasks     = 1000
	processes = 4
	capacity  = 8                      // tasks at once, of one process
	effort    = 50 * time.Millisecond  // of one task
	lease     = time.Second            // of a worker that is killed and does not come back
	mercy     = 200 * time.Millisecond // between two kills, on average
	most      = 40                     // kills, so that there is an end on any machine
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "workers:", err)
		os.Exit(1)
	}
}

// definition is a fan-out over numbers, and a fan-in that collects their squares.
func definition() *workflow.Definition {
	b := build.New("squares")
	b.Gateway("split").To("square").ForEach("input.numbers", "").InGroup("all")
	b.Task("square").Input("n", "item").To("collect").Joins("all")
	b.Group("all", workflow.Synchronization{Merge: &workflow.Merge{Target: "state.squares", Strategy: "collect"}})
	b.Gateway("collect").Output("output.squares", "state.squares")
	return b.MustDefinition()
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if url := os.Getenv(poolURL); url != "" {
		return work(ctx, url)
	}
	dir, remove, err := directory(args)
	if err != nil {
		return err
	}
	defer remove()

	// The pool is the executor. Where the results go is known once the engine
	// is open.
	token := rand.Text()
	pool, err := worker.New(worker.Options{Token: token, Lease: lease})
	if err != nil {
		return err
	}
	engine, err := pawl.Open(ctx, dir, pawl.Options{Executor: pool})
	if err != nil {
		return err
	}
	defer engine.Close(ctx)
	defer pool.Close(ctx)
	pool.Attach(engine)
	address, err := pool.Listen("127.0.0.1:0")
	if err != nil {
		return err
	}

	numbers := make([]int, tasks)
	for i := range numbers {
		numbers[i] = i
	}
	id := workflow.RunID(fmt.Sprintf("squares-%d", time.Now().UnixNano()))
	if err := engine.Start(ctx, workflow.Run{ID: id, Definition: definition()}, map[string]any{"numbers": numbers}); err != nil {
		return err
	}
	c := &crew{url: "http://" + address.String(), token: token, stderr: stderr}
	outcome, err := c.until(ctx, pool, func() (workflow.Outcome, error) { return engine.Wait(ctx, id) })
	if err == nil {
		err = outcome.Err()
	}
	if err != nil {
		return err
	}
	if err := check(ctx, engine, outcome); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d tasks by %d worker processes, which were killed %d times\n", tasks, processes, c.kills)
	fmt.Fprintf(stdout, "%d results, each of them once\n", len(outcome.Output["squares"].([]any)))
	return nil
}

// check says what is wrong with the results: each must be there, in its place,
// and have been counted once.
func check(ctx context.Context, engine *pawl.Engine, outcome workflow.Outcome) error {
	squares, _ := outcome.Output["squares"].([]any)
	if len(squares) != tasks {
		return fmt.Errorf("%d results, not %d", len(squares), tasks)
	}
	for i, square := range squares {
		if square != int64(i*i) {
			return fmt.Errorf("result %d is %v", i, square)
		}
	}
	completed := 0
	for e, err := range engine.Events(ctx, outcome.Run, pawl.EventsOptions{}) {
		if err != nil {
			return err
		}
		if e.Type == "task.completed" {
			completed++
		}
	}
	if completed != tasks {
		return fmt.Errorf("%d completions were counted, not %d", completed, tasks)
	}
	return nil
}

// directory returns the directory that args name, or a temporary one, and what
// to do with it at the end.
func directory(args []string) (dir string, remove func(), err error) {
	if len(args) > 0 {
		return args[0], func() {}, nil
	}
	dir, err = os.MkdirTemp("", "pawl-workers-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

// Workers shows four worker processes that take the tasks of one engine from a NATS server, and are
// killed and started again while a run with a thousand tasks goes on. The server is in this
// process, as is the engine; the program runs itself again as the workers. At the end it checks
// that every result is there exactly once.
//
//	go run -C nats/test ./examples/workers
//
// Read this file, which is the engine, then crew.go, which has the worker and the hand that kills it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/nats/natspool"
	"github.com/pawl-run/pawl/nats/test/server"
	"github.com/pawl-run/pawl/workflow"
)

// The tasks, and the workers that do them.
const (
	tasks     = 1000
	processes = 4
	capacity  = 8                      // tasks at once, of one process
	effort    = 20 * time.Millisecond  // of one task
	lease     = time.Second            // of a worker that is killed
	mercy     = 200 * time.Millisecond // between two kills
	most      = 20                     // kills, so that there is an end on any machine
)

func main() {
	if err := run(context.Background(), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "workers:", err)
		os.Exit(1)
	}
}

// definition is a fan-out over numbers, and a fan-in that collects their squares.
const definition = `
name: squares
start: split
nodes:
  - {id: split}
  - {id: square, task: square, input: {n: item}}
  - {id: collect, output: {output.squares: state.squares}}
transitions:
  - {from: split, to: square, foreach: {collection: input.numbers}, siblingGroup: all}
  - {from: square, to: collect, synchronization: {siblingGroup: all, merge: {target: state.squares, strategy: collect}}}
`

func run(ctx context.Context, stdout, stderr io.Writer) error {
	if url := os.Getenv(serverURL); url != "" {
		return work(ctx, url)
	}
	dir, err := os.MkdirTemp("", "pawl-nats-workers-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := server.Start(-1, filepath.Join(dir, "nats"))
	if err != nil {
		return err
	}
	defer s.WaitForShutdown()
	defer s.Shutdown()
	conn, err := nats.Connect(s.ClientURL(), nats.MaxReconnects(-1), nats.Timeout(time.Minute))
	if err != nil {
		return err
	}
	defer conn.Close()

	// The pool is the executor. Where the results go is known once the engine is open.
	pool, err := natspool.New(ctx, conn, natspool.Options{Lease: lease})
	if err != nil {
		return err
	}
	engine, err := pawl.Open(ctx, filepath.Join(dir, "data"), pawl.Options{Executor: pool})
	if err != nil {
		return err
	}
	defer engine.Close(ctx)
	defer func() { _ = pool.Close(ctx) }() // what it takes no more comes in the next life
	pool.Attach(engine)

	graph, err := workflow.ParseYAML([]byte(definition))
	if err != nil {
		return err
	}
	numbers := make([]int, tasks)
	for i := range numbers {
		numbers[i] = i
	}
	if err := engine.Start(ctx, workflow.Run{ID: "squares", Definition: graph}, map[string]any{"numbers": numbers}); err != nil {
		return err
	}
	c := &crew{url: s.ClientURL(), stderr: stderr}
	outcome, err := c.until(ctx, func() (workflow.Outcome, error) { return engine.Wait(ctx, "squares") })
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

// check says what is wrong with the results: each must be there, in its place, and have been
// counted once.
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

package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/handler"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// example opens an engine on a temporary directory whose executor is the pool,
// and returns a function that closes both and removes the directory.
func example(pool *worker.Pool) (*pawl.Engine, func()) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "pawl-example-")
	check(err)
	engine, err := pawl.Open(ctx, dir, pawl.Options{Executor: pool})
	check(err)
	pool.Attach(engine)
	return engine, func() {
		check(errors.Join(pool.Close(ctx), engine.Close(ctx), os.RemoveAll(dir)))
	}
}

// one is a definition with a single task.
func one(kind string) *workflow.Definition {
	return &workflow.Definition{
		Name: "one", Start: "do",
		Nodes: []workflow.Node{{ID: "do", Task: kind, Input: map[string]string{"name": "input.name"}, Output: map[string]string{"output.said": "result"}}},
	}
}

func greet(_ context.Context, t pawl.Task) (any, error) {
	var in struct{ Name string }
	err := t.Bind(&in)
	return "hello " + in.Name, err
}

// A pool with a worker of this process.
func Example() {
	ctx := context.Background()
	pool, err := worker.New(worker.Options{})
	check(err)
	engine, done := example(pool)
	defer done()

	check(pool.Start(worker.Registration{ID: "here", Capacity: 4}, pawl.Handlers{"greet": greet}))
	out, err := engine.Run(ctx, workflow.Run{ID: "r", Definition: one("greet")}, map[string]any{"name": "Ann"})
	check(err)
	fmt.Println(out.Output["said"])
	// Output: hello Ann
}

// A worker in another process: all that it needs is a client.
func ExampleClient_Run() {
	ctx := context.Background()
	pool, err := worker.New(worker.Options{Token: "secret"})
	check(err)
	engine, done := example(pool)
	defer done()
	address, err := pool.Listen("127.0.0.1:0")
	check(err)

	working, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { // in the other process
		c := worker.Client{URL: "http://" + address.String(), Token: "secret", ID: "there", Capacity: 4}
		ended <- c.Run(working, pawl.Handlers{"greet": greet})
	}()

	out, err := engine.Run(ctx, workflow.Run{ID: "r", Definition: one("greet")}, map[string]any{"name": "Bob"})
	check(err)
	fmt.Println(out.Output["said"])
	stop()
	check(<-ended)
	http.DefaultClient.CloseIdleConnections()
	// Output: hello Bob
}

// The handlers of an engine are those of its workers, in this process or another: ready-made
// ones as well.
func ExamplePool_Start_readyMade() {
	ctx := context.Background()
	pool, err := worker.New(worker.Options{NoToken: true})
	check(err)
	engine, done := example(pool)
	defer done()
	address, err := pool.Listen("127.0.0.1:0")
	check(err)

	check(pool.Start(worker.Registration{ID: "here"}, pawl.Handlers{"transform": handler.Transform(handler.TransformOptions{})}))
	working, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { // in another process
		c := worker.Client{URL: "http://" + address.String(), ID: "there"}
		ended <- c.Run(working, pawl.Handlers{"transform there": handler.Transform(handler.TransformOptions{})})
	}()

	for _, kind := range []string{"transform", "transform there"} {
		def := one(kind)
		def.Nodes[0].Input = map[string]string{"expression": "'data * 2'", "data": "input.n"}
		out, err := engine.Run(ctx, workflow.Run{ID: workflow.RunID(kind), Definition: def}, map[string]any{"n": 21})
		check(err)
		fmt.Println(out.Output["said"])
	}
	stop()
	check(<-ended)
	http.DefaultClient.CloseIdleConnections()
	// Output:
	// 42
	// 42
}

// Workers that take what others do not: one type each, or all of them.
func ExamplePool_Start_specialisation() {
	ctx := context.Background()
	pool, err := worker.New(worker.Options{})
	check(err)
	engine, done := example(pool)
	defer done()
	say := func(id string) func(context.Context, pawl.Task) (any, error) {
		return func(_ context.Context, t pawl.Task) (any, error) { return t.Type + " by " + id, nil }
	}
	check(pool.Start(worker.Registration{ID: "painter"}, pawl.Handlers{"paint": say("painter")}))
	for i, kind := range []string{"paint", "cook"} {
		if kind == "cook" {
			check(pool.Start(worker.Registration{ID: "all", Types: []string{"*"}}, pawl.Handlers{"*": say("all")}))
		}
		out, err := engine.Run(ctx, workflow.Run{ID: workflow.RunID(fmt.Sprint("r", i)), Definition: one(kind)}, map[string]any{"name": ""})
		check(err)
		fmt.Println(out.Output["said"])
	}
	// Output:
	// paint by painter
	// cook by all
}

// Some tasks are performed here without a queue, the others by the pool.
func ExamplePool_Execute() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "pawl-example-")
	check(err)
	defer os.RemoveAll(dir)
	pool, err := worker.New(worker.Options{})
	check(err)
	engine, err := pawl.Open(ctx, dir, pawl.Options{Executor: pawl.Handlers{
		"quick": func(context.Context, pawl.Task) (any, error) { return "at once", nil },
		"*":     pool.Execute,
	}})
	check(err)
	defer engine.Close(ctx)
	defer pool.Close(ctx)
	pool.Attach(engine)
	check(pool.Start(worker.Registration{ID: "here"}, pawl.Handlers{"slow": func(context.Context, pawl.Task) (any, error) { return "in turn", nil }}))
	for _, kind := range []string{"quick", "slow"} {
		out, err := engine.Run(ctx, workflow.Run{ID: workflow.RunID(kind), Definition: one(kind)}, map[string]any{"name": ""})
		check(err)
		fmt.Println(kind, out.Output["said"])
	}
	// Output:
	// quick at once
	// slow in turn
}

// At most two of one type at once, and at most 100 a second of each other type.
func ExampleOptions() {
	ctx := context.Background()
	pool, err := worker.New(worker.Options{Types: map[string]pawl.TypeLimit{
		"scarce": {Concurrency: 2},
		"*":      {Rate: 100, Burst: 10},
	}})
	check(err)
	engine, done := example(pool)
	defer done()
	at, most := make(chan int, 100), 0
	busy := make(chan struct{}, 100)
	check(pool.Start(worker.Registration{ID: "here", Capacity: 50}, pawl.Handlers{"scarce": func(context.Context, pawl.Task) (any, error) {
		busy <- struct{}{}
		at <- len(busy)
		<-busy
		return nil, nil
	}}))
	for i := range 20 {
		check(engine.Start(ctx, workflow.Run{ID: workflow.RunID(fmt.Sprint(i)), Definition: one("scarce")}, map[string]any{"name": ""}))
	}
	for range 20 {
		most = max(most, <-at)
	}
	fmt.Println("never more than two:", most <= 2)
	// Output: never more than two: true
}

// A pool that shuts down in order: nothing new is handed out, and what is out
// may end.
func ExamplePool_Drain() {
	ctx := context.Background()
	pool, err := worker.New(worker.Options{})
	check(err)
	engine, done := example(pool)
	defer done()
	begun, finish := make(chan bool), make(chan bool)
	check(pool.Start(worker.Registration{ID: "here", Capacity: 1}, pawl.Handlers{"greet": func(ctx context.Context, t pawl.Task) (any, error) {
		begun <- true
		<-finish
		return greet(ctx, t)
	}}))
	for _, id := range []workflow.RunID{"first", "second"} {
		check(engine.Start(ctx, workflow.Run{ID: id, Definition: one("greet")}, map[string]any{"name": string(id)}))
	}
	<-begun
	go func() {
		for !pool.Status().Draining {
			<-time.After(time.Millisecond)
		}
		finish <- true
	}()
	check(pool.Drain(ctx))
	s := pool.Status()
	fmt.Printf("processed %d, active %d, draining %t\n", s.Processed, len(s.Active), s.Draining)
	// Output: processed 1, active 0, draining true
}

// How the pool stands.
func ExamplePool_Status() {
	ctx := context.Background()
	pool, err := worker.New(worker.Options{})
	check(err)
	engine, done := example(pool)
	defer done()
	check(pool.Start(worker.Registration{ID: "here", Capacity: 1}, pawl.Handlers{"greet": greet}))
	_, err = engine.Run(ctx, workflow.Run{ID: "r", Definition: one("greet")}, map[string]any{"name": "Dee"})
	check(err)
	check(pool.Drain(ctx))
	s := pool.Status()
	w := s.Workers[0]
	fmt.Printf("%d queued, %d active, %d processed\n", s.Queued, len(s.Active), s.Processed)
	fmt.Printf("%s: capacity %d, types %v, processed %d\n", w.ID, w.Capacity, w.Types, w.Processed)
	// Output:
	// 0 queued, 0 active, 1 processed
	// here: capacity 1, types [greet], processed 1
}

// The protocol on a server of the host, beside other paths.
func ExamplePool_Handler() {
	pool, err := worker.New(worker.Options{Token: "secret"})
	check(err)
	defer pool.Close(context.Background())
	mux := http.NewServeMux()
	mux.Handle("/workers/", http.StripPrefix("/workers", pool.Handler()))
	// http.ListenAndServeTLS(":443", "cert.pem", "key.pem", mux); a worker's URL
	// is then https://example.com/workers
	fmt.Println(pool.Status().Queued)
	// Output: 0
}

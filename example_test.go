package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/workflow"
)

// check ends an example that cannot go on.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// example opens an engine on a temporary directory, and returns a function that
// closes it and removes the directory.
func example(handlers pawl.Handlers) (*pawl.Engine, func()) {
	dir, err := os.MkdirTemp("", "pawl-example-")
	check(err)
	engine, err := pawl.Open(context.Background(), dir, pawl.Options{Executor: handlers})
	check(err)
	return engine, func() {
		check(errors.Join(engine.Close(context.Background()), os.RemoveAll(dir)))
	}
}

func parse(yaml string) *workflow.Definition {
	def, err := workflow.ParseYAML([]byte(yaml))
	check(err)
	return def
}

// A fan-out over the input and a fan-in that merges in the order of the
// elements, whichever branch is first.
func Example_fanOut() {
	ctx := context.Background()
	engine, done := example(pawl.Handlers{"square": func(_ context.Context, t pawl.Task) (any, error) {
		var in struct{ N int }
		err := t.Bind(&in)
		return in.N * in.N, err
	}})
	defer done()
	def := parse(`
name: squares
start: each
nodes:
  - {id: each}
  - {id: square, task: square, input: {n: item}}
  - {id: sum, output: {output.squares: result}}
transitions:
  - {from: each, to: square, foreach: {collection: input.numbers}, siblingGroup: all}
  - {from: square, to: sum, synchronization: {siblingGroup: all, merge: {target: state.squares, strategy: collect}}}
output: {mapping: {squares: state.squares}}
`)
	out, err := engine.Run(ctx, workflow.Run{ID: "squares-1", Definition: def}, map[string]any{"numbers": []int{1, 2, 3, 4}})
	fmt.Println(out.Status, out.Output["squares"], err)
	// Output: completed [1 4 9 16] <nil>
}

// A typed handler: what does not fit its input fails the task, with the place.
func ExampleTyped() {
	type quote struct {
		Supplier string `json:"supplier"`
		Cents    int    `json:"cents,omitzero"`
	}
	ask := pawl.Typed(func(ctx context.Context, in quote) (quote, error) {
		in.Cents = 480 * pawl.TaskFrom(ctx).Attempt
		return in, nil
	})
	ctx := context.Background()
	engine, done := example(pawl.Handlers{"ask": ask})
	defer done()
	d := parse("name: quote\nstart: ask\nnodes: [{id: ask, task: ask, input: {supplier: input.supplier}, output: {output: result}}]\n")

	got, err := pawl.Run[quote](ctx, engine, workflow.Run{ID: "quote-1", Definition: d}, map[string]any{"supplier": "acme"})
	fmt.Println(got.Supplier, got.Cents, err)
	_, err = pawl.Run[quote](ctx, engine, workflow.Run{ID: "quote-2", Definition: d}, map[string]any{"supplier": 7})
	fmt.Println(err)
	// Output:
	// acme 480 <nil>
	// run "quote-2" failed: invalid_input at node "ask" (t1): input.supplier: it is of type integer, and pawl_test.quote.Supplier is of type string
}

// A start may be repeated: the same id, definition and input is one run.
func ExampleEngine_Start() {
	ctx := context.Background()
	engine, done := example(pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return "ok", nil }})
	defer done()
	run := workflow.Run{ID: "order-42", Definition: parse("name: order\nstart: pay\nnodes: [{id: pay, task: pay}]\n")}
	fmt.Println(engine.Start(ctx, run, map[string]any{"total": 7}))
	fmt.Println(engine.Start(ctx, run, map[string]any{"total": 7}))
	fmt.Println(errors.Is(engine.Start(ctx, run, map[string]any{"total": 8}), pawl.ErrRunExists))
	// Output:
	// <nil>
	// <nil>
	// true
}

// A result that comes from elsewhere, later: the handler hands the key on and
// returns ErrPending.
func ExampleEngine_Complete() {
	ctx := context.Background()
	keys := make(chan pawl.Key, 1)
	engine, done := example(pawl.Handlers{"ask": func(_ context.Context, t pawl.Task) (any, error) {
		keys <- t.Key
		return nil, pawl.ErrPending
	}})
	defer done()
	def := parse("name: ask\nstart: ask\nnodes: [{id: ask, task: ask, output: {output.answer: result}}]\n")
	check(engine.Start(ctx, workflow.Run{ID: "a", Definition: def}, nil))
	key := <-keys
	fmt.Println(engine.Complete(ctx, key, 42))
	fmt.Println(engine.Complete(ctx, key, 43), "- a duplicate changes nothing")
	out, err := engine.Wait(ctx, "a")
	fmt.Println(out.Output["answer"], err)
	// Output:
	// <nil>
	// <nil> - a duplicate changes nothing
	// 42 <nil>
}

// A task whose attempts are used up is parked for an operator, who retries or
// skips it.
func ExampleEngine_Skip() {
	ctx := context.Background()
	engine, done := example(pawl.Handlers{"flaky": func(context.Context, pawl.Task) (any, error) { return nil, errors.New("no") }})
	defer done()
	def := parse(`
name: parked
start: flaky
nodes: [{id: flaky, task: flaky, retry: {maxAttempts: 1, exhausted: park}, output: {output.by: result}}]
`)
	run := workflow.Run{ID: "p", Definition: def}
	check(engine.Start(ctx, run, nil))
	for ev, err := range engine.Events(ctx, run.ID, pawl.EventsOptions{Follow: true}) {
		check(err)
		if ev.Type == workflow.EventTaskParked {
			fmt.Println(ev.Type, ev.Node, ev.Data["message"])
			fmt.Println(engine.Skip(ctx, pawl.Target{Run: run.ID, Node: "flaky"}, "the operator"))
		}
	}
	out, err := engine.Wait(ctx, run.ID)
	fmt.Println(out.Status, out.Output["by"], err)
	// Output:
	// task.parked flaky no
	// <nil>
	// completed the operator <nil>
}

// A run that failed goes on from the failed node as another run. SentAgain tells, before and afterwards, which tasks are
// sent again beside this node: those that were out when the run ended.
func ExampleEngine_Rerun() {
	ctx := context.Background()
	reserved := make(chan struct{})
	var fixed atomic.Bool
	engine, done := example(pawl.Handlers{
		"charge": func(context.Context, pawl.Task) (any, error) {
			<-reserved
			if !fixed.Load() {
				return nil, pawl.Permanent(errors.New("no card"))
			}
			return nil, nil
		},
		"reserve": func(ctx context.Context, _ pawl.Task) (any, error) {
			if !fixed.Load() {
				close(reserved)
				<-ctx.Done() // the run fails before it is done
			}
			return nil, ctx.Err()
		},
	})
	defer done()
	def := parse(`
name: order
start: both
nodes: [{id: both}, {id: charge, task: charge}, {id: reserve, task: reserve}]
transitions: [{from: both, to: charge}, {from: both, to: reserve}]
`)
	out, err := engine.Run(ctx, workflow.Run{ID: "order", Definition: def}, nil)
	check(err)
	fmt.Println(out.Err())
	fixed.Store(true)

	failed := pawl.Target{Run: "order", Node: "charge"}
	trial, err := engine.Simulate(ctx, pawl.OfFork{From: failed, To: "order-2"})
	check(err)
	fmt.Println("would send again:", trial.SentAgain())
	check(engine.Rerun(ctx, failed, "order-2", pawl.ForkOptions{}))
	sent, err := engine.SentAgain(ctx, "order-2")
	fmt.Println("has sent again:", sent, err)
	out, err = engine.Wait(ctx, "order-2")
	fmt.Println(out.Status, err)
	// Output:
	// run "order" failed: error at node "charge" (t2): no card
	// would send again: [reserve]
	// has sent again: [reserve] <nil>
	// completed <nil>
}

// The journal holds every message and what was decided.
func ExampleEngine_Journal() {
	ctx := context.Background()
	engine, done := example(pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return "hi", nil }})
	defer done()
	def := parse("name: greet\nstart: greet\nnodes: [{id: greet, task: greet, output: {output.text: result}}]\n")
	_, err := engine.Run(ctx, workflow.Run{ID: "g", Definition: def}, nil)
	check(err)
	for record, err := range engine.Journal(ctx, "g", pawl.EventsOptions{}) {
		check(err)
		fmt.Printf("%d %T\n", record.Seq, record.Message)
		for _, d := range record.Decisions {
			fmt.Println("  ", d)
		}
	}
	// Output:
	// 1 state.Start
	//    start-run input={}
	//    create-token t1 node=greet
	//    dispatch-task t1 task=greet attempt=1 input={}
	// 2 state.TaskCompleted
	//    set-data output.text="hi"
	//    complete-token t1
	//    complete-run output={"text":"hi"}
}

// A run that waits gets a further step before it goes on.
func ExampleEngine_Patch() {
	engine, end := example(pawl.Handlers{"*": func(_ context.Context, task pawl.Task) (any, error) {
		fmt.Println(task.Node)
		return nil, nil
	}})
	defer end()
	def := parse(`
name: order
start: wait
nodes: [{id: wait, wait: {event: paid}}, {id: ship, task: ship}]
transitions: [{from: wait, to: ship, id: t1}]
`)
	ctx := context.Background()
	check(engine.Start(ctx, workflow.Run{ID: "order-7", Definition: def}, nil))
	revision, err := engine.Patch(ctx, "order-7", pawl.Patch{Base: 1, Ops: []any{
		map[string]any{"op": "add", "path": "/nodes/check", "value": map[string]any{"task": "check"}},
		map[string]any{"op": "replace", "path": "/transitions/t1/to", "value": "check"},
		map[string]any{"op": "add", "path": "/transitions/t2", "value": map[string]any{"from": "check", "to": "ship"}},
	}})
	check(err)
	fmt.Println("revision", revision)
	check(engine.Signal(ctx, "order-7", workflow.Signal{Name: "paid"}))
	_, err = engine.Wait(ctx, "order-7")
	check(err)
	// Output:
	// revision 2
	// check
	// ship
}

// A task hands a large value on by reference, and a report over as an artifact.
func ExampleTask_Put() {
	engine, end := example(pawl.Handlers{
		"render": func(ctx context.Context, task pawl.Task) (any, error) {
			pages := strings.NewReader(strings.Repeat("page ", 1_000_000))
			ref, err := task.Put(ctx, pages, "text/plain")
			return pawl.Result{
				Output:    map[string]any{"text": ref},
				Artifacts: []pawl.Artifact{{Name: "book.txt", Blob: ref}},
			}, err
		},
		"count": func(ctx context.Context, task pawl.Task) (any, error) {
			var in struct{ Text blob.Ref }
			if err := task.Bind(&in); err != nil {
				return nil, err
			}
			r, err := task.Open(ctx, in.Text)
			if err != nil {
				return nil, err
			}
			defer func() { check(r.Close()) }()
			return io.Copy(io.Discard, r)
		},
	})
	defer end()
	def := parse(`
name: book
start: render
nodes:
  - {id: render, task: render}
  - {id: count, task: count, input: {text: result.text}, output: {output.bytes: result}}
transitions: [{from: render, to: count}]
`)
	outcome, err := engine.Run(context.Background(), workflow.Run{ID: "book", Definition: def}, nil)
	check(err)
	fmt.Println(outcome.Output["bytes"])
	for _, a := range outcome.Artifacts {
		fmt.Println(a.Name, a.Size, a.Type)
	}
	// Output:
	// 5000000
	// book.txt 5000000 text/plain
}

// An invoice is charged once, whichever attempt, run or life of the process asks.
func ExampleEngine_Once() {
	engine, end := example(nil)
	defer end()
	charge := func(context.Context) (any, error) {
		fmt.Println("charging")
		return map[string]any{"receipt": 17}, nil
	}
	for range 2 {
		receipt, err := engine.Once(context.Background(), "invoice/2026-17", charge)
		check(err)
		fmt.Println(receipt)
	}
	// Output:
	// charging
	// map[receipt:17]
	// map[receipt:17]
}

// Tasks that have used up their attempts wait for an operator, who lists and
// retries them.
func ExampleEngine_DeadLetters() {
	var mended atomic.Bool
	engine, end := example(pawl.Handlers{"charge": func(context.Context, pawl.Task) (any, error) {
		if mended.Load() {
			return nil, nil
		}
		return nil, pawl.TaskError{Code: "bank_closed", Message: "come back on Monday"}
	}})
	defer end()
	def := parse(`
name: order
start: charge
nodes: [{id: charge, task: charge, input: {order: input.order}, retry: {exhausted: park}}]
`)
	ctx := context.Background()
	check(engine.Start(ctx, workflow.Run{ID: "order-7", Definition: def}, map[string]any{"order": 7}))
	for _, err := range engine.Events(ctx, "order-7", pawl.EventsOptions{Follow: true}) {
		check(err)
		if snap, err := engine.Inspect(ctx, "order-7"); err == nil && snap.Tokens[0].Status == workflow.WaitingForOperator {
			break
		}
	}
	for letter, err := range engine.DeadLetters(ctx, pawl.DeadLetterFilter{Code: "bank_closed"}) {
		check(err)
		fmt.Println(letter.Run, letter.Node, letter.Input, &letter.Failure)
	}
	mended.Store(true)
	report, err := engine.DoAll(ctx, pawl.Selection{DeadLetters: &pawl.DeadLetterFilter{}}, pawl.Retry{})
	check(err)
	outcome, err := engine.Wait(ctx, "order-7")
	check(err)
	fmt.Println(report.Changed, outcome.Status)
	// Output:
	// order-7 charge map[order:7] bank_closed at node "charge" (t1): come back on Monday
	// 1 completed
}

// A run whose task never answers is failed once it has made no progress for a
// while.
func Example_stallAfter() {
	dir, err := os.MkdirTemp("", "pawl-example-")
	check(err)
	engine, err := pawl.Open(context.Background(), dir, pawl.Options{
		StallAfter: 100 * time.Millisecond, // hours, outside an example
		Executor: pawl.Handlers{"ask": func(context.Context, pawl.Task) (any, error) {
			return nil, pawl.ErrPending // and nobody calls Engine.Complete
		}},
	})
	check(err)
	defer func() { check(errors.Join(engine.Close(context.Background()), os.RemoveAll(dir))) }()
	def := parse(`
name: question
start: ask
nodes: [{id: ask, task: ask}]
`)
	outcome, err := engine.Run(context.Background(), workflow.Run{ID: "q-1", Definition: def}, nil)
	check(err)
	fmt.Println(outcome.Status, outcome.Failure.Code)
	// Output:
	// failed stalled
}

// A backup is made while the engine goes on. It is a directory like any other.
func ExampleEngine_Backup() {
	ctx := context.Background()
	engine, done := example(pawl.Handlers{"*": func(context.Context, pawl.Task) (any, error) { return "ok", nil }})
	defer done()
	run := workflow.Run{ID: "order-42", Definition: parse("name: order\nstart: pay\nnodes: [{id: pay, task: pay}]\n")}
	_, err := engine.Run(ctx, run, nil)
	check(err)

	folder, err := os.MkdirTemp("", "pawl-backups-")
	check(err)
	defer os.RemoveAll(folder)
	info, err := engine.Backup(ctx, filepath.Join(folder, "monday"))
	check(err)
	fmt.Println(info.Runs, "run,", len(info.Damaged), "damaged")

	copied, err := pawl.Open(ctx, info.Path, pawl.Options{})
	check(err)
	out, err := copied.Wait(ctx, "order-42")
	fmt.Println(out.Status, err)
	check(copied.Close(ctx))
	// Output:
	// 1 run, 0 damaged
	// completed <nil>
}

// The tasks of a type are bounded in number and by rate. A task that waits for its type
// keeps no other waiting.
func ExampleTypeLimit() {
	dir, err := os.MkdirTemp("", "pawl-example-")
	check(err)
	defer os.RemoveAll(dir)
	ctx := context.Background()
	engine, err := pawl.Open(ctx, dir, pawl.Options{
		Executor: pawl.Handlers{"ocr": func(_ context.Context, t pawl.Task) (any, error) { return t.Branch.Index, nil }},
		Types: map[string]pawl.TypeLimit{
			"ocr": {Concurrency: 4, Rate: 100, Burst: 10}, // four at once, 100 per second, ten of them at once after a pause
			"*":   {Concurrency: 50},                      // each of the other types
		},
	})
	check(err)
	defer engine.Close(ctx)

	began := time.Now()
	def := parse(`
name: scan
start: a
nodes: [{id: a}, {id: read, task: ocr}, {id: all, output: {output.pages: "size(state.pages)"}}]
transitions:
  - {from: a, to: read, spawnCount: 20, siblingGroup: pages}
  - {from: read, to: all, synchronization: {siblingGroup: pages, merge: {target: state.pages, strategy: collect}}}
`)
	out, err := engine.Run(ctx, workflow.Run{ID: "scan-1", Definition: def}, nil)
	check(err)
	fmt.Println(out.Output["pages"], time.Since(began) > 99*time.Millisecond)
	// Output: 20 true
}

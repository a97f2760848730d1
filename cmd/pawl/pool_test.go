package main

import (
	"context"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/worker"
	"github.com/pawl-run/pawl/workflow"
)

const sums = `name: sum
start: sum
nodes: [{id: sum, task: transform, input: {expression: '"1 + 2"'}, output: {output.sum: result}}]
`

// openPool opens a directory until the end of the script, serves the command, and starts the run sum-1, whose task is for the
// workers of a pool. The variable POOL has its address, and secret is its token.
func openPool(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	pool, err := worker.New(worker.Options{Token: "secret"})
	ts.Check(err)
	engine, err := pawl.Open(ctx, ts.MkAbs(args[0]), pawl.Options{Socket: api.Local, Executor: pool})
	ts.Check(err)
	*ts.Value(isOpen).(*bool) = true
	pool.Attach(engine)
	address, err := pool.Listen("127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() {
		ts.Check(pool.Close(ctx))
		ts.Check(engine.Close(ctx))
	})
	ts.Setenv("POOL", "http://"+address.String())
	def, err := workflow.ParseYAML([]byte(sums))
	ts.Check(err)
	ts.Check(engine.Start(ctx, workflow.Run{ID: "sum-1", Definition: def}, nil))
}

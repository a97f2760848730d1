package main

import (
	"context"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/internal/testing/nighttest"
	"github.com/pawl-run/pawl/workflow"
)

const (
	charges = "name: charge\nstart: charge\nnodes: [{id: charge, task: charge, retry: {maxAttempts: 1, exhausted: park}}]\n"
	waits   = "name: wait\nstart: wait\nnodes: [{id: wait, wait: {event: paid}, output: {output.paid: result}}]\n"
)

// makeParked makes an engine directory with the runs charge-1 and charge-2, whose tasks are parked, and wait-1, which
// waits for the signal paid. All times are the same.
func makeParked(ts *testscript.TestScript, _ bool, args []string) {
	hook := &testhook.Hook{}
	hook.OnNow(func() time.Time { return time.Date(2030, 1, 1, 11, 0, 0, 0, time.UTC) })
	ctx := testhook.With(context.Background(), hook)
	engine, err := pawl.Open(ctx, ts.MkAbs(args[0]), pawl.Options{Executor: pawl.Handlers{"charge": func(context.Context, pawl.Task) (any, error) {
		return nil, pawl.TaskError{Code: "http_503", Message: "the bank is closed"}
	}}})
	ts.Check(err)
	for _, run := range []struct{ id, definition string }{{"charge-1", charges}, {"charge-2", charges}, {"wait-1", waits}} {
		def, err := workflow.ParseYAML([]byte(run.definition))
		ts.Check(err)
		_, err = engine.Publish(ctx, def)
		ts.Check(err)
		ts.Check(engine.Start(ctx, workflow.Run{ID: workflow.RunID(run.id), Workflow: def.Name}, nil))
	}
	for n := 0; n < 2; {
		n = 0
		for _, err := range engine.DeadLetters(ctx, pawl.DeadLetterFilter{}) {
			ts.Check(err)
			n++
		}
	}
	ts.Check(engine.Close(ctx))
}

// makeNight makes an engine directory as nighttest has it, until 11:46 on the first day of 2030.
func makeNight(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(nighttest.Fill(context.Background(), ts.MkAbs(args[0]), time.Date(2030, 1, 1, 11, 46, 0, 0, time.UTC)))
}

// finishWith opens a directory until the end of the script, performs every task, and serves the command.
func finishWith(ts *testscript.TestScript, _ bool, args []string) {
	engine, err := pawl.Open(context.Background(), ts.MkAbs(args[0]), pawl.Options{Socket: api.Local, Executor: pawl.Handlers{
		"*": func(context.Context, pawl.Task) (any, error) { return "done", nil },
	}})
	ts.Check(err)
	ts.Defer(func() { ts.Check(engine.Close(context.Background())) })
	for _, id := range args[1:] {
		_, err := engine.Wait(context.Background(), workflow.RunID(id))
		ts.Check(err)
	}
}

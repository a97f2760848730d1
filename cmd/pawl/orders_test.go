package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/testhook"
	"github.com/pawl-run/pawl/workflow"
)

const orders = `name: order
start: validate
nodes:
  - {id: validate, task: work}
  - {id: quote, task: quote, input: {price: price}}
  - {id: check, task: check, input: {score: input.score}}
  - {id: ship, task: ship, output: {output.shipped: result}}
  - {id: approve, approval: {message: "Ship it?"}, timeout: 1h}
  - {id: refund, task: work}
transitions:
  - {from: validate, to: quote, foreach: {collection: input.prices, as: price}, siblingGroup: quotes, maxConcurrency: 1}
  - {from: quote, to: check, synchronization: {siblingGroup: quotes, strategy: all, merge: {source: result.price, target: state.prices, strategy: append}}}
  - {from: check, to: ship, condition: result.score > 0.8}
  - {from: check, to: approve, priority: 1}
  - {from: ship, to: refund, outcome: error, errors: [lost]}
`

// makeOrders makes an engine directory with runs of one definition: order-41 is shipped,
// order-42 waits for its approval, order-43 is refunded. Their time goes on by a second
// with every task.
func makeOrders(ts *testscript.TestScript, _ bool, args []string) {
	var seconds atomic.Int64
	hook := &testhook.Hook{}
	hook.OnNow(func() time.Time { return time.Date(2030, 1, 1, 11, 0, int(seconds.Load()), 0, time.UTC) })
	ctx := testhook.With(context.Background(), hook)
	engine, err := pawl.Open(ctx, ts.MkAbs(args[0]), pawl.Options{Executor: pawl.Handlers{"*": func(_ context.Context, t pawl.Task) (any, error) {
		seconds.Add(1)
		if t.Type == "ship" && t.Run == "order-43" {
			return nil, pawl.TaskError{Code: "lost", Message: "nobody has seen it"}
		}
		var input map[string]any
		err := t.Bind(&input)
		return input, err
	}}})
	ts.Check(err)
	def, err := workflow.ParseYAML([]byte(orders))
	ts.Check(err)
	for i, input := range []map[string]any{
		{"prices": []any{12, 7}, "score": 0.93}, {"prices": []any{12, 19}, "score": 0.71}, {"prices": []any{5}, "score": 0.9},
	} {
		run := workflow.Run{ID: workflow.RunID(fmt.Sprintf("order-%d", 41+i)), Definition: def}
		ts.Check(engine.Start(ctx, run, input))
		if i != 1 {
			_, err = engine.Wait(ctx, run.ID)
			ts.Check(err)
			continue
		}
		for none := true; none; {
			for _, err := range engine.Approvals(ctx, pawl.ApprovalFilter{}) {
				ts.Check(err)
				none = false
			}
		}
	}
	ts.Check(engine.Close(ctx))
}

// makeTwins makes an engine directory with a run in which nodes are called as tokens are written, and a published definition.
func makeTwins(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	engine, err := pawl.Open(ctx, ts.MkAbs(args[0]), pawl.Options{})
	ts.Check(err)
	def, err := workflow.ParseYAML([]byte(`name: approvals
start: split
nodes: [{id: split}, {id: t5, approval: {message: one}}, {id: "5", approval: {message: two}}, {id: other, approval: {message: three}}]
transitions: [{from: split, to: t5}, {from: split, to: "5"}, {from: split, to: other}]
`))
	ts.Check(err)
	_, err = engine.Publish(ctx, def)
	ts.Check(err)
	ts.Check(engine.Start(ctx, workflow.Run{ID: "order", Workflow: def.Name}, nil))
	ts.Check(engine.Close(ctx))
}

// makeCosts makes an engine directory with runs that have reported what they cost: ask-1 the most, ask-3 nothing.
func makeCosts(ts *testscript.TestScript, _ bool, args []string) {
	hook := &testhook.Hook{}
	hook.OnNow(func() time.Time { return time.Date(2030, 1, 1, 11, 0, 0, 0, time.UTC) })
	ctx := testhook.With(context.Background(), hook)
	engine, err := pawl.Open(ctx, ts.MkAbs(args[0]), pawl.Options{Executor: pawl.Handlers{"*": func(_ context.Context, t pawl.Task) (any, error) {
		costs := map[string]float64{"ask-1": 0.7, "ask-2": 0.1}
		if cost, ok := costs[string(t.Run)]; ok {
			return pawl.Result{Metadata: map[string]any{"cost": cost, "tokens": 120}}, nil
		}
		return nil, nil
	}}})
	ts.Check(err)
	def, err := workflow.ParseYAML([]byte(`{name: ask, start: a, nodes: [{id: a, task: model}, {id: b, task: model}], transitions: [{from: a, to: b}]}`))
	ts.Check(err)
	for _, id := range []workflow.RunID{"ask-1", "ask-2", "ask-3"} {
		_, err := engine.Run(ctx, workflow.Run{ID: id, Definition: def}, nil)
		ts.Check(err)
	}
	ts.Check(engine.Close(ctx))
}

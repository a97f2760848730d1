package pawl_test

import (
	"context"
	"fmt"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/build"
	"github.com/pawl-run/pawl/workflow"
)

// The output of a run as a type: a field that it lacks is an error, and so is a run that does not complete.
func ExampleRun() {
	ctx := context.Background()
	engine, done := example(pawl.Handlers{"square": pawl.Typed(func(_ context.Context, in struct{ N int }) (int, error) { return in.N * in.N, nil })})
	defer done()
	b := build.New("squares")
	b.Task("square").Input("n", "input.n").Output("output.square", "result")

	type squares struct{ Square int }
	run := workflow.Run{ID: "square-7", Definition: b.MustDefinition()}
	out, err := pawl.Run[squares](ctx, engine, run, map[string]int{"n": 7})
	fmt.Println(out.Square, err)
	// Output: 49 <nil>
}

// A run that was started elsewhere, or by the process before this one.
func ExampleWaitFor() {
	ctx := context.Background()
	engine, done := example(pawl.Handlers{"fail": pawl.Typed(func(context.Context, struct{}) (any, error) {
		return nil, pawl.TaskError{Code: "no_paper", Message: "the tray is empty"}
	})})
	defer done()
	b := build.New("printing")
	b.Task("fail")
	check(engine.Start(ctx, workflow.Run{ID: "print-1", Definition: b.MustDefinition()}, nil))

	_, err := pawl.WaitFor[struct{ Pages int }](ctx, engine, "print-1")
	fmt.Println(err)
	// Output: run "print-1" failed: no_paper at node "fail" (t1): the tray is empty
}

type payment struct {
	Cents int `json:"cents"`
}

// paid is a signal that carries a payment, and nothing else.
const paid pawl.SignalOf[payment] = "paid"

func ExampleSignalOf() {
	ctx := context.Background()
	engine, done := example(nil)
	defer done()
	b := build.New("order")
	b.Wait("paid", workflow.WaitSpec{Event: string(paid), Match: "payload.cents >= 4800"}).Output("output.cents", "result.payload.cents")
	check(engine.Start(ctx, workflow.Run{ID: "order-42", Definition: b.MustDefinition()}, nil))

	check(paid.Send(ctx, engine, "order-42", payment{Cents: 5000}))
	out, err := pawl.WaitFor[payment](ctx, engine, "order-42")
	fmt.Println(out.Cents, err)
	// Output: 5000 <nil>
}

// refund is the approval of a node, whose votes carry a reason.
const refund pawl.VoteOf[struct{ Reason string }] = "refund"

func ExampleVoteOf() {
	ctx := context.Background()
	engine, done := example(nil)
	defer done()
	b := build.New("complaint")
	b.Approval("refund", workflow.ApprovalSpec{Message: "Is the money due?"}).
		Output("output.why", "result.votes[0].data.Reason")
	check(engine.Start(ctx, workflow.Run{ID: "complaint-1", Definition: b.MustDefinition()}, nil))

	check(refund.Cast(ctx, engine, "complaint-1", "ann", true, struct{ Reason string }{"it was late"}))
	out, err := pawl.WaitFor[struct{ Why string }](ctx, engine, "complaint-1")
	fmt.Println(out.Why, err)
	// Output: it was late <nil>
}

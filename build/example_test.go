package build_test

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-run/pawl/build"
	"github.com/pawl-run/pawl/workflow"
)

// A node is a sentence. The text has the same hash as the definition.
func Example() {
	b := build.New("order")
	b.Task("reserve").Input("items", "input.items").To("charge")
	b.Task("charge").Input("cents", "result.cents").To("ship").When("result.paid").Else("release")
	b.Task("ship").Input("order", "run.id").Output("output.label", "result.label")
	b.Task("release")
	definition, err := b.Definition()
	if err != nil {
		panic(err)
	}
	text, err := build.YAML(definition)
	fmt.Print(string(text))
	fmt.Println(err)
	// Output:
	// name: order
	// start: reserve
	// nodes:
	//   - {id: reserve, task: reserve, input: {items: input.items}}
	//   - {id: charge, task: charge, input: {cents: result.cents}}
	//   - {id: ship, task: ship, input: {order: run.id}, output: {output.label: result.label}}
	//   - {id: release, task: release}
	// transitions:
	//   - {from: reserve, to: charge}
	//   - {from: charge, to: ship, condition: result.paid}
	//   - {from: charge, to: release, priority: 1}
	// <nil>
}

// A branch for each element, and a join of two of them.
func ExampleBuilder_Group() {
	b := build.New("tender")
	b.Gateway("ask").To("quote").ForEach("input.suppliers", "supplier").InGroup("quotes").AtOnce(5)
	b.Task("quote").Input("supplier", "supplier").To("choose").Joins("quotes")
	b.Group("quotes", workflow.Synchronization{
		Strategy: workflow.MOfN(2), Timeout: time.Hour, OnTimeout: workflow.TimeoutProceed,
		Merge: &workflow.Merge{Source: "result.cents", Target: "state.cents", Strategy: "collect"},
	})
	b.Task("choose").Input("cents", "state.cents")
	fmt.Println(len(b.MustDefinition().Transitions))
	// Output: 2
}

// Every problem is there at once, with the line of the call that it comes from.
func ExampleBuilder_Definition() {
	b := build.New("order")
	b.Task("charge").Input("cents", "input.").To("ship").When("result.paid &&")
	_, err := b.Definition()
	fmt.Println(err)
	// Output:
	// invalid definition "order": example_test.go:58: node "charge": input.cents: at 1:7 of the expression: . is out of place here (expression)
	// 	example_test.go:58: transition "charge->ship": to: there is no node "ship" (dangling)
	// 	example_test.go:58: transition "charge->ship": condition: at 1:15 of the expression: the expression ends too early: something is missing behind "&&" (expression)
}

// The handler's result has a schema in the definition, and a field that the handler does not return is a problem.
func ExampleTypedTask() {
	type parcel struct {
		Grams int `json:"grams"`
	}
	weigh := func(context.Context, struct{ Item string }) (parcel, error) { return parcel{}, nil }

	b := build.New("weighing")
	build.TypedTask(b, "weigh", weigh).Input("item", "input.item").Output("output.weight", "result.gramms")
	_, err := b.Definition()
	fmt.Println(err)
	// Output:
	// invalid definition "weighing": example_test.go:75: node "weigh": output.output.weight: it reads result.gramms, and build_test.parcel, which the handler of "weigh" returns, has no such field: did you mean "grams"? (handler_type)
}

// A payment that is waited for, and its compensation: an error leads back through what is to be undone.
func ExampleNode_Catch() {
	b := build.New("saga")
	b.Task("reserve").To("pay")
	b.Wait("pay", workflow.WaitSpec{Event: "paid"}, workflow.WaitSpec{For: 48 * time.Hour}).
		To("ship").When("result.cause == 'event'").
		Else("release")
	b.Task("ship").Retry(workflow.RetrySpec{MaxAttempts: 3}).Catch("refund", "lost")
	b.Task("refund").To("release")
	b.Task("release").To("undone")
	b.Fail("undone", "order_undone", "nothing is sent, and nothing is kept")
	fmt.Println(b.MustDefinition().Nodes[1].Kind())
	// Output: wait
}

// Hello is the program on the front page: one task, durable.
package main

import (
	"context"
	"fmt"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

var hello = workflow.MustParse([]byte(`
name: hello
start: greet
nodes: [{id: greet, task: greet, input: {name: input.name}, output: {output.text: result}}]`))

func greet(ctx context.Context, in struct{ Name string }) (string, error) {
	return "hello " + in.Name, nil
}

func main() {
	ctx := context.Background()
	engine, err := pawl.Open(ctx, "data", pawl.Options{Executor: pawl.Handlers{"greet": pawl.Typed(greet)}})
	if err != nil {
		panic(err)
	}
	defer engine.Close(ctx)
	outcome, err := engine.Run(ctx, workflow.Run{ID: "hello-1", Definition: hello}, map[string]any{"name": "world"}) // Start and Wait
	fmt.Println(outcome.Status, outcome.Output["text"], err)
}

package main

import (
	"context"
	"fmt"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/build"
	"github.com/pawl-run/pawl/workflow"
)

func greet(_ context.Context, p struct{ Name string }) (string, error) { return "hello " + p.Name, nil }

func main() {
	ctx := context.Background()
	b := build.New("hello")
	b.Task("greet").Input("name", "input.name").Output("output.text", "result")
	engine, err := pawl.Open(ctx, "data", pawl.Options{Executor: pawl.Handlers{"greet": pawl.Typed(greet)}})
	if err != nil {
		panic(err)
	}
	defer engine.Close(ctx)
	outcome, err := engine.Run(ctx, workflow.Run{ID: "hello-1", Definition: b.MustDefinition()}, map[string]any{"name": "world"})
	fmt.Println(outcome.Status, outcome.Output["text"], err)
}

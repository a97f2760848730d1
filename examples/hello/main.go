// Hello is the program on the front page: one task, durable.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

func main() {
	ctx := context.Background()
	handlers := pawl.Handlers{"greet": func(ctx context.Context, t pawl.Task) (any, error) {
		var in struct{ Name string }
		err := t.Bind(&in)
		return "hello " + in.Name, err
	}}
	engine, err := pawl.Open(ctx, "data", pawl.Options{Executor: handlers})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close(ctx)
	greet := workflow.Node{ID: "greet", Task: "greet", Input: map[string]string{"name": "input.name"}, Output: map[string]string{"output.text": "result"}}
	run := workflow.Run{ID: "hello-1", Definition: &workflow.Definition{Name: "hello", Start: "greet", Nodes: []workflow.Node{greet}}}
	outcome, err := engine.Run(ctx, run, map[string]any{"name": "world"}) // Start and Wait
	fmt.Println(outcome.Status, outcome.Output["text"], err)
}

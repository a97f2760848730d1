// Tutorial is the program of docs/tutorial.md: an order of several items, each
// weighed in a branch of its own, that survives a kill.
//
//	go run ./examples/tutorial
package main

import (
	"context"
	_ "embed"
	"fmt"
	"log"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

//go:embed parcels.yaml
var parcels []byte

// weigh takes a second for each item, so that there is time to kill the program.
func weigh(ctx context.Context, t pawl.Task) (any, error) {
	var in struct{ Name string }
	if err := t.Bind(&in); err != nil {
		return nil, err
	}
	fmt.Println("weighing", in.Name)
	select {
	case <-time.After(time.Second):
		return map[string]any{"grams": 100 * len(in.Name)}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func ship(_ context.Context, t pawl.Task) (any, error) {
	var in struct {
		Order string
		Grams []int
	}
	if err := t.Bind(&in); err != nil {
		return nil, err
	}
	total := 0
	for _, g := range in.Grams {
		total += g
	}
	return map[string]any{"label": fmt.Sprintf("%s: %d items, %d g", in.Order, len(in.Grams), total)}, nil
}

func run(ctx context.Context) error {
	definition, err := workflow.ParseYAML(parcels)
	if err != nil {
		return err
	}
	engine, err := pawl.Open(ctx, "state", pawl.Options{
		Executor:    pawl.Handlers{"weigh": weigh, "ship": ship},
		Concurrency: 1, // one task at a time, so that we can watch it
	})
	if err != nil {
		return err
	}
	defer engine.Close(ctx)

	order := workflow.Run{ID: "order-1", Definition: definition}
	input := map[string]any{"items": []string{"tea", "cups", "kettle", "spoons"}}
	outcome, err := engine.Run(ctx, order, input) // Start, which may be repeated, and Wait
	if err != nil {
		return err
	}
	fmt.Println(outcome.Status, outcome.Output["label"])
	return outcome.Err()
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

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

type weight struct {
	Grams int `json:"grams"`
}

// weighItem takes a second for each item, so that there is time to kill the program.
func weighItem(ctx context.Context, in struct{ Name string }) (weight, error) {
	fmt.Println("weighing", in.Name)
	select {
	case <-time.After(time.Second):
		return weight{100 * len(in.Name)}, nil
	case <-ctx.Done():
		return weight{}, ctx.Err()
	}
}

type parcel struct {
	Order string
	Grams []int
}

type label struct {
	Label string `json:"label"`
}

func shipParcel(_ context.Context, in parcel) (label, error) {
	total := 0
	for _, g := range in.Grams {
		total += g
	}
	return label{fmt.Sprintf("%s: %d items, %d g", in.Order, len(in.Grams), total)}, nil
}

func run(ctx context.Context) error {
	engine, err := pawl.Open(ctx, "state", pawl.Options{
		Executor:    pawl.Handlers{"weigh": pawl.Typed(weighItem), "ship": pawl.Typed(shipParcel)},
		Concurrency: 1, // one task at a time, so that we can watch it
	})
	if err != nil {
		return err
	}
	defer engine.Close(ctx)

	order := workflow.Run{ID: "order-1", Definition: workflow.MustParse(parcels)}
	input := map[string]any{"items": []string{"tea", "cups", "kettle", "spoons"}}
	out, err := pawl.Run[label](ctx, engine, order, input) // Start, which may be repeated, and Wait
	if err != nil {
		return err
	}
	fmt.Println("completed", out.Label)
	return nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
